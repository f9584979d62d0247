"""Labels in arrays: which convention they follow, recognised by the values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ...common.errors import InputError
from ...labels import LabelError, ObservedLabels, Unlisted

MAX_CLASSES = 1_000_000
_BLOCK = 1 << 24  # labels of a matrix that are read at a time
_MATRICES = "Labels are {0, 1}, {-1, 0, 1} with 0 for unknown, or {0, 1, NaN} with NaN for unknown."
_INDICES = "Class indices are integers, and the first class is 0: subtract 1 if yours begin with 1."
_SENTENCES = {
    "index": "Y holds class indices, one label per sample.",
    "nan": "Y holds 1 (positive), 0 (negative) and NaN (unknown){no_effect}.",
    "ternary": "Y holds 1 (positive), -1 (negative) and 0 (unknown){no_effect}.",
    "multi-hot": "Y holds 1 (positive) and 0 ({unlisted}).",
}

Convention = Literal["nan", "ternary", "multi-hot"]
"""What the values of a label matrix mean, as in `_SENTENCES`."""


def read_labels(
    array: Any, classes: tuple[str, ...], unlisted: Unlisted, source: str
) -> tuple[ObservedLabels, str]:
    """Interpret a label array; the convention is recognised by its values.

    (N, C) with {0, 1}: a 0 means what `unlisted` says; {-1, 0, +1}: known negative, unknown, known positive;
    {0, 1, NaN}: known negative, known positive, unknown. (N,) integers: the class of the one known positive.
    Instead of a dense (N, C), a SciPy CSR matrix is also accepted; entries that it does not store are 0.

    Returns:
        The labels, and a sentence that describes the convention.

    Raises:
        InputError: The array has another shape or value (names row and column), or does not fit the class
            names.
    """
    dimensions = len(array.shape)
    if array.dtype.kind not in "biuf" or dimensions not in (1, 2) or (dimensions == 1 and not classes):
        raise InputError(
            f"{source}: Y must hold numbers, one row per sample; got {array.dtype} {array.shape}. Expected a "
            "matrix with a column per class, or indices of the class names in `classes`."
        )
    columns = array.shape[1] if dimensions == 2 else len(classes)
    if columns > MAX_CLASSES or (classes and columns != len(classes)):
        expected = f"{len(classes):,}, one per class name" if classes else f"at most {MAX_CLASSES:,}"
        raise InputError(f"{source}: Y has {columns:,} columns; expected {expected}.")
    try:
        if dimensions == 1:
            labels = ObservedLabels.from_index(array, columns)
            if unlisted == "negative":
                labels = ObservedLabels.from_csr(labels.to_csr(), unlisted="negative")
            return labels, _SENTENCES["index"]
        sparse = hasattr(array, "tocsr")
        nan, negative = _special_values(array.data if sparse else array)
        convention: Convention = "nan" if nan else "ternary" if negative else "multi-hot"
        labels = (_from_csr if sparse else _from_dense)(array, convention, unlisted)
    except LabelError as error:
        expected = _MATRICES if dimensions == 2 else _INDICES
        raise InputError(f"{source}: Y: {error} (rows and columns counted from 0). {expected}") from error
    return labels, _sentence(convention, unlisted)


def read_label_shards(
    shards: Sequence[tuple[str, Any]], classes: tuple[str, ...], unlisted: Unlisted
) -> tuple[ObservedLabels, str]:
    """Interpret the label arrays of shards as `read_labels` does one array, some rows at a time.

    Which convention the labels follow is recognised by the values of all shards together.

    Args:
        shards: Source for messages and array of each shard, (n, C) or (n,). At least one.
        classes: Class names; may be empty if the arrays are matrices.
        unlisted: Meaning of a label that is not listed.

    Returns:
        The labels of all samples, shard by shard, and a sentence that describes the convention.

    Raises:
        InputError: A shard has another shape or value; names the shard, the row and the column.
    """
    (first, array), *rest = shards
    read_labels(array[:1], classes, unlisted, first)  # what is wrong with the first row is wrong with all
    for source, other in rest:
        if other.shape[1:] != array.shape[1:] or other.dtype.kind not in "biuf":
            raise InputError(
                f"{source}: Y has the type {other.dtype} and the shape {other.shape}, but {first} has the "
                f"shape {array.shape}. All shards need labels of the same kind."
            )
    if array.ndim == 1:
        parts = [read_labels(of_shard, classes, unlisted, source)[0] for source, of_shard in shards]
        return ObservedLabels.join(parts), _SENTENCES["index"]
    convention = _convention_of(shards)
    parts = [_from_dense(block, convention, unlisted) for _, _, block in _blocks(shards)]
    if len({part.full for part in parts}) > 1:  # otherwise joining full ones with others makes all dense
        parts = [ObservedLabels.from_csr(part.to_csr()) if part.full else part for part in parts]
    return ObservedLabels.join(parts), _sentence(convention, unlisted)


def _convention_of(shards: Sequence[tuple[str, Any]]) -> Convention:
    """Convention of the matrices of shards; refuses values that fit none."""
    nan = negative = ""  # the first shard that holds such a value
    for source, start, block in _blocks(shards):
        known = (block >= -1) & (block <= 1)  # enough for integers, and much faster
        if block.dtype.kind == "f":
            known = np.isin(block, (-1, 0, 1)) | np.isnan(block)
        if not known.all():
            row, column = np.argwhere(~known)[0].tolist()
            raise InputError(
                f"{source}: Y: row {start + row}, column {column} is {block[row, column]} (rows and columns "
                f"counted from 0). {_MATRICES}"
            )
        has_nan, has_negative = _special_values(block)
        nan = nan or (source if has_nan else "")
        negative = negative or (source if has_negative else "")
    if nan and negative:
        raise InputError(f"{nan}: Y holds NaN, but {negative} holds -1. {_MATRICES}")
    return "nan" if nan else "ternary" if negative else "multi-hot"


def _special_values(values: npt.NDArray[Any]) -> tuple[bool, bool]:
    """Whether there is a NaN, and whether there is a -1."""
    kind = values.dtype.kind
    return kind == "f" and bool(np.isnan(values).any()), kind in "if" and bool((values == -1).any())


def _blocks(shards: Sequence[tuple[str, Any]]) -> Iterator[tuple[str, int, npt.NDArray[Any]]]:
    """Some rows of the matrix of a shard at a time, with its source and the number of the first row."""
    for source, array in shards:
        step = max(1, _BLOCK // max(1, array.shape[1]))
        for start in range(0, len(array), step):
            yield source, start, np.asarray(array[start : start + step])


def _from_dense(array: npt.NDArray[Any], convention: Convention, unlisted: Unlisted) -> ObservedLabels:
    if convention == "multi-hot":
        return ObservedLabels.from_multi_hot(array, unlisted=unlisted)
    return ObservedLabels.from_nan(array) if convention == "nan" else ObservedLabels.from_ternary(array)


def _from_csr(matrix: Any, convention: Convention, unlisted: Unlisted) -> ObservedLabels:
    """Labels in a sparse matrix; zeros that it stores mean the same as those that it does not."""
    copy = matrix.astype(np.float64)
    copy.eliminate_zeros()
    if convention == "multi-hot":
        return ObservedLabels.from_csr(copy, unlisted=unlisted)
    if convention == "ternary":
        return ObservedLabels.from_csr(copy)
    if (copy.data == -1).any():
        raise LabelError("a sparse matrix may not hold both NaN and -1")
    copy.data[np.isnan(copy.data)] = 0  # still stored, unlike the known negatives
    return ObservedLabels.from_csr(copy, unlisted="negative")


def _sentence(convention: Convention, unlisted: Unlisted) -> str:
    no_effect = " (so data.unlisted=negative has no effect)" if unlisted == "negative" else ""
    return _SENTENCES[convention].format(unlisted=unlisted, no_effect=no_effect)
