"""Samples and labels in the forms of scikit-learn, checked and turned into those that `spml.train` takes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from scipy.sparse import csr_matrix
from sklearn.utils import assert_all_finite
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d, validate_data

from ..common.documents import class_name
from ..common.errors import InputError, nearest, quoted
from ..common.label_checks import as_array
from ..data.memory import (
    LABELS,
    column_names,
    described,
    is_dataset,
    is_frame,
    is_missing,
    is_series,
    numbers,
    understand_labels,
)
from ..labels import ObservedLabels, Unlisted

_IMAGES = (str, Path, Image.Image)
_UNCHECKED = "images or a torch Dataset"
_LISTS = (list, tuple, set, frozenset, np.ndarray)


def validated(estimator: Any, X: Any, *, reset: bool) -> Any:
    """Check samples: features as scikit-learn does, images and texts as `spml.train` does when it reads them.

    Args:
        estimator: Estimator, whose `n_features_in_` and `feature_names_in_` are set or compared.
        X: Samples as the user passed them.
        reset: Whether the estimator is being fitted.

    Returns:
        Features as a NumPy array or SciPy matrix in CSR; images and texts as they are.

    Raises:
        ValueError: Features are not finite numbers of the shape (N, D), or not those of the training, in the
            words of scikit-learn.
        TypeError: Features are of a type that can't be converted, likewise.
        InputError: The estimator was fitted to features, and these are images, or the other way round; or X
            is a single path.
    """
    if isinstance(X, (str, Path)):
        raise InputError(
            f"X is the path {str(X)!r}: pass samples, such as a list of image files, or use spml.train."
        )
    if reset:
        for name in ("n_features_in_", "feature_names_in_"):
            vars(estimator).pop(name, None)
    if estimator.text:
        return X
    images = holds_images(X)
    if not reset and images == hasattr(estimator, "n_features_in_"):
        kinds = ("features", _UNCHECKED) if images else (_UNCHECKED, "features")
        raise InputError(f"the classifier was fitted to {kinds[0]}, but X holds {kinds[1]}.")
    if images:
        return X
    if isinstance(X, torch.Tensor):
        X = as_array(X)
    return validate_data(estimator, X, reset=reset, accept_sparse="csr")


def holds_images(X: Any) -> bool:
    """Whether samples are images, paths of images, or a data set of PyTorch."""
    if isinstance(X, torch.Tensor):
        return X.ndim == 4
    if isinstance(X, np.ndarray):
        return X.ndim == 4 or (X.ndim == 1 and X.dtype.kind in "UO" and len(X) > 0 and _is_image(X[0]))
    if is_series(X):
        X = list(X)
    if isinstance(X, (list, tuple)):
        return len(X) > 0 and _is_image(X[0])
    return is_dataset(X)


def _is_image(sample: Any) -> bool:
    return isinstance(sample, _IMAGES) or getattr(sample, "ndim", 0) == 3


class Labels(NamedTuple):
    """Labels as they were understood."""

    classes: npt.NDArray[Any]  # values of the C classes, as in `classes_`
    content: Any  # positions of the classes, int64 (N,), or a matrix (N, C), perhaps in CSR
    unlisted: Unlisted  # meaning of a 0 in this matrix and others of the same origin

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the classes."""
        values = self.classes.tolist()
        return tuple(class_name(str(value), f"y: class {k}") for k, value in enumerate(values))

    def observed(self) -> ObservedLabels:
        """The labels, checked."""
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
    stated = None if classes is None else np.asarray(classes)
    if stated is not None and (stated.ndim != 1 or len({*stated.tolist()}) < len(stated)):
        raise InputError(f"classes must be a list of distinct classes, got {quoted(classes)}.")
    if isinstance(y, torch.Tensor):
        y = as_array(y)
    if is_frame(y) and len(y.columns) > 1:
        return _from_frame(y, stated, unlisted)
    if hasattr(y, "tocsr"):
        return _from_matrix(y.tocsr(), stated, unlisted)
    if is_series(y):
        y = list(y)
    one_dimension = isinstance(y, (list, tuple)) or (isinstance(y, np.ndarray) and y.ndim == 1)
    if one_dimension and len(y) and isinstance(y[0], _LISTS):
        return _from_lists(y, stated, unlisted)
    if isinstance(y, (list, tuple)):
        _check_alike(y, range(len(y)))
    array = np.asarray(y)
    if array.ndim not in (1, 2):
        raise InputError(f"y is {described(y)}; expected {LABELS}.")
    if array.ndim == 2 and array.shape[1] > 1:
        return _from_matrix(array, stated, unlisted)
    values = column_or_1d(array, warn=True)
    if values.dtype == object:
        _check_alike(values, range(len(values)))
    return Labels(*_find(values, np.arange(len(values)), stated), unlisted)


def _check_alike(entries: Sequence[Any], rows: Iterable[int]) -> None:
    """Refuse missing labels, and names among numbers: NumPy would make names of all of them."""
    for row, entry in zip(rows, entries, strict=True):
        if is_missing(entry):
            raise InputError(
                f"y[{row}] is {entry}, but every sample needs a label. Leave out samples without one, or "
                "give a list of labels for each sample, which may be empty."
            )
        if isinstance(entry, _LISTS) or isinstance(entry, str) != isinstance(entries[0], str):
            raise InputError(
                f"y[{row}] has the label {described(entry)}, but others are like {described(entries[0])}: "
                "labels are all names, all numbers, or all lists of these."
            )


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
        value = values.tolist()[wrong[0]]
        raise InputError(
            f"y[{rows[wrong[0]]}]: {quoted(value)} is not a class. {nearest(str(value), map(str, known))} A "
            "class that may be missing among the training samples must be listed: classes=[...]."
        )
    return stated, positions


def _from_lists(lists: Sequence[Any], stated: npt.NDArray[Any] | None, unlisted: Unlisted) -> Labels:
    entries: list[Any] = []
    for number, row in enumerate(lists):
        if not isinstance(row, _LISTS):
            raise InputError(
                f"y[{number}] is {described(row)}, but y[0] is a list: give a list of labels for each sample."
            )
        entries += (entry.item() if isinstance(entry, np.generic) else entry for entry in row)
    lengths = [len(row) for row in lists]
    fits = lengths[0] > 1 if stated is None else lengths[0] == len(stated)
    if (
        fits
        and len({*lengths}) == 1
        and all(
            isinstance(entry, (int, float)) and (entry in (-1, 0, 1) or entry != entry) for entry in entries
        )
    ):
        return _from_matrix(np.asarray(entries).reshape(len(lists), -1), stated, unlisted)
    if not entries:
        raise InputError("y: no sample has a label. At least some must have one.")
    of_sample = np.repeat(np.arange(len(lists)), lengths)
    _check_alike(entries, of_sample)
    classes, positions = _find(np.asarray(entries), of_sample, stated)
    matrix = csr_matrix((np.ones(len(entries)), (of_sample, positions)), (len(lists), len(classes)))
    matrix.data[:] = 1  # a label may be listed twice
    return Labels(classes, matrix, unlisted)


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
