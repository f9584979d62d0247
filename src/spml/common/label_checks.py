"""Checks of arrays that hold labels."""

from __future__ import annotations

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
    """NumPy array of numbers, or of a torch tensor."""
    return values.detach().cpu().numpy() if isinstance(values, torch.Tensor) else np.asarray(values)


def positions(values: npt.ArrayLike | torch.Tensor) -> IntArray:
    """Numbers of rows or columns, int64 of shape (B,).

    Raises:
        LabelError: They are not integers of this shape.
    """
    array = as_array(values)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        # A mask or floats would silently select other rows.
        raise LabelError(
            f"rows and columns are chosen by integers of shape (B,), got {array.dtype} {array.shape}"
        )
    return array.astype(np.int64)


def label_matrix(values: npt.ArrayLike | torch.Tensor) -> npt.NDArray[Any]:
    """Array of shape (N, C) that holds numbers.

    Raises:
        LabelError: Another shape or type.
    """
    array = as_array(values)
    if array.ndim != 2:
        raise LabelError(f"a label matrix must have shape (N, C), got {array.shape}")
    if array.dtype.kind not in "biuf":
        raise LabelError(f"a label matrix must hold numbers, got {array.dtype}")
    return array


def only(array: npt.NDArray[Any], allowed: tuple[int, ...], what: str) -> None:
    """Check that a matrix holds only values of `allowed`, ascending integers without gaps; `what` names it.

    Raises:
        LabelError: It holds another one; the message gives row and column.
    """
    between = (array >= allowed[0]) & (array <= allowed[-1])  # enough for integers, and much faster
    wrong = np.argwhere(~(np.isin(array, allowed) if array.dtype.kind == "f" else between))
    if len(wrong):
        row, column = wrong[0].tolist()
        raise LabelError(
            f"row {row}, column {column}: {what} may hold only {', '.join(map(str, allowed))}, "
            f"got {array[row, column]}"
        )
