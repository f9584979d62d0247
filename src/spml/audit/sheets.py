"""The table in which people write all labels of some samples: `file,labels,complete`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..common.errors import InputError, nearest
from ..common.files import check_writable, write_json, write_rows, write_text
from ..common.phrases import counted, shorten
from ..common.safe import CONTROL, quote
from ..data.tables.delimited import open_delimited
from ..data.tables.table import Table
from ..version import __version__
from .folder import BETWEEN_NAMES

SHEET_FORMAT = 1
COLUMNS = ("file", "labels", "complete")
_YES, _NO = ("yes", "y", "true", "1", "x"), ("", "no", "n", "false", "0")


class Answers(NamedTuple):
    """All labels of some samples, as people wrote them.

    Attributes:
        ids: Names of the m samples.
        truth: Their labels, bool (m, C).
    """

    ids: tuple[str, ...]
    truth: npt.NDArray[np.bool_]


class SheetFiles(NamedTuple):
    """Files of a sample to label in full.

    Attributes:
        sheet: Table to fill in.
        classes: Text file with the name of a class per line.
        about: JSON file that says what the sample was drawn from.
    """

    sheet: Path
    classes: Path
    about: Path


def sheet_files(sheet: Path) -> SheetFiles:
    """Names of the files that belong to a table: sample.classes.txt and sample.json for sample.csv."""
    return SheetFiles(sheet, sheet.with_suffix(".classes.txt"), sheet.with_suffix(".json"))


def check_sheet(sheet: Path, *, overwrite: bool) -> None:
    """Check, before long work, that a table and its files may be written.

    Raises:
        InputError: The name does not end in .csv, its folder does not exist or can't be written to, or one of
            the files exists and `overwrite` is not set.
    """
    if sheet.suffix.lower() != ".csv":
        raise InputError(f"{sheet}: the table is a CSV file, so its name must end in .csv (--output).")
    if not sheet.parent.is_dir():
        raise InputError(f"{sheet.parent}: no such folder. Make it, or name another --output.")
    for path in sheet_files(sheet):
        if path.is_dir():
            raise InputError(f"{path}: is a folder; name another --output.")
        if path.exists() and not overwrite:
            raise InputError(
                f"{path}: exists already, perhaps with labels that someone wrote. Name another --output, or "
                "pass --overwrite to replace it."
            )
        check_writable(path)


def write_sheet(
    sheet: Path,
    ids: Sequence[str],
    given: Sequence[Sequence[str]],
    classes: Sequence[str],
    about: dict[str, Any],
) -> SheetFiles:
    """Write a table to fill in, with the labels that are known, and the files that belong to it.

    Args:
        sheet: Path of the table.
        ids: Names of the samples.
        given: Names of the known labels of each.
        classes: Names of all classes.
        about: What the sample was drawn from.

    Raises:
        InputError: The name of a class contains the character that separates labels, or a line break.
        SpmlError: A file can't be written.
    """
    for name in classes:
        if BETWEEN_NAMES in name or CONTROL.search(name):
            raise InputError(
                f"the class {quote(name)} can't be written into a table where {BETWEEN_NAMES!r} separates "
                "labels and each row is a line. Rename it in the data and train again."
            )
    files = sheet_files(sheet)
    write_text(files.classes, "".join(f"{name}\n" for name in classes))
    write_json(files.about, {"format": SHEET_FORMAT, "spml": __version__, **about})
    rows = ((name, BETWEEN_NAMES.join(labels), "") for name, labels in zip(ids, given, strict=True))
    write_rows(files.sheet, COLUMNS, rows)
    return files


def read_answers(sheet: Path, classes: Sequence[str]) -> Answers:
    """Read a table that people have filled in.

    Args:
        sheet: CSV or TSV file with the columns `file`, `labels` and `complete`, as `write_sheet` made it.
        classes: Names of the C classes.

    Raises:
        InputError: The file can't be read or lacks a column; a row is not complete, names no sample or one
            that another row names, or has a label that is no class; names the row.
    """
    if not sheet.is_file():
        raise InputError(f"{sheet}: no such file. Name the table that spml audit sample wrote.")
    table = open_delimited(sheet)
    names = [name.lower() for name in table.names]
    for column in COLUMNS:
        if names.count(column) != 1:
            raise InputError(
                f"{sheet}: needs one column {column!r}, but the header has {shorten(table.names)}. Name the "
                f"table that spml audit sample wrote; its columns are {', '.join(COLUMNS)}."
            )
    position = {name: column for column, name in enumerate(classes)}
    row_of: dict[str, int] = {}
    incomplete: list[int] = []
    labels: list[list[int]] = []
    for row, cells in table.rows([names.index(column) for column in COLUMNS]):
        name, given, complete = (str(cell).strip() for cell in cells)
        if not name:
            raise InputError(f"{table.where(row)}: the name of the sample is empty. Restore it.")
        if name in row_of:
            raise InputError(f"{table.where(row_of[name], row)}: both are {quote(name)}. Remove one of them.")
        row_of[name] = row
        labels.append(_columns(given, position, table, row))
        if complete.lower() not in (*_YES, *_NO):
            raise InputError(f"{table.where(row)}: `complete` must be yes or empty, got {quote(complete)}.")
        if complete.lower() in _NO:
            incomplete.append(row)
    if not row_of:
        raise InputError(f"{sheet}: has no rows below its header.")
    if incomplete:
        first = next(name for name, row in row_of.items() if row == incomplete[0])
        raise InputError(
            f"{table.where(incomplete[0])}: {quote(first)} is not complete; {len(incomplete):,} of "
            f"{counted(len(row_of), 'row')} are not. Write all labels of each and then yes into `complete`. "
            "To stop early, delete every row below the last one that you labelled in the given order, which "
            "is random; leaving out rows because they are hard would bias K."
        )
    truth = np.zeros((len(labels), len(classes)), np.bool_)
    for row, columns in enumerate(labels):
        truth[row, columns] = True
    return Answers(tuple(row_of), truth)


def _columns(cell: str, position: dict[str, int], table: Table, row: int) -> list[int]:
    """Columns of the labels in a cell."""
    columns = []
    for name in filter(None, map(str.strip, cell.split(BETWEEN_NAMES))):
        if name not in position:
            raise InputError(
                f"{table.where(row)}: {quote(name)} is not a class. {nearest(name, position)} Several labels "
                f"are separated by {BETWEEN_NAMES}."
            )
        columns.append(position[name])
    return columns
