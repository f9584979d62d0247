"""A report on every class, and the health of a data set."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from ..decisions import AnyScores, caveats
from ..decisions.caveats import FEW_POSITIVES
from ..scores import ranks_of
from ..scores.arrays import FloatArray
from .hidden import PROBABLE, HiddenLabels, Labels, hidden_labels

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
        positives, by K), `expected_hidden` (sum of the probabilities), `probably_missing` (number of pairs
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
