"""Observed labels: what the user provides. +1 known positive, -1 known negative, 0 unknown. Immutable.

Stored compactly: one int64 per sample if every sample has exactly one known positive and nothing else is
known, sparse rows otherwise. A dense matrix is made only for the rows of a batch, or on request.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch

from .common.label_checks import (
    IntArray,
    LabelError,
    class_indices,
    frozen,
    label_matrix,
    merge_entries,
    only,
    positions,
    sparse_entries,
)  # fmt: skip

__all__ = ["Int8Array", "IntArray", "LabelError", "ObservedLabels", "Unlisted"]

Unlisted = Literal["unknown", "negative"]
Int8Array = npt.NDArray[np.int8]

_UNLISTED_VALUE: Mapping[str, int] = {"unknown": 0, "negative": -1}


class ObservedLabels:
    """Labels of N samples over C classes, each +1 (known positive), -1 (known negative) or 0 (unknown).

    Created by `from_index`, `from_multi_hot`, `from_ternary`, `from_nan`, `from_names` or `from_csr`. Row i
    is `columns[indptr[i]:indptr[i + 1]]` with `values`; entries that are not stored have the value `unlisted`
    (0 or -1). Single-positive labels store only `index`, int64 of shape (N,).

    Example:
        >>> labels = ObservedLabels.from_index([2, 0], num_classes=3)
        >>> labels.to_ternary().tolist()
        [[0, 0, 1], [1, 0, 0]]
    """

    _index: IntArray | None  # of single-positive labels
    _sparse: tuple[IntArray, IntArray, Int8Array]  # of others
    _num_classes: int
    _unlisted: int

    def __init__(
        self, indptr: IntArray, columns: IntArray, values: Int8Array, num_classes: int, unlisted: int = 0
    ) -> None:
        """Store sparse rows without validation, which is the task of the `from_*` constructors."""
        if num_classes < 1:
            raise LabelError(f"the number of classes must be at least 1, got {num_classes}")
        single = (
            unlisted == 0
            and len(columns) == len(indptr) - 1
            and bool((np.diff(indptr) == 1).all())
            and bool((values == 1).all())
        )
        index = frozen(columns) if single else None
        vars(self).update(_index=index, _num_classes=int(num_classes), _unlisted=int(unlisted))
        if not single:
            vars(self).update(_sparse=(frozen(indptr), frozen(columns), frozen(values)))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("observed labels are immutable")

    def __reduce__(self) -> tuple[Any, ...]:
        # So that the arrays of a copy can't be written to either.
        return (ObservedLabels, (*self._rows(), self._num_classes, self._unlisted))

    @classmethod
    def from_index(cls, index: npt.ArrayLike | torch.Tensor, num_classes: int) -> ObservedLabels:
        """Single-positive labels from class indices, integers of shape (N,) in [0, num_classes).

        Raises:
            LabelError: Not integers, not one-dimensional, or a value is out of range (the message gives the
                row).
        """
        return cls(*_of_index(class_indices(index, num_classes)), num_classes)

    @classmethod
    def from_multi_hot(
        cls, matrix: npt.ArrayLike | torch.Tensor, *, unlisted: Unlisted = "unknown"
    ) -> ObservedLabels:
        """Labels from a {0, 1} matrix of shape (N, C), in which 0 is unknown unless `unlisted="negative"`.

        Raises:
            LabelError: Not two-dimensional, or a value is neither 0 nor 1 (the message gives row and column).
        """
        array = label_matrix(matrix)
        only(array, (0, 1), "a multi-hot matrix")
        return cls._from_dense(array, array == 1, _UNLISTED_VALUE[unlisted])

    @classmethod
    def from_ternary(cls, matrix: npt.ArrayLike | torch.Tensor) -> ObservedLabels:
        """Labels from a {-1, 0, +1} matrix of shape (N, C): known negative, unknown, known positive.

        Raises:
            LabelError: Not two-dimensional, or another value (the message gives row and column).
        """
        array = label_matrix(matrix)
        only(array, (-1, 0, 1), "a {-1, 0, +1} matrix")
        return cls._from_known(array)

    @classmethod
    def from_nan(cls, matrix: npt.ArrayLike | torch.Tensor) -> ObservedLabels:
        """Labels from a {0, 1, NaN} matrix of shape (N, C): known negative, known positive, unknown, the form
        in which scikit-learn users write missing labels.

        Raises:
            LabelError: Not two-dimensional, or another value (the message gives row and column).
        """
        array = label_matrix(matrix).astype(np.float64)
        only(np.where(np.isnan(array), 0, array), (0, 1), "a {0, 1, NaN} matrix")
        return cls._from_known(np.nan_to_num(2 * array - 1))

    @classmethod
    def from_names(
        cls, rows: Iterable[Sequence[str]], classes: Sequence[str], *, unlisted: Unlisted = "unknown"
    ) -> ObservedLabels:
        """Labels from one list per sample of the names of its known positives. A repeated name counts once.

        Raises:
            LabelError: A name is not in `classes`, or a string stands in place of a list (the message gives
                the row).
        """
        position = {name: column for column, name in enumerate(classes)}
        if len(position) != len(classes):
            raise LabelError("class names must be distinct")
        indptr, columns = [0], []
        for row, names in enumerate(rows):
            if isinstance(names, str):
                raise LabelError(f"row {row}: expected a list of class names, got the string {names!r}")
            unknown = [name for name in names if name not in position]
            if unknown:
                raise LabelError(f"row {row}: {unknown[0]!r} is not one of the {len(classes)} classes")
            columns.extend(sorted({position[name] for name in names}))
            indptr.append(len(columns))
        values = np.ones(len(columns), np.int8)
        return cls(
            np.array(indptr), np.array(columns, np.int64), values, len(position), _UNLISTED_VALUE[unlisted]
        )

    @classmethod
    def from_csr(cls, matrix: Any, *, unlisted: Unlisted = "unknown") -> ObservedLabels:
        """Labels from a SciPy sparse matrix of shape (N, C) that stores +1 and -1; stored zeros are unknown.

        Raises:
            LabelError: Not a sparse matrix, or another stored value (the message gives row and column).
        """
        default = _UNLISTED_VALUE[unlisted]
        return cls(*sparse_entries(matrix, default), matrix.shape[1], default)

    @classmethod
    def join(cls, parts: Sequence[ObservedLabels]) -> ObservedLabels:
        """Labels of the samples of several parts, one after the other.

        Raises:
            LabelError: There are none, or they have different numbers of classes.
        """
        sizes = {part.num_classes for part in parts}
        if len(sizes) != 1:
            raise LabelError(f"parts must have one number of classes, got {sorted(sizes)}")
        if len({part._unlisted for part in parts}) != 1:
            return cls.from_ternary(np.concatenate([part.to_ternary() for part in parts]))
        rows = [part._rows() for part in parts]
        lengths = np.concatenate([np.diff(indptr) for indptr, _, _ in rows])
        indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
        columns, values = (np.concatenate([each[field] for each in rows]) for field in (1, 2))
        return cls(indptr, columns, values, parts[0]._num_classes, parts[0]._unlisted)

    @classmethod
    def _from_known(cls, ternary: npt.NDArray[Any]) -> ObservedLabels:
        """Labels from a valid {-1, 0, +1} matrix; without unknowns only the positives are stored."""
        full = ternary.size > 0 and bool((ternary != 0).all())
        return cls._from_dense(ternary, ternary == 1 if full else ternary != 0, -int(full))

    @classmethod
    def _from_dense(
        cls, array: npt.NDArray[Any], stored: npt.NDArray[np.bool_], unlisted: int
    ) -> ObservedLabels:
        rows, columns = np.nonzero(stored)
        indptr = np.searchsorted(rows, np.arange(len(array) + 1)).astype(np.int64)
        values = array[rows, columns].astype(np.int8)
        return cls(indptr, columns.astype(np.int64), values, array.shape[1], unlisted)

    def __len__(self) -> int:
        return len(self._rows()[0]) - 1 if self._index is None else len(self._index)

    @property
    def num_classes(self) -> int:
        """The number of classes C."""
        return self._num_classes

    @property
    def index(self) -> IntArray | None:
        """Class indices, int64 of shape (N,), if the labels are single-positive; None otherwise."""
        return self._index

    @property
    def single_positive(self) -> bool:
        """Whether every sample has exactly one known positive and nothing else is known."""
        return self._index is not None

    @property
    def full(self) -> bool:
        """Whether no entry is unknown."""
        if self._unlisted == -1:
            return bool(self._rows()[2].all())
        return len(self._rows()[1]) == len(self) * self._num_classes

    @property
    def extent(self) -> str:
        """Kind of supervision: `single-positive`, `full` or `partial`."""
        return "single-positive" if self.single_positive else "full" if self.full else "partial"

    def positives_per_class(self) -> IntArray:
        """Number of known positives of each class, int64 of shape (C,)."""
        return self._count(1, axis=1)

    def negatives_per_class(self) -> IntArray:
        """Number of known negatives of each class, int64 of shape (C,)."""
        return self._count(-1, axis=1)

    def positives_per_sample(self) -> IntArray:
        """Number of known positives of each sample, int64 of shape (N,)."""
        return self._count(1, axis=0)

    def negatives_per_sample(self) -> IntArray:
        """Number of known negatives of each sample, int64 of shape (N,)."""
        return self._count(-1, axis=0)

    def entries(self, value: int) -> tuple[IntArray, IntArray]:
        """Rows and columns of the known positives (1) or negatives (-1), row by row, int64 of shape (M,)."""
        if value == self._unlisted:
            rows, columns = np.nonzero(self.to_ternary() == value)
            return rows.astype(np.int64), columns.astype(np.int64)
        indptr, columns, values = self._rows()
        chosen = values == value
        return np.repeat(np.arange(len(self)), np.diff(indptr))[chosen], columns[chosen]

    def at(self, rows: IntArray, columns: IntArray) -> Int8Array:
        """Values of the entries in `rows` and `columns`, both int64 (M,), int8 of shape (M,)."""
        indptr, stored, values = self._rows()
        found = np.full(len(rows), self._unlisted, np.int8)
        if len(stored):
            # Ascending, as the classes of a row are.
            keys = np.repeat(np.arange(len(self)), np.diff(indptr)) * self._num_classes + stored
            wanted = rows * self._num_classes + columns
            entries = np.searchsorted(keys, wanted).clip(max=len(keys) - 1)
            hit = keys[entries] == wanted
            found[hit] = values[entries[hit]]
        return found

    def known_per_sample(self) -> IntArray:
        """Number of known labels of each sample, positive or negative, int64 of shape (N,)."""
        return self.positives_per_sample() + self.negatives_per_sample()

    def positive_rows(self, column: int) -> IntArray:
        """Samples of which class `column` is a known positive, ascending, int64."""
        if self._index is not None:
            return np.flatnonzero(self._index == column).astype(np.int64)
        indptr, columns, values = self._rows()
        entries = np.flatnonzero((columns == column) & (values == 1))
        return np.searchsorted(indptr, entries, side="right").astype(np.int64) - 1

    def take(self, rows: npt.ArrayLike | torch.Tensor) -> ObservedLabels:
        """Labels of the samples `rows`, in that order; negative numbers count from the end.

        Raises:
            LabelError: `rows` are not integers of shape (B,).
            IndexError: A number lies outside the rows.
        """
        chosen = positions(rows)
        indptr, columns, values = self._rows()
        starts = indptr[:-1][chosen]
        lengths = indptr[1:][chosen] - starts
        ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
        entries = np.arange(ends[-1]) + np.repeat(starts - ends[:-1], lengths)
        return ObservedLabels(ends, columns[entries], values[entries], self._num_classes, self._unlisted)

    def with_classes(self, columns: npt.ArrayLike, num_classes: int) -> ObservedLabels:
        """The same labels over other classes: column c moves to `columns[c]`; new columns are unlisted.

        Raises:
            LabelError: `columns` are not C different integers in [0, num_classes).
        """
        new = positions(columns)
        if not len(new) == self._num_classes == len(np.intersect1d(new, np.arange(num_classes))):
            raise LabelError(f"need {self._num_classes} different columns in 0 ... {num_classes - 1}: {new}")
        return self.merge_classes(new, num_classes)

    def take_classes(self, columns: npt.ArrayLike) -> ObservedLabels:
        """Labels of the classes `columns` only, in that order.

        Raises:
            LabelError: `columns` are not different integers in [0, C), at least one of them.
        """
        chosen = positions(columns)
        if len(np.intersect1d(chosen, range(self._num_classes))) != len(chosen):
            raise LabelError(f"expected different columns below {self._num_classes}, got {chosen.tolist()}")
        new = np.full(self._num_classes, -1)
        new[chosen] = np.arange(len(chosen))
        return self.merge_classes(new, len(chosen))

    def merge_classes(self, columns: npt.ArrayLike, num_classes: int) -> ObservedLabels:
        """Labels over other classes: column c moves to `columns[c]`, or is left out where that is -1.

        Columns with the same place are merged: a sample has the class if it has one of them, and lacks it if
        it is known to lack one of them and has none; otherwise the class is unknown.
        """
        entries = merge_entries(*self._rows(), np.asarray(columns, np.int64), num_classes, self._unlisted)
        return ObservedLabels(*entries, num_classes, self._unlisted)

    def target(self, rows: npt.ArrayLike | torch.Tensor) -> torch.Tensor:
        """Target of a batch, the argument of the losses; `rows` as in `take`.

        Returns:
            Class indices, int64 of shape (B,), if the labels are single-positive, otherwise int8 of shape
            (B, C) in {-1, 0, +1}.
        """
        if self._index is not None:
            return torch.from_numpy(self._index[positions(rows)])
        return torch.from_numpy(self.take(rows).to_ternary())

    def fingerprint(self) -> str:
        """SHA-256 of all labels; equal labels have equal fingerprints."""
        full = self.full
        digest = hashlib.sha256(f"{len(self)} {self._num_classes} {full}".encode())
        for value in (1,) if full else (1, -1):  # full labels follow from the positives
            rows, columns = self.entries(value)
            digest.update(f" {value:+d} {len(rows)} ".encode() + rows.tobytes() + columns.tobytes())
        return digest.hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ObservedLabels) and self.fingerprint() == other.fingerprint()

    def __hash__(self) -> int:
        return hash(self.fingerprint())

    def __repr__(self) -> str:
        return f"ObservedLabels({len(self)} samples, {self._num_classes} classes, {self.extent})"

    def to_ternary(self) -> Int8Array:
        """Dense {-1, 0, +1} matrix, int8 of shape (N, C)."""
        indptr, columns, values = self._rows()
        matrix = np.full((len(self), self._num_classes), self._unlisted, np.int8)
        matrix[np.repeat(np.arange(len(self)), np.diff(indptr)), columns] = values
        return matrix

    def to_multi_hot(self) -> Int8Array:
        """Dense {0, 1} matrix of the known positives, int8 of shape (N, C)."""
        return np.asarray(self.to_ternary() == 1, np.int8)

    def to_nan(self) -> npt.NDArray[np.float32]:
        """Dense {0, 1, NaN} matrix, float32 of shape (N, C); NaN = unknown."""
        ternary = self.to_ternary()
        return np.asarray(np.where(ternary == 0, np.nan, ternary == 1), np.float32)

    def to_names(self, classes: Sequence[str]) -> list[list[str]]:
        """Names of the known positives of each sample."""
        names: list[list[str]] = [[] for _ in range(len(self))]
        for row, column in zip(*(part.tolist() for part in self.entries(1)), strict=True):
            names[row].append(classes[column])
        return names

    def to_csr(self) -> Any:
        """SciPy CSR matrix of shape (N, C), int8, which stores +1 and -1 but not unknown entries."""
        from scipy.sparse import csr_matrix

        if self._unlisted == -1:
            return csr_matrix(self.to_ternary())
        indptr, columns, values = self._rows()
        return csr_matrix((values, columns, indptr), shape=(len(self), self._num_classes), copy=True)

    def _count(self, value: int, axis: int) -> IntArray:
        """Number of entries that have a value, of each sample (axis 0) or class (1), int64."""
        shape = (len(self), self._num_classes)
        if value != self._unlisted:
            return np.bincount(self.entries(value)[axis], minlength=shape[axis]).astype(np.int64)
        indptr, columns, _ = self._rows()  # none of the stored entries has it
        stored = np.bincount(columns, minlength=shape[1]) if axis else np.diff(indptr)
        return (shape[1 - axis] - stored).astype(np.int64)

    def _rows(self) -> tuple[IntArray, IntArray, Int8Array]:
        return self._sparse if self._index is None else _of_index(self._index)


def _of_index(index: IntArray) -> tuple[IntArray, IntArray, Int8Array]:
    """Sparse rows of single-positive labels."""
    return np.arange(len(index) + 1, dtype=np.int64), index, np.ones(len(index), np.int8)
