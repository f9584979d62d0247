"""Which labels of fully labelled data are shown: one positive, some of both signs, or answers to questions.

A label is never changed, only shown or not. What is shown of a sample depends on the seed, on its own labels
and on how many samples are before it: further ones at the end change nothing, unless weights depend on them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from ...labels import IntArray, ObservedLabels
from ..draws import stream, uniform
from .elementary import exp

Keys = npt.NDArray[np.uint64]
Mask = npt.NDArray[np.bool_]

HIGHEST = np.uint64(2**64 - 1)
CHUNK = 2**20  # entries of the label matrix that are looked at together: 8 MB of random numbers


def positives(labels: ObservedLabels) -> tuple[IntArray, IntArray]:
    """Rows and columns of the positives, row by row, columns ascending; int64 of shape (M,)."""
    rows, columns = labels.entries(1)
    places = np.unique(rows * labels.num_classes + columns)
    rows, columns = np.divmod(places, labels.num_classes)
    return rows, columns


def single_positive(labels: ObservedLabels, seed: int) -> ObservedLabels:
    """Keep one positive per sample, drawn uniformly; everything else becomes unknown.

    The draw depends on the seed and the labels only. A sample without a positive is left with no known label.
    Cole et al., CVPR 2021, section 4 (uniform single-positive labels).
    """
    rows, columns = positives(labels)
    counts = np.bincount(rows, minlength=len(labels))
    picked = np.floor(uniform(len(labels), "observe", seed) * counts).astype(np.int64)
    starts, some = np.cumsum(counts) - counts, counts > 0
    return _one_each(columns[(starts + picked)[some]], some, labels.num_classes)


def biased_positive(
    labels: ObservedLabels, log_weights: npt.NDArray[np.float64], seed: int
) -> ObservedLabels:
    """Keep one positive per sample, drawn with probability proportional to a weight; hide everything else.

    The random numbers are those of `single_positive`: the two differ only where the weights make them.

    Args:
        labels: fully labelled.
        log_weights: natural logarithm of the weight of each positive, in the order of `positives`,
            float64 (M,).
        seed: of the draw.

    Returns:
        Labels with one known positive per sample, none where the sample has none.
    """
    rows, columns = positives(labels)
    counts = np.bincount(rows, minlength=len(labels))
    some = counts > 0
    if not some.any():
        return _one_each(columns, some, labels.num_classes)
    counts = counts[some]
    starts = np.cumsum(counts) - counts
    # Within a sample only ratios matter; dividing by the largest keeps every number in range.
    weights = exp(log_weights - np.repeat(np.maximum.reduceat(log_weights, starts), counts))
    running = np.cumsum(weights)
    ends = starts + counts - 1
    before = np.concatenate([np.zeros(1), running])[starts]
    wanted = before + uniform(len(labels), "observe", seed)[some] * (running[ends] - before)
    picked = np.clip(np.searchsorted(running, wanted, side="right"), starts, ends)
    return _one_each(columns[picked], some, labels.num_classes)


def label_counts(labels: ObservedLabels, positive: int, negative: int, seed: int) -> ObservedLabels:
    """Keep some positives and some negatives of each sample, drawn uniformly; fewer where it has fewer.

    With the same seed larger numbers show what smaller ones do, and more.

    Args:
        labels: fully labelled.
        positive, negative: how many per sample, at least 0.
        seed: of the draw.
    """
    return _shown(
        labels,
        seed,
        lambda keys, present: _lowest(keys, present, positive) | _lowest(keys, ~present, negative),
    )


def label_share(labels: ObservedLabels, share: float, seed: int) -> ObservedLabels:
    """Keep each of the N C labels with the same probability, positive or negative, independently.

    With the same seed a larger share shows what a smaller one does, and more.
    Durand et al., CVPR 2019, section 4 (partial labels).

    Args:
        labels: fully labelled.
        share: that probability, in (0, 1).
        seed: of the draw.
    """
    below = np.uint64(int(share * 2.0**64))
    return _shown(labels, seed, lambda keys, present: keys < below)


def questions(labels: ObservedLabels, seed: int) -> ObservedLabels:
    """Ask for one class after the other, in random order, whether it is present, up to the first yes.

    That class is the known positive, those asked before it are known negatives, the others stay unknown. With
    n of C classes present (C - n) / (n + 1) negatives are known on average; where none is, every class is
    asked and known to be negative. Without the negatives this would be `single_positive`.

    The question-answer process of Cui et al. (LASD), section 5.1, in our reading: an order without
    repetition, drawn anew for every sample, and every answer kept.

    Args:
        labels: fully labelled.
        seed: of the order.
    """
    return _shown(
        labels,
        seed,
        lambda keys, present: keys <= np.where(present, keys, HIGHEST).min(axis=1, keepdims=True),
    )


def _one_each(columns: IntArray, some: Mask, classes: int) -> ObservedLabels:
    """One known positive for each sample of the mask, nothing for the others."""
    indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(some)]).astype(np.int64)
    return ObservedLabels(indptr, columns, np.ones(len(columns), np.int8), classes)


def _lowest(keys: Keys, allowed: Mask, count: int) -> Mask:
    """The `count` allowed entries of each row that have the lowest keys; all where there are fewer."""
    if not count:
        return np.zeros_like(allowed)
    keys = np.where(allowed, keys, HIGHEST)
    place = min(count, keys.shape[1]) - 1
    return np.asarray(allowed & (keys <= np.partition(keys, place, axis=1)[:, place, None]))


def _shown(labels: ObservedLabels, seed: int, known: Callable[[Keys, Mask], Mask]) -> ObservedLabels:
    """The labels that `known` tells from a random number for each entry and from where the positives are.

    Goes through the label matrix in chunks; no matrix of N x C is made.
    """
    rows, columns = positives(labels)
    count, classes = len(labels), labels.num_classes
    numbers, step = stream("observe", "entries", seed), max(1, CHUNK // classes)
    lengths, kept, values = [np.zeros(1, np.int64)], [], []
    for first in range(0, count, step):
        size = min(step, count - first)
        part = slice(*np.searchsorted(rows, [first, first + size]))
        present = np.zeros((size, classes), np.bool_)
        present[rows[part] - first, columns[part]] = True
        keys = numbers.random_raw(size * classes).reshape(size, classes)
        row, column = np.nonzero(known(keys, present))
        lengths.append(np.bincount(row, minlength=size))
        kept.append(column)
        values.append(np.where(present[row, column], 1, -1).astype(np.int8))
    return ObservedLabels(
        np.cumsum(np.concatenate(lengths)).astype(np.int64),
        np.concatenate(kept).astype(np.int64),
        np.concatenate(values),
        classes,
    )
