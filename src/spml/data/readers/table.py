"""Table of images in CSV, TSV or Parquet: a column `file`, labels, and optionally a column `split`.

Labels are in a column `label` (one class name per row), in a column `labels` (several), or in one column per
class (`marks`). An image may have several rows.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ...config import DataConfig
from ...errors import InputError
from ...labels import ObservedLabels
from ..phrases import counted
from ..records import Records
from ..safe import quote
from .delimited import EXPECTED, Table, open_delimited, shorten
from .documents import class_name
from .entries import Entries, label_entries
from .image_rows import Column, ImageRows, text
from .marks import read_class_columns
from .parquet import open_parquet
from .places import images_folder
from .registry import Source, register_reader

SUFFIXES = (".csv", ".tsv", ".parquet")
SEPARATORS = {";": "semicolons", "|": "bars", ",": "commas", " ": "spaces"}
_KNOWN = ("file", "label", "labels", "split")


def is_table(source: Source) -> bool:
    """Whether the suffix of a file is that of a table."""
    return source.suffix in SUFFIXES


@register_reader("table", "a table", recognises=is_table, priority=-1)
def read_table(path: Path, config: DataConfig) -> Records:
    """Read a CSV, TSV or Parquet file; files are relative to its folder or to `config.images`.

    A column `label` holds one class name per row. A column `labels` holds several: as a list in Parquet,
    otherwise separated by `config.separator` or what `recognise_separator` finds. The labels in all rows of
    an image are merged.

    Raises:
        InputError: The file can't be understood; names the row.
    """
    table = open_parquet(path) if path.suffix.lower() == ".parquet" else open_delimited(path)
    columns = _find_columns(table)
    rows = ImageRows(table, columns, images_folder(config) or path.parent)
    read = _read_names if {"label", "labels"} & {*columns} else _read_marks
    content = read(table, columns, rows, config)
    used = {*columns.values(), *content.columns}
    unused = shorten(name for k, name in enumerate(table.names) if name and k not in used)
    notes = (
        *table.notes,
        f"{path.name}: columns that are not used: {unused}." if unused else "",
        content.note,
        rows.note(),
    )
    return Records(
        source=str(path),
        name=path.stem if path.stem != "labels" else path.resolve().parent.name,
        ids=rows.names,
        inputs=rows.paths,
        classes=content.classes,
        classes_given=read is _read_marks,
        labels=content.labels,
        split=rows.splits,
        notes=tuple(filter(None, notes)),
    )


def recognise_separator(cells: Sequence[str], source: str) -> str:
    """Separator of the labels in cells such as "cat;dog"; empty if no cell holds more than one word.

    It is `;`, `|` or `,` if exactly one of them occurs. As a class name may contain a space, a space is a
    separator only where words recombine: at least two thirds of the words of cells with several words must
    also occur in other cells.

    Args:
        cells: Cells of the column `labels`.
        source: Name of the file, for messages.

    Raises:
        InputError: Several of these characters occur, or spaces may or may not separate labels.
    """
    marks = [mark for mark in (";", "|", ",") if any(mark in cell for cell in cells)]
    if len(marks) > 1:
        example = next(cell for cell in cells if marks[0] in cell)
        raise InputError(
            f"{source}: ambiguous: labels contain {' and '.join(map(repr, marks))} (for example "
            f"{quote(example)}), and any of them may separate labels. Pass --data.separator '{marks[0]}', or "
            "another one."
        )
    if marks:
        return marks[0]
    distinct = {tuple(cell.split()) for cell in cells}
    uses = Counter(word for words in distinct for word in set(words))
    compound = {word for words in distinct if len(words) > 1 for word in words}
    if not compound:
        return ""
    if sum(uses[word] > 1 for word in compound) * 3 >= len(compound) * 2:
        return " "
    example = next(cell for cell in cells if len(cell.split()) > 1)
    raise InputError(
        f"{source}: ambiguous: {quote(example)} may be one label, or several separated by spaces. If spaces "
        "separate labels, pass --data.separator ' '; if every row has one label, call the column `label`; "
        "otherwise separate labels by ';'."
    )


def _find_columns(table: Table) -> dict[str, int]:
    """Positions of the columns `file`, `label` or `labels`, and `split`."""
    lower = [name.lower() for name in table.names]
    columns = {name: lower.index(name) for name in _KNOWN if name in lower}
    if "file" not in columns:
        raise InputError(
            f"{table.path}: the header has no column `file`; found: {shorten(table.names).lower()}. "
            f"{EXPECTED}."
        )
    repeated = [name for name, count in Counter(table.names).items() if name and count > 1]
    repeated += [name for name in columns if lower.count(name) > 1]
    if repeated or {"label", "labels"} <= {*columns}:
        raise InputError(
            f"{table.path}: the header names a column twice: {shorten(repeated or ('label', 'labels'))}. "
            f"{EXPECTED}."
        )
    return columns


class _Content(NamedTuple):
    """Labels of a table.

    Attributes:
        classes: Class names.
        labels: Labels of each image.
        columns: Columns that stand for a class.
        note: How the labels were understood; may be empty.
    """

    classes: tuple[str, ...]
    labels: ObservedLabels
    columns: list[int]
    note: str


def _read_marks(table: Table, columns: Mapping[str, int], rows: ImageRows, config: DataConfig) -> _Content:
    """Read columns that stand for one class each."""
    rest = [k for k in sorted(table.scalar) if table.names[k] and k not in columns.values()]
    marked = read_class_columns(table, rest, rows.read(rest), config.unlisted)
    classes = tuple(class_name(table.names[k], str(table.path)) for k in marked.columns)
    labels = ObservedLabels.from_ternary(_merge(marked.ternary, rows, classes))
    stand = counted(len(classes), "column stands", "columns stand")
    note = f"{table.path.name}: {stand} for a class ({shorten(classes)}): {marked.sentence}"
    return _Content(classes, labels, marked.columns, note)


def _read_names(table: Table, columns: Mapping[str, int], rows: ImageRows, config: DataConfig) -> _Content:
    """Read the column `label` or `labels`."""
    source = table.path
    column = "labels" if "labels" in columns else "label"
    cells = Column()
    for (cell,) in rows.read([columns[column]]):
        cells.append(tuple(map(text, cell)) if isinstance(cell, list) else text(cell))
    strings = [cell for cell in cells.values if isinstance(cell, str) and cell]
    separator = note = ""
    if column == "labels":
        separator = config.separator or recognise_separator(strings, str(source))
        if separator and strings:
            name = SEPARATORS.get(separator, repr(separator))
            how = "stated" if config.separator else "recognised"
            note = f"{source.name}: labels are separated by {name} ({how})."
    elif several := next((cell for cell in strings if re.search("[;|]", cell)), ""):
        note = (
            f"{source.name}: the column is `label`, so {quote(several)} is one class name; call the column "
            "`labels` if it holds several."
        )
    names = [_split(cell, separator) for cell in cells.values]
    _check_cells(cells, names, rows, config)
    if column == "labels" and config.unlisted == "negative":
        _check_repeats([names[code] for code in cells.codes.tolist()], rows)
    classes = tuple(sorted({class_name(name, str(source)) for some in names for name in some}))
    if not classes:
        raise InputError(f"{source}: no row has a label. At least one row must have one.")
    position = {name: k for k, name in enumerate(classes)}
    positions = [[position[name] for name in some] for some in names]
    images, labels = array("q"), array("q")
    for image, code in zip(rows.of_row.tolist(), cells.codes.tolist(), strict=True):
        for k in positions[code]:
            images.append(image)
            labels.append(k)
    shape = len(rows.names), len(classes)
    return _Content(classes, label_entries(Entries.of(images, labels), shape, config.unlisted), [], note)


def _split(cell: str | tuple[str, ...], separator: str) -> tuple[str, ...]:
    """Class names in a cell. One is empty where the cell has an empty entry."""
    if isinstance(cell, tuple) or not cell:
        return tuple(cell)
    if separator == " ":
        return tuple(cell.split())
    return tuple(name.strip() for name in cell.split(separator)) if separator else (cell,)


def _check_cells(cells: Column, names: Sequence[Sequence[str]], rows: ImageRows, config: DataConfig) -> None:
    """Check that no cell has an empty label, and that none is blank where a label must be known."""
    for code, (cell, some) in enumerate(zip(cells.values, names, strict=True)):
        row = 0 if all(some) and some else cells.first_row(code)
        if not all(some):
            quoted = "the list" if isinstance(cell, tuple) else quote(cell)
            raise InputError(f"{rows.where(row)}: {quoted} has an empty label. Remove it.")
        if not some and config.unlisted == "unknown":
            raise InputError(
                f"{rows.where(row)}: {quote(rows.names[rows.of_row[row]])} has no label, so nothing is known "
                "about it. Remove the row, give it a label, or, if every true label is listed in this file, "
                "pass --data.unlisted negative."
            )


def _check_repeats(names: Sequence[Sequence[str]], rows: ImageRows) -> None:
    """Check that all rows of an image have the same names."""
    for row in rows.repeats.tolist():
        first = rows.first[rows.of_row[row]]
        if {*names[first]} != {*names[row]}:
            raise InputError(
                f"{rows.both(first, row)}, with different labels, but data.unlisted=negative says that each "
                "row lists all of them. Write one row: "
                f"{';'.join(dict.fromkeys((*names[first], *names[row])))[:200]}"
            )


def _merge(ternary: npt.NDArray[np.int8], rows: ImageRows, classes: Sequence[str]) -> npt.NDArray[np.int8]:
    """Labels of each image: those that any of its rows knows."""
    if not len(rows.repeats):
        return ternary
    order = np.argsort(rows.of_row, kind="stable")
    starts = np.unique(rows.of_row[order], return_index=True)[1]
    largest, smallest = (
        extreme.reduceat(ternary[order], starts, axis=0) for extreme in (np.maximum, np.minimum)
    )
    conflicts = np.argwhere((largest == 1) & (smallest == -1)).tolist()
    if conflicts:
        image, column = conflicts[0]
        values = np.where(rows.of_row == image, ternary[:, column], 0).tolist()
        raise InputError(
            f"{rows.both(*sorted((values.index(1), values.index(-1))))}, but contradict each other about "
            f"{classes[column]!r}. Correct one of them."
        )
    return np.where(largest == 1, largest, smallest)
