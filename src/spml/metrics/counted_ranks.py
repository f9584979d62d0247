"""Ranks of positives among scores that are not kept: counted over blocks of rows."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from .arrays import IntArray, Scores
from .blocks import ScoreBlocks
from .ranks import Ranks, rank_entries
from .top_scores import fits

Entries = tuple[IntArray, IntArray]


def ranks_of(scores: Scores | ScoreBlocks, *positives: Entries) -> list[Ranks]:
    """Rank several sets of positives, each among all samples, by the same scores.

    The ranks are those of `rank_positives` to the bit. Of `ScoreBlocks`, the columns of classes with a
    positive are kept where they fit (`fits`), after one pass over the blocks. Where even these do not, two
    passes are made: the first takes the scores of the positives, the second counts the samples that reach
    them, in O(N M log P) for M classes with at most P positives each.

    Args:
        scores: Scores (N, C) without NaN.
        positives: Rows and columns of each set of positives, int64, row by row, as
            `ObservedLabels.entries(1)` gives them.
    """
    if not isinstance(scores, ScoreBlocks):
        return [rank_entries(scores, entries) for entries in positives]
    columns = np.unique(np.concatenate([entries[1] for entries in positives]))
    if fits(scores.samples, len(columns)):
        matrix = scores.gather(columns)
        return [
            _in_columns(rank_entries(matrix, (rows, np.searchsorted(columns, own))), columns, scores.classes)
            for rows, own in positives
        ]
    return _count(scores, positives, columns)


def _in_columns(ranks: Ranks, columns: IntArray, classes: int) -> Ranks:
    """Ranks over C classes of ranks over some of them."""
    counts = np.zeros(classes, np.int64)
    counts[columns] = ranks.counts
    return ranks._replace(columns=columns[ranks.columns], counts=counts)


def _count(scores: ScoreBlocks, positives: tuple[Entries, ...], columns: IntArray) -> list[Ranks]:
    """Ranks in two passes over the blocks."""
    sets = [(rows, np.searchsorted(columns, own)) for rows, own in positives]
    own_scores = [np.empty(len(rows), np.float32) for rows, _ in sets]
    for block_rows, block in scores.blocks(columns):
        for (rows, places), own in zip(sets, own_scores, strict=True):
            part = slice(*np.searchsorted(rows, [block_rows[0], block_rows[-1] + 1]))
            own[part] = block[rows[part] - block_rows[0], places[part]]
    orders = [_by_score(places, own) for (_, places), own in zip(sets, own_scores, strict=True)]
    groups = [
        _groups(places[order], own[order])
        for (_, places), own, order in zip(sets, own_scores, orders, strict=True)
    ]
    for _, block in scores.blocks(columns):
        for group in (group for of_set in groups for group in of_set):
            group.add(block)
    result = []
    for (rows, places), order, of_set in zip(sets, orders, groups, strict=True):
        ge, gt, positives_ge = (np.empty(len(order), np.int64) for _ in range(3))
        for group in of_set:
            entries = group.entries
            ge[entries], gt[entries], positives_ge[entries] = group.counts()
        counts = np.bincount(places, minlength=len(columns))
        # From the lowest score of each class to the highest; turned round in each class.
        ends = np.repeat(np.cumsum(counts), counts)
        starts = ends - np.repeat(counts, counts)
        turned = starts + ends - 1 - np.arange(len(order))
        found = Ranks(
            rows[order][turned],
            np.repeat(np.arange(len(columns)), counts),
            ge[turned],
            gt[turned],
            positives_ge[turned],
            counts,
        )
        result.append(_in_columns(found, columns, scores.classes))
    return result


def _by_score(places: IntArray, own: npt.NDArray[np.float32]) -> IntArray:
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

    def __init__(
        self, places: IntArray, counts: IntArray, starts: IntArray, own: npt.NDArray[np.float32]
    ) -> None:
        width = int(counts.max())
        self._places, self._number = places, counts
        self._filled = np.arange(width) < counts[:, None]
        self.entries = (starts[:, None] + np.arange(width))[self._filled]
        levels = np.full((len(places), width), np.inf, np.float32)
        levels[self._filled] = own[self.entries]
        self._levels = torch.from_numpy(levels)
        # How many samples reach exactly so many levels of a class, with and without those that are equal.
        self._reached = [torch.zeros((len(places), width + 1), dtype=torch.int64) for _ in range(2)]

    def add(self, block: npt.NDArray[np.float32]) -> None:
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


def _groups(places: IntArray, own: npt.NDArray[np.float32]) -> list[_Group]:
    """Group classes such that those of a group differ by less than a factor of 2 in their positives.

    Args:
        places: Column of each positive, ascending, int64 (P,).
        own: Their scores, ascending in each class, float32 (P,).
    """
    columns, starts, counts = np.unique(places, return_index=True, return_counts=True)
    powers = np.frexp(counts)[1]
    return [
        _Group(columns[of_power], counts[of_power], starts[of_power], own)
        for of_power in (powers == power for power in np.unique(powers))
    ]
