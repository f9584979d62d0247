"""Rules that hide labels of fully labelled data: what stays observed is one positive, labels of both signs,
or answers to questions.

A label is never changed, only hidden. Which labels of a sample stay observed depends on the seed, on its own
labels and on the number of samples before it: samples appended at the end change nothing, except through
weights that depend on them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from ...labels import IntArray, ObservedLabels
from ..draws import stream, uniform

Keys = npt.NDArray[np.uint64]
Mask = npt.NDArray[np.bool_]

HIGHEST = np.uint64(2**64 - 1)
CHUNK = 2**20  # entries of the label matrix per chunk: 8 MB of random numbers


def positives(labels: ObservedLabels) -> tuple[IntArray, IntArray]:
    """Rows and columns of the positives, row by row, columns ascending; int64 of shape (M,)."""
    rows, columns = labels.entries(1)
    entries = np.unique(rows * labels.num_classes + columns)
    rows, columns = np.divmod(entries, labels.num_classes)
    return rows, columns


def single_positive(labels: ObservedLabels, seed: int) -> ObservedLabels:
    """Keep one positive per sample, drawn uniformly; hide everything else.

    The draw depends on the seed and the labels only. A sample without a positive keeps no label.
    Cole et al., CVPR 2021, section 4 (uniform single-positive labels).
    """
    rows, columns = positives(labels)
    counts = np.bincount(rows, minlength=len(labels))
    picked = np.floor(uniform(len(labels), "observe", seed) * counts).astype(np.int64)
    starts, has_positive = np.cumsum(counts) - counts, counts > 0
    return _one_each(columns[(starts + picked)[has_positive]], has_positive, labels.num_classes)


def biased_positive(
    labels: ObservedLabels, log_weights: npt.NDArray[np.float64], seed: int
) -> ObservedLabels:
    """Keep one positive per sample, drawn with probability proportional to a weight; hide everything else.

    The random numbers are those of `single_positive`: with equal weights the result is the same. The last bit
    of exp and log may differ between CPUs, which changes a draw with a probability of about 1e-11 for a data
    set of the size of COCO.

    Args:
        labels: Full labels.
        log_weights: Natural logarithm of the weight of each positive, in the order of `positives`,
            float64 (M,).
        seed: Seed of the draw.

    Returns:
        One observed positive per sample, none for a sample without positives.
    """
    rows, columns = positives(labels)
    counts = np.bincount(rows, minlength=len(labels))
    has_positive = counts > 0
    if not has_positive.any():
        return _one_each(columns, has_positive, labels.num_classes)
    counts = counts[has_positive]
    starts = np.cumsum(counts) - counts
    # Within a sample only ratios matter; dividing by the largest keeps every number in range.
    weights = np.exp(log_weights - np.repeat(np.maximum.reduceat(log_weights, starts), counts))
    running = np.cumsum(weights)
    ends = starts + counts - 1
    before = np.concatenate([np.zeros(1), running])[starts]
    drawn = before + uniform(len(labels), "observe", seed)[has_positive] * (running[ends] - before)
    picked = np.clip(np.searchsorted(running, drawn, side="right"), starts, ends)
    return _one_each(columns[picked], has_positive, labels.num_classes)


def label_counts(labels: ObservedLabels, positive: int, negative: int, seed: int) -> ObservedLabels:
    """Keep some positives and some negatives of each sample, drawn uniformly; fewer where it has fewer.

    With the same seed, larger numbers keep all labels that smaller ones keep.

    Args:
        labels: Full labels.
        positive, negative: Labels to keep per sample, at least 0.
        seed: Seed of the draw.
    """
    return _kept(
        labels,
        seed,
        lambda keys, present: _lowest(keys, present, positive) | _lowest(keys, ~present, negative),
    )


def label_share(labels: ObservedLabels, share: float, seed: int) -> ObservedLabels:
    """Keep each of the N C labels with the same probability, positive or negative, independently.

    With the same seed, a larger share keeps all labels that a smaller one keeps.
    Durand et al., CVPR 2019, section 4 (partial labels).

    Args:
        labels: Full labels.
        share: Probability of keeping a label, in (0, 1).
        seed: Seed of the draw.
    """
    limit = np.uint64(int(share * 2.0**64))
    return _kept(labels, seed, lambda keys, present: keys < limit)


def questions(labels: ObservedLabels, seed: int) -> ObservedLabels:
    """Ask for one class after the other, in random order, until one is present; keep all answers.

    The present class is the known positive, those asked for before it are known negatives, and the others
    stay unknown. With n of C classes present, (C - n) / (n + 1) negatives are known on average; if none is
    present, every class is a known negative. The positives alone are distributed as in `single_positive`.

    This is the question-answer process of Cui et al. (LASD), section 5.1, in our reading: an order without
    repetition, drawn for each sample, and every answer kept.

    Args:
        labels: Full labels.
        seed: Seed of the order.
    """
    return _kept(
        labels,
        seed,
        lambda keys, present: keys <= np.where(present, keys, HIGHEST).min(axis=1, keepdims=True),
    )


def _one_each(columns: IntArray, has_positive: Mask, classes: int) -> ObservedLabels:
    """One known positive for each sample of the mask, no known label for the others."""
    indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(has_positive)]).astype(np.int64)
    return ObservedLabels(indptr, columns, np.ones(len(columns), np.int8), classes)


def _lowest(keys: Keys, allowed: Mask, count: int) -> Mask:
    """The `count` allowed entries of each row that have the lowest keys; all if there are fewer."""
    if not count:
        return np.zeros_like(allowed)
    keys = np.where(allowed, keys, HIGHEST)
    last = min(count, keys.shape[1]) - 1
    return np.asarray(allowed & (keys <= np.partition(keys, last, axis=1)[:, last, None]))


def _kept(labels: ObservedLabels, seed: int, keep: Callable[[Keys, Mask], Mask]) -> ObservedLabels:
    """Keep the labels that `keep` selects, given a random number and the presence of each entry.

    The label matrix is processed in chunks; an N x C matrix is never allocated.
    """
    rows, columns = positives(labels)
    count, classes = len(labels), labels.num_classes
    numbers, step = stream("observe", "entries", seed), max(1, CHUNK // classes)
    lengths, kept_columns, values = [np.zeros(1, np.int64)], [], []
    for first in range(0, count, step):
        size = min(step, count - first)
        part = slice(*np.searchsorted(rows, [first, first + size]))
        present = np.zeros((size, classes), np.bool_)
        present[rows[part] - first, columns[part]] = True
        keys = numbers.random_raw(size * classes).reshape(size, classes)
        row, column = np.nonzero(keep(keys, present))
        lengths.append(np.bincount(row, minlength=size))
        kept_columns.append(column)
        values.append(np.where(present[row, column], 1, -1).astype(np.int8))
    return ObservedLabels(
        np.cumsum(np.concatenate(lengths)).astype(np.int64),
        np.concatenate(kept_columns).astype(np.int64),
        np.concatenate(values),
        classes,
    )
