"""Labels in memory: names, indices, lists of these, or a matrix."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from ...errors import InputError, nearest, quoted
from ...labels import ObservedLabels, Unlisted
from ..readers.documents import class_name
from ..readers.label_arrays import read_labels
from ..safe import quote
from .frames import column_names, is_frame, is_series, numbers
from .samples import as_numpy, described

ACCEPTED = (
    "class names, class indices, a list of names or of indices for each sample, or a matrix (N, C) of "
    "{0, 1}, {-1, 0, 1} or {0, 1, NaN} as a NumPy array, torch tensor, SciPy matrix or DataFrame"
)
_LISTS = (list, tuple, set, frozenset)


class Labels(NamedTuple):
    """Labels as they were understood.

    Attributes:
        classes: Class names.
        given: Whether the classes were listed; if not, they are the names that occur.
        observed: Labels of all samples.
        note: How they were understood.
    """

    classes: tuple[str, ...]
    given: bool
    observed: ObservedLabels
    note: str


def understand_labels(
    labels: Any, classes: Sequence[str] | None, known: Sequence[str], unlisted: Unlisted, source: str
) -> Labels:
    """Understand labels by their type, their shape and the type of the first one.

    Args:
        labels: What the user passed as y.
        classes: Class names, in the order of indices and columns; None = the names that occur, sorted, the
            names of the columns of a DataFrame, or `known`, or else 0, 1, 2 ...
        known: Classes of the run that the data is for; empty if there is none.
        unlisted: Meaning of a label that is not listed, as in a file.
        source: Name of the data, for messages.

    Raises:
        InputError: They are of another type than those in `ACCEPTED`, or one of them is impossible.
    """
    stated = _class_names(classes)
    if isinstance(labels, torch.Tensor):
        labels = as_numpy(labels)
    if is_frame(labels):
        stated = stated or _class_names(column_names(labels))
        labels = numbers(labels, "y", "It must have one column of numbers for each class.")
    if hasattr(labels, "tocsr"):
        labels = labels.tocsr()
    if hasattr(labels, "tocsr") or (isinstance(labels, np.ndarray) and labels.ndim == 2):
        return _from_array(labels, stated or tuple(known), unlisted, source)
    if is_series(labels):
        labels = labels.to_list() if hasattr(labels, "to_list") else list(labels)
    if isinstance(labels, np.ndarray) and labels.ndim == 1:
        if labels.size and labels.dtype.kind == "i":
            stated = stated or tuple(known) or _numbered(int(labels.max()))
            return _from_array(labels.astype(np.int64), stated, unlisted, source)
        labels = labels.tolist()
    if not isinstance(labels, (list, tuple)):
        raise InputError(f"y is {described(labels)}; expected {ACCEPTED}.")
    if not labels:
        raise InputError(f"y is empty; expected {ACCEPTED}.")
    entries = [_plain(label) for label in labels]
    first = entries[0]
    if isinstance(first, np.ndarray):
        return _from_array(_stacked(entries), stated or tuple(known), unlisted, source)
    if isinstance(first, _LISTS):
        return _from_lists(_checked_lists(entries), stated, tuple(known), unlisted)
    kind: type = str if isinstance(first, str) else int
    for row, entry in enumerate(entries):
        if not isinstance(entry, kind) or isinstance(entry, bool):
            raise _wrong_label(entry, row, first)
    if kind is str:
        return _from_lists([[name] for name in entries], stated, (), unlisted)
    return _from_array(
        np.asarray(entries), stated or tuple(known) or _numbered(max(entries)), unlisted, source
    )


def _class_names(classes: Sequence[str] | None) -> tuple[str, ...]:
    """Class names that the user listed, checked; empty if there are none.

    Raises:
        InputError: They are not distinct names.
    """
    if classes is None:
        return ()
    names = list(classes) if not isinstance(classes, str) else [classes]
    earlier: set[str] = set()
    for position, name in enumerate(names):
        if not isinstance(name, str) or name in earlier:
            wrong = "occurs twice" if isinstance(name, str) else "is not text"
            raise InputError(f"classes[{position}]: {quoted(name)} {wrong}: give distinct names as text.")
        earlier.add(name)
    return tuple(class_name(name, f"classes[{position}]") for position, name in enumerate(names))


def _plain(label: Any) -> Any:
    """A label with the types of Python; an array of several numbers stays one."""
    if isinstance(label, torch.Tensor):
        label = as_numpy(label)
    if isinstance(label, (np.generic, np.ndarray)) and label.ndim == 0:
        return label.item()
    return label.tolist() if isinstance(label, np.ndarray) and label.dtype.kind in "UO" else label


def _stacked(rows: list[Any]) -> Any:
    for row, entry in enumerate(rows):
        if getattr(entry, "shape", None) != rows[0].shape:
            raise InputError(
                f"y[{row}] is {described(entry)}, but y[0] is {described(rows[0])}: the rows of a matrix "
                "need the same length."
            )
    return np.stack(rows)


def _wrong_label(entry: Any, row: int, first: Any) -> InputError:
    if entry is None or entry != entry:
        return InputError(
            f"y[{row}] is {entry}, but every sample needs a label. Leave out samples without one, or give a "
            "list of labels for each sample, which may be empty."
        )
    if not isinstance(first, str) and (isinstance(first, bool) or not isinstance(first, int)):
        return InputError(f"y[{row}] is {described(entry)}; expected {ACCEPTED}.")
    kind = "a class name" if isinstance(first, str) else "a class index"
    return InputError(
        f"y[{row}] is {described(entry)}, but y[0] is {kind}: labels are all names or all indices."
    )


def _numbered(last: int) -> tuple[str, ...]:
    return tuple(str(number) for number in range(last + 1))


def _from_array(array: Any, classes: tuple[str, ...], unlisted: Unlisted, source: str) -> Labels:
    """Labels in an array of indices or in a matrix, by the rules for .npz files."""
    observed, note = read_labels(array, classes, unlisted, source)
    return Labels(classes or _numbered(observed.num_classes - 1), True, observed, note)


def _checked_lists(entries: list[Any]) -> list[list[Any]]:
    """Lists of labels, all of names or all of indices.

    Raises:
        InputError: An entry is not a list of them.
    """
    first: Any = None
    rows: list[list[Any]] = []
    for row, entry in enumerate(entries):
        if not isinstance(entry, _LISTS):
            raise InputError(
                f"y[{row}] is {described(entry)}, but y[0] is a list: give a list of labels for each sample."
            )
        labels = [_plain(label) for label in entry]
        for label in labels:
            first = label if first is None else first
            if not isinstance(label, (str, int)) or isinstance(label, bool):
                raise InputError(f"y[{row}] holds {described(label)}; expected class names or class indices.")
            if isinstance(label, str) != isinstance(first, str):
                raise InputError(
                    f"y[{row}] holds {described(label)}, but others hold {described(first)}: labels are "
                    "all names or all indices."
                )
        rows.append(sorted(labels) if isinstance(entry, (set, frozenset)) else labels)
    if first is None:
        raise InputError("y: no sample has a label. At least some must have one.")
    return rows


def _from_lists(
    rows: list[list[Any]], classes: tuple[str, ...], known: tuple[str, ...], unlisted: Unlisted
) -> Labels:
    """Labels in lists of names, or of indices of classes."""
    if isinstance(next(label for row in rows for label in row), int):
        classes = classes or known or _numbered(max(label for row in rows for label in row))
        _check_not_a_matrix(rows, len(classes))
        rows = [[_name_of(label, classes, row) for label in labels] for row, labels in enumerate(rows)]
        note = "y holds lists of class indices."
        given = True
    else:
        spelled = {
            name: class_name(name, f"y[{row}]")
            for row, labels in reversed([*enumerate(rows)])
            for name in labels
        }
        rows = [[spelled[name] for name in labels] for labels in rows]
        given, classes = bool(classes), classes or tuple(sorted({*spelled.values()}))
        known_names = {*classes}
        for row, labels in enumerate(rows):
            for name in labels:
                if name not in known_names:
                    raise InputError(
                        f"y[{row}]: {quote(name)} is not one of the {len(classes)} classes. "
                        f"{nearest(name, classes)}"
                    )
        note = "y holds class names."
    return Labels(classes, given, ObservedLabels.from_names(rows, classes, unlisted=unlisted), note)


def _name_of(index: int, classes: tuple[str, ...], row: int) -> str:
    if not 0 <= index < len(classes):
        raise InputError(f"y[{row}]: class index {index} is outside 0 ... {len(classes) - 1}.")
    return classes[index]


def _check_not_a_matrix(rows: list[list[int]], classes: int) -> None:
    """Refuse lists that look like rows of a matrix.

    Raises:
        InputError: An index is repeated, or every list names all classes.
    """
    row = next((row for row, labels in enumerate(rows) if len({*labels}) < len(labels)), None)
    if row is None and {len(labels) for labels in rows} != {classes}:
        return
    what = "every list has an index of each class" if row is None else f"y[{row}] repeats a class index"
    raise InputError(
        f"y: {what}, as if it were the row of a matrix: lists hold the indices of the labels of a sample. "
        "Pass a matrix as an array: numpy.array(y)."
    )
