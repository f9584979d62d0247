"""Text files with one row per line: CSV and TSV, read row by row."""

from __future__ import annotations

import codecs
import csv
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import Protocol

from ...errors import InputError
from ..safe import CONTROL

DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs"}
EXPECTED = (
    "Expected the columns `file` and `label`, or `file` and `labels`, or `file` and one column per class, "
    "and perhaps `split`"
)
QUOTES = 'Is a quote (") not closed there?'
MAX_COLUMNS = 100_000
MAX_LINE = 8_000_000  # characters


class Table(Protocol):
    """Rows and columns, whatever file they are in."""

    @property
    def names(self) -> Sequence[str]:
        """The columns."""
        ...

    @property
    def flat(self) -> frozenset[int]:
        """The columns that hold one value in each cell."""
        ...

    @property
    def counted(self) -> str:
        """How rows are numbered, for messages; empty if as in a spreadsheet."""
        ...

    @property
    def notes(self) -> tuple[str, ...]:
        """What was recognised, one line each."""
        ...

    def rows(self, columns: Sequence[int]) -> Iterator[tuple[int, Sequence[object]]]:
        """The number of each row, and its cells in some columns.

        Raises:
            InputError: a row that can't be read.
        """
        ...


@dataclass(frozen=True)
class Delimited:
    """A CSV file. Rows are counted as a spreadsheet does: the header is row 1."""

    path: Path
    delimiter: str
    names: tuple[str, ...]
    counted: str = ""

    @property
    def flat(self) -> frozenset[int]:
        """All columns."""
        return frozenset(range(len(self.names)))

    @property
    def notes(self) -> tuple[str, ...]:
        """What the delimiter is, unless it is a comma."""
        if self.delimiter == ",":
            return ()
        return (f"{self.path.name}: columns are separated by {DELIMITERS[self.delimiter]}.",)

    def rows(self, columns: Sequence[int]) -> Iterator[tuple[int, Sequence[str]]]:
        """Rows that are not blank; the cells are as the file has them.

        Raises:
            InputError: no valid CSV; a row of another length than the header.
        """
        chosen = itemgetter(*columns, *columns[:1])  # of one column alone it would not return a tuple
        width, count = len(self.names), len(columns)
        reader = csv.reader(read_lines(self.path), delimiter=self.delimiter, strict=True)
        empty = True
        try:
            for number, row in enumerate(reader, start=1):
                if number == 1 or not any(row) or not any(cell.strip() for cell in row):
                    continue
                if len(row) != width:
                    raise InputError(
                        f"{self.path}: row {number} has {len(row):,} cells, but the header has {width:,}: "
                        f"{_shown(row)}. Put a cell that contains the delimiter in quotes, for example "
                        '"cat,dog".'
                    )
                empty = False
                yield number, chosen(row)[:count]
        except csv.Error as error:
            raise InputError(
                f"{self.path}: is no valid CSV near line {reader.line_num}: {error}. {QUOTES}"
            ) from error
        if empty:
            raise InputError(f"{self.path}: has a header but no rows. {EXPECTED}, then one row per image.")


def open_delimited(path: Path) -> Delimited:
    """Recognise the delimiter (`,`, `;` or tab) by the header, which must have a column `file` and another.

    Raises:
        InputError: an empty file, or no such header.
    """
    if not any(line.strip() for line in read_lines(path)):
        raise InputError(f"{path}: the file is empty. {EXPECTED}.")
    found: tuple[str, ...] = ()
    for delimiter in DELIMITERS:
        try:
            cells = next(csv.reader(read_lines(path), delimiter=delimiter), [])
        except csv.Error:
            continue
        if len(cells) > MAX_COLUMNS:
            raise InputError(
                f"{path}: row 1 has {len(cells):,} columns, more than {MAX_COLUMNS:,}. {EXPECTED}; with many "
                "classes, list those of an image in one column `labels`."
            )
        names = tuple(cell.strip() for cell in cells)
        if len(names) > len(found):
            found = names
        if len(names) > 1 and "file" in map(str.lower, names):
            return Delimited(path, delimiter, names)
    missing = "`label` or `labels`" if "file" in map(str.lower, found) else "`file`"
    raise InputError(
        f"{path}: row 1 has no column {missing}; found: {shorten(found).lower() or 'nothing'}. {EXPECTED}."
    )


def read_lines(path: Path) -> Iterator[str]:
    """The lines of a UTF-8 file with their ends; a byte order mark is left out.

    Raises:
        InputError: can't be read, another encoding, a NUL byte, a line longer than MAX_LINE.
    """
    try:
        with open(path, encoding="utf-8-sig", newline="") as stream:
            number = 0
            while line := stream.readline(MAX_LINE):
                number += 1
                if "\0" in line:
                    raise InputError(
                        f"{path}: line {number} holds a NUL byte, which no text has: the file is damaged, or "
                        f"in UTF-16, which is converted so: iconv -f UTF-16LE -t UTF-8 {path.name}."
                    )
                if len(line) >= MAX_LINE:
                    raise InputError(
                        f"{path}: line {number} is longer than {MAX_LINE:,} characters. Is it a text file "
                        "with one row per line?"
                    )
                yield line
    except UnicodeDecodeError as error:
        raise InputError(_not_utf8(path)) from error
    except OSError as error:
        raise InputError(f"{path}: can't be read: {error.strerror or error}.") from error


def shorten(names: Iterable[str]) -> str:
    """Names as a list for a message, of bounded length and on one line."""
    short = (name if len(name) < 60 else name[:57] + "..." for name in islice(names, 100))
    text = ", ".join(repr(name) if CONTROL.search(name) else name for name in short)
    return text if len(text) <= 200 else text[:197] + "..."


def _shown(row: Sequence[str]) -> str:
    return str([cell if len(cell) < 60 else cell[:57] + "..." for cell in row[:6]])


def _not_utf8(path: Path) -> str:
    """Where a file stops to be UTF-8, and how to convert it."""
    decoder, position, line = codecs.getincrementaldecoder("utf-8")(), 0, 1
    likely, wrong, at = "LATIN1", 0, 0
    with open(path, "rb") as stream:
        while block := stream.read(1 << 20):
            if position == 0 and block.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
                likely = "UTF-16"
            waiting = decoder.getstate()[0]
            try:
                decoder.decode(block)
            except UnicodeDecodeError as error:
                data = waiting + block
                wrong, at = data[error.start], position - len(waiting) + error.start
                line += data.count(b"\n", 0, error.start)
                break
            position += len(block)
            line += block.count(b"\n")
        else:
            waiting = decoder.getstate()[0]  # the file ends within a character
            wrong, at = waiting[0], position - len(waiting)
    return (
        f"{path}: is not UTF-8: byte 0x{wrong:02x} at position {at}, line {line}. Save it as UTF-8 "
        "(spreadsheets call it 'CSV UTF-8'), or convert it, for example: "
        f"iconv -f {likely} -t UTF-8 {path.name}."
    )
