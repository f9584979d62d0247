"""What can be added to a rule that keeps one positive per sample: every true negative, and wrong positives.

Neither changes which positive the rule draws.
"""

from __future__ import annotations

import numpy as np

from ...labels import IntArray, ObservedLabels
from ..draws import uniform
from .rules import positives


def with_all_negatives(observed: ObservedLabels, labels: ObservedLabels) -> ObservedLabels:
    """Add every true negative to the observed positives; the other true positives stay unknown.

    One positive and all negatives (IUN) of Cole et al., CVPR 2021. Only the true and the observed
    positives are stored, not the negatives.

    Args:
        observed: Observed positives.
        labels: Full labels of the same samples.

    Returns:
        +1 where a positive is observed, 0 for every other true positive, -1 elsewhere.
    """
    shown = _entries(observed)
    stored = np.union1d(_entries(labels), shown)
    rows, columns = np.divmod(stored, labels.num_classes)
    indptr = np.searchsorted(rows, np.arange(len(labels) + 1)).astype(np.int64)
    values = np.isin(stored, shown, assume_unique=True).astype(np.int8)
    return ObservedLabels(indptr, columns, values, labels.num_classes, -1)


def with_wrong_positives(
    observed: ObservedLabels, labels: ObservedLabels, share: float, seed: int
) -> tuple[ObservedLabels, int]:
    """Replace some observed positives by a label of the same sample that is absent, drawn uniformly.

    Each is replaced with the same probability, independently; with the same seed, a larger share replaces all
    that a smaller one replaces, by the same labels. A sample of which no label is absent keeps its positive.

    Args:
        observed: At most one observed positive per sample, and no observed negative.
        labels: Full labels of the same samples.
        share: Probability of being replaced, in [0, 1).
        seed: Seed of the draw, which has random numbers of its own.

    Returns:
        The labels with wrong positives, and how many there are.
    """
    count, classes = len(labels), labels.num_classes
    true_rows, true_columns = positives(labels)
    per_sample = np.bincount(true_rows, minlength=count)
    absent = classes - per_sample
    picked = np.floor(uniform(count, "observe", "noise", "label", seed) * absent).astype(np.int64)
    # The j-th positive of a sample has (its column - j) absent columns before it, so that it lies before the
    # picked absent column if that number is at most `picked`. Each such positive shifts the column by one.
    rank = np.arange(len(true_rows)) - np.repeat(np.cumsum(per_sample) - per_sample, per_sample)
    before = true_columns - rank <= picked[true_rows]
    wrong = picked + np.bincount(true_rows[before], minlength=count)
    rows, columns = positives(observed)
    replaced = (uniform(count, "observe", "noise", seed)[rows] < share) & (absent[rows] > 0)
    indptr = np.searchsorted(rows, np.arange(count + 1)).astype(np.int64)
    columns = np.where(replaced, wrong[rows], columns)
    return ObservedLabels(indptr, columns, np.ones(len(columns), np.int8), classes), int(replaced.sum())


def _entries(labels: ObservedLabels) -> IntArray:
    """Positions of the positives in the label matrix, row by row, ascending; int64 (M,)."""
    rows, columns = positives(labels)
    return np.asarray(rows * labels.num_classes + columns)
