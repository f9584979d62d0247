"""Labels in arrays: which convention they follow, recognised by the values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np

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
"""Meaning of the values of a label matrix, as in `_SENTENCES`."""


def read_labels(
    arrays: Sequence[tuple[str, Any]], classes: tuple[str, ...], unlisted: Unlisted
) -> tuple[ObservedLabels, str]:
    """Interpret label arrays; returns the labels of all samples, and a sentence on the convention.

    There is one array for all samples, or one for each of several shards, each with its source for messages.
    The convention is recognised by the values of all of them: (N, C) with {0, 1}: a 0 means what `unlisted`
    says; {-1, 0, +1}: known negative, unknown, known positive; {0, 1, NaN}: known negative, known positive,
    unknown. (N,) integers: the class of the one known positive. Instead of one dense (N, C), a SciPy CSR
    matrix is also accepted; entries that it does not store are 0. The class names may be empty if the arrays
    are matrices.
    """
    (first, array), *rest = arrays
    dimensions = len(array.shape)
    if array.dtype.kind not in "biuf" or dimensions not in (1, 2) or (dimensions == 1 and not classes):
        raise InputError(
            f"{first}: Y must hold numbers, one row per sample; got {array.dtype} {array.shape}. Expected a "
            "matrix with a column per class, or indices of the class names in `classes`."
        )
    columns = array.shape[1] if dimensions == 2 else len(classes)
    if not 0 < columns <= MAX_CLASSES or (classes and columns != len(classes)):
        expected = f"{len(classes):,}, one per class name" if classes else f"1 to {MAX_CLASSES:,}"
        raise InputError(f"{first}: Y has {columns:,} columns; expected {expected}.")
    for source, other in rest:
        if other.shape[1:] != array.shape[1:] or other.dtype.kind not in "biuf":
            raise InputError(
                f"{source}: Y has the type {other.dtype} and the shape {other.shape}, but {first} has the "
                f"shape {array.shape}. All shards need labels of the same kind."
            )
    if dimensions == 1:
        parts = []
        for source, index in arrays:
            try:
                parts.append(ObservedLabels.from_index(index, columns))
            except LabelError as error:
                raise InputError(
                    f"{source}: Y: {error} (rows and columns counted from 0). {_INDICES}"
                ) from error
        labels = ObservedLabels.join(parts)
        if unlisted == "negative":
            labels = ObservedLabels.from_csr(labels.to_csr(), unlisted="negative")
        return labels, _SENTENCES["index"]
    convention = _convention_of(arrays)
    parts = [_from_matrix(block, convention, unlisted) for _, _, block in _blocks(arrays)]
    if len({part.full for part in parts}) > 1:  # otherwise joining full ones with others makes all dense
        parts = [ObservedLabels.from_csr(part.to_csr()) if part.full else part for part in parts]
    no_effect = " (so data.unlisted=negative has no effect)" if unlisted == "negative" else ""
    sentence = _SENTENCES[convention].format(unlisted=unlisted, no_effect=no_effect)
    return ObservedLabels.join(parts), sentence


def _convention_of(arrays: Sequence[tuple[str, Any]]) -> Convention:
    """Convention of matrices; refuses values that fit none."""
    nan = negative = ""  # the first source that holds such a value
    for source, start, block in _blocks(arrays):
        values = block.data if hasattr(block, "indptr") else block
        known = (values >= -1) & (values <= 1)  # enough for integers, and much faster
        if values.dtype.kind == "f":
            is_nan = np.isnan(values)
            known = np.isin(values, (-1, 0, 1)) | is_nan
            nan = nan or (source if is_nan.any() else "")
        if not known.all():
            entry = np.argwhere(~known)[0]
            row, column = entry if values is block else (place[entry[0]] for place in block.nonzero())
            raise InputError(
                f"{source}: Y: row {start + row}, column {column} is {values[tuple(entry)]} (rows and "
                f"columns counted from 0). {_MATRICES}"
            )
        if values.dtype.kind in "if" and (values == -1).any():
            negative = negative or source
    if nan and negative:
        raise InputError(f"{nan}: Y holds NaN, but {negative} holds -1. {_MATRICES}")
    return "nan" if nan else "ternary" if negative else "multi-hot"


def _blocks(arrays: Sequence[tuple[str, Any]]) -> Iterator[tuple[str, int, Any]]:
    """Some rows of a matrix at a time, with its source and the number of the first row; all of a sparse one,
    without the zeros that it stores, which mean the same as those that it does not."""
    for source, array in arrays:
        if hasattr(array, "tocsr"):
            matrix = array.tocsr().astype(np.float64)
            matrix.eliminate_zeros()
            yield source, 0, matrix
            continue
        step = max(1, _BLOCK // max(1, array.shape[1]))
        for start in range(0, max(1, len(array)), step):
            yield source, start, np.asarray(array[start : start + step])


def _from_matrix(block: Any, convention: Convention, unlisted: Unlisted) -> ObservedLabels:
    if not hasattr(block, "indptr"):
        if convention == "multi-hot":
            return ObservedLabels.from_multi_hot(block, unlisted=unlisted)
        return ObservedLabels.from_nan(block) if convention == "nan" else ObservedLabels.from_ternary(block)
    if convention == "nan":
        block.data[np.isnan(block.data)] = 0  # still stored, unlike the known negatives
        unlisted = "negative"
    return ObservedLabels.from_csr(block, unlisted="unknown" if convention == "ternary" else unlisted)
