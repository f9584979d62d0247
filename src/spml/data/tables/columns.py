"""Which columns of a table name the images and hold labels and split: by their names or their values."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from ...common.errors import InputError, nearest
from ...common.phrases import counted, first_few, shorten
from ...common.safe import CONTROL, quote
from ...config import DataConfig
from ..images.image_files import SUFFIXES
from ..splits import SPELLINGS, split_name
from .delimited import FILE_COLUMNS
from .marks import BAD, BLANK, MARKS
from .table import EXPECTED, Table, text

LABEL_COLUMNS = (("label", "labels"), ("tag", "tags", "category", "categories", "class", "classes"))
PLURALS = ("labels", "tags", "categories", "classes")
SPLIT_COLUMNS = (
    "split", "subset", "set", "partition", "part", "phase", "usage", "ml_use", "learn_tag", "fold",
)  # fmt: skip
SPLIT_FLAGS = {
    "is_valid": "val", "is_val": "val", "is_validation": "val", "is_test": "test", "is_train": "train",
    "is_training": "train",
}  # fmt: skip
PRESENCE_COLUMNS = (
    "present", "is_present", "presence", "exists", "value", "answer", "positive", "is_positive", "truth",
    "verified", "observed", "confidence", "vote", "score",
)  # fmt: skip
INFERRED = {"inferred": 1, "inferred_negative": -1}
"""Columns in which `spml data convert` writes labels that a model inferred, which are no known ones."""

_DESCRIBED = 100  # columns that are looked at for a note
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")


class Columns(NamedTuple):
    """Positions of the columns of a table; -1 for one that it does not have.

    Attributes:
        file: Column that names the images.
        label: Column that holds class names; -1 if there is a column per class.
        marks: Columns of classes that the user named; None = to be found by their cells.
        split: Column that holds the split.
        split_if: Split of the rows where that column is true; empty if it holds names of splits.
        presence: Column that says whether the label of a row is present, in a table with a row per label.
        notes: What was decided by the values of columns.
        checked: Column that lists the classes that were looked for.
    """

    file: int
    label: int
    marks: tuple[int, ...] | None = None
    split: int = -1
    split_if: str = ""
    presence: int = -1
    notes: tuple[str, ...] = ()
    checked: int = -1

    @property
    def used(self) -> set[int]:
        """Positions of the columns that the table has."""
        return {self.file, self.label, self.split, self.checked} - {-1}


class _Peek:
    """First cells of the columns of a table, read when they are needed."""

    def __init__(self, table: Table, taken: Iterable[int]) -> None:
        self._table = table
        left = table.scalar - {*taken}
        self.columns = [column for column in sorted(left) if is_named(table.names[column])]

    @cached_property
    def cells(self) -> Mapping[int, Sequence[object]]:
        return self._table.peek(self.columns) if self.columns else {}

    def codes(self, column: int) -> set[int]:
        return {*map(MARKS.__getitem__, self.cells[column])}

    def are_marks(self, column: int) -> bool:
        """Whether a column seems to stand for a class."""
        codes = [code for code in map(MARKS.__getitem__, self.cells[column]) if code != BLANK]
        return bool(codes) and 2 * codes.count(BAD) <= len(codes)


def is_named(name: str) -> bool:
    """Whether a column has a name of its own, unlike the index that pandas writes."""
    return bool(name) and not name.lower().startswith(("unnamed:", "__index_level_"))


def find_columns(table: Table, config: DataConfig) -> Columns:
    """Find the columns of a table.

    Raises:
        InputError: A column that `config` names does not exist; none names the images; a name occurs twice;
            or several columns may hold files or labels.
    """
    names = table.names
    if repeated := [name for name, count in Counter(names).items() if name and count > 1]:
        raise InputError(f"{table.path}: the header names a column twice: {shorten(repeated)}. {EXPECTED}.")
    file = find_file(table, config.file_column)
    lower = [name.lower() for name in names]
    if config.split_column:
        split = find_stated(names, config.split_column, "split_column", str(table.path))
    elif len(splits := _positions(names, ("split",))) > 1:
        raise _ambiguous(names, splits, "hold the split", "split_column", str(table.path))
    else:
        split = splits[0] if splits else -1
    checked = -1
    if config.checked_column:
        checked = find_stated(names, config.checked_column, "unlisted column:", str(table.path))
    peek = _Peek(table, {file, split, checked})
    label, marks = _find_label(table, config, {file, split, checked}, peek)
    split_if = ""
    notes: tuple[str, ...] = ()
    rest = [k for k in peek.columns if k != label and k not in (marks or ())]
    if split < 0:
        split, split_if, notes = _find_split(table, rest, peek)
    elif lower[split] in SPLIT_FLAGS:
        split_if = SPLIT_FLAGS[lower[split]]
    presence = [k for k in rest if lower[k] in PRESENCE_COLUMNS and peek.codes(k) - {BLANK} == {0, 1}]
    present = presence[0] if label >= 0 and len(presence) == 1 else -1
    return Columns(file, label, marks, split, split_if, present, notes, checked)


def find_file(table: Table, stated: str = "") -> int:
    """Position of the column that names the images.

    Args:
        table: The table.
        stated: `data.file_column`; empty = found by its name.

    Raises:
        InputError: There is none, or several.
    """
    names, source = table.names, str(table.path)
    if stated:
        return find_stated(names, stated, "file_column", source)
    for known in FILE_COLUMNS:
        found = [k for k in _positions(names, known) if k in table.scalar]
        if len(found) > 1:
            raise _ambiguous(names, found, "name the images", "file_column", source)
        if found:
            return found[0]
    raise _no_file(table)


def find_stated(names: Sequence[str], stated: str, setting: str, source: str) -> int:
    """Position of the column that a setting names.

    Raises:
        InputError: The table lacks this column.
    """
    for found in (
        [k for k, name in enumerate(names) if name == stated],
        _positions(names, (stated.lower(),)),
    ):
        if found:
            return found[0]
    by_lower = {name.lower(): name for name in names if name}
    raise InputError(
        f"{source}: --data.{setting} {stated}: no column has this name; found: {shorten(names)}. "
        f"{nearest(stated, by_lower)}"
    )


def option(setting: str, name: str) -> str:
    """An option with the name of a column, as it is typed."""
    return f"--data.{setting} {quote(name) if CONTROL.search(name) else shlex.quote(name)}"


def repeating(cells: Sequence[object], *, numbers: bool = False) -> int:
    """Number of different words in a column whose words repeat, as labels do; 0 for other columns.

    Args:
        cells: Cells of the column.
        numbers: Whether numbers are words, too, such as the ids of classes.
    """
    words = [word for word in map(text, cells) if word]
    different = len({*words})
    digits = 0 if numbers else sum(word.replace(".", "", 1).lstrip("-").isdecimal() for word in words)
    return different if 2 <= different < len(words) and 2 * digits < len(words) else 0


def _find_label(
    table: Table, config: DataConfig, taken: set[int], peek: _Peek
) -> tuple[int, tuple[int, ...] | None]:
    """Position of the column that holds class names, or -1 and the columns of classes that the user named."""
    names, source = table.names, str(table.path)
    if stated := config.label_column:
        several = [part.strip() for part in stated.split(",")]
        if stated not in names and len(several) > 1:
            return -1, tuple(find_stated(names, part, "label_column", source) for part in several)
        return find_stated(names, stated, "label_column", source), None
    certain, likely = ([k for k in _positions(names, known) if k not in taken] for known in LABEL_COLUMNS)
    found = certain or likely
    if not found:
        return -1, None
    # A table with a column per class may have a class `tag`, or a column `category` of its own.
    marks = [k for k in peek.columns if peek.are_marks(k)]
    words = [k for k in found if certain or k not in marks]
    others = [
        k for k in marks if k not in found and names[k].lower() not in (*SPLIT_FLAGS, *PRESENCE_COLUMNS)
    ]
    if len(words) > 1:
        raise _ambiguous(names, words, "hold the labels", "label_column", source)
    if not words and (len(likely) > 1 or others):
        return -1, None
    label = (words or likely)[0]
    classes = []
    if label in marks:
        different = len({*map(text, peek.cells[label])})
        blank = [k for k in peek.columns if k != label and not peek.cells[k]]
        classes = others if certain and different <= 2 else blank if not certain and different == 1 else []
    elif not certain and len(others) > 1:
        classes = others
    if not classes:
        return label, None
    too, every = ("it and ", [label, *classes]) if label in marks else ("", classes)
    raise InputError(
        f"{source}: ambiguous: the column {quote(names[label])} may hold the labels, but {too}the columns "
        f"{shorten(names[k] for k in classes)} hold marks or nothing, as if each stood for a class. If it "
        f"holds the labels, pass {option('label_column', names[label])}; otherwise name the classes: "
        f"{option('label_column', ','.join(names[k] for k in every))}."
    )


def _find_split(table: Table, rest: Sequence[int], peek: _Peek) -> tuple[int, str, tuple[str, ...]]:
    """Position of a column that holds the split, the split of its true cells, and a note; -1 if none does."""
    names = table.names
    found: dict[int, str] = {}
    for k in rest:
        flag = SPLIT_FLAGS.get(names[k].lower(), "")
        if flag and peek.codes(k) == {0, 1}:
            found[k] = flag
        cells = {text(cell).lower() for cell in peek.cells[k]}
        if cells and cells <= SPELLINGS.keys():
            splits = {split_name(cell) for cell in cells}
            if ("train" in splits and len(splits) > 1) or names[k].lower() in SPLIT_COLUMNS:
                found[k] = ""
    if len(found) > 1:
        raise _ambiguous(names, [*found], "hold the split", "split_column", str(table.path))
    for k, flag in found.items():
        how = f"true = {flag}" if flag else "recognised by its values"
        return k, flag, (f"{table.path.name}: the split is that of the column {quote(names[k])} ({how}).",)
    return -1, "", ()


def _no_file(table: Table) -> InputError:
    """Error of a table that has no column with a known name for files, with what its values suggest."""
    names, path = table.names, table.path
    if any(_looks_like_file(name) or _ADDRESS.match(name) for name in names):
        return InputError(
            f"{path}: has no header: its first row is {shorten(names)}. Add a line above it that names the "
            f"columns, such as file,label. {EXPECTED}."
        )
    peek = _Peek(table, ())
    cells = peek.cells
    files = [k for k in cells if cells[k] and all(_looks_like_file(text(cell)) for cell in cells[k])]
    lower = [name.lower() for name in names]
    known = any(name in group for name in lower for group in LABEL_COLUMNS)
    labels = [k for k in cells if k not in files and repeating(cells[k])]
    found = (
        f"{path}: the header has no column `file` (or `filename`, `image`, `path`, `id`); found:"
        f" {shorten(names)}."
    )
    if addresses := [k for k in files if any(_ADDRESS.match(text(cell)) for cell in cells[k])]:
        return InputError(
            f"{found} The column {quote(names[addresses[0]])} holds addresses, but only files on this machine"
            " are read: download the images, and name the files in a column `file`."
        )
    if files:
        label = "" if known or not labels else f", and {_propose(names, labels, cells)}"
        options = " or ".join(option("file_column", names[k]) for k in files)
        return InputError(f"{found} Pass {options}{label}.")
    if all(peek.are_marks(k) or _are_numbers(map(text, cells[k])) for k in peek.columns if k not in labels):
        return InputError(
            f"{found} If the rows are features instead of images, save them as an .npz file with the arrays"
            " X, Y and classes, or pass a DataFrame X and labels y in Python."
        )
    return InputError(
        f"{found} If another column names the images, pass it as --data.file_column. {EXPECTED}."
    )


def _propose(names: Sequence[str], labels: Sequence[int], cells: Mapping[int, Sequence[object]]) -> str:
    """Columns whose values repeat, with the option that names one as the column of labels."""
    some = [
        f"{option('label_column', names[k])} ({repeating(cells[k], numbers=True):,} different values)"
        for k in labels
    ]
    return f"the column that holds the labels, such as {first_few(some, 4, ' or ')}"


def propose_labels(table: Table, columns: Iterable[int]) -> str:
    """Phrase on columns that may hold the labels, since their values repeat; empty if there are none."""
    cells = table.peek([*columns])
    named = [k for k in cells if is_named(table.names[k])]
    labels = [k for k in named if repeating(cells[k])] or [
        k for k in named if repeating(cells[k], numbers=True)
    ]
    lists = [option("label_column", name) for k, name in enumerate(table.names) if k not in table.scalar]
    if lists:
        return f"the column that holds the labels, such as {first_few(lists, 4, ' or ')} (lists)"
    return _propose(table.names, labels, cells) if labels else ""


def describe(table: Table, columns: Sequence[int]) -> list[str]:
    """Names of columns with what they hold, for a note on those that are not used."""
    cells = table.peek([k for k in columns if k in table.scalar][:_DESCRIBED])
    described = []
    for k in columns:
        name = table.names[k]
        words = [*map(text, cells.get(k, ()))]
        if k not in cells:
            described.append(name if k in table.scalar or not is_named(name) else f"{name} (lists)")
        elif not words:
            described.append(f"{name} (blank)")
        elif _are_numbers(words):
            described.append(f"{name} (numbers)")
        else:
            different = repeating(words)
            described.append(
                f"{name} ({counted(different, 'word')} that repeat)" if different else f"{name} (text)"
            )
    return described


def _looks_like_file(word: str) -> bool:
    dot = word.rfind(".")
    return dot > 0 and word[dot:].lower() in SUFFIXES


def _are_numbers(words: Iterable[str]) -> bool:
    try:
        return bool([*map(float, words)])
    except ValueError:
        return False


def _positions(names: Sequence[str], known: Iterable[str]) -> list[int]:
    return [k for k, name in enumerate(names) if name.lower() in known]


def _ambiguous(
    names: Sequence[str], found: Sequence[int], what: str, setting: str, source: str
) -> InputError:
    columns = " and ".join(quote(names[k]) for k in found)
    options = " or ".join(option(setting, names[k]) for k in found)
    return InputError(f"{source}: ambiguous: the columns {columns} may {what}. Pass {options}.")
