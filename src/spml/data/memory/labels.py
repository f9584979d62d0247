"""Labels in memory: names, indices, lists of these, or a matrix."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from ...common.documents import class_name
from ...common.errors import InputError, nearest, quoted
from ...common.label_checks import as_array
from ...common.safe import quote
from ...labels import ObservedLabels, Unlisted
from ..records import MEMORY, label_entries
from ..tables.cells import Column, Rules, label_cells
from ..values import read_labels
from .frames import cells_of, column_names, is_frame, is_missing, is_series, numbers
from .samples import described

ACCEPTED = (
    "class names, alone or with separators, class indices, a list of names or of indices for each sample, or"
    " a matrix (N, C) of {0, 1}, {-1, 0, 1} or {0, 1, NaN} as a NumPy array, torch tensor, SciPy matrix or"
    " DataFrame"
)


class Labels(NamedTuple):
    """Labels as they were understood."""

    classes: tuple[str, ...]  # class names
    given: bool  # whether the classes were listed; if not, they are the names that occur
    observed: ObservedLabels  # labels of all samples
    notes: tuple[str, ...]  # how they were understood, one line each


def understand_labels(
    labels: Any,
    classes: Sequence[str] | None,
    known: Sequence[str],
    unlisted: Unlisted,
    rules: Rules | None = None,
) -> Labels:
    """Understand labels by their type, their shape and the type of the first one.

    Text is read by the `rules` for the cells of a table, so it may hold several names. Without `classes`, the
    names of indices and columns are those of the columns of a DataFrame, or `known`, the classes of the run
    that the data is for, or else 0, 1, 2 ...; and the classes of names are those that occur, sorted.
    """
    stated = _class_names(classes)
    if isinstance(labels, torch.Tensor):
        labels = as_array(labels)
    if is_frame(labels) and len(column_names(labels)) == 1:
        labels = cells_of(labels, 0)
    elif is_frame(labels):
        stated = stated or _class_names(column_names(labels))
        labels = numbers(labels, "y", "It must have one column of numbers for each class.")
    listed = stated or tuple(known)  # names of indices and columns
    one_column = isinstance(labels, np.ndarray) and labels.ndim == 2 and labels.shape[1] == 1
    if one_column and len(listed) != 1:
        labels = labels[:, 0]  # as df[["label"]].to_numpy() gives it
    if hasattr(labels, "tocsr") or (isinstance(labels, np.ndarray) and labels.ndim == 2):
        return _from_array(labels.tocsr() if hasattr(labels, "tocsr") else labels, listed, unlisted)
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
        for row, entry in enumerate(entries):
            if getattr(entry, "shape", None) != first.shape:
                raise InputError(
                    f"y[{row}] is {described(entry)}, but y[0] is {described(entries[0])}: the rows of a "
                    "matrix need the same length."
                )
        return _from_array(np.stack(entries), listed, unlisted)
    lists = isinstance(first, list)
    if isinstance(_check_alike(entries, lists=lists), int):
        if lists:
            return _from_index_lists(entries, listed, unlisted)
        return _from_array(np.asarray(entries), listed or _numbered(max(entries) + 1), unlisted)
    return _from_names(entries, stated, unlisted, (rules or Rules())._replace(known=stated or known))


def _class_names(classes: Sequence[str] | None) -> tuple[str, ...]:
    """Class names that the user listed, checked to be distinct; empty if there are none."""
    given = () if classes is None else classes
    names = [given] if isinstance(given, str) else list(given)
    first: dict[str, int] = {}
    for position, name in enumerate(names):
        if not isinstance(name, str) or first.setdefault(name, position) != position:
            wrong = "occurs twice" if isinstance(name, str) else "is not text"
            raise InputError(f"classes[{position}]: {quoted(name)} {wrong}: give distinct names as text.")
    return tuple(class_name(name, f"classes[{position}]") for position, name in enumerate(names))


def _numbered(count: int) -> tuple[str, ...]:
    return tuple(map(str, range(count)))


def _plain(label: Any) -> Any:
    """A label or a list of labels with the types of Python; an array of several numbers stays one."""
    if isinstance(label, torch.Tensor):
        label = as_array(label)
    if isinstance(label, (np.generic, np.ndarray)) and label.ndim == 0:
        label = label.item()
    if isinstance(label, float) and label.is_integer():
        return int(label)  # pandas makes numbers of a column with a missing one floats
    if isinstance(label, np.ndarray) and label.dtype.kind in "UO":
        label = label.tolist()
    if isinstance(label, (set, frozenset)):
        label = sorted(label, key=str)
    return [_plain(entry) for entry in label] if isinstance(label, (list, tuple)) else label


def _check_alike(entries: Sequence[Any], *, lists: bool) -> Any:
    """Check that labels, or those in lists, are all names or all indices. Returns the first one."""
    verb, expected = ("holds", "class names or class indices") if lists else ("is", ACCEPTED)
    missing = (
        ": leave missing labels out of the list, which may be empty."
        if lists
        else ", but every sample needs a label. Leave out samples without one, or give a list of labels for "
        "each sample, which may be empty."
    )
    first: Any = None
    for row, entry in enumerate(entries):
        if lists and not isinstance(entry, list):
            raise InputError(
                f"y[{row}] is {described(entry)}, but y[0] is a list: give a list of labels for each sample."
            )
        for label in entry if lists else (entry,):
            if is_missing(label):
                raise InputError(f"y[{row}] {verb} {label}{missing}")
            is_label = isinstance(label, (str, int)) and not isinstance(label, bool)
            first = label if first is None and is_label else first
            if is_label and isinstance(label, str) == isinstance(first, str):
                continue
            if not is_label and (lists or first is None):
                raise InputError(f"y[{row}] {verb} {described(label)}; expected {expected}.")
            kind = "name" if isinstance(first, str) else "index"
            others = f"others hold {described(first)}" if lists else f"y[0] is a class {kind}"
            raise InputError(
                f"y[{row}] {verb} {described(label)}, but {others}: labels are all names or all indices."
            )
    return first


def _from_array(array: Any, classes: tuple[str, ...], unlisted: Unlisted) -> Labels:
    observed, note = read_labels([(MEMORY, array)], classes, unlisted)
    return Labels(classes or _numbered(observed.num_classes), True, observed, (note,))


def _from_index_lists(rows: list[list[int]], classes: tuple[str, ...], unlisted: Unlisted) -> Labels:
    """Labels in lists of indices of classes; refuses lists that look like the rows of a matrix."""
    classes = classes or _numbered(max(label for row in rows for label in row) + 1)
    repeats = next((row for row, labels in enumerate(rows) if len({*labels}) < len(labels)), None)
    if repeats is not None or {len(labels) for labels in rows} == {len(classes)}:
        what = "every list has an index of each class"
        raise InputError(
            f"y: {what if repeats is None else f'y[{repeats}] repeats a class index'}, as if it were the row "
            "of a matrix: lists hold the indices of the labels of a sample. Pass a matrix as an array: "
            "numpy.array(y)."
        )
    for row, labels in enumerate(rows):
        for index in labels:
            if not 0 <= index < len(classes):
                raise InputError(f"y[{row}]: class index {index} is outside 0 ... {len(classes) - 1}.")
    names = ([classes[index] for index in labels] for labels in rows)
    observed = ObservedLabels.from_names(names, classes, unlisted=unlisted)
    return Labels(classes, True, observed, ("y holds lists of class indices.",))


def _from_names(
    entries: Sequence[str | list[str]], stated: tuple[str, ...], unlisted: Unlisted, rules: Rules
) -> Labels:
    """Labels in text or in lists of text."""
    cells = Column(entries)
    found = label_cells(cells, "y: labels", lambda row: f"y[{row}]", rules)
    classes = stated or found.classes
    if not classes:
        raise InputError("y: no sample has a label. At least some must have one.")
    for row in found.unread.tolist():
        raise InputError(f"y[{row}]: {found.notes[-1]} Correct it, or leave the sample out.")
    known = {*classes}
    for code, names in enumerate(found.names):
        for name in names:
            if name not in known:
                raise InputError(
                    f"y[{cells.first[code]}]: {quote(name)} is not one of the {len(classes)} classes. "
                    f"{nearest(name, classes)}"
                )
    doubtful = [tuple(name for name in names if name in known) for names in found.doubtful]
    observed = label_entries(
        found.entries(classes),
        (len(entries), len(classes)),
        unlisted,
        negative=found.entries(classes, found.absent),
        unknown=found.entries(classes, doubtful),
    )
    return Labels(classes, bool(stated), observed, ("y holds class names.", *found.notes))
