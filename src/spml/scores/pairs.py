"""Pairs of a sample and a class with their scores, all of them or the highest of each sample."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from .arrays import BoolArray, FloatArray, IntArray, ScoreArray

if TYPE_CHECKING:
    from ..labels import ObservedLabels

_PAIRS = 1 << 20  # of a block of samples

Value = TypeVar("Value", bound=np.generic)


class Pairs:
    """All pairs of N samples and C classes, sample by sample; `SomePairs` are M of them.

    A pair that was left out counts as lower than all others of its class. So ranks are exact where nothing
    was left out, and otherwise those of samples that were left out are too high: a class never looks better
    than it is.

    Args:
        matrix: Scores (N, C).

    Attributes:
        shape: Number of samples N and of classes C.
        scores: Score of each pair, (M,).
        left_out: Number of pairs of each sample that were left out, int64 (N,).
        filled: Whether each class has a pair, bool (C,).
    """

    def __init__(self, matrix: ScoreArray) -> None:
        self.shape = (matrix.shape[0], matrix.shape[1])
        self.scores: ScoreArray = matrix.ravel()
        self.left_out = np.zeros(self.shape[0], np.int64)
        self.filled = np.ones(self.shape[1], np.bool_)

    def ascending(self, column: int) -> ScoreArray:
        """Scores of a class in ascending order, at most N."""
        return np.sort(self._matrix(self.scores)[:, column])

    def of_classes(self, columns: IntArray) -> IntArray:
        """Positions of the pairs of some classes among all pairs, ascending."""
        return np.asarray(np.arange(self.shape[0])[:, None] * self.shape[1] + columns).ravel()

    def indices(self, positions: IntArray) -> tuple[IntArray, IntArray]:
        """Samples and classes of the pairs at some positions."""
        rows, columns = np.divmod(positions, self.shape[1])
        return rows, columns

    def labels(self, observed: ObservedLabels) -> npt.NDArray[np.int8]:
        """Observed label of each pair, int8 (M,)."""
        return observed.to_ternary().ravel()

    def by_sample(self, values: npt.NDArray[Value]) -> npt.NDArray[Value]:
        """Value of the sample of each pair (M,), from those of all samples (N,)."""
        return np.repeat(values, self.shape[1])

    def by_class(self, values: npt.NDArray[Value]) -> npt.NDArray[Value]:
        """Value of the class of each pair (M,), from those of all classes (C,)."""
        return np.tile(values, self.shape[0])

    def sum_of_samples(self, values: npt.NDArray[Any]) -> FloatArray:
        """Sum of the values (M,) of the pairs of each sample, float64 (N,)."""
        return np.asarray(self._matrix(values).sum(1), np.float64)

    def sum_of_classes(self, values: FloatArray) -> FloatArray:
        """Sum of the values (M,) of the pairs of each class, float64 (C,)."""
        return np.asarray(self._matrix(values).sum(0), np.float64)

    def highest_of_samples(self, chosen: BoolArray) -> ScoreArray:
        """Highest score of the chosen pairs of each sample, (N,); minus infinity where there is none."""
        scores = np.where(chosen, self.scores, self.scores.dtype.type(-np.inf))
        return np.asarray(self._matrix(scores).max(1))

    def parts(self) -> Iterator[tuple[int, Pairs]]:
        """Yield the first sample of a part and its pairs: about a million pairs at a time of all."""
        matrix, size = self._matrix(self.scores), max(1, _PAIRS // self.shape[1])
        for first in range(0, len(matrix), size):
            yield first, Pairs(matrix[first : first + size])

    def _matrix(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return values.reshape(self.shape)


class SomePairs(Pairs):
    """Some of the pairs of N samples and C classes.

    Args:
        rows: Sample of each, ascending, int64 (M,).
        columns: Class of each, ascending within a sample, int64 (M,).
        scores: Score of each, (M,).
        shape: Number of samples N and of classes C.
    """

    def __init__(self, rows: IntArray, columns: IntArray, scores: ScoreArray, shape: tuple[int, int]) -> None:
        self._rows, self._columns, self.scores, self.shape = rows, columns, scores, shape
        counts = np.bincount(columns, minlength=shape[1])
        self._starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
        self.filled = counts > 0
        self.left_out = np.asarray(shape[1] - np.bincount(rows, minlength=shape[0]), np.int64)

    @cached_property
    def _by_class(self) -> ScoreArray:
        """Scores class by class, ascending in each."""
        return self.scores[np.lexsort((self.scores, self._columns))]

    def ascending(self, column: int) -> ScoreArray:
        return self._by_class[self._starts[column] : self._starts[column + 1]]

    def of_classes(self, columns: IntArray) -> IntArray:
        wanted = np.zeros(self.shape[1], np.bool_)
        wanted[columns] = True
        return np.flatnonzero(wanted[self._columns])

    def indices(self, positions: IntArray) -> tuple[IntArray, IntArray]:
        return self._rows[positions], self._columns[positions]

    def labels(self, observed: ObservedLabels) -> npt.NDArray[np.int8]:
        return observed.at(self._rows, self._columns)

    def by_sample(self, values: npt.NDArray[Value]) -> npt.NDArray[Value]:
        return values[self._rows]

    def by_class(self, values: npt.NDArray[Value]) -> npt.NDArray[Value]:
        return values[self._columns]

    def sum_of_samples(self, values: npt.NDArray[Any]) -> FloatArray:
        return np.asarray(np.bincount(self._rows, values, minlength=self.shape[0]), np.float64)

    def sum_of_classes(self, values: FloatArray) -> FloatArray:
        return np.asarray(np.bincount(self._columns, values, minlength=self.shape[1]), np.float64)

    def highest_of_samples(self, chosen: BoolArray) -> ScoreArray:
        highest = np.full(self.shape[0], -np.inf, self.scores.dtype)
        np.maximum.at(highest, self._rows[chosen], self.scores[chosen])
        return highest

    def parts(self) -> Iterator[tuple[int, Pairs]]:
        yield 0, self
