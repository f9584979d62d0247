"""Labels in memory: names, indices, lists of these, or a matrix."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from ...errors import InputError, nearest, quoted
from ...labels import ObservedLabels, Unlisted
from ..readers.documents import class_name
from ..readers.label_arrays import read_labels
from ..safe import quote
from ..tables.labels import label_cells
from ..tables.rows import Column
from .frames import cells_of, column_names, is_frame, is_missing, is_series, numbers
from .samples import as_numpy, described

ACCEPTED = (
    "class names, alone or with separators, class indices, a list of names or of indices for each sample, or"
    " a matrix (N, C) of {0, 1}, {-1, 0, 1} or {0, 1, NaN} as a NumPy array, torch tensor, SciPy matrix or"
    " DataFrame"
)
_LISTS = (list, tuple, set, frozenset)


class Labels(NamedTuple):
    """Labels as they were understood.

    Attributes:
        classes: Class names.
        given: Whether the classes were listed; if not, they are the names that occur.
        observed: Labels of all samples.
        notes: How they were understood, one line each.
    """

    classes: tuple[str, ...]
    given: bool
    observed: ObservedLabels
    notes: tuple[str, ...]


def understand_labels(
    labels: Any,
    classes: Sequence[str] | None,
    known: Sequence[str],
    unlisted: Unlisted,
    source: str,
    separator: str | None = None,
    keep: Collection[str] = (),
) -> Labels:
    """Understand labels by their type, their shape and the type of the first one.

    Text is read as the cells of a table are (`parse_cells`), so it may hold several names.

    Args:
        labels: What the user passed as y.
        classes: Class names, in the order of indices and columns; None = the names that occur, sorted, the
            names of the columns of a DataFrame, or `known`, or else 0, 1, 2 ...
        known: Classes of the run that the data is for; empty if there is none.
        unlisted: Meaning of a label that is not listed, as in a file.
        source: Name of the data, for messages.
        separator: `data.separator`.
        keep: Names that are no words for a missing value although they look like it.

    Raises:
        InputError: They are of another type than those in `ACCEPTED`, or one of them is impossible.
    """
    stated = _class_names(classes)
    if isinstance(labels, torch.Tensor):
        labels = as_numpy(labels)
    if is_frame(labels) and len(column_names(labels)) == 1:
        labels = cells_of(labels, 0)
    elif is_frame(labels):
        stated = stated or _class_names(column_names(labels))
        labels = numbers(labels, "y", "It must have one column of numbers for each class.")
    if hasattr(labels, "tocsr"):
        labels = labels.tocsr()
    elif (
        isinstance(labels, np.ndarray)
        and labels.ndim == 2
        and labels.shape[1] == 1
        and len(stated or known) != 1
    ):
        labels = labels[:, 0]  # as df[["label"]].to_numpy() gives it
    if hasattr(labels, "tocsr") or (isinstance(labels, np.ndarray) and labels.ndim == 2):
        return _from_array(labels, stated or tuple(known), unlisted, source)
    if is_series(labels):
        labels = labels.to_list() if hasattr(labels, "to_list") else list(labels)
    if isinstance(labels, np.ndarray) and labels.ndim == 1:
        labels = labels.tolist()
    if not isinstance(labels, (list, tuple)):
        raise InputError(f"y is {described(labels)}; expected {ACCEPTED}.")
    if not labels:
        raise InputError(f"y is empty; expected {ACCEPTED}.")
    entries = [_plain(label) for label in labels]
    first = next((entry for entry in entries if not is_missing(entry)), entries[0])
    if isinstance(first, np.ndarray):
        return _from_array(_stacked(entries), stated or tuple(known), unlisted, source)
    if isinstance(first, _LISTS):
        entries = _checked_lists(entries)
        first = next((label for labels in entries for label in labels), "")
        if isinstance(first, int):
            return _from_index_lists(entries, stated or tuple(known), unlisted)
    else:
        kind: type = str if isinstance(first, str) else int
        for row, entry in enumerate(entries):
            if not isinstance(entry, kind) or isinstance(entry, bool):
                raise _wrong_label(entry, row, first)
        if kind is int:
            names = stated or tuple(known) or _numbered(max(entries))
            return _from_array(np.asarray(entries), names, unlisted, source)
    return _from_names(entries, stated, known, unlisted, separator, keep)


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
        label = label.item()
    if isinstance(label, float) and label.is_integer():
        return int(label)  # pandas makes numbers of a column with a missing one floats
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
    if is_missing(entry):
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
    return Labels(classes or _numbered(observed.num_classes - 1), True, observed, (note,))


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
            if is_missing(label):
                raise InputError(
                    f"y[{row}] holds {label}: leave missing labels out of the list, which may be empty."
                )
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


def _from_index_lists(rows: list[list[int]], classes: tuple[str, ...], unlisted: Unlisted) -> Labels:
    """Labels in lists of indices of classes."""
    classes = classes or _numbered(max(label for row in rows for label in row))
    _check_not_a_matrix(rows, len(classes))
    names = [[_name_of(label, classes, row) for label in labels] for row, labels in enumerate(rows)]
    observed = ObservedLabels.from_names(names, classes, unlisted=unlisted)
    return Labels(classes, True, observed, ("y holds lists of class indices.",))


def _from_names(
    entries: Sequence[str | list[str]],
    stated: tuple[str, ...],
    known: Sequence[str],
    unlisted: Unlisted,
    separator: str | None,
    keep: Collection[str],
) -> Labels:
    """Labels in text or in lists of text."""
    cells = Column()
    cells.extend(entries)
    found = label_cells(
        cells.values,
        cells.codes,
        "y",
        "labels",
        lambda row: f"y[{row}]",
        separator=separator,
        known=stated or known,
        keep=keep,
    )
    classes = stated or found.classes
    if not classes:
        raise InputError("y: no sample has a label. At least some must have one.")
    for row in found.unread.tolist():
        raise InputError(f"y[{row}]: {found.notes[-1]} Correct it, or leave the sample out.")
    for code, names in enumerate(found.names):
        for name in names:
            if name not in classes:
                raise InputError(
                    f"y[{cells.first[code]}]: {quote(name)} is not one of the {len(classes)} classes. "
                    f"{nearest(name, classes)}"
                )
    observed = ObservedLabels.from_names(
        [found.names[code] for code in found.codes], classes, unlisted=unlisted
    )
    return Labels(classes, bool(stated), observed, ("y holds class names.", *found.notes))


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
