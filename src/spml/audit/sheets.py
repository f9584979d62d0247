"""The table in which people write all labels of some samples: `file,labels,complete`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..data.safe import CONTROL, quote
from ..errors import InputError
from ..files import write_json, write_rows, write_text
from ..version import __version__
from .folder import BETWEEN_NAMES

SHEET_FORMAT = 1
COLUMNS = ("file", "labels", "complete")


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
        InputError: The name does not end in .csv, its folder does not exist, or one of the files exists and
            `overwrite` is not set.
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
