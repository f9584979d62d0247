"""Ranks of the positives of each class, from which average precision and the SP-score are computed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from .forms import BoolArray, InMemory, IntArray, ScoreArray, Scores, TopScores, as_scores, fits

Entries = tuple[IntArray, IntArray]

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


def ranks_of(scores: npt.ArrayLike | torch.Tensor | Scores, *positives: Entries) -> list[Ranks]:
    """Rank several sets of positives, each among all samples, by the same scores.

    The ranks are the same to the bit whether scores are in memory or computed in blocks. Of `ScoreBlocks`,
    the columns of classes with a positive are kept where they fit (`fits`), after one pass over the blocks.
    Where even these do not, two passes are made: the first takes the scores of the positives, the second
    counts the samples that reach them, in O(N M log P) for M classes with at most P positives each.

    Of `TopScores`, scores that were left out count as lower than all that were kept of the same class, and a
    positive whose score is not among the highest of its sample has the last rank.

    Args:
        scores: Scores (N, C) without NaN.
        positives: Rows and columns of each set of positives, int64, row by row, as
            `ObservedLabels.entries(1)` gives them.
    """
    scores = as_scores(scores)
    if isinstance(scores, TopScores):
        return [_rank_highest(scores, entries) for entries in positives]
    if isinstance(scores, InMemory):
        return [rank_entries(scores.array, entries) for entries in positives]
    columns = np.unique(np.concatenate([entries[1] for entries in positives]))
    own = [(rows, np.searchsorted(columns, of_class)) for rows, of_class in positives]
    if fits(len(scores), len(columns)):
        matrix = scores.gather(columns)
        found = [rank_entries(matrix, entries) for entries in own]
    else:
        found = _count(scores, own, columns)
    result = []
    for ranks in found:
        counts = np.zeros(scores.shape[1], np.int64)
        counts[columns] = ranks.counts
        result.append(ranks._replace(columns=columns[ranks.columns], counts=counts))
    return result


def rank_positives(scores: ScoreArray, positive: BoolArray, known: BoolArray | None = None) -> Ranks:
    """Rank the positives of each class in O(N C log N), with one block of classes in memory at a time.

    Args:
        scores: Scores of shape (N, C) without NaN.
        positive: Mask of the positives, shape (N, C).
        known: Mask of the known entries, shape (N, C): a class is ranked among its known samples only.
            None = all are known.
    """
    rows, columns = np.nonzero(positive)
    return rank_entries(scores, (rows, columns), known)


def rank_entries(scores: ScoreArray, positives: Entries, known: BoolArray | None = None) -> Ranks:
    """Rank positives that are given by their rows and columns; otherwise as `rank_positives`.

    Args:
        scores: Scores of shape (N, C) without NaN. Only columns of classes with a positive are read.
        positives: Rows and columns of the positives, int64 (P,), row by row.
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
        adjacent = columns[-1] - columns[0] + 1 == len(columns)
        chosen = slice(columns[0], columns[-1] + 1) if adjacent else columns  # a slice copies nothing
        values = np.ascontiguousarray(scores[:, chosen].T)
        for column, value in zip(columns, values, strict=True):
            # Sorting values and looking the positives up in them is several times faster than an argsort.
            ascending = np.sort(value if known is None else value[known[:, column]])
            if np.isnan(ascending[-1]):
                row = int(np.isnan(value).argmax())
                raise ValueError(f"scores: row {row}, column {column} is NaN; every score must be a number")
            part = slice(ends[column] - counts[column], ends[column])
            own_rows = by_class[part]
            own_rows = own_rows[np.argsort(value[own_rows])]
            own = value[own_rows]
            rows[part] = own_rows[::-1]
            ge[part] = (len(ascending) - np.searchsorted(ascending, own, side="left"))[::-1]
            gt[part] = (len(ascending) - np.searchsorted(ascending, own, side="right"))[::-1]
            positives_ge[part] = (len(own) - np.searchsorted(own, own, side="left"))[::-1]
    return Ranks(rows, np.repeat(np.arange(classes), counts), ge, gt, positives_ge, counts)


def _rank_highest(scores: TopScores, positives: Entries) -> Ranks:
    """Ranks among the highest scores of each sample."""
    rows, columns, values, in_order = scores.known(*positives)
    order = np.argsort(columns, kind="stable")
    counts = np.bincount(columns, minlength=scores.classes)
    ends = np.cumsum(counts)
    ge, gt, positives_ge = (np.empty(len(order), np.int64) for _ in range(3))
    for column in np.flatnonzero(counts).tolist():
        part = slice(ends[column] - counts[column], ends[column])
        ascending, own = scores.pairs.ascending(column), order[part]
        at_least = len(ascending) - np.searchsorted(ascending, values[own], side="left")
        above = len(ascending) - np.searchsorted(ascending, values[own], side="right")
        at_least[~in_order[own]], above[~in_order[own]] = len(scores), len(ascending)
        by_rank = np.argsort(at_least, kind="stable")
        order[part], ge[part], gt[part] = own[by_rank], at_least[by_rank], above[by_rank]
        positives_ge[part] = np.searchsorted(ge[part], ge[part], side="right")
    return Ranks(rows[order], columns[order], ge, gt, positives_ge, counts)


def _count(scores: Scores, positives: list[Entries], columns: IntArray) -> list[Ranks]:
    """Ranks over some columns in two passes over the blocks."""
    rows, places = (np.concatenate(parts) for parts in zip(*positives, strict=True))
    of_all = scores.at(rows, columns[places])
    own_scores = np.split(of_all, np.cumsum([len(rows) for rows, _ in positives])[:-1])
    orders, groups = [], []
    for (_, places), own in zip(positives, own_scores, strict=True):
        order = _by_score(places, own)
        classes, starts, counts = np.unique(places[order], return_index=True, return_counts=True)
        # Classes of a group differ by less than a factor of 2 in their positives: few of its cells are empty.
        powers = np.frexp(counts)[1]
        parts = [powers == power for power in np.unique(powers)]
        groups.append([_Group(classes[part], counts[part], starts[part], own[order]) for part in parts])
        orders.append(order)
    for _, block in scores.blocks(columns):
        for group in (group for of_set in groups for group in of_set):
            group.add(block)
    result = []
    for (rows, places), order, of_set in zip(positives, orders, groups, strict=True):
        ge, gt, positives_ge = (np.empty(len(order), np.int64) for _ in range(3))
        for group in of_set:
            entries = group.entries
            ge[entries], gt[entries], positives_ge[entries] = group.counts()
        counts = np.bincount(places, minlength=len(columns))
        # From the lowest score of each class to the highest; turned round in each class.
        ends = np.repeat(np.cumsum(counts), counts)
        turned = 2 * ends - np.repeat(counts, counts) - 1 - np.arange(len(order))
        of_class = np.repeat(np.arange(len(columns)), counts)
        result.append(
            Ranks(rows[order][turned], of_class, ge[turned], gt[turned], positives_ge[turned], counts)
        )
    return result


def _by_score(places: IntArray, own: ScoreArray) -> IntArray:
    """Order of positives by class, and by score in each class; ties in the order of `rank_entries`."""
    order = np.argsort(places, kind="stable")
    counts = np.bincount(places)
    ends = np.cumsum(counts)
    for column in np.flatnonzero(counts > 1):
        part = slice(ends[column] - counts[column], ends[column])
        order[part] = order[part][np.argsort(own[order[part]])]
    return order


class _Group:
    """Counts, for the positives of classes with about as many of them, the samples that reach their scores.

    Args:
        places: Columns of the M classes in the blocks, int64 (M,).
        counts: Number of positives of each class, int64 (M,).
        starts: First positive of each class, int64 (M,).
        own: Scores of all positives, ascending in each class.
    """

    def __init__(self, places: IntArray, counts: IntArray, starts: IntArray, own: ScoreArray) -> None:
        width = int(counts.max())
        self._places, self._number = places, counts
        self._filled = np.arange(width) < counts[:, None]
        self.entries = (starts[:, None] + np.arange(width))[self._filled]
        levels = np.full((len(places), width), np.inf, np.float32)
        levels[self._filled] = own[self.entries]
        self._levels = torch.from_numpy(levels)
        # How many samples reach exactly so many levels of a class, with and without those that are equal.
        self._reached = [torch.zeros((len(places), width + 1), dtype=torch.int64) for _ in range(2)]

    def add(self, block: ScoreArray) -> None:
        """Count the samples of a block (B, M')."""
        values = torch.from_numpy(np.ascontiguousarray(block[:, self._places].T))
        one = torch.ones((), dtype=torch.int64).expand(values.shape)
        for reached, with_equal in zip(self._reached, (True, False), strict=True):
            reached.scatter_add_(1, torch.searchsorted(self._levels, values, right=with_equal), one)

    def counts(self) -> tuple[IntArray, IntArray, IntArray]:
        """Samples with at least and above the score of each entry, and positives with at least its score."""
        ge, gt = (self._above(reached) for reached in self._reached)
        below = torch.searchsorted(self._levels, self._levels).numpy()
        return ge, gt, (self._number[:, None] - below)[self._filled]

    def _above(self, reached: Tensor) -> IntArray:
        """Number of samples that reach more than j levels, for each level j that is filled."""
        total = reached.sum(dim=1, keepdim=True)
        return np.asarray((total - reached.cumsum(dim=1))[:, :-1].numpy()[self._filled])
