"""CSV file: one row per image, with the columns `file`, `label` or `labels`, and perhaps `split`."""

from __future__ import annotations

import codecs
import csv
import io
import os
import posixpath
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PureWindowsPath

from ...config import DataConfig
from ...errors import InputError
from ...labels import ObservedLabels
from ..records import Records
from ..splits import SPELLINGS, split_name

DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs"}
SEPARATORS = {";": "semicolons", "|": "bars", ",": "commas", " ": "spaces"}
EXPECTED = "Expected the columns `file` and `label`, or `file` and `labels`, and perhaps `split`"


@dataclass(frozen=True)
class _Row:
    number: int  # as a spreadsheet counts: the header is row 1
    file: str
    names: tuple[str, ...]
    split: str | None


def read_table(path: Path, config: DataConfig) -> Records:
    """Read a CSV file; files are looked up relative to its folder.

    `label` holds one class name, `labels` several. The delimiter of columns (`,`, `;`, tab) is recognised by
    the header, the separator of labels as `recognise_separator` says unless `config.separator` states it.

    Raises:
        InputError: anything that can't be understood; names the row.
    """
    cells, delimiter = _cells(path)
    several = "labels" in cells[0][1]
    column = "labels" if several else "label"
    notes = []
    if delimiter != ",":
        notes.append(f"{path.name}: columns are separated by {DELIMITERS[delimiter]}.")
    unused = [name for name in cells[0][1] if name not in ("file", column, "split")]
    if unused:
        notes.append(f"{path.name}: columns that are not used: {', '.join(unused)}.")
    separator = ""
    if several:
        separator = config.separator or recognise_separator(
            [row[column] for _, row in cells if row[column]], str(path)
        )
        if separator:
            notes.append(
                f"{path.name}: labels are separated by {SEPARATORS.get(separator, repr(separator))}"
                + (" (stated)." if config.separator else " (recognised).")
            )
    elif mixed := next((row[column] for _, row in cells if re.search("[;|]", row[column])), ""):
        notes.append(
            f"{path.name}: the column is `label`, so {mixed!r} is one class name; call the column `labels` "
            "if it holds several."
        )
    rows = [_row(path, number, row, column, separator, config) for number, row in cells]
    _refuse_duplicates(path, rows, column)
    _refuse_missing(path, rows)
    classes = tuple(sorted({name for row in rows for name in row.names}))
    if not classes:
        raise InputError(f"{path}: no row has a label. At least some must have one.")
    return Records(
        source=str(path),
        name=path.stem if path.stem != "labels" else path.resolve().parent.name,
        ids=tuple(row.file for row in rows),
        inputs=tuple(path.parent / row.file for row in rows),
        classes=classes,
        classes_given=False,
        labels=ObservedLabels.from_names([row.names for row in rows], classes, unlisted=config.unlisted),
        split=tuple(row.split or "" for row in rows) if rows[0].split is not None else None,
        notes=tuple(notes),
    )


def recognise_separator(cells: Sequence[str], source: str) -> str:
    """What separates labels in cells such as "cat;dog"; empty if no cell holds more than one word.

    One of `;`, `|` and `,` if exactly one of them occurs. A space only where words recombine, since a class
    name may contain one: two thirds of the words of cells with several words must also occur in other cells.

    Raises:
        InputError: several of them occur, or it can't be told whether spaces separate labels.
    """
    found = [mark for mark in (";", "|", ",") if any(mark in cell for cell in cells)]
    if len(found) > 1:
        example = next(cell for cell in cells if found[0] in cell)
        raise InputError(
            f"{source}: labels contain {' and '.join(repr(mark) for mark in found)} (for example "
            f"{example!r}), so it can't be told which one separates them. State it: --data.separator "
            f"'{found[0]}'."
        )
    if found:
        return found[0]
    distinct = {tuple(cell.split()) for cell in cells}
    uses = Counter(word for words in distinct for word in set(words))
    compound = {word for words in distinct if len(words) > 1 for word in words}
    if not compound:
        return ""
    if sum(uses[word] > 1 for word in compound) * 3 >= len(compound) * 2:
        return " "
    example = next(cell for cell in cells if len(cell.split()) > 1)
    raise InputError(
        f"{source}: it can't be told whether {example!r} is one label or several separated by spaces. If "
        "spaces separate labels, say --data.separator ' '; if every row has one label, call the column "
        "`label`; otherwise separate labels by ';'."
    )


def _cells(path: Path) -> tuple[list[tuple[int, dict[str, str]]], str]:
    """Numbered rows as dicts from column to stripped cell, and the delimiter."""
    text = _text(path)
    if not text.strip():
        raise InputError(f"{path}: the file is empty. {EXPECTED}.")
    delimiter, header = _header(path, text)
    rows = []
    try:
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
        for number, row in enumerate(reader, start=1):
            if number == 1 or not any(cell.strip() for cell in row):
                continue
            if len(row) != len(header):
                raise InputError(
                    f"{path}: row {number} has {len(row)} cells, but the header has "
                    f"{len(header)}: {row[:6]}. "
                    'Put a cell that contains the delimiter in quotes, for example "cat,dog".'
                )
            rows.append((number, dict(zip(header, (cell.strip() for cell in row), strict=True))))
    except csv.Error as error:
        raise InputError(f"{path}: is no valid CSV near line {reader.line_num}: {error}.") from error
    if not rows:
        raise InputError(f"{path}: has a header but no rows. {EXPECTED}, then one row per image.")
    return rows, delimiter


def _text(path: Path) -> str:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: can't be read: {error.strerror}.") from error
    data = data.removeprefix(codecs.BOM_UTF8)
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        likely = "UTF-16" if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "LATIN1"
        raise InputError(
            f"{path}: is not UTF-8: byte 0x{data[error.start]:02x} at position {error.start}, line {line}. "
            "Save it as UTF-8 (spreadsheets call it 'CSV UTF-8'), or convert it, for example: "
            f"iconv -f {likely} -t UTF-8 {path.name}."
        ) from error


def _header(path: Path, text: str) -> tuple[str, list[str]]:
    found: list[str] = []
    for delimiter in DELIMITERS:
        try:
            cells = next(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter), [])
        except csv.Error:
            continue
        names = [cell.strip().lower() for cell in cells]
        if len(names) > len(found):
            found = names
        if "file" in names and ("label" in names or "labels" in names):
            if len(set(names)) < len(names) or {"label", "labels"} <= set(names):
                raise InputError(f"{path}: the header names a column twice: {', '.join(names)}. {EXPECTED}.")
            return delimiter, names
    missing = "`file`" if "file" not in found else "`label` or `labels`"
    shown = ", ".join(found)[:200]
    raise InputError(f"{path}: row 1 has no column {missing}; found: {shown or 'nothing'}. {EXPECTED}.")


def _row(
    path: Path, number: int, row: dict[str, str], column: str, separator: str, config: DataConfig
) -> _Row:
    where = f"{path}: row {number}"
    split = None
    if "split" in row:
        split = split_name(row["split"])
        if split is None:
            raise InputError(
                f"{where}: the split is {row['split']!r}, but must be one of {', '.join(SPELLINGS)}. Fill it "
                "in for every row or remove the column."
            )
    text = row[column]
    if separator and text:
        parts = text.split() if separator == " " else text.split(separator)
        names = tuple(part.strip() for part in parts)
        if not all(names):
            raise InputError(
                f"{where}: {text!r} has an empty label between separators {separator!r}. Remove it."
            )
    else:
        names = (text,) if text else ()
    if not names and config.unlisted == "unknown":
        raise InputError(
            f"{where}: {row['file']!r} has no label, so nothing is known about it. Remove the row, give it a "
            "label, or, if every true label is listed in this file, say --data.unlisted negative."
        )
    return _Row(number, _inside(where, row["file"]), names, split)


def _inside(where: str, file: str) -> str:
    """The file as a relative POSIX path below the CSV file's folder."""
    if not file:
        raise InputError(f"{where}: the cell `file` is empty.")
    relative = posixpath.normpath(file.replace("\\", "/"))
    windows = PureWindowsPath(file)
    if relative.startswith("/") or relative.split("/")[0] == ".." or windows.drive or windows.root:
        raise InputError(
            f"{where}: {file!r} lies outside the folder of the CSV file. Give paths relative to that folder, "
            "without leaving it; move the CSV file above the images if need be."
        )
    return relative


def _refuse_duplicates(path: Path, rows: Sequence[_Row], column: str) -> None:
    first: dict[str, _Row] = {}
    for row in rows:
        other = first.setdefault(row.file, row)
        if other is row:
            continue
        where = f"{path}: rows {other.number} and {row.number} both name {row.file!r}"
        if set(other.names) == set(row.names):
            raise InputError(f"{where}. Remove one of them.")
        together = ";".join(dict.fromkeys(other.names + row.names))
        raise InputError(
            f"{where}, with different labels. Write all labels of an image in one row, in a column named "
            f"`labels`: {row.file},{together}"
        )


def _refuse_missing(path: Path, rows: Sequence[_Row]) -> None:
    missing = [row for row in rows if not os.path.isfile(path.parent / row.file)]
    if missing:
        row = missing[0]
        raise InputError(
            f"{path}: row {row.number}: there is no file {row.file!r} in {path.parent}"
            + (f" ({len(missing):,} files are missing in all)" if len(missing) > 1 else "")
            + ". Paths are relative to the folder of the CSV file."
        )
