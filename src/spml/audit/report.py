"""What observed labels allow: a report on every class, and the health of a data set."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from ..decisions import AnyScores, caveats
from ..decisions.caveats import FEW_POSITIVES
from .checks import Labels
from .hidden import PROBABLE, HiddenLabels

LEAST_SEPARATION = 0.6
"""Separation below which scores hardly tell a class from others."""


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
    scores: AnyScores,
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
    samples, known = hidden.samples, hidden.positives_per_class
    names = list(class_names) if class_names is not None else [str(column) for column in range(len(known))]
    shares, expected = hidden.priors.shares.tolist(), hidden.per_class.tolist()
    summaries = []
    columns = zip(names, known.tolist(), _separation(hidden), strict=True)
    for column, (name, count, separation) in enumerate(columns):
        reason = _why_not(count, samples, separation)
        summaries.append(
            ClassSummary(
                label=name,
                known=count,
                prior=shares[column],
                hidden=expected[column],
                separation=separation,
                learnable=not reason,
                reason=reason,
            )
        )
    return summaries


def health_summary(
    labels: Labels,
    scores: AnyScores,
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
        with a probability above .5), `not_learnable` (names of classes) and `warnings` (see
        `spml.decisions.caveats`).

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
    samples, known = hidden.samples, int(hidden.positives_per_class.sum())
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
        "warnings": caveats(
            hidden.priors,
            [each.label for each in classes],
            np.asarray([each.known for each in classes]),
            samples,
            full=False,
            calibrated=True,
        ),
    }


def _separation(hidden: HiddenLabels) -> list[float]:
    """Mann-Whitney statistic of known positives against the other samples, over its largest value."""
    columns, places = hidden.places()
    counts = hidden.positives_per_class.astype(np.float64)
    samples, sums = hidden.samples, np.bincount(columns, places, minlength=len(counts))
    with np.errstate(invalid="ignore", divide="ignore"):
        separation = (sums - counts * (counts + 1) / 2) / (counts * (samples - counts))
    return [value if math.isfinite(value) else math.nan for value in separation.tolist()]


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
