"""What observed labels allow: a report on every class, the health of a data set, and warnings."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from ..decisions import Priors
from ..metrics.ranks import rank_positives
from .missing import PROBABLE, Floats, HiddenLabels, Labels

FEWEST_KNOWN = 10
"""Known positives below which a class is not learnable: its F1 was 10 or less with every threshold."""

LEAST_SEPARATION = 0.6
"""Separation below which scores hardly tell a class from others."""

_FEW_SAMPLES = 100
_MANY_LABELS = 0.1
_FEW_LABELS = 1.3


class ClassSummary(msgspec.Struct, frozen=True):
    """What is known about a class, and what is expected of it.

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
    labels: Labels,
    scores: npt.ArrayLike,
    *,
    mean_labels: float,
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
    return summarise_classes(HiddenLabels.from_mean_labels(labels, scores, mean_labels), class_names)


def summarise_classes(hidden: HiddenLabels, class_names: Sequence[str] | None = None) -> list[ClassSummary]:
    """Report on every class, as `class_report` does."""
    samples, classes = hidden.scores.shape
    names = list(class_names) if class_names is not None else [str(column) for column in range(classes)]
    known = (hidden.labels == 1).sum(0)
    summaries = []
    columns = zip(names, known.tolist(), _separation(hidden), strict=True)
    for column, (name, count, separation) in enumerate(columns):
        reason = _why_not(count, samples, separation)
        summaries.append(
            ClassSummary(
                label=name,
                known=count,
                prior=float(hidden.priors.shares[column]),
                hidden=float(hidden.per_class[column]),
                separation=separation,
                learnable=not reason,
                reason=reason,
            )
        )
    return summaries


def health_summary(
    labels: Labels,
    scores: npt.ArrayLike,
    *,
    mean_labels: float,
    class_names: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Summarise how much of the labels of a data set is missing.

    Args:
        labels, scores, mean_labels: As in `find_missing_labels`.
        class_names: Names of the C classes; by default 0, 1, 2, ...

    Returns:
        A dict with `samples`, `classes`, `mean_labels` (K), `known_positives`, `share_missing` (of all
        positives, by K), `expected_hidden` (sum of the probabilities), `probably_missing` (number of pairs
        with a probability above .5), `not_learnable` (names of classes) and `warnings`.

    Raises:
        InputError: An argument does not suit.
    """
    hidden = HiddenLabels.from_mean_labels(labels, scores, mean_labels)
    return summarise_health(hidden, summarise_classes(hidden, class_names))


def summarise_health(hidden: HiddenLabels, classes: Sequence[ClassSummary]) -> dict[str, Any]:
    """Summarise the health of a data set, as `health_summary` does.

    Args:
        hidden: Labels and calibrated scores.
        classes: Summary of each class.
    """
    samples, known = len(hidden.scores), int((hidden.labels == 1).sum())
    total = max(hidden.priors.mean_labels * samples, known)
    return {
        "samples": samples,
        "classes": len(classes),
        "mean_labels": hidden.priors.mean_labels,
        "known_positives": known,
        "share_missing": 1 - known / total,
        "expected_hidden": float(hidden.per_class.sum()),
        "probably_missing": hidden.count(PROBABLE),
        "not_learnable": [each.label for each in classes if not each.learnable],
        "warnings": trust_warnings(hidden.priors, classes, samples),
    }


def trust_warnings(priors: Priors, classes: Sequence[ClassSummary], samples: int) -> list[str]:
    """What limits the trust in probabilities and expected numbers, one sentence each.

    Args:
        priors: Mean labels per sample K and class priors.
        classes: Summary of each class.
        samples: Number of samples whose scores were calibrated.
    """
    warnings = []
    mean_labels = priors.mean_labels
    if priors.source != "audit":
        warnings.append(
            "The numbers assume that the known label of a sample is a uniform draw among all its labels. If "
            "frequent or salient ones were preferred, they are 15 to 50 points too high; label 50 or more "
            "random samples in full to find out."
        )
    if priors.looks_biased:
        warnings.append(
            "Frequent classes seem to have been preferred among the known labels (gamma = "
            f"{priors.gamma:.2g})."
        )
    few = sum(each.known < FEWEST_KNOWN for each in classes)
    if few:
        have = "class has" if few == 1 else "classes have"
        warnings.append(
            f"{few} of {len(classes)} {have} fewer than {FEWEST_KNOWN} known positives: what is said about "
            f"{'it' if few == 1 else 'them'} is a guess."
        )
    if samples < _FEW_SAMPLES:
        warnings.append(
            f"Only {samples} samples: probabilities may be off by 10 to 20 percentage points; 100 or more "
            "samples are better."
        )
    elif mean_labels > _MANY_LABELS * len(classes):
        warnings.append(
            f"{mean_labels:g} labels per sample are many for {len(classes)} classes: probabilities may be "
            "off by 10 to 20 percentage points."
        )
    if mean_labels < _FEW_LABELS:
        warnings.append(
            f"With {mean_labels:g} labels per sample few are missing, and the expected number is "
            f"proportional to {mean_labels - 1:.2g}: a small error of the mean is a large one of the number."
        )
    return warnings


def _separation(hidden: HiddenLabels) -> list[float]:
    """Mann-Whitney statistic of known positives against the other samples, over its largest value."""
    samples, classes = hidden.scores.shape
    ranks = rank_positives(hidden.scores, hidden.labels == 1)
    counts = ranks.counts.astype(np.float64)
    # Place from below, 1 = lowest score; the mean place of equal scores.
    places: Floats = samples + 0.5 - (ranks.ge + ranks.gt) / 2
    sums = np.bincount(ranks.columns, places, minlength=classes)
    with np.errstate(invalid="ignore", divide="ignore"):
        separation = (sums - counts * (counts + 1) / 2) / (counts * (samples - counts))
    return [value if math.isfinite(value) else math.nan for value in separation.tolist()]


def _why_not(known: int, samples: int, separation: float) -> str:
    if not known:
        return "no known positive"
    if known < FEWEST_KNOWN:
        return f"fewer than {FEWEST_KNOWN} known positives"
    others = samples - known
    chance = 0.5 + 2 * math.sqrt((samples + 1) / (12 * known * others)) if others else 1.0
    if not separation >= max(chance, LEAST_SEPARATION):
        return "scores hardly tell it from other classes"
    return ""
