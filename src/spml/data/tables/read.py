"""From a table to records: the images that it names, and labels in one column or in a column per class."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ...common.documents import class_name
from ...common.errors import InputError, nearest
from ...common.label_checks import rows_of
from ...common.phrases import counted, shorten
from ...common.safe import quote
from ...common.spreadsheets import unguarded
from ...config import DataConfig
from ...labels import ObservedLabels
from ..files.names import FilesBelow
from ..files.places import images_folder
from ..records import Records, in_both, label_entries
from ..rename import wanted_names
from .cells import CellLabels, Column, label_cells
from .class_columns import find_class_columns
from .columns import PLURALS, Columns, describe, find_columns, find_file, propose_classes
from .delimited import names_files, open_delimited
from .json_lines import open_json_lines
from .parquet import open_parquet
from .rows import ImageRows
from .table import Table
from .text_rows import TextRows, without_empty
from .values import BLANK, COUNT, MARKS, meaning

_OPENERS = {
    ".csv": open_delimited,
    ".tsv": open_delimited,
    ".parquet": open_parquet,
    ".jsonl": open_json_lines,
}
SUFFIXES = tuple(_OPENERS)


def open_table(path: Path, file_column: str = "") -> Table:
    """Open a CSV, TSV, JSON Lines or Parquet file; a file of another suffix as CSV."""
    return _OPENERS.get(path.suffix.lower(), open_delimited)(path, file_column)


def read_table(path: Path, config: DataConfig) -> Records:
    """Read a CSV, TSV, JSON Lines or Parquet file; files are relative to its folder or to `config.images`.

    Labels are in one column, of which `parse_cells` reads the cells, or in a column per class (`marks`). The
    labels in all rows of an image are merged.
    """
    return read_rows(open_table(path, config.file_column), images_folder(config) or path.parent, config)


def read_file_list(path: Path, images: str | None) -> tuple[Sequence[str], FilesBelow]:
    """Read the files that a table names, for prediction: the names as written, each once, and the files.

    Names are relative to the folder `images`, or to that of the table if that is None.
    """
    table = open_table(path)
    root = path.parent if images is None else Path(images)
    if not root.is_dir():
        raise InputError(f"`images`: {quote(str(root))} is not a folder.")
    if not names_files(table.names):
        raise InputError(
            f"{path}: the header has no column `file` (or `filename`, `image`, `path`, `id`); found: "
            f"{shorten(table.names)}. Rename the column that names the images to `file`."
        )
    try:
        rows = ImageRows(table, Columns(find_file(table), -1), root, DataConfig(max_unreadable=0))
        rows.read_columns([])
    except InputError as error:
        raise InputError(str(error).replace("data.images", "`images`")) from error
    _, first = np.unique(rows.image_of_written, return_index=True)
    return tuple(rows.written[position] for position in first.tolist()), rows.inputs


def read_rows(table: Table, root: Path, config: DataConfig) -> Records:
    """Read a table that has been opened, whose files are relative to `root`."""
    path, columns = table.path, find_columns(table, config)
    rows = (TextRows if columns.text else ImageRows)(table, columns, root, config)
    read = _read_marks if columns.label < 0 else _read_names
    content = read(rows)
    if columns.checked >= 0:
        content = _add_checked(content, rows)
    used = columns.used | {*content.columns}
    if config.split == "ignore":
        used -= {columns.split}
    unused = shorten(describe(table, [k for k, name in enumerate(table.names) if name and k not in used]))
    notes = (
        *table.notes,
        _name_columns(table, columns),
        *columns.notes,
        f"{path.name}: columns that are not used: {unused}." if unused else "",
        *content.notes,
        _name_guarded(table, content.classes),
        *rows.notes(),
    )
    records = Records(
        source=str(path),
        name=path.stem if path.stem != "labels" else path.resolve().parent.name,
        ids=rows.names,
        inputs=rows.inputs,
        classes=content.classes,
        classes_given=read is _read_marks,
        labels=content.labels,
        split=rows.splits,
        groups=rows.groups,
        notes=tuple(filter(None, notes)),
    )
    return without_empty(records) if columns.text else records


def _name_columns(table: Table, columns: Columns) -> str:
    """Note on columns that are used although they have other names than `file`, `label` or `labels`."""
    roles = {"images": (columns.file, ("file",)), "labels": (columns.label, ("label", "labels"))}
    if columns.text:
        roles["images"] = roles.pop("images")[0], ("id",)
        roles = {"names of the samples": roles.pop("images"), **roles}
    phrases = [
        f"the {role} are those of the column {quote(table.names[k])}"
        for role, (k, usual) in roles.items()
        if k >= 0 and table.names[k].lower() not in usual
    ]
    if columns.text:
        phrases.insert(0, f"the texts are those of {shorten(table.names[k] for k in columns.text)}")
    return f"{table.path.name}: {', '.join(phrases)}." if phrases else ""


def _name_guarded(table: Table, classes: Sequence[str]) -> str:
    """Note on class names with a ' that may be there for spreadsheets only."""
    names = [name for name in classes if unguarded(name) != name]
    if not names:
        return ""
    return (
        f"{table.path.name}: class names are read as they are: {counted(len(names), 'name')} such as "
        f"{quote(names[0])} may be from a file that was written with `spreadsheet_safe`. Write it without, "
        "or rename the classes with data.rename."
    )


class _Content(NamedTuple):
    classes: tuple[str, ...]
    labels: ObservedLabels  # of each image
    columns: Collection[int]  # further columns that are used
    notes: Sequence[str]  # how the labels were understood
    unread: npt.NDArray[np.int64] = np.zeros(0, np.int64)  # images of which a label can't be read


def _read_marks(rows: ImageRows) -> _Content:
    """Read columns that stand for one class each."""
    table, columns = rows.table, rows.columns
    rest = columns.marks or [k for k in sorted(table.scalar - columns.used) if table.names[k]]
    blocks = [
        np.array([array("b", map(MARKS.__getitem__, cells)) for cells in block], np.int8)
        for block in rows.read(rest)
    ]
    codes = np.concatenate(blocks, axis=1) if rest else np.zeros((0, len(rows.of_row)), np.int8)
    places = find_class_columns(table, rest, codes, stated=columns.marks is not None)
    chosen, codes = [rest[place] for place in places], codes[places].T
    classes = tuple(class_name(table.names[k], str(table.path)) for k in chosen)
    present = np.unique(codes).tolist()
    zero, blank, sentence = meaning(present, rows.config.default_label, str(table.path))
    values = np.array([zero, 1, blank, 0, 1, -1], np.int8)  # by code; -1 is the last one
    stand = counted(len(classes), "column stands", "columns stand")
    notes = [f"{table.path.name}: {stand} for a class ({shorten(classes)}): {sentence}"]
    if COUNT in present:
        notes.append(
            f"{table.path.name}: a number above 1 in such a column is a count, so the class is present."
        )
    return _Content(classes, ObservedLabels.from_ternary(_merge(values[codes], rows, classes)), chosen, notes)


def _read_names(rows: ImageRows) -> _Content:
    """Read the column that holds class names, and a column that says whether each is present."""
    table, columns, config = rows.table, rows.columns, rows.config
    further = [columns.presence] if columns.presence >= 0 else []
    cells, *others = rows.read_columns([columns.label, *further])
    labels = _cell_labels(rows, columns.label, cells)
    classes = labels.classes
    if len(labels.unread) and config.unlabelled == "stop":
        raise InputError(
            f"{labels.notes[-1]} Correct it, or pass data.unlabelled=skip to leave such rows out."
        )
    if not classes:
        unread = f" {labels.notes[-1]}" if len(labels.unread) else ""
        named = propose_classes(table, columns)
        raise InputError(f"{table.path}: no row has a label.{unread} At least one row must have one.{named}")
    if labels.several and config.default_label == "negative":
        _check_repeats(labels, rows)
    row, column = labels.entries(classes)
    positive, negative, notes = (rows.of_row[row], column), None, labels.notes
    if further and not len(rows.repeats):
        further = []  # every row is an image of its own, of which the column may say anything
    elif further:
        name, marks = quote(table.names[columns.presence]), _presence(rows, others[0])
        positive, negative = (
            (rows.of_row[row[keep]], column[keep]) for keep in (marks[row] == 1, marks[row] == 0)
        )
        if both := in_both(positive, negative):
            image, k = both
            about = row[(rows.of_row[row] == image) & (column == k)]
            present, absent = (int(about[marks[about] == mark][0]) for mark in (1, 0))
            raise rows.contradiction(present, absent, classes[k])
        says = "says whether the label of a row is present (1) or absent (0)"
        notes = [*notes, f"{table.path.name}: {name} {says}."]
    unknown = None
    images = np.unique(rows.of_row[labels.unread])
    if len(images):
        unknown = np.repeat(images, len(classes)), np.tile(np.arange(len(classes)), len(images))
    shape = len(rows.names), len(classes)
    observed = label_entries(positive, shape, config.default_label, negative=negative, unknown=unknown)
    return _Content(classes, observed, [columns.label, *further], notes, images)


def _presence(rows: ImageRows, cells: Column) -> npt.NDArray[np.int64]:
    """Whether the label of each row is present: 1, 0, or `BLANK` where it is not known."""
    marks = [MARKS[cell] for cell in cells.values]
    for code, mark in enumerate(marks):
        if mark not in (0, 1, BLANK):
            name, cell = quote(rows.table.names[rows.columns.presence]), quote(cells.values[code])
            raise InputError(
                f"{rows.where(cells.first[code])}: the column {name} holds {cell}, but 1 and 0 in other "
                "rows, as if it said whether the label of a row is present. Correct the cell; if the column "
                "means something else, rename or remove it."
            )
    return np.array(marks)[cells.codes]


def _cell_labels(rows: ImageRows, column: int, cells: Column, known: Collection[str] = ()) -> CellLabels:
    """Labels in a column; with `known`, the classes that were looked for."""
    name = rows.table.names[column]
    return label_cells(
        cells,
        f"{rows.table.path.name}: column {quote(name)}",
        rows.where,
        separator=rows.config.separator,
        plural=bool(known) or any(word in name.lower() for word in PLURALS),
        known=known,
        keep=wanted_names(rows.config),
    )


def _add_checked(content: _Content, rows: ImageRows) -> _Content:
    """Make the classes that a column lists, those that were looked for, known negatives where not present."""
    table, column, cells = rows.table, rows.columns.checked, Column()
    for block in table.blocks([column]):
        cells.extend(block.cells[0])
    looked = _cell_labels(rows, column, cells, content.classes)
    for row in looked.unread.tolist():
        raise InputError(f"{rows.where(row)}: {looked.notes[-1]} Correct it.")
    names = wanted_names(rows.config)
    occur = {names.get(name, name) for name in content.classes}
    further = {name for name in looked.classes if names.get(name, name) in occur}
    classes = (*content.classes, *sorted(further - {*content.classes}))
    if rows.columns.label >= 0:
        classes = tuple(sorted(classes))
    absent = sorted({*looked.classes}.difference(classes))
    row, entry = looked.entries([*classes, *absent])
    keep = (entry < len(classes)) & ~np.isin(rows.of_row[row], content.unread)
    labels = content.labels.with_classes(rows_of(classes, content.classes), len(classes))
    absent_rows, absent_columns = labels.entries(-1)
    negative = np.append(absent_rows, rows.of_row[row[keep]]), np.append(absent_columns, entry[keep])
    shape = len(labels), len(classes)
    observed = label_entries(labels.entries(1), shape, "unknown", negative=negative)
    name = quote(table.names[column])
    notes = [*content.notes, *looked.notes]
    notes.append(f"{table.path.name}: a class that {name} lists and that is not among the labels is absent.")
    if absent:
        notes.append(
            f"{table.path.name}: {name} lists classes that no sample has, so that they are left out: "
            f"{shorten(absent)}. {nearest(absent[0], content.classes)}"
        )
    return _Content(classes, observed, [*content.columns, column], notes)


def _check_repeats(labels: CellLabels, rows: ImageRows) -> None:
    """Check that all rows of an image have the same names."""
    for row in rows.repeats.tolist():
        first = rows.first[rows.of_row[row]]
        one, other = (labels.names[labels.codes[k]] for k in (first, row))
        if {*one} != {*other}:
            raise InputError(
                f"{rows.both(first, row)}, with different labels, but data.unlisted=negative says that each "
                f"row lists all of them. Write one row: {';'.join(dict.fromkeys((*one, *other)))[:200]}"
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
    for image, column in np.argwhere((largest == 1) & (smallest == -1)).tolist():
        values = np.where(rows.of_row == image, ternary[:, column], 0).tolist()
        raise rows.contradiction(values.index(1), values.index(-1), classes[column])
    return np.where(largest == 1, largest, smallest)
