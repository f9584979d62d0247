"""Three questions: which labels are missing, which given ones are wrong, how healthy is the data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from ..common.errors import InputError
from ..decisions import AnyScores, caveats
from ..decisions.policy import FEW_POSITIVES
from ..scores import ranks_of
from ..scores.forms import FloatArray
from .hidden import PROBABLE, HiddenLabels, Labels, MissingLabels, hidden_labels

POINTS = 15
"""Percentage points by which the expected yield of a list may be off."""


class Yield(NamedTuple):
    """Number of labels of a list that are expected to be really missing.

    Attributes:
        listed: Length of the list.
        expected: Expected number of them that are right.
    """

    listed: int
    expected: float

    def __str__(self) -> str:
        if not self.listed:
            return "0 of 0"
        rounded = min(float(f"{self.expected:.2g}"), self.listed)
        number = "fewer than 1" if self.expected < 1 else f"about {rounded:,.0f}"
        return f"{number} of {self.listed:,} (+-{POINTS} points if the shown label is a uniform draw)"


def find_missing_labels(
    labels: Labels | HiddenLabels,
    scores: AnyScores | None = None,
    *,
    mean_labels: float | None = None,
    min_probability: float = PROBABLE,
) -> npt.NDArray[np.bool_]:
    """Mark the labels that are probably missing.

    Args:
        labels, scores: As in `HiddenLabels`. `HiddenLabels` itself takes the place of labels, scores and
            `mean_labels`.
        mean_labels: Mean number of labels per sample K, known ones included. It can't be estimated from
            single positives.
        min_probability: Probability above which a label is marked. At .5, the default, it is there more
            likely than not. Where K is small or the model weak, few labels reach it, though many are missing:
            `rank_missing_labels` lists the best ones all the same.

    Returns:
        bool (N, C).

    Raises:
        InputError: Labels, scores or K do not suit, or only the highest scores of so many samples and classes
            are kept that the mask does not fit into the memory: see `rank_missing_labels`.

    Example:
        >>> labels = [0, 1, 0, 1] * 25
        >>> scores = [[3, 3, -3], [3, 3, -3], [3, -3, -3], [-3, 3, -3]] * 25
        >>> find_missing_labels(labels, scores, mean_labels=1.5)[:3].tolist()
        [[False, True, False], [True, False, False], [False, False, False]]
    """
    return hidden_labels(labels, scores, mean_labels).find(min_probability)


def rank_missing_labels(
    labels: Labels | HiddenLabels,
    scores: AnyScores | None = None,
    *,
    mean_labels: float | None = None,
    top: int = 0,
    per_class: int = 0,
    min_probability: float = 0.0,
) -> MissingLabels:
    """List labels that are probably missing, by the scores of the unknown pairs of all classes together.

    Of all rankings that were tried on ten data sets this found the most missing labels; normalising scores by
    class, entropy or margins made it worse.

    Args:
        labels, scores, mean_labels: As in `find_missing_labels`.
        top: Largest number of pairs; 0 = all of them, which may be N x C, or all whose scores are kept.
        per_class: Largest number of pairs of a class; 0 = any.
        min_probability: Least probability of a pair.

    Raises:
        InputError: An argument does not suit.
    """
    hidden = hidden_labels(labels, scores, mean_labels)
    return hidden.rank(top=top, per_class=per_class, min_probability=min_probability)


def expected_yield(probability: npt.ArrayLike) -> Yield:
    """Expected number of right labels in a list: the sum of their probabilities.

    Its error is not statistical, so there is no interval: the calibration may be off, by about 15 percentage
    points of the list, and by up to 50 if the known labels are no uniform draw among all labels of a sample.

    Args:
        probability: Probability of each pair, such as `MissingLabels.probability`.

    Example:
        >>> str(expected_yield([0.9, 0.6, 0.5]))
        'about 2 of 3 (+-15 points if the shown label is a uniform draw)'
    """
    p = np.asarray(probability, np.float64)
    return Yield(len(p), float(p.sum()))


DOUBTED = 0.5
"""Confidence below which a given label is listed: then another class looks more probable."""

_SMALLEST = 1e-12


class WrongLabels(NamedTuple):
    """Known positives that look wrong, the most doubtful one first.

    Attributes:
        rows: Sample of each label, int64 (M,).
        columns: Class of each label, int64 (M,).
        confidence: Confidence in the label, float64 (M,), below .5.
        rank: 1, 2, ..., int64 (M,).
    """

    rows: npt.NDArray[np.int64]
    columns: npt.NDArray[np.int64]
    confidence: FloatArray
    rank: npt.NDArray[np.int64]


def rank_wrong_labels(
    labels: Labels | HiddenLabels,
    scores: AnyScores | None = None,
    *,
    mean_labels: float | None = None,
    top: int = 0,
) -> WrongLabels:
    """List known positives in which a model has little confidence.

    The confidence in a known positive is `p / (p + q)`: p is its calibrated probability, as if it were not
    known, and q the highest probability of a class that is unknown in the same sample. So it is low where the
    model sees another class instead of the given one. It orders labels and is no probability: how many given
    labels are wrong can't be told from them, because a hard sample looks just like a wrong label.

    Confidence relative to the other samples of the class was tried as well, on six data sets of which 10 %
    of the labels had been replaced. It found fewer of them.

    Args:
        labels, scores, mean_labels: As in `find_missing_labels`.
        top: Largest number of labels; 0 = any.

    Returns:
        Labels with a confidence below .5; of equal ones the one with the lowest score first.

    Raises:
        InputError: An argument does not suit.
    """
    if top < 0:
        raise InputError(f"top must be at least 0, got {top}")
    hidden = hidden_labels(labels, scores, mean_labels)
    rows, columns, own, _ = hidden.known
    other = hidden.highest_unknown()[rows]
    p = np.maximum(hidden.calibration(own), _SMALLEST)
    q = np.where(np.isneginf(other), 0.0, hidden.calibration(other))
    confidence = p / (p + q)
    order = np.lexsort((own, confidence))
    order = order[confidence[order] < DOUBTED][: top or None]
    return WrongLabels(rows[order], columns[order], confidence[order], np.arange(1, len(order) + 1))


LEAST_SEPARATION = 0.6
"""Separation below which scores hardly tell a class from others."""


class ClassSummary(msgspec.Struct, frozen=True):
    """Known and expected labels of a class.

    Attributes:
        label: Name of the class.
        known: Number of known positives.
        prior: Share of the samples that are expected to have the class.
        hidden: Expected number of further, hidden positives.
        separation: Probability that a known positive has a higher score than another sample, ties counting
            half; 1 = told apart without error, .5 = not at all. Hidden positives among the other samples
            lower it. NaN without known positives.
        learnable: Whether there are enough known positives, and scores tell them from the other samples.
        reason: Why the class is not learnable; empty if it is.
    """

    label: str
    known: int
    prior: float
    hidden: float
    separation: float
    learnable: bool
    reason: str


def class_report(
    labels: Labels | HiddenLabels,
    scores: AnyScores | None = None,
    *,
    mean_labels: float | None = None,
    class_names: Sequence[str] | None = None,
) -> list[ClassSummary]:
    """Report on every class: how many labels are known, how many are hidden, and whether it is learnable.

    A class is not learnable if it has fewer than 10 known positives, or if their separation from the other
    samples is below .6 or within two standard deviations of .5 (those of the Mann-Whitney statistic of
    equal distributions, `sqrt((n + m + 1) / (12 n m))` for n known positives and m other samples).

    Args:
        labels, scores, mean_labels: As in `find_missing_labels`.
        class_names: Names of the C classes; by default 0, 1, 2, ...

    Returns:
        One summary per class, in the order of the columns.

    Raises:
        InputError: An argument does not suit.
    """
    hidden = hidden_labels(labels, scores, mean_labels)
    samples, known = len(hidden.scores), hidden.labels.positives_per_class()
    names = list(class_names) if class_names is not None else [str(column) for column in range(len(known))]
    columns = (known, hidden.priors.shares, hidden.per_class, _separation(hidden))
    summaries = []
    for name, count, prior, expected, separation in zip(names, *map(np.ndarray.tolist, columns), strict=True):
        reason = _why_not(count, samples, separation)
        summaries.append(ClassSummary(name, count, prior, expected, separation, not reason, reason))
    return summaries


def health_summary(
    labels: Labels | HiddenLabels,
    scores: AnyScores | None = None,
    *,
    mean_labels: float | None = None,
    class_names: Sequence[str] | None = None,
    classes: Sequence[ClassSummary] | None = None,
) -> dict[str, Any]:
    """Summarise how much of the labels of a data set is missing.

    Args:
        labels, scores, mean_labels: As in `find_missing_labels`.
        class_names: Names of the C classes; by default 0, 1, 2, ...
        classes: Result of `class_report`, if it is known.

    Returns:
        A dict with `samples`, `classes`, `mean_labels` (K), `known_positives`, `share_missing` (of all
        positives, by K), `expected_hidden` (of all classes), `probably_missing` (number of pairs
        with a probability above .5), `not_learnable` (names of classes) and `warnings` (see
        `spml.decisions.caveats`).

    Raises:
        InputError: An argument does not suit.
    """
    hidden = hidden_labels(labels, scores, mean_labels)
    classes = classes or class_report(hidden, class_names=class_names)
    samples, positives = len(hidden.scores), hidden.labels.positives_per_class()
    known = int(positives.sum())
    names = [each.label for each in classes]
    return {
        "samples": samples,
        "classes": len(classes),
        "mean_labels": hidden.priors.mean_labels,
        "known_positives": known,
        "share_missing": 1 - known / max(hidden.priors.mean_labels * samples, known),
        "expected_hidden": float(hidden.per_class.sum()),
        "probably_missing": hidden.count(PROBABLE),
        "not_learnable": [each.label for each in classes if not each.learnable],
        "warnings": caveats(hidden.priors, names, positives, samples, full=False, calibrated=True),
    }


def _separation(hidden: HiddenLabels) -> FloatArray:
    """Mann-Whitney statistic of known positives against the other samples, over its largest value."""
    (ranks,) = ranks_of(hidden.scores, hidden.labels.entries(1))
    samples, counts = len(hidden.scores), ranks.counts.astype(np.float64)
    # Place from below, 1 = lowest score of all samples; equal scores have the mean of their places.
    places = samples + 0.5 - (ranks.ge + ranks.gt) / 2
    sums = np.bincount(ranks.columns, places, minlength=len(counts))
    with np.errstate(invalid="ignore", divide="ignore"):
        separation = (sums - counts * (counts + 1) / 2) / (counts * (samples - counts))
    return np.where(np.isfinite(separation), separation, np.nan)


def _why_not(known: int, samples: int, separation: float) -> str:
    if not known:
        return "no known positive"
    if known < FEW_POSITIVES:
        return f"fewer than {FEW_POSITIVES} known positives"
    others = samples - known
    chance = 0.5 + 2 * math.sqrt((samples + 1) / (12 * known * others)) if others else 1.0
    if not separation >= max(chance, LEAST_SEPARATION):
        return "scores hardly tell it from other classes"
    return ""
