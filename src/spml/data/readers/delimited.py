"""Delimited text files (CSV, TSV) as a stream of rows, and the `Table` that every kind of table file becomes.

Rows are parsed by the `csv` module. As pandas and `pyarrow.csv` hand out rows of strings they are no faster,
and they lose what messages need: pandas pads short rows and accepts NUL bytes, pyarrow does not report an
unclosed quote, and neither numbers rows as a spreadsheet does.
"""

from __future__ import annotations

import codecs
import csv
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import Any

from ...errors import InputError
from ..phrases import counted
from ..safe import CONTROL
from .whole import delimited_columns

DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs"}
EXPECTED = (
    "Expected the columns `file` and `label`, or `file` and `labels`, or `file` and one column per class, "
    "and optionally `split`"
)
# A name of an earlier group wins, so that a table with `file` may have a column `image`, too.
FILE_COLUMNS = (
    ("file",),
    (
        "filename", "file_name", "filepath", "file_path", "path", "image", "img", "image_path", "img_path",
        "image_file", "image_name", "photo", "picture",
    ),
    ("id", "image_id", "img_id", "imageid"),
)  # fmt: skip
MAX_COLUMNS = 100_000
MAX_LINE = 8_000_000  # characters


def _no_columns(columns: Sequence[int]) -> None:
    """The columns of a table whose rows are always read one by one."""


@dataclass(frozen=True)
class Table:
    """Rows and columns of a file, read as a stream.

    Attributes:
        path: Path of the file.
        names: Names of the columns, without surrounding blanks.
        scalar: Positions of the columns whose cells hold one value each rather than a list.
        rows: Function that takes positions of columns and yields the number of each row and its cells in
            those columns. It raises `InputError` where a row can't be read.
        counted: How rows are numbered, for messages; empty if as in a spreadsheet, where the header is row 1.
        notes: What was inferred from the file, one line each.
        whole: Function that takes positions of columns and returns each as an Arrow array of text; None
            where the rows must be read one by one (`readers/whole.py`).
        first_row: Number of the first row, if columns are returned at once; the others follow without gaps.
    """

    path: Path
    names: tuple[str, ...]
    scalar: frozenset[int]
    rows: Callable[[Sequence[int]], Iterator[tuple[int, Sequence[object]]]]
    counted: str = ""
    notes: tuple[str, ...] = ()
    whole: Callable[[Sequence[int]], list[Any] | None] = _no_columns
    first_row: int = 0

    def where(self, *numbers: int) -> str:
        """The file and the numbers of one or two rows, for messages."""
        rows = " and ".join(map(str, numbers))
        return f"{self.path}: row{'s' * (len(numbers) > 1)} {rows}{self.counted}"


def names_files(names: Sequence[str], file_column: str = "", *, ids: bool = True) -> bool:
    """Whether one of the names of columns is that of the column that names the images.

    Args:
        names: Names of columns.
        file_column: `data.file_column`; if it is empty, the names in `FILE_COLUMNS` are looked for.
        ids: Whether `id` and the like count, too.
    """
    known = {name for group in FILE_COLUMNS[: None if ids else -1] for name in group}
    return not {*map(str.lower, names)}.isdisjoint({file_column.lower()} if file_column else known)


def open_delimited(path: Path, file_column: str = "") -> Table:
    """Open a CSV or TSV file.

    The delimiter is `,`, `;` or a tab: the first one with which the header has a column that names the images
    and another.

    Args:
        path: CSV or TSV file.
        file_column: `data.file_column`.

    Raises:
        InputError: The file has no header, or one with too many columns.
    """
    headers = {delimiter: read_header(path, delimiter) for delimiter in DELIMITERS}
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
    separated = f"{path.name}: columns are separated by {DELIMITERS[delimiter]}."
    return Table(
        path,
        names,
        frozenset(range(len(names))),
        partial(read_cells, path, delimiter, len(names)),
        notes=() if delimiter == "," else (separated,),
        whole=partial(delimited_columns, path, delimiter, names),
        first_row=2,
    )


def read_header(path: Path, delimiter: str = ",") -> tuple[str, ...]:
    """Cells of the first row that is not blank; empty if there is none or it is not valid CSV.

    Raises:
        InputError: The file is not text, as in `read_lines`.
    """
    rows = csv.reader(read_lines(path), delimiter=delimiter)
    try:
        return next((tuple(map(str.strip, cells)) for cells in rows if any(map(str.strip, cells))), ())
    except csv.Error:
        return ()


def read_cells(
    path: Path, delimiter: str, width: int, columns: Sequence[int]
) -> Iterator[tuple[int, Sequence[str]]]:
    """Numbers of the rows below the header, and their cells in some columns, which keep their blanks.

    Args:
        path: CSV or TSV file.
        delimiter: Character between cells.
        width: Number of columns of the header.
        columns: Positions of the columns to return.

    Raises:
        InputError: The file is not valid CSV, or a row is longer or shorter than the header.
    """
    pick = itemgetter(*columns) if len(columns) > 1 else lambda cells: (cells[columns[0]],)
    for number, cells in islice(read_rows(path, delimiter), 1, None):
        if len(cells) != width:
            raise InputError(
                f"{path}: row {number} has {counted(len(cells), 'cell')}, but the header has {width:,}: "
                f"{shorten(map(repr, cells))}. Put a cell that contains the delimiter in quotes, for example "
                '"cat,dog".'
            )
        yield number, pick(cells)


def read_rows(path: Path, delimiter: str = ",") -> Iterator[tuple[int, list[str]]]:
    """Rows of a CSV file that are not blank, each with its number; the first row is 1.

    Raises:
        InputError: The file is not valid CSV.
    """
    reader = csv.reader(read_lines(path), delimiter=delimiter, strict=True)
    try:
        for number, cells in enumerate(reader, start=1):
            if any(map(str.strip, cells)):
                yield number, cells
    except csv.Error as error:
        raise InputError(
            f'{path}: is not valid CSV near line {reader.line_num}: {error}. Is a quote (") not closed there?'
        ) from error


def read_lines(path: Path) -> Iterator[str]:
    """Lines of a UTF-8 file with their line ends and without a byte order mark.

    Raises:
        InputError: The file can't be read or is not UTF-8, or a line contains a NUL byte or is longer than
            `MAX_LINE`.
    """
    try:
        with open(path, encoding="utf-8-sig", newline="") as stream:
            number = 0
            while line := stream.readline(MAX_LINE):
                number += 1
                if "\0" in line:
                    raise InputError(
                        f"{path}: line {number} holds a NUL byte, so the file is damaged or in UTF-16, "
                        f"which can be converted: iconv -f UTF-16LE -t UTF-8 {path.name}."
                    )
                if len(line) >= MAX_LINE:
                    raise InputError(f"{path}: line {number} is longer than {MAX_LINE:,} characters.")
                yield line
    except UnicodeDecodeError as error:
        raise InputError(_not_utf8(path)) from error
    except OSError as error:
        raise InputError(f"{path}: can't be read: {error.strerror or error}.") from error


def shorten(names: Iterable[str]) -> str:
    """Names as a list for a message: one line of at most 200 characters."""
    short = (name if len(name) < 60 else name[:57] + "..." for name in islice(names, 100))
    text = ", ".join(repr(name) if CONTROL.search(name) else name for name in short)
    return text if len(text) <= 200 else text[:197] + "..."


def _not_utf8(path: Path) -> str:
    """Message on the first byte of a file that is not UTF-8."""
    where, start, encoding = "", 0, "LATIN1"
    with open(path, "rb") as stream:
        # The limit is above the longest line that `read_lines` accepts.
        for number, line in enumerate(iter(partial(stream.readline, 4 * MAX_LINE + 4), b""), start=1):
            if number == 1 and line.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
                encoding = "UTF-16"
            try:
                line.decode()
            except UnicodeDecodeError as error:
                byte = line[error.start]
                where = f": byte 0x{byte:02x} at position {start + error.start}, line {number}"
                break
            start += len(line)
    return (
        f"{path}: is not UTF-8{where}. Save it as UTF-8 (spreadsheets call it 'CSV UTF-8'), or convert it, "
        f"for example: iconv -f {encoding} -t UTF-8 {path.name}."
    )
