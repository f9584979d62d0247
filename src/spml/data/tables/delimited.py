"""Delimited text files (CSV, TSV) as tables.

Rows are parsed by the `csv` module. As pandas and `pyarrow.csv` hand out rows of strings they are no faster,
and they lose what messages need: pandas pads short rows and accepts NUL bytes, pyarrow does not report an
unclosed quote, and neither numbers rows as a spreadsheet does.
"""

from __future__ import annotations

import codecs
import csv
import re
from collections.abc import Iterator, Sequence
from functools import partial
from io import StringIO
from itertools import compress, islice
from operator import itemgetter
from pathlib import Path

from ...common.errors import InputError
from ...common.phrases import counted, shorten
from ...common.safe import open_file
from .table import EXPECTED, MAX_COLUMNS, Block, Table

DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
# A name of an earlier group wins, so that a table with `file` may have a column `image`, too.
FILE_COLUMNS = (
    ("file",),
    (
        "filename", "file_name", "filepath", "file_path", "path", "image", "img", "image_path", "img_path",
        "image_file", "image_name", "photo", "picture", "fname",
    ),
    ("id", "image_id", "img_id", "imageid"),
)  # fmt: skip
MAX_LINE = 8_000_000  # characters
# Rows of a block die young, before the garbage collector looks at everything that is alive, too.
_ROWS, _CELLS = 1 << 8, 1 << 21  # in a block, at most
_CHUNK = 1 << 16  # characters
_STATED = re.compile(r"\ufeff?\"?sep=(.)\"?[;,\t]*\s*", re.IGNORECASE)  # the first line of some spreadsheets


def names_files(names: Sequence[str], file_column: str = "", *, ids: bool = True) -> bool:
    """Whether one of the names of columns is that of the column that names the images.

    That is `file_column` if it is not empty, else one of `FILE_COLUMNS`, of which `id` and the like count
    only with `ids`.
    """
    known = {name for group in FILE_COLUMNS[: None if ids else -1] for name in group}
    return not {*map(str.lower, names)}.isdisjoint({file_column.lower()} if file_column else known)


def open_delimited(path: Path, file_column: str = "") -> Table:
    """Open a CSV or TSV file.

    The delimiter is `,`, `;`, a tab or `|`: the first one with which the header has a column that names the
    images and another. A first line `sep=;`, as spreadsheets write it, states it.
    """
    stated = _STATED.fullmatch(next(iter(read_lines(path)), ""))
    skip, delimiters = (1, [stated[1]]) if stated else (0, [*DELIMITERS])
    headers = {delimiter: read_header(path, delimiter, skip=skip) for delimiter in delimiters}
    fitting = (d for d, names in headers.items() if len(names) > 1 and names_files(names, file_column))
    delimiter = next(fitting, None) or max(headers, key=lambda d: len(headers[d]))
    names = headers[delimiter]
    if not names:
        raise InputError(f"{path}: the file is empty, or its first row is not valid CSV. {EXPECTED}.")
    if len(names) > MAX_COLUMNS:
        raise InputError(
            f"{path}: the header has {len(names):,} columns, more than {MAX_COLUMNS:,}. {EXPECTED}; with "
            "many classes, list those of an image in one column `labels`."
        )
    separated = f"{path.name}: columns are separated by {DELIMITERS.get(delimiter, repr(delimiter))}."
    broken: dict[int, str] = {}
    return Table(
        path,
        names,
        frozenset(range(len(names))),
        partial(_blocks, path, delimiter, len(names), skip, broken),
        notes=() if delimiter == "," else (separated,),
        broken=broken,
    )


def read_header(path: Path, delimiter: str = ",", *, skip: int = 0) -> tuple[str, ...]:
    """Cells of the first row that is not blank; empty if there is none or it is not valid CSV."""
    rows = csv.reader(islice(read_lines(path), skip, None), delimiter=delimiter)
    try:
        return next((tuple(map(str.strip, cells)) for cells in rows if any(map(str.strip, cells))), ())
    except csv.Error:
        return ()


def _blocks(
    path: Path, delimiter: str, width: int, skip: int, broken: dict[int, str], columns: Sequence[int]
) -> Iterator[Block]:
    """Rows below the header; those that are longer or shorter than it are left out and named in `broken`."""
    header = True
    size = max(1, min(_ROWS, _CELLS // width))
    for numbers, rows in _row_blocks(path, delimiter, size, skip):
        if header:
            numbers, rows, header = numbers[1:], rows[1:], False
        if {*map(len, rows)} - {width}:
            for number, row in zip(numbers, rows, strict=True):
                if len(row) != width:
                    broken[number] = (
                        f"has {counted(len(row), 'cell')}, but the header has {width:,}: "
                        f"{shorten(map(repr, row))}. Put a cell that contains the delimiter in quotes, for "
                        'example "cat,dog".'
                    )
            numbers = [number for number in numbers if number not in broken]
            rows = [row for row in rows if len(row) == width]
        yield Block(numbers, [list(map(itemgetter(column), rows)) for column in columns])


def read_rows(path: Path, delimiter: str = ",") -> Iterator[tuple[int, list[str]]]:
    """Rows of a CSV file that are not blank, each with its number; the first row is 1."""
    for numbers, rows in _row_blocks(path, delimiter, 1, 0):  # as rows may have a cell per class
        yield from zip(numbers, rows, strict=True)


def _row_blocks(
    path: Path, delimiter: str, size: int, skip: int
) -> Iterator[tuple[Sequence[int], list[list[str]]]]:
    """Rows that are not blank and their numbers, up to `size` at a time."""
    reader = csv.reader(islice(read_lines(path), skip, None), delimiter=delimiter, strict=True)
    start = 1 + skip
    try:
        while rows := [*islice(reader, size)]:
            numbers: Sequence[int] = range(start, start + len(rows))
            start += len(rows)
            filled = [cells and (cells[0].strip() or any(map(str.strip, cells))) for cells in rows]
            if not all(filled):
                numbers, rows = [*compress(numbers, filled)], [*compress(rows, filled)]
            yield numbers, rows
    except csv.Error as error:
        raise InputError(
            f'{path}: is not valid CSV near line {reader.line_num}: {error}. Is a quote (") not closed there?'
        ) from error


def read_lines(path: Path) -> Iterator[str]:
    """Lines of a file in UTF-8, or in UTF-16 with a byte order mark, without the mark and with their ends.

    A line that contains a NUL byte or is longer than `MAX_LINE` is refused.
    """
    try:
        with open_file(path) as stream:
            wide = stream.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
        # The codec utf-8-sig, which drops the mark, is not written in C.
        with open(path, encoding="utf-16" if wide else "utf-8", newline="") as stream:
            text, rest, number = stream.read(_CHUNK).removeprefix("\ufeff"), "", 0
            while text:
                # Much faster than line by line, and unlike `str.splitlines` only at line breaks.
                lines = StringIO(rest + text, newline="").readlines()
                if "\0" in text:
                    number += 1 + next(k for k, line in enumerate(lines) if "\0" in line)
                    raise InputError(
                        f"{path}: line {number} holds a NUL byte, so the file is damaged or in UTF-16, which "
                        f"can be converted: iconv -f UTF-16LE -t UTF-8 {path.name}."
                    )
                if len(lines[0]) >= MAX_LINE:  # the others are shorter than a chunk
                    raise InputError(f"{path}: line {number + 1} is longer than {MAX_LINE:,} characters.")
                rest = "" if text[-1] == "\n" else lines.pop()
                yield from lines
                number += len(lines)
                text = stream.read(_CHUNK)
            if rest:
                yield rest
    except UnicodeError as error:
        raise InputError(f"{path}: is damaged UTF-16: {error}." if wide else _not_utf8(path)) from error
    except OSError as error:
        raise InputError(f"{path}: can't be read: {error.strerror or error}.") from error


def _not_utf8(path: Path) -> str:
    """Message on the first byte of a file that is not UTF-8."""
    where, start = "", 0
    with open(path, "rb") as stream:
        # The limit is above the longest line that `read_lines` accepts.
        for number, line in enumerate(iter(partial(stream.readline, 4 * MAX_LINE + 4), b""), start=1):
            try:
                line.decode()
            except UnicodeDecodeError as error:
                byte = line[error.start]
                where = f": byte 0x{byte:02x} at position {start + error.start}, line {number}"
                break
            start += len(line)
    # Latin-1 with characters for the bytes 0x80 to 0x9f, as spreadsheets in the West write it.
    return (
        f"{path}: is not UTF-8{where}. Save it as UTF-8 (spreadsheets call it 'CSV UTF-8'), or convert it, "
        f"for example: iconv -f CP1252 -t UTF-8 {path.name} > utf8.csv."
    )
