"""Samples to label in full, and the table in which people write all their labels: `file,labels,complete`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from ..common.documents import parse_json
from ..common.draws import permutation
from ..common.errors import InputError, nearest
from ..common.files import (
    check_json_sha256,
    check_new,
    check_writable,
    write_checked_json,
    write_rows,
    write_text,
)
from ..common.phrases import counted, shorten
from ..common.safe import CONTROL, quote, read_bytes
from ..common.spreadsheets import unguarded
from ..config import DataConfig, from_dict
from ..data.records import MEMORY
from ..data.tables.formats import Table, open_delimited
from ..decisions.priors import FEWEST_AUDITED
from ..version import __version__
from .folder import BETWEEN_NAMES

SHEET_FORMAT = 1
COLUMNS = ("file", "labels", "complete")
_YES, _NO = ("yes", "y", "true", "1", "x"), ("", "no", "n", "false", "0")


def draw_sample(samples: int, rows: int, seed: int = 0) -> npt.NDArray[np.int64]:
    """Draw samples to label in full: every set of `rows` samples is equally likely.

    Their order is random, so that the first ones of them are a random sample, too.

    Args:
        samples: Number N of samples to draw from.
        rows: Number of samples to draw, at least 20.
        seed: Seed of the draw, which is the same on every platform.

    Returns:
        int64 (rows,), distinct numbers below N.

    Raises:
        InputError: There are not so many samples, or K could not be estimated from so few.
    """
    if rows < FEWEST_AUDITED:
        raise InputError(
            f"{rows} samples are too few to estimate anything: draw at least {FEWEST_AUDITED}, better 50 or "
            "more (`rows`)"
        )
    if rows > samples:
        raise InputError(f"{rows:,} samples can't be drawn from {samples:,}: draw fewer (`rows`)")
    return permutation(samples, "audit", seed)[:rows]


class Answers(NamedTuple):
    """All labels of some samples, as people wrote them.

    Attributes:
        ids: Names of the m samples.
        truth: Their labels, bool (m, C).
    """

    ids: tuple[str, ...]
    truth: npt.NDArray[np.bool_]


class Sample(NamedTuple):
    """A sample to label in full, as far as people have filled in its table.

    Attributes:
        ids: Names of the m samples, in random order.
        classes: Names of the C classes.
        labels: Labels that the table has, known and written ones, bool (m, C).
        complete: Whether a row is said to have all its labels, bool (m,).
        runs: Folders of the runs that it was drawn for.
        source: Path of the data that the sample was drawn from; empty if it was in memory.
        data: Settings of the data that the samples are part of; None if it was in memory.
    """

    ids: tuple[str, ...]
    classes: tuple[str, ...]
    labels: npt.NDArray[np.bool_]
    complete: npt.NDArray[np.bool_]
    runs: tuple[str, ...]
    source: str
    data: DataConfig | None


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
        raise InputError(f"{sheet}: the table is a CSV file, so its name must end in .csv (`output`).")
    if not sheet.parent.is_dir():
        raise InputError(f"{sheet.parent}: no such folder. Make it, or name another `output`.")
    for path in sheet_files(sheet):
        if path.is_dir():
            raise InputError(f"{path}: is a folder; name another `output`.")
        check_new(path, overwrite=overwrite)
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
    versions = {"format": SHEET_FORMAT, "spml": __version__}
    own = {"samples": list(ids), "classes": list(classes)}
    write_checked_json(files.about, {**versions, **about, **own})
    rows = ((name, BETWEEN_NAMES.join(labels), "") for name, labels in zip(ids, given, strict=True))
    write_rows(files.sheet, COLUMNS, rows)
    return files


class _About(msgspec.Struct):
    """The parts of the JSON file next to a table that are read again."""

    spreadsheet_safe: bool = False
    runs: tuple[str, ...] = ()
    data: dict[str, Any] | None = None
    samples: tuple[str, ...] | None = None
    classes: tuple[str, ...] | None = None


_UNREADABLE = (OSError, msgspec.MsgspecError, RecursionError, ValueError)


def _read_about(sheet: Path) -> _About:
    text = read_bytes(sheet_files(sheet).about)
    about = msgspec.json.decode(text, type=_About)
    check_json_sha256(parse_json(text))
    return about


def read_sample(sheet: Path, data: str = "") -> Sample:
    """Read a sample to label in full, whose table need not be filled in.

    Args:
        sheet: Table that `spml audit sample` wrote.
        data: Path of the data, if it was moved since or was in memory.

    Raises:
        InputError: A file that belongs to it is missing or damaged, or a row is refused as by `read_answers`.
    """
    files = sheet_files(sheet)
    if not sheet.is_file():
        raise InputError(f"{sheet}: no such file. Name the table that spml audit sample wrote.")
    try:
        about = _read_about(sheet)
        names = read_bytes(files.classes).decode().split("\n")
    except FileNotFoundError as error:
        raise InputError(
            f"{error.filename}: no such file. It belongs to {sheet}; restore it, or draw the sample again "
            "with spml audit sample."
        ) from error
    except _UNREADABLE as error:
        raise InputError(
            f"{files.about} or {files.classes.name}: is damaged ({error}). Restore it, or draw the sample "
            "again with spml audit sample."
        ) from error
    classes = tuple(filter(None, names))
    if about.classes is not None and about.classes != classes:
        raise InputError(
            f"{files.classes}: does not have the classes that {files.about.name} lists. Restore it, or draw "
            "the sample again with spml audit sample."
        )
    _, row_of, labels, incomplete = _read_rows(sheet, classes, about)
    complete = np.array([row not in incomplete for row in row_of.values()], np.bool_)
    settings = about.data or {}
    source = str(settings.get("path", ""))
    if Path(source).name == MEMORY:
        source = ""
    if data or source:
        config = from_dict({"data": {**settings, "path": data or source}}).data
    else:
        config = None
    return Sample(tuple(row_of), classes, labels, complete, about.runs, source, config)


def write_labelled(sheet: Path, answers: Answers, classes: Sequence[str]) -> None:
    """Write a table that is filled in, for `read_answers`.

    Raises:
        InputError: It has fewer rows than an audit needs.
        SpmlError: The file can't be written.
    """
    if len(answers.ids) < FEWEST_AUDITED:
        raise InputError(
            f"{sheet}: is not written: {counted(len(answers.ids), 'sample is', 'samples are')} complete "
            f"from the first one on, and an audit needs at least {FEWEST_AUDITED}, better 50 or more."
        )
    named = ([classes[column] for column in np.flatnonzero(row).tolist()] for row in answers.truth)
    cells = zip(answers.ids, map(BETWEEN_NAMES.join, named), strict=True)
    write_rows(sheet, COLUMNS, ((name, labels, "yes") for name, labels in cells))


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
    try:
        about = _read_about(sheet)
    except _UNREADABLE:
        about = _About()
    table, row_of, labels, incomplete = _read_rows(sheet, classes, about)
    if incomplete:
        first = next(name for name, row in row_of.items() if row == incomplete[0])
        raise InputError(
            f"{table.where(incomplete[0])}: {quote(first)} is not complete; {len(incomplete):,} of "
            f"{counted(len(row_of), 'row')} are not. Write all labels of each and then yes into `complete`, "
            f"or label them on a page with spml review {sheet}. "
            "To stop early, delete every row below the last one that you labelled in the given order, which "
            "is random; leaving out rows because they are hard would bias K."
        )
    return Answers(tuple(row_of), labels)


def _read_rows(
    sheet: Path, classes: Sequence[str], about: _About
) -> tuple[Table, dict[str, int], npt.NDArray[np.bool_], list[int]]:
    """The table; its samples with the numbers of their rows; their labels, bool (m, C); numbers of rows not
    complete."""
    table = open_delimited(sheet)
    names = [name.lower() for name in table.names]
    for column in COLUMNS:
        if names.count(column) != 1:
            raise InputError(
                f"{sheet}: needs one column {column!r}, but the header has {shorten(table.names)}. Name the "
                f"table that spml audit sample wrote; its columns are {', '.join(COLUMNS)}."
            )
    written, drawn = unguarded if about.spreadsheet_safe else str, set(about.samples or ())
    position = {name: column for column, name in enumerate(classes)}
    row_of: dict[str, int] = {}
    incomplete: list[int] = []
    labels: list[list[int]] = []
    for row, cells in table.rows([names.index(column) for column in COLUMNS]):
        name, given, complete = (written(str(cell)).strip() for cell in cells)
        if not name:
            raise InputError(f"{table.where(row)}: the name of the sample is empty. Restore it.")
        if drawn and name not in drawn:
            raise InputError(
                f"{table.where(row)}: {quote(name)} is not one of the samples that were drawn, as "
                f"{sheet_files(sheet).about.name} lists them. Remove the row, or restore the table."
            )
        if name in row_of:
            raise InputError(f"{table.where(row_of[name], row)}: both are {quote(name)}. Remove one of them.")
        row_of[name] = row
        listed = list(filter(None, map(str.strip, given.split(BETWEEN_NAMES))))
        for label in listed:
            if label not in position:
                raise InputError(
                    f"{table.where(row)}: {quote(label)} is not a class. {nearest(label, position)} Several "
                    f"labels are separated by {BETWEEN_NAMES}."
                )
        labels.append([position[label] for label in listed])
        if complete.lower() not in (*_YES, *_NO):
            raise InputError(f"{table.where(row)}: `complete` must be yes or empty, got {quote(complete)}.")
        if complete.lower() in _NO:
            incomplete.append(row)
    if not row_of:
        raise InputError(f"{sheet}: has no rows below its header.")
    matrix = np.zeros((len(labels), len(classes)), np.bool_)
    for number, columns in enumerate(labels):
        matrix[number, columns] = True
    return table, row_of, matrix, incomplete
