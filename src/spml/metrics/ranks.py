"""Ranks of the positives of each class, from which average precision and the SP-score are computed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from .arrays import BoolArray, IntArray, Scores, as_known_positives, as_scores

_BLOCK_BYTES = 1 << 25  # size of the scores that are transposed and sorted at a time


class Ranks(NamedTuple):
    """Ranks of P positives, class by class, from the highest score to the lowest. Ties are exact.

    Attributes:
        rows: Sample of each positive, int64 of shape (P,).
        columns: Class of each positive, int64 of shape (P,).
        ge: Number of samples with at least its score in that class, itself included, int64 of shape (P,).
        gt: Number of samples with a higher score in that class, int64 of shape (P,).
        positives_ge: Number of positives of that class among `ge`, itself included, int64 of shape (P,).
        counts: Number of positives of each class, int64 of shape (C,).
    """

    rows: IntArray
    columns: IntArray
    ge: IntArray
    gt: IntArray
    positives_ge: IntArray
    counts: IntArray


def rank_positives(scores: Scores, positive: BoolArray, known: BoolArray | None = None) -> Ranks:
    """Rank the positives of each class in O(N C log N), with one block of classes in memory at a time.

    Args:
        scores: Scores of shape (N, C) without NaN.
        positive: Mask of the positives, shape (N, C).
        known: Mask of the known entries, shape (N, C): a class is ranked among its known samples only.
            None = all are known.
    """
    rows, columns = np.nonzero(positive)
    return rank_entries(scores, (rows, columns), known)


def rank_entries(
    scores: Scores, positives: tuple[IntArray, IntArray], known: BoolArray | None = None
) -> Ranks:
    """Rank positives that are given by their rows and columns; otherwise as `rank_positives`.

    Args:
        scores: Scores of shape (N, C) without NaN. Only columns of classes with a positive are read.
        positives: Rows and columns of the positives, int64 (P,), row by row, as `ObservedLabels.entries(1)`
            gives them.
        known: As in `rank_positives`.
    """
    samples, classes = scores.shape
    order = np.argsort(positives[1], kind="stable")
    by_class = positives[0][order]
    counts = np.bincount(positives[1], minlength=classes)
    ends = np.cumsum(counts)
    rows, ge, gt, positives_ge = (np.empty(len(order), np.int64) for _ in range(4))
    present = np.flatnonzero(counts)
    width = max(1, _BLOCK_BYTES // (samples * scores.itemsize))
    for first in range(0, len(present), width):
        columns = present[first : first + width]
        values = np.ascontiguousarray(scores[:, _slice_of(columns)].T)
        for column, value in zip(columns, values, strict=True):
            # Sorting values and looking the positives up in them is several times faster than an argsort.
            ascending = np.sort(value if known is None else value[known[:, column]])
            part = slice(ends[column] - counts[column], ends[column])
            own_rows = by_class[part]
            own_rows = own_rows[np.argsort(value[own_rows])]
            own = value[own_rows]
            rows[part] = own_rows[::-1]
            ge[part] = (len(ascending) - np.searchsorted(ascending, own, side="left"))[::-1]
            gt[part] = (len(ascending) - np.searchsorted(ascending, own, side="right"))[::-1]
            positives_ge[part] = (len(own) - np.searchsorted(own, own, side="left"))[::-1]
    return Ranks(rows, np.repeat(np.arange(classes), counts), ge, gt, positives_ge, counts)


def _slice_of(columns: IntArray) -> slice | IntArray:
    """Ascending columns; a slice, which copies nothing, where no column is left out between them."""
    first, last = int(columns[0]), int(columns[-1])
    return slice(first, last + 1) if last - first + 1 == len(columns) else columns


def observed_ranks(scores: npt.ArrayLike | torch.Tensor, observed: npt.ArrayLike | torch.Tensor) -> Ranks:
    """Ranks of the known positives, each among all samples, including those with an unknown label.

    Args:
        scores: Scores of shape (N, C), on any scale that is monotone within a class.
        observed: Integers of shape (N,), the one known positive class of each sample, or a signed matrix of
            shape (N, C) in {-1, 0, +1}, 0 = unknown.

    Raises:
        ValueError: Shapes differ, there are no samples, a score is NaN or a label is not allowed (the message
            gives its position), or there is no known positive.
    """
    values = as_scores(scores)
    return rank_entries(values, as_known_positives(observed, values.shape))
