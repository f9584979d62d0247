"""Arrays of scores, validated once."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from ..common.label_checks import as_array

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
