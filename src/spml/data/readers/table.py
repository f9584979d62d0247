"""Table of images in CSV, TSV or Parquet: a column `file`, labels, and optionally a column `split`.

Labels are in a column `label` (one class name per row), in a column `labels` (several), or in one column per
class (`marks`). Other usual names of these columns are understood, too (`columns`). An image may have several
rows.
"""

from __future__ import annotations

from collections.abc import Sequence
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
from .columns import Columns, find_columns
from .delimited import Table, open_delimited, shorten
from .documents import class_name
from .entries import Entries, label_entries
from .image_rows import Column, ImageRows
from .marks import read_class_columns
from .parquet import open_parquet
from .places import images_folder
from .registry import Source, register_reader
from .separators import (
    SEPARATORS,
    are_lists,
    list_separator,
    looks_split,
    recognise_separator,
    split_list,
)

SUFFIXES = (".csv", ".tsv", ".parquet")


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
    open_table = open_parquet if path.suffix.lower() == ".parquet" else open_delimited
    return read_rows(open_table(path, config.file_column), images_folder(config) or path.parent, config)


def read_rows(table: Table, root: Path, config: DataConfig) -> Records:
    """Read a table that has been opened.

    Args:
        table: The table.
        root: Folder that files are relative to.
        config: Settings of the data.

    Raises:
        InputError: The table can't be understood; names the row.
    """
    path, columns = table.path, find_columns(table, config)
    rows = ImageRows(table, columns, root, config)
    read = _read_marks if columns.label < 0 else _read_names
    content = read(table, columns, rows, config)
    used = columns.used | {*content.columns}
    if config.split == "ignore":
        used -= {columns.split}
    unused = shorten(name for k, name in enumerate(table.names) if name and k not in used)
    notes = (
        *table.notes,
        _name_columns(table, columns),
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


def _name_columns(table: Table, columns: Columns) -> str:
    """Note on columns that are used although they have other names than `file`, `label` or `labels`."""
    roles = {"images": (columns.file, ("file",)), "labels": (columns.label, ("label", "labels"))}
    phrases = [
        f"the {role} are those of the column {quote(table.names[k])}"
        for role, (k, usual) in roles.items()
        if k >= 0 and table.names[k].lower() not in usual
    ]
    return f"{table.path.name}: {', '.join(phrases)}." if phrases else ""


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


def _read_marks(table: Table, columns: Columns, rows: ImageRows, config: DataConfig) -> _Content:
    """Read columns that stand for one class each."""
    rest = [k for k in sorted(table.scalar) if table.names[k] and k not in columns.used]
    marked = read_class_columns(table, rest, rows.read(rest), config.unlisted)
    classes = tuple(class_name(table.names[k], str(table.path)) for k in marked.columns)
    labels = ObservedLabels.from_ternary(_merge(marked.ternary, rows, classes))
    stand = counted(len(classes), "column stands", "columns stand")
    note = f"{table.path.name}: {stand} for a class ({shorten(classes)}): {marked.sentence}"
    return _Content(classes, labels, marked.columns, note)


def _read_names(table: Table, columns: Columns, rows: ImageRows, config: DataConfig) -> _Content:
    """Read the column that holds class names."""
    source = table.path
    cells = rows.read_column(columns.label)
    strings = [cell for cell in cells.values if isinstance(cell, str) and cell]
    several = columns.several or config.separator is not None
    separator = note = ""
    lists = several and are_lists(strings)
    if several and not (lists and config.separator is None):
        separator = config.separator or recognise_separator(strings, str(source))
    if lists:
        note = f"{source.name}: labels are lists in brackets."
    elif separator and strings:
        name = SEPARATORS.get(separator, repr(separator))
        how = "stated" if config.separator else "recognised"
        note = f"{source.name}: labels are separated by {name} ({how})."
    elif not several:
        note = _note_list(table, columns, cells)
    names = [split_list(cell) if lists else _split(cell, separator) for cell in cells.values]
    _check_cells(cells, names, rows)
    if several and config.unlisted == "negative":
        _check_repeats([names[code] for code in cells.codes.tolist()], rows)
    classes = tuple(sorted({class_name(name, str(source)) for some in names for name in some}))
    if not classes:
        raise InputError(f"{source}: no row has a label. At least one row must have one.")
    position = {name: k for k, name in enumerate(classes)}
    count = np.array([len(some) for some in names])
    start = np.cumsum(count) - count
    labels = np.array([position[name] for some in names for name in some])
    # Row by row, the positions in `labels` of its cell: from the start of the cell on.
    number = count[cells.codes]
    within = np.arange(number.sum()) - np.repeat(np.cumsum(number) - number, number)
    columns_of = labels[np.repeat(start[cells.codes], number) + within]
    entries = Entries.of(np.repeat(rows.of_row, number), columns_of)
    shape = len(rows.names), len(classes)
    return _Content(classes, label_entries(entries, shape, config.unlisted), [], note)


def _note_list(table: Table, columns: Columns, cells: Column) -> str:
    """Note on a column of one label per row whose cells look like lists; empty if they don't."""
    found = list_separator(cells.values, np.bincount(cells.codes, minlength=len(cells.values)))
    if not found:
        return ""
    name = table.names[columns.label]
    example = next(cell for cell in cells.values if isinstance(cell, str) and looks_split(cell, found))
    return (
        f"{table.path.name}: the column is {quote(name)}, so {quote(example)} is one class name. If such a "
        f"cell holds several labels, pass --data.separator '{found}' or call the column `labels`."
    )


def _split(cell: str | tuple[str, ...], separator: str) -> tuple[str, ...]:
    """Class names in a cell. One is empty where the cell has an empty entry."""
    if isinstance(cell, tuple) or not cell:
        return tuple(cell)
    if separator == " ":
        return tuple(cell.split())
    return tuple(name.strip() for name in cell.split(separator)) if separator else (cell,)


def _check_cells(cells: Column, names: Sequence[Sequence[str]], rows: ImageRows) -> None:
    """Check that no cell has an empty label among others."""
    for code, (cell, some) in enumerate(zip(cells.values, names, strict=True)):
        if not all(some):
            quoted = "the list" if isinstance(cell, tuple) else quote(cell)
            raise InputError(f"{rows.where(cells.first_row(code))}: {quoted} has an empty label. Remove it.")


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
