"""Checks of arrays that hold labels, and sparse labels over other classes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

IntArray = npt.NDArray[np.int64]


class LabelError(ValueError):
    """Invalid labels; the message gives the row."""


def frozen(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Copy of an array that can't be written to."""
    copy = np.array(array)
    copy.setflags(write=False)
    return copy


def as_array(values: npt.ArrayLike | torch.Tensor) -> npt.NDArray[Any]:
    """Convert to a NumPy array; bfloat16, which NumPy lacks, becomes float32 (exact)."""
    if isinstance(values, torch.Tensor):
        values = values.detach().cpu()
        return (values.float() if values.dtype == torch.bfloat16 else values).numpy()
    return np.asarray(values)


def positions(
    values: npt.ArrayLike | torch.Tensor, what: str = "rows and columns are chosen by integers of shape (B,)"
) -> IntArray:
    """Numbers of rows or columns, int64 of shape (B,); for others, `what` starts the message."""
    array = as_array(values)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        # A mask or floats would silently select other rows.
        raise LabelError(f"{what}, got {array.dtype} {array.shape}")
    return array.astype(np.int64)


def class_indices(values: npt.ArrayLike | torch.Tensor, classes: int, what: str = "class index") -> IntArray:
    """Numbers of classes, int64 of shape (N,), each below `classes`.

    Raises:
        LabelError: Not integers of this shape, or a number is out of range; `what` names it, with its row.
    """
    columns = positions(values, "class indices must be integers of shape (N,)")
    wrong = np.flatnonzero((columns < 0) | (columns >= classes))
    if wrong.size:
        more = f" ({wrong.size} such rows)" if wrong.size > 1 else ""
        number = columns[wrong[0]]
        raise LabelError(f"row {wrong[0]}: {what} {number} is outside 0 ... {classes - 1}{more}")
    return columns


def rows_of(names: Iterable[str], wanted: Iterable[str]) -> IntArray:
    """Position in `names` of each wanted name, int64; -1 for one that is not there."""
    position = {name: row for row, name in enumerate(names)}
    return np.array([position.get(name, -1) for name in wanted], np.int64)


def label_matrix(values: npt.ArrayLike | torch.Tensor) -> npt.NDArray[Any]:
    """Array of shape (N, C) that holds numbers; anything else is refused."""
    array = as_array(values)
    if array.ndim != 2:
        raise LabelError(f"a label matrix must have shape (N, C), got {array.shape}")
    if array.dtype.kind not in "biuf":
        raise LabelError(f"a label matrix must hold numbers, got {array.dtype}")
    return array


def only(array: npt.NDArray[Any], allowed: tuple[int, ...], what: str) -> None:
    """Check that a matrix, which `what` names, holds only `allowed`, ascending integers without gaps."""
    between = (array >= allowed[0]) & (array <= allowed[-1])  # enough for integers, and much faster
    wrong = np.argwhere(~(np.isin(array, allowed) if array.dtype.kind == "f" else between))
    if len(wrong):
        row, column = wrong[0].tolist()
        raise LabelError(
            f"row {row}, column {column}: {what} may hold only {', '.join(map(str, allowed))}, "
            f"got {array[row, column]}"
        )


def sparse_entries(matrix: Any, default: int) -> tuple[IntArray, IntArray, npt.NDArray[np.int8]]:
    """Rows of a SciPy sparse matrix of -1, 0 and +1, as in `ObservedLabels`, without the value `default`.

    Raises:
        LabelError: Not a sparse matrix, or another stored value; the message gives row and column.
    """
    if not hasattr(matrix, "tocsr"):
        raise LabelError(f"expected a SciPy sparse matrix, got {type(matrix).__name__}")
    csr = matrix.tocsr().copy()
    csr.sum_duplicates()  # which also sorts each row
    wrong = np.flatnonzero(~np.isin(csr.data, (-1, 0, 1)))
    if wrong.size:
        entry = int(wrong[0])
        row = int(np.searchsorted(csr.indptr, entry, side="right")) - 1
        raise LabelError(
            f"row {row}, column {csr.indices[entry]}: a sparse label must be +1 or -1, got {csr.data[entry]}"
        )
    csr.data = np.asarray(csr.data, np.int8) - default
    csr.eliminate_zeros()
    return csr.indptr.astype(np.int64), csr.indices.astype(np.int64), csr.data + default


def merge_entries(
    indptr: IntArray,
    columns: IntArray,
    values: npt.NDArray[np.int8],
    new: IntArray,
    num_classes: int,
    unlisted: int,
) -> tuple[IntArray, IntArray, npt.NDArray[np.int8]]:
    """Move, merge and leave out the columns of sparse labels, as `ObservedLabels.merge_classes` does.

    The entries that are stored before and after it have the form of `ObservedLabels`. `new` is the new column
    of each class, int64 (C,), -1 = left out; `unlisted` is the value of entries that are not stored.

    Example:
        >>> labels = np.array([0, 2, 3]), np.array([0, 1, 1]), np.array([1, -1, -1], np.int8)
        >>> [part.tolist() for part in merge_entries(*labels, np.array([0, 0, -1]), 1, 0)]
        [[0, 1, 2], [0, 0], [1, -1]]
    """
    rows, target = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr)), new[columns]
    keys, values = (part[target >= 0] for part in (rows * num_classes + target, values))
    keys, entry = np.unique(keys, return_inverse=True)
    present, absent, unknown = (np.bincount(entry, values == sign, len(keys)) for sign in (1, -1, 0))
    # Where what is not stored is absent, a class is unknown if all of its columns are.
    together = np.bincount(new[new >= 0], minlength=num_classes)[keys % num_classes]
    known = unlisted + (unknown == together) if unlisted else -(absent > 0).astype(np.int8)
    merged = np.where(present > 0, 1, known).astype(np.int8)
    stored = merged != unlisted
    ends = np.searchsorted(keys[stored], np.arange(len(indptr)) * num_classes)
    return ends, keys[stored] % num_classes, merged[stored]
