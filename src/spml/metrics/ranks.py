"""Where each positive stands in its class: all that average precision and the SP-score need."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from .arrays import BoolArray, IntArray, Scores, as_known_positives, as_scores

_BLOCK_BYTES = 1 << 25  # of scores that are transposed and sorted at a time


class Ranks(NamedTuple):
    """The P positives, class by class, within a class from the highest score to the lowest. Ties are exact.

    Attributes:
        rows: the sample of each positive, int64 (P,).
        columns: its class, int64 (P,).
        ge: samples whose score in that class is at least as high, itself included, int64 (P,).
        gt: samples whose score in that class is higher, int64 (P,).
        positives_ge: positives of that class among `ge`, itself included, int64 (P,).
        counts: positives of each class, int64 (C,).
    """

    rows: IntArray
    columns: IntArray
    ge: IntArray
    gt: IntArray
    positives_ge: IntArray
    counts: IntArray


def rank_positives(scores: Scores, positive: BoolArray, known: BoolArray | None = None) -> Ranks:
    """Rank the positives of each class; O(N C log N), memory of one block of classes beside the result.

    Args:
        scores: (N, C) without NaN.
        positive: (N, C).
        known: (N, C); a class is ranked among its known samples only. None = all are known.
    """
    samples, classes = scores.shape
    counts = positive.sum(axis=0, dtype=np.int64)
    ends = np.cumsum(counts)
    rows, ge, gt, positives_ge = (np.empty(int(ends[-1]), np.int64) for _ in range(4))
    width = max(1, _BLOCK_BYTES // (samples * scores.itemsize))
    for first in range(0, classes, width):
        block = slice(first, first + width)
        values = np.ascontiguousarray(scores[:, block].T)
        marks = np.ascontiguousarray(positive[:, block].T)
        for offset, (value, mark) in enumerate(zip(values, marks, strict=True)):
            column = first + offset
            if counts[column] == 0:
                continue
            # Sorting values and looking the positives up in them is several times faster than an argsort.
            ascending = np.sort(value if known is None else value[known[:, column]])
            where = np.flatnonzero(mark)
            where = where[np.argsort(value[where])]
            own = value[where]
            place = slice(ends[column] - counts[column], ends[column])
            rows[place] = where[::-1]
            ge[place] = (len(ascending) - np.searchsorted(ascending, own, side="left"))[::-1]
            gt[place] = (len(ascending) - np.searchsorted(ascending, own, side="right"))[::-1]
            positives_ge[place] = (len(own) - np.searchsorted(own, own, side="left"))[::-1]
    return Ranks(rows, np.repeat(np.arange(classes), counts), ge, gt, positives_ge, counts)


def observed_ranks(scores: npt.ArrayLike | torch.Tensor, observed: npt.ArrayLike | torch.Tensor) -> Ranks:
    """Ranks of the known positives, each among all samples, whatever is known of those.

    Args:
        scores: (N, C), on any scale that is monotone within a class.
        observed: integers of shape (N,), the one known positive class of each sample; or a signed matrix of
            shape (N, C) in {-1, 0, +1}, 0 = unknown.

    Raises:
        ValueError: shapes differ, no samples, a NaN score, a wrong label (each names its place), or no known
            positive.
    """
    values = as_scores(scores)
    return rank_positives(values, as_known_positives(observed, values.shape))
