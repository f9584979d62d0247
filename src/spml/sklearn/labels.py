"""Labels in the forms of scikit-learn, turned into those that `spml.train` takes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from scipy.sparse import csr_matrix
from sklearn.utils import assert_all_finite
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from ..common.documents import class_name
from ..common.errors import InputError, nearest, quoted
from ..data.memory.frames import column_names, is_frame, is_series, numbers
from ..data.memory.labels import ACCEPTED, understand_labels
from ..data.memory.samples import as_numpy, described
from ..labels import ObservedLabels, Unlisted

_LISTS = (list, tuple, set, frozenset, np.ndarray)


class Labels(NamedTuple):
    """Labels as they were understood.

    Attributes:
        classes: Values of the C classes, as in `classes_`.
        content: Positions of the classes, int64 (N,), or a matrix (N, C) as an array or in CSR.
        unlisted: Meaning of a 0 in the matrix, in other matrices of the same origin as well.
    """

    classes: npt.NDArray[Any]
    content: Any
    unlisted: Unlisted

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the classes.

        Raises:
            InputError: A value makes no name: it is empty, too long, or holds control characters.
        """
        values = self.classes.tolist()
        return tuple(class_name(str(value), f"y: class {k}") for k, value in enumerate(values))

    def observed(self) -> ObservedLabels:
        """The labels, checked.

        Raises:
            InputError: The matrix holds a value that is not allowed.
        """
        return understand_labels(self.content, self.names, (), self.unlisted).observed


def read_labels(y: Any, classes: Sequence[Any] | npt.NDArray[Any] | None, unlisted: Unlisted) -> Labels:
    """Understand labels: a class per sample, a list of classes per sample, or a matrix.

    A list of equally long lists of -1, 0, 1 and NaN is a matrix.

    Args:
        y: Labels as the user passed them.
        classes: Values of all classes; None = those that occur, sorted, or the columns of the matrix.
        unlisted: Meaning of a label that is not listed.

    Raises:
        ValueError: The labels are continuous, infinite or NaN, in the words of scikit-learn.
        InputError: They are of another type or shape, or not among `classes`.
    """
    stated = None if classes is None else _stated_classes(classes)
    if isinstance(y, torch.Tensor):
        y = as_numpy(y)
    if is_frame(y) and len(y.columns) > 1:
        return _from_frame(y, stated, unlisted)
    if hasattr(y, "tocsr"):
        return _from_matrix(y.tocsr(), stated, unlisted)
    if is_series(y):
        y = list(y)
    if _holds_lists(y):
        return _from_lists([_entries(row, number) for number, row in enumerate(y)], stated, unlisted)
    if isinstance(y, (list, tuple)):
        _check_alike(y, range(len(y)))
    array = np.asarray(y)
    if array.ndim not in (1, 2):
        raise InputError(f"y is {described(y)}; expected {ACCEPTED}.")
    if array.ndim == 2 and array.shape[1] > 1:
        return _from_matrix(array, stated, unlisted)
    values = column_or_1d(array, warn=True)
    if values.dtype == object:
        _check_alike(values, range(len(values)))
    return Labels(*_find(values, np.arange(len(values)), stated), unlisted)


def _stated_classes(classes: Sequence[Any] | npt.NDArray[Any]) -> npt.NDArray[Any]:
    values = np.asarray(classes)
    if values.ndim != 1 or len({*values.tolist()}) < len(values):
        raise InputError(f"classes must be a list of distinct classes, got {quoted(classes)}.")
    return values


def _holds_lists(y: Any) -> bool:
    one_dimension = isinstance(y, (list, tuple)) or (isinstance(y, np.ndarray) and y.ndim == 1)
    return one_dimension and len(y) > 0 and isinstance(y[0], _LISTS)


def _check_alike(entries: Sequence[Any], rows: Iterable[int]) -> None:
    """Refuse missing labels, and names among numbers: NumPy would make names of all of them.

    Args:
        entries: Labels.
        rows: Samples that have them.

    Raises:
        InputError: Names the sample.
    """
    for row, entry in zip(rows, entries, strict=True):
        if entry is None or type(entry).__name__ == "NAType" or (isinstance(entry, float) and entry != entry):
            raise InputError(
                f"y[{row}] is {entry}, but every sample needs a label. Leave out samples without one, or "
                "give a list of labels for each sample, which may be empty."
            )
        if isinstance(entry, _LISTS) or isinstance(entry, str) != isinstance(entries[0], str):
            raise InputError(
                f"y[{row}] has the label {described(entry)}, but others are like {described(entries[0])}: "
                "labels are all names, all numbers, or all lists of these."
            )


def _entries(row: Any, number: int) -> list[Any]:
    """Entries of one of several lists, with the types of Python."""
    if not isinstance(row, _LISTS):
        raise InputError(
            f"y[{number}] is {described(row)}, but y[0] is a list: give a list of labels for each sample."
        )
    entries = row.tolist() if isinstance(row, np.ndarray) else list(row)
    return [entry.item() if isinstance(entry, np.generic) else entry for entry in entries]


def _find(
    values: npt.NDArray[Any], rows: npt.NDArray[np.int64], stated: npt.NDArray[Any] | None
) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
    """Classes, and the position of each value among them; `rows` are the samples that have the values."""
    if values.dtype.kind == "f":
        assert_all_finite(values, input_name="y")
    check_classification_targets(values)
    if stated is None:
        classes, positions = np.unique(values, return_inverse=True)
        return classes, positions.astype(np.int64)
    if values.dtype.kind in "iu" and stated.dtype.kind in "OU":
        known = {index: index for index in range(len(stated))}
    else:
        known = {value: position for position, value in enumerate(stated.tolist())}
    positions = np.asarray([known.get(value, -1) for value in values.tolist()], np.int64)
    if len(wrong := np.flatnonzero(positions < 0)):
        value = values[wrong[0]].item() if hasattr(values[wrong[0]], "item") else values[wrong[0]]
        raise InputError(
            f"y[{rows[wrong[0]]}]: {quoted(value)} is not a class. {nearest(str(value), map(str, known))} A "
            "class that may be missing among the training samples must be listed: classes=[...]."
        )
    return stated, positions


def _from_lists(rows: list[list[Any]], stated: npt.NDArray[Any] | None, unlisted: Unlisted) -> Labels:
    width = len(rows[0])
    fits = width > 1 if stated is None else width == len(stated)
    if fits and all(len(row) == width for row in rows) and all(map(_may_be_in_matrix, chain(*rows))):
        return _from_matrix(np.asarray(rows), stated, unlisted)
    if not any(rows):
        raise InputError("y: no sample has a label. At least some must have one.")
    of_sample = np.repeat(np.arange(len(rows)), [len(row) for row in rows])
    _check_alike([*chain(*rows)], of_sample)
    values = np.asarray([*chain(*rows)])
    classes, positions = _find(values, of_sample, stated)
    matrix = csr_matrix((np.ones(len(values)), (of_sample, positions)), (len(rows), len(classes)))
    matrix.data[:] = 1  # a label may be listed twice
    return Labels(classes, matrix, unlisted)


def _may_be_in_matrix(value: Any) -> bool:
    return isinstance(value, (int, float)) and (value in (-1, 0, 1) or value != value)


def _from_frame(frame: Any, stated: npt.NDArray[Any] | None, unlisted: Unlisted) -> Labels:
    names = column_names(frame)
    matrix = numbers(frame, "y", "It must have one column of numbers for each class.")
    if stated is None:
        return _from_matrix(matrix, np.asarray(names), unlisted)
    order = [names.index(name) for name in map(str, stated.tolist()) if name in names]
    if len(order) < max(len(stated), len(names)):
        raise InputError(
            f"y has the columns {quoted(names)}, but the classes are {quoted(stated.tolist())}: give one "
            "column for each class."
        )
    return _from_matrix(matrix[:, order], stated, unlisted)


def _from_matrix(matrix: Any, stated: npt.NDArray[Any] | None, unlisted: Unlisted) -> Labels:
    classes = np.arange(matrix.shape[1]) if stated is None else stated
    if len(classes) != matrix.shape[1]:
        raise InputError(
            f"y has {matrix.shape[1]:,} columns, but there are {len(classes):,} classes: give one column for "
            "each class."
        )
    values = matrix.data if hasattr(matrix, "tocsr") else matrix
    if values.dtype.kind == "f" and np.isnan(values).any():
        unlisted = "negative"
    elif values.dtype.kind in "if" and (values == -1).any():
        unlisted = "unknown"
    return Labels(classes, matrix, unlisted)
