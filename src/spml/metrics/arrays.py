"""Labels as NumPy arrays or torch tensors, validated once against the shape of the scores."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch

from ..common.label_checks import as_array, class_indices, only
from ..scores.forms import BoolArray, IntArray

Empty = Literal["exclude", "zero"]


def as_truth(
    truth: npt.ArrayLike | torch.Tensor, shape: tuple[int, ...]
) -> tuple[BoolArray, BoolArray | None]:
    """Validate labels of shape (N, C) and interpret them by their dtype.

    bool or unsigned integers: {0, 1}, where 0 is negative. Signed integers or floats: {-1, 0, +1}, where 0 is
    unknown. A signed matrix that has zeros but no -1 is ambiguous and refused.

    Returns:
        Masks (N, C) of the positives and of the known entries; None for the latter if all are known.

    Raises:
        ValueError: The shape is not that of the scores, a value is not allowed (the message gives row and
            column), or the matrix is ambiguous.
    """
    array = _label_matrix(truth, shape)
    signed = array.dtype.kind in "if"
    only(array, (-1, 0, 1) if signed else (0, 1), "labels")
    positive: BoolArray = array == 1
    if not signed:
        return positive, None
    known: BoolArray = array != 0
    if known.all():
        return positive, None
    if not (array == -1).any():
        raise ValueError(
            f"labels of type {array.dtype} are read as {{-1, 0, +1}} with 0 = unknown, but these contain no "
            "-1: no known negative. If 0 means absent, pass `labels == 1`"
        )
    return positive, known


def as_known_positives(
    observed: npt.ArrayLike | torch.Tensor, shape: tuple[int, ...]
) -> tuple[IntArray, IntArray]:
    """Rows and columns of the known positives, row by row, int64 (P,).

    Args:
        observed: Integers of shape (N,), the one known positive class of each sample, or a signed matrix of
            shape (N, C) in {-1, 0, +1}.
        shape: Shape (N, C) of the scores.

    Raises:
        ValueError: Shape, dtype or a value is not allowed (the message gives the row), or there is no known
            positive.
    """
    array = as_array(observed)
    if array.ndim == 1:
        if array.dtype.kind not in "iu" or len(array) != shape[0]:
            raise ValueError(
                f"observed classes must be integers of shape ({shape[0]},), got {array.dtype} {array.shape}"
            )
        return np.arange(shape[0]), class_indices(array, shape[1], "observed class")
    array = _label_matrix(array, shape)
    if array.dtype.kind not in "if":
        raise ValueError(
            "observed labels must be of a signed type, {-1, 0, +1} with 0 = unknown, got "
            f"{array.dtype}, in which unknown entries can't be marked"
        )
    only(array, (-1, 0, 1), "labels")
    rows, columns = np.nonzero(array == 1)
    if not len(rows):
        raise ValueError("the observed labels contain no known positive, so nothing can be measured")
    return rows, columns


def _label_matrix(labels: npt.ArrayLike | torch.Tensor, shape: tuple[int, ...]) -> npt.NDArray[Any]:
    array = as_array(labels)
    if array.shape != shape:
        raise ValueError(f"labels must have the shape of the scores, {shape}, got {array.shape}")
    if array.dtype.kind not in "biuf":
        raise ValueError(f"labels must be numbers, got {array.dtype}")
    return array
