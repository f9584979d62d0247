"""Scores class by class, whether all are kept or only the highest of each sample."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from ..labels import ObservedLabels
from ..metrics.arrays import BoolArray, IntArray, Scores, as_scores
from ..metrics.top_scores import TopScores

AnyScores = npt.ArrayLike | TopScores
AnyLabels = npt.NDArray[np.int8] | ObservedLabels


class KnownPositives(NamedTuple):
    """Known positives, sample by sample.

    Attributes:
        rows: Sample of each, int64 (P,).
        columns: Class of each, int64 (P,).
        scores: Score of each, (P,).
        in_order: Whether the rank of each in its class is known, bool (P,); otherwise it counts as the last.
    """

    rows: IntArray
    columns: IntArray
    scores: Scores
    in_order: BoolArray


class ByClass(Protocol):
    """Scores of each class, and the known positives.

    Scores that were left out count as lower than all that were kept of the same class. So ranks are exact
    where nothing was left out, and otherwise those of samples that were left out are too high: a class never
    looks better than it is.

    Attributes:
        samples: Number of samples N.
        classes: Number of classes C.
        known: Known positives.
        filled: Whether each class has any score, bool (C,).
    """

    samples: int
    classes: int
    known: KnownPositives
    filled: BoolArray

    def ascending(self, column: int) -> Scores:
        """Scores of a class in ascending order, (M,) with M <= N."""

    def count(self, column: int, threshold: float) -> int:
        """Number of scores of a class at and above a threshold."""

    def chosen(self, columns: IntArray) -> tuple[Scores, IntArray]:
        """Scores of some classes (M,), sample by sample, and their positions among all scores or entries."""

    def columns(self, positions: IntArray) -> IntArray:
        """Class of each of some positions, int64 (M,)."""


def by_class(scores: AnyScores, labels: AnyLabels) -> ByClass:
    """Scores (N, C) of each class, and the known positives.

    Args:
        scores: All scores (N, C), or the highest of each sample.
        labels: Observed labels in {-1, 0, +1}, int8 of shape (N, C) or `ObservedLabels`.
    """
    if isinstance(labels, ObservedLabels):
        rows, columns = labels.entries(1)
    else:
        rows, columns = np.nonzero(labels == 1)
    if isinstance(scores, TopScores):
        return _Highest(scores, rows, columns)
    return _All(as_scores(scores), rows, columns)


class _All:
    """All scores."""

    def __init__(self, scores: Scores, rows: IntArray, columns: IntArray) -> None:
        self._scores = scores
        self.samples, self.classes = scores.shape
        self.known = KnownPositives(rows, columns, scores[rows, columns], np.ones(len(rows), np.bool_))
        self.filled = np.ones(self.classes, np.bool_)

    def ascending(self, column: int) -> Scores:
        return np.sort(self._scores[:, column])

    def count(self, column: int, threshold: float) -> int:
        return int((self._scores[:, column] >= threshold).sum())

    def chosen(self, columns: IntArray) -> tuple[Scores, IntArray]:
        positions = np.arange(self.samples)[:, None] * self.classes + columns
        return self._scores[:, columns].ravel(), positions.ravel()

    def columns(self, positions: IntArray) -> IntArray:
        return np.asarray(positions % self.classes, np.int64)


class _Highest:
    """The highest scores of each sample."""

    def __init__(self, scores: TopScores, rows: IntArray, columns: IntArray) -> None:
        self._scores = scores
        self.samples, self.classes = len(scores), scores.classes
        known = scores.at(rows, columns)
        # The score of a known positive that is not stored is at most the lowest of those that are.
        known = np.where(np.isnan(known), np.nextafter(scores.floors[rows], -np.float32(np.inf)), known)
        self.known = KnownPositives(rows, columns, known, known >= scores.floors[rows])
        kept = np.flatnonzero(scores.in_order)
        order = kept[np.lexsort((scores.scores[kept], scores.columns[kept]))]
        self._ascending = scores.scores[order]
        counts = np.bincount(scores.columns[kept], minlength=self.classes)
        self._starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
        self.filled = counts > 0

    def ascending(self, column: int) -> Scores:
        return self._ascending[self._starts[column] : self._starts[column + 1]]

    def count(self, column: int, threshold: float) -> int:
        return int((self.ascending(column) >= threshold).sum())

    def chosen(self, columns: IntArray) -> tuple[Scores, IntArray]:
        wanted = np.zeros(self.classes, np.bool_)
        wanted[columns] = True
        positions = np.flatnonzero(self._scores.in_order & wanted[self._scores.columns])
        return self._scores.scores[positions], positions

    def columns(self, positions: IntArray) -> IntArray:
        return self._scores.columns[positions]
