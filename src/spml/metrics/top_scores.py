"""The highest scores of each sample, for so many samples and classes that not all scores can be kept."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import torch

from .arrays import BoolArray, IntArray, Scores

MOST_SCORES = 1 << 28
"""Largest number of scores (samples x classes) of which all are kept: 1 GiB of float32."""

HIGHEST = 1000
"""Number of scores of a sample that are kept where not all are."""


def fits(samples: int, classes: int) -> bool:
    """Whether the scores of so many samples and classes are kept in an array."""
    return samples * classes <= MOST_SCORES


@dataclass(frozen=True)
class TopScores:
    """The highest scores of each sample and those of its known positives, stored like a CSR matrix.

    Attributes:
        starts: First entry of each of the N samples, and the number of entries M, int64 (N + 1,).
        columns: Class of each entry, ascending within a sample, int64 (M,).
        scores: Score of each entry, float32 (M,).
        floors: No score of a sample that was left out is higher than this, float32 (N,); -infinity where none
            was left out.
        classes: Number of classes C.
    """

    starts: IntArray
    columns: IntArray
    scores: npt.NDArray[np.float32]
    floors: npt.NDArray[np.float32]
    classes: int

    def __len__(self) -> int:
        return len(self.starts) - 1

    @cached_property
    def rows(self) -> IntArray:
        """Sample of each entry, int64 (M,)."""
        return np.repeat(np.arange(len(self)), np.diff(self.starts))

    @cached_property
    def in_order(self) -> BoolArray:
        """Entries (M,) that no score of their sample that was left out exceeds: all but known positives that
        are not among the highest."""
        return self.scores >= self.floors[self.rows]

    @cached_property
    def left_out(self) -> IntArray:
        """Number of scores of each sample that were left out or are not in order, int64 (N,)."""
        kept = np.bincount(self.rows[self.in_order], minlength=len(self))
        return np.asarray(self.classes - kept, np.int64)

    def at(self, rows: IntArray, columns: IntArray) -> npt.NDArray[np.float32]:
        """Scores of some pairs of sample and class, float32 (P,); NaN for those that were left out."""
        found = np.full(len(rows), np.nan, np.float32)
        if len(self.columns):
            wanted = rows * self.classes + columns
            keys = self.rows * self.classes + self.columns
            entries = np.searchsorted(keys, wanted).clip(max=len(keys) - 1)
            hit = keys[entries] == wanted
            found[hit] = self.scores[entries[hit]]
        return found

    def take(self, rows: npt.NDArray[np.int64]) -> TopScores:
        """Scores of some samples, in that order."""
        lengths = np.diff(self.starts)[rows]
        starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
        entries = np.arange(starts[-1]) + np.repeat(self.starts[:-1][rows] - starts[:-1], lengths)
        return TopScores(starts, self.columns[entries], self.scores[entries], self.floors[rows], self.classes)

    @classmethod
    def join(cls, parts: Sequence[TopScores]) -> TopScores:
        """Scores of the samples of several parts of the same classes, one after the other."""
        lengths = np.concatenate([np.diff(part.starts) for part in parts])
        return cls(
            np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)]),
            np.concatenate([part.columns for part in parts]),
            np.concatenate([part.scores for part in parts]),
            np.concatenate([part.floors for part in parts]),
            parts[0].classes,
        )


def top_scores(
    blocks: Iterable[tuple[IntArray, Scores]], k: int, positives: tuple[IntArray, IntArray]
) -> TopScores:
    """Keep the k highest scores of each sample, and those of its known positives.

    Args:
        blocks: Numbers (B,) of consecutive samples, from 0, and their scores (B, C).
        k: Number of scores to keep of a sample; of equal ones those of the first classes.
        positives: Rows and columns of the known positives, row by row, as `ObservedLabels.entries(1)` gives
            them.
    """
    lengths, columns, scores, floors = [], [], [], []
    classes = 0
    for rows, block in blocks:
        classes = block.shape[1]
        highest, floor = _highest(block, k)
        first, last = np.searchsorted(positives[0], [rows[0], rows[-1] + 1])
        known = (positives[0][first:last] - rows[0]) * classes + positives[1][first:last]
        kept = np.union1d((np.arange(len(rows))[:, None] * classes + highest).ravel(), known)
        own_rows, own_columns = np.divmod(kept, classes)
        lengths.append(np.bincount(own_rows, minlength=len(rows)))
        columns.append(own_columns)
        scores.append(block[own_rows, own_columns].astype(np.float32))
        floors.append(floor.astype(np.float32))
    starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.concatenate(lengths))])
    return TopScores(starts, np.concatenate(columns), np.concatenate(scores), np.concatenate(floors), classes)


def _highest(block: Scores, k: int) -> tuple[IntArray, Scores]:
    """Columns (B, k) of the k highest scores of each row, of equal ones the first, and the lowest of them."""
    samples, classes = block.shape
    if k >= classes:
        return np.tile(np.arange(classes), (samples, 1)), np.full(samples, -np.inf, block.dtype)
    # PyTorch takes half the time of NumPy's partition, but any of equal scores at the limit.
    values, places = (
        found.numpy()
        for found in torch.topk(torch.from_numpy(np.require(block, requirements="W")), k, dim=1, sorted=False)
    )
    floor: Scores = values.min(1)
    level = floor[:, None]
    ties = np.count_nonzero(values == level, axis=1)
    for row in np.flatnonzero(np.count_nonzero(block == level, axis=1) > ties):
        places[row, values[row] == floor[row]] = np.flatnonzero(block[row] == floor[row])[: ties[row]]
    return places, floor
