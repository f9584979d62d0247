"""Scores of samples in one of three forms: in memory, computed block by block, or the highest only."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import torch

from ..common.label_checks import as_array

if TYPE_CHECKING:
    from ..labels import ObservedLabels


# -- arrays of scores, validated once --------------------------------------------------------------------


ScoreArray = npt.NDArray[np.floating[Any]]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
FloatArray = npt.NDArray[np.float64]


def score_array(scores: npt.ArrayLike | torch.Tensor) -> ScoreArray:
    """Validate scores and convert them to float32 or float64 of shape (N, C).

    Raises:
        ValueError: The shape is not (N, C), the array is empty, its values are not real numbers, or one of
            them is NaN (the message gives row and column).
    """
    array = as_array(scores)
    if array.ndim != 2 or array.size == 0:
        raise ValueError(f"scores must have shape (N, C) with N, C >= 1, got {array.shape}")
    if array.dtype.kind not in "biuf":
        raise ValueError(f"scores must be real numbers, got {array.dtype}")
    if array.dtype == np.float16:
        array = array.astype(np.float32)
    elif array.dtype not in (np.float32, np.float64):
        array = array.astype(np.float64)
    if np.isnan(array.min()):  # the minimum is NaN if any score is: no (N, C) mask in the usual case
        row, column = np.argwhere(np.isnan(array))[0].tolist()
        raise ValueError(f"scores: row {row}, column {column} is NaN; every score must be a number")
    return array


def highest(scores: ScoreArray, k: int) -> IntArray:
    """Columns of the k highest scores of each row, the highest first; of equal ones the first column.

    Args:
        scores: Scores of shape (N, C) without NaN.
        k: Number of columns; all of them where there are fewer.

    Returns:
        int64 (N, k).
    """
    k = min(k, scores.shape[1])
    if not k:
        return np.empty((len(scores), 0), np.int64)
    # PyTorch takes half the time of NumPy's partition, but any of equal scores, in any order.
    tensor = torch.from_numpy(np.require(scores, requirements=["C", "W"]))
    values, columns = (found.numpy() for found in torch.topk(tensor, k, dim=1))
    lowest = values[:, -1:]
    ties = np.count_nonzero(values == lowest, axis=1)
    for row in np.flatnonzero(np.count_nonzero(scores == lowest, axis=1) > ties):
        columns[row, k - ties[row] :] = np.flatnonzero(scores[row] == lowest[row])[: ties[row]]
    tied = np.flatnonzero((values[:, 1:] == values[:, :-1]).any(axis=1))
    order = np.lexsort((columns[tied], -values[tied]), axis=1)
    columns[tied] = np.take_along_axis(columns[tied], order, axis=1)
    return columns


# -- forms -----------------------------------------------------------------------------------------------


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


MOST_SCORES = 1 << 28
"""Largest number of scores (samples x classes) of which all are kept: 1 GiB of float32."""

HIGHEST = 1000
"""Number of scores of a sample that are kept where not all are."""

MOST_ENTRIES = 1 << 26
"""Most scores that are kept of all samples together where only the highest of each are."""

_BLOCK = 1 << 26  # scores that are looked at together

Block = npt.NDArray[np.float32]


def fits(samples: int, classes: int) -> bool:
    """Whether the scores of so many samples and classes are kept in an array."""
    return samples * classes <= MOST_SCORES


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
    scores: ScoreArray
    in_order: BoolArray


class Scores(ABC):
    """Scores of N samples over C classes.

    Of `TopScores`, a score that was left out is taken to be as high as it can be.

    Attributes:
        shape: Number of samples and of classes.
        complete: Whether no score was left out.
        array: All scores (N, C) if they are in memory, else None.
    """

    shape: tuple[int, int]
    complete: bool = True
    array: ScoreArray | None = None

    def __len__(self) -> int:
        return self.shape[0]

    @abstractmethod
    def blocks(self, columns: IntArray | None = None) -> Iterator[tuple[IntArray, ScoreArray]]:
        """Yield the numbers of consecutive samples, int64 (B,), with their scores of some classes.

        Args:
            columns: Classes, int64 (M,); None = all of them.
        """

    @abstractmethod
    def take(self, rows: IntArray) -> Scores:
        """Scores of some samples, in that order; ascending ones where scores are computed in blocks."""

    def select(self, columns: IntArray) -> Scores:
        """Scores of some classes, in that order."""
        return ScoreBlocks(
            len(self),
            len(columns),
            lambda some: (block for _, block in self.blocks(columns if some is None else columns[some])),
        )

    def gather(self, columns: IntArray | None = None) -> ScoreArray:
        """Scores of some classes (N, M), in memory."""
        scores = np.empty((len(self), self.shape[1] if columns is None else len(columns)), np.float32)
        for rows, block in self.blocks(columns):
            scores[rows[0] : rows[-1] + 1] = block
        return scores

    def at(self, rows: IntArray, columns: IntArray) -> ScoreArray:
        """Scores of some pairs of a sample and a class, (P,); NaN for those that were left out."""
        classes, places = np.unique(columns, return_inverse=True)
        order = np.argsort(rows, kind="stable")
        found = np.empty(len(rows), np.float32)
        for numbers, block in self.blocks(classes):
            first, last = np.searchsorted(rows[order], [numbers[0], numbers[-1] + 1])
            own = order[first:last]
            found[own] = block[rows[own] - numbers[0], places[own]]
        return found

    def known(self, rows: IntArray, columns: IntArray) -> KnownPositives:
        """Known positives, given by their samples and classes, with their scores."""
        return KnownPositives(rows, columns, self.at(rows, columns), np.ones(len(rows), np.bool_))

    @property
    def pairs(self) -> Pairs:
        """Pairs of a sample and a class whose scores are known, except lower ones of known positives."""
        return Pairs(self.gather())

    def highest(self, k: int, positives: tuple[IntArray, IntArray]) -> TopScores:
        """Keep the k highest scores of each sample, of equal ones the first, and those of known positives.

        Args:
            k: Number of scores to keep of a sample.
            positives: Rows and columns of the known positives, row by row.
        """
        classes = self.shape[1]
        size = max(1, _BLOCK // classes)
        parts = []
        for rows, whole in self.blocks():
            for start in range(0, len(rows), size):
                block, first = whole[start : start + size], rows[0] + start
                columns = highest(block, k)
                floors = np.full(len(block), -np.inf, np.float32)
                if k < classes:
                    floors[:] = block[np.arange(len(block)), columns[:, -1]]
                own = slice(*np.searchsorted(positives[0], [first, first + len(block)]))
                known = (positives[0][own] - first) * classes + positives[1][own]
                kept = np.union1d((np.arange(len(block))[:, None] * classes + columns).ravel(), known)
                own_rows, own_columns = np.divmod(kept, classes)
                starts = np.searchsorted(own_rows, np.arange(len(block) + 1))
                values = block[own_rows, own_columns].astype(np.float32)
                parts.append(TopScores(starts, own_columns, values, floors, classes))
        return TopScores.join(parts)


def as_scores(scores: npt.ArrayLike | torch.Tensor | Scores) -> Scores:
    """Scores of any form as they are; an array is validated as `score_array` does."""
    return scores if isinstance(scores, Scores) else InMemory(score_array(scores))


class InMemory(Scores):
    """All scores, as an array.

    Args:
        array: Scores (N, C) without NaN.
    """

    array: ScoreArray

    def __init__(self, array: ScoreArray) -> None:
        self.array = array
        self.shape = (array.shape[0], array.shape[1])

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> ScoreArray:
        return np.array(self.array, dtype) if copy else np.asarray(self.array, dtype)

    def blocks(self, columns: IntArray | None = None) -> Iterator[tuple[IntArray, ScoreArray]]:
        yield np.arange(len(self)), self.gather(columns)

    def take(self, rows: IntArray) -> InMemory:
        return InMemory(self.array[rows])

    def select(self, columns: IntArray) -> InMemory:
        return InMemory(self.array[:, columns])

    def gather(self, columns: IntArray | None = None) -> ScoreArray:
        return self.array if columns is None else self.array[:, columns]

    def at(self, rows: IntArray, columns: IntArray) -> ScoreArray:
        return self.array[rows, columns]


class ScoreBlocks(Scores):
    """Scores of which only a block of samples is in memory, computed again whenever they are looked at.

    Args:
        samples: Number of samples N.
        classes: Number of classes C.
        compute: Yields the scores of consecutive samples, from the first to the last, float32 (B, C), or
            (B, M) of the columns, int64 (M,), that it is called with. None = all columns.
    """

    def __init__(
        self, samples: int, classes: int, compute: Callable[[IntArray | None], Iterator[ScoreArray]]
    ) -> None:
        self.shape = (samples, classes)
        self._compute = compute

    def blocks(self, columns: IntArray | None = None) -> Iterator[tuple[IntArray, ScoreArray]]:
        first = 0
        for block in self._compute(columns):
            yield np.arange(first, first + len(block)), block
            first += len(block)

    def take(self, rows: IntArray) -> ScoreBlocks:
        def compute(columns: IntArray | None) -> Iterator[ScoreArray]:
            for numbers, block in self.blocks(columns):
                first, last = np.searchsorted(rows, [numbers[0], numbers[-1] + 1])
                if first < last:
                    yield block[rows[first:last] - numbers[0]]

        return ScoreBlocks(len(rows), self.shape[1], compute)


@dataclass(frozen=True, eq=False)
class TopScores(Scores):
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
    scores: Block
    floors: Block
    classes: int

    @property
    def shape(self) -> tuple[int, int]:  # type: ignore[override]
        return len(self.starts) - 1, self.classes

    @property
    def complete(self) -> bool:  # type: ignore[override]
        return not np.isfinite(self.floors).any()

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
    def pairs(self) -> Pairs:
        kept = np.flatnonzero(self.in_order)
        return SomePairs(self.rows[kept], self.columns[kept], self.scores[kept], self.shape)

    def blocks(self, columns: IntArray | None = None) -> Iterator[tuple[IntArray, ScoreArray]]:
        wanted = np.arange(self.classes) if columns is None else columns
        place = np.full(self.classes, -1)
        place[wanted] = np.arange(len(wanted))
        size = max(1, _BLOCK // max(1, len(wanted)))
        for first in range(0, len(self), size):
            rows = np.arange(first, min(first + size, len(self)))
            part = self.take(rows)
            block = np.repeat(part.floors[:, None], len(wanted), 1)
            places = place[part.columns]
            block[part.rows[places >= 0], places[places >= 0]] = part.scores[places >= 0]
            yield rows, block

    def at(self, rows: IntArray, columns: IntArray) -> ScoreArray:
        found = np.full(len(rows), np.nan, np.float32)
        if len(self.columns):
            wanted = rows * self.classes + columns
            keys = self.rows * self.classes + self.columns
            entries = np.searchsorted(keys, wanted).clip(max=len(keys) - 1)
            hit = keys[entries] == wanted
            found[hit] = self.scores[entries[hit]]
        return found

    def known(self, rows: IntArray, columns: IntArray) -> KnownPositives:
        scores, floors = self.at(rows, columns), self.floors[rows]
        # The score of a known positive that is not stored is at most the lowest of those that are.
        scores = np.where(np.isnan(scores), np.nextafter(floors, -np.float32(np.inf)), scores)
        return KnownPositives(rows, columns, scores, scores >= floors)

    def take(self, rows: IntArray) -> TopScores:
        lengths = np.diff(self.starts)[rows]
        starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
        entries = np.arange(starts[-1]) + np.repeat(self.starts[:-1][rows] - starts[:-1], lengths)
        return TopScores(starts, self.columns[entries], self.scores[entries], self.floors[rows], self.classes)

    def highest(self, k: int, positives: tuple[IntArray, IntArray]) -> TopScores:
        """These scores: what was left out of them can't be kept."""
        return self

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


class ScoreTable:
    """Scores of N samples, filled in for some of them at a time.

    Args:
        labels: Observed labels of the samples, whose known positives keep their scores.
        highest: Whether only the highest scores of each sample are kept; None = where not all fit.
    """

    def __init__(self, labels: ObservedLabels, *, highest: bool | None = None) -> None:
        shape = len(labels), labels.num_classes
        self.highest = not fits(*shape) if highest is None else highest
        self._labels, self._k = labels, max(1, min(HIGHEST, MOST_ENTRIES // max(1, shape[0])))
        self._all = np.empty((0, 0) if self.highest else shape, np.float32)
        self._parts: list[TopScores] = []
        self._rows: list[IntArray] = []

    def put(self, rows: IntArray, scores: Scores) -> None:
        """Fill in the scores of some samples.

        Args:
            rows: Their numbers, int64 (B,).
            scores: Their scores, in the order of `rows`; all of them where all are kept.
        """
        if self.highest:
            self._parts.append(scores.highest(self._k, self._labels.take(rows).entries(1)))
            self._rows.append(rows)
            return
        for positions, block in scores.blocks():
            self._all[rows[positions]] = block

    def finish(self) -> Scores:
        """Scores of all samples, which have all been filled in."""
        if not self.highest:
            return InMemory(self._all)
        return TopScores.join(self._parts).take(np.argsort(np.concatenate(self._rows)))


# -- scores as tensors of a file -------------------------------------------------------------------------


_HIGHEST = "starts", "columns", "scores", "floors"


def score_tensors(scores: Scores) -> dict[str, npt.NDArray[Any]]:
    """Tensors by name; of `TopScores`, the classes of entries are stored in 32 bits."""
    if isinstance(scores, TopScores):
        columns = scores.columns.astype(np.int32)
        return dict(zip(_HIGHEST, (scores.starts, columns, scores.scores, scores.floors), strict=True))
    return {"scores": scores.gather()}


def read_scores(stored: Any, shape: tuple[int, int]) -> Scores:
    """Read scores that were stored as `score_tensors`.

    Args:
        stored: Open safetensors file.
        shape: Number of samples N and of classes C.

    Raises:
        ValueError: A tensor has another type or size, or holds an impossible value.
        SafetensorError: The file lacks a tensor.
    """
    if "starts" not in set(stored.keys()):
        array = read_tensor(stored, "scores", "F32", shape)
        if not np.isfinite(array).all():
            raise ValueError("some of its scores are not finite")
        return InMemory(array)
    starts, columns = read_rows(stored, "starts", "columns", shape)
    scores = read_tensor(stored, "scores", "F32", (len(columns),))
    floors = read_tensor(stored, "floors", "F32", (shape[0],))
    if not len(scores) or not np.isfinite(scores).all():
        raise ValueError("it holds no scores, or some that are not finite")
    if np.isnan(floors).any() or (floors == np.inf).any():
        raise ValueError("a floor is not a number")
    if ((floors == -np.inf) & (np.diff(starts) < shape[1])).any():
        raise ValueError("scores are missing of a sample that states none are")
    return TopScores(starts, columns, scores, floors, shape[1])


def read_rows(
    stored: Any, of_starts: str, of_columns: str, shape: tuple[int, int]
) -> tuple[IntArray, IntArray]:
    """Read the starts of N rows and the classes of their entries, which must ascend within a row.

    Raises:
        ValueError, SafetensorError: As in `read_scores`.
    """
    samples, classes = shape
    starts = read_tensor(stored, of_starts, "I64", (samples + 1,))
    columns = read_tensor(stored, of_columns, "I32", (None,)).astype(np.int64)
    within = (starts >= 0).all() and (starts <= len(columns)).all()  # so that no difference overflows
    if not within or starts[0] != 0 or starts[-1] != len(columns) or (np.diff(starts) < 0).any():
        raise ValueError(f"{of_starts} does not divide its {len(columns)} entries")
    if len(columns) and not 0 <= columns.min() <= columns.max() < classes:
        raise ValueError(f"{of_columns} has a class outside 0 ... {classes - 1}")
    first = np.zeros(len(columns) + 1, np.bool_)
    first[starts] = True
    if (np.diff(columns) <= 0)[~first[1:-1]].any():
        raise ValueError(f"{of_columns} does not ascend within a sample")
    return starts, columns


def read_tensor(stored: Any, name: str, kind: str, shape: tuple[int | None, ...]) -> npt.NDArray[Any]:
    """Read a tensor after its type and shape have been checked, as `check_tensor` does."""
    check_tensor(stored, name, kind, shape)
    array: npt.NDArray[Any] = stored.get_tensor(name).numpy().copy()
    return array


def check_tensor(stored: Any, name: str, kind: str, shape: tuple[int | None, ...]) -> None:
    """Check type and shape of a tensor, without reading it.

    Args:
        stored: Open safetensors file.
        name: Name of the tensor.
        kind: Its type, as safetensors names it.
        shape: Its shape, in which None stands for any length.
    """
    part = stored.get_slice(name)
    found = tuple(part.get_shape())
    alike = len(found) == len(shape) and all(b in (None, a) for a, b in zip(found, shape, strict=True))
    if part.get_dtype() != kind or not alike:
        wanted = ", ".join("any length" if size is None else str(size) for size in shape)
        raise ValueError(f"{name} is {part.get_dtype()} {found}, not {kind} ({wanted})")
