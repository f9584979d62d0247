"""Files as tables: CSV and TSV, JSON Lines and Parquet, each read as a stream of blocks of rows.

Delimited text is parsed by the `csv` module. As pandas and `pyarrow.csv` hand out rows of strings they are
no faster, and they lose what messages need: pandas pads short rows and accepts NUL bytes, pyarrow does not
report an unclosed quote, and neither numbers rows as a spreadsheet does.
"""

from __future__ import annotations

import codecs
import csv
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from io import StringIO
from itertools import compress, islice
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from ...common.errors import InputError, how_to_install
from ...common.phrases import counted, shorten
from ...common.safe import open_file, quote
from ..values import text
from .names import EXPECTED, names_files

MAX_COLUMNS = 100_000
DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
MAX_LINE = 8_000_000  # characters
MAX_ROWS = 100_000_000  # of a Parquet file
MAX_ROWS_PER_BYTE = 100  # of the file; distinct names need more room than this
MAX_RATIO = 1000  # of the unpacked size to the size of a Parquet file
_PEEK, _PEEK_CELLS = 1000, 1_000_000  # rows and cells that show what a column holds
# Rows of a block die young, before the garbage collector looks at everything that is alive, too.
_ROWS, _CELLS = 1 << 8, 1 << 21  # in a block of delimited text, at most
_OBJECTS = 1 << 12  # in a block of JSON Lines
_BATCH = 1 << 19  # cells in a block of a Parquet file
_CHUNK = 1 << 16  # characters
_STATED = re.compile(r"\ufeff?\"?sep=(.)\"?[;,\t]*\s*", re.IGNORECASE)  # the first line of some spreadsheets
_FLAT = (str, int, float, type(None))


class Block(NamedTuple):
    """Some rows of a table."""

    numbers: Sequence[int]  # number of each row, for messages
    cells: Sequence[Sequence[object]]  # cells of each requested column


@dataclass(frozen=True)
class Table:
    """Rows and columns of a table."""

    path: Path  # path of the file
    names: tuple[str, ...]  # names of the columns, without surrounding blanks
    scalar: frozenset[int]  # positions of the columns whose cells hold one value each rather than a list
    blocks: Callable[[Sequence[int]], Iterator[Block]]  # rows of some columns
    counted: str = ""  # how rows are numbered; empty if as in a spreadsheet, whose header is row 1
    notes: tuple[str, ...] = ()  # what was inferred from the file, one line each
    nested: tuple[str, ...] = ()  # names of columns that are not read, since they hold objects

    def rows(self, columns: Sequence[int]) -> Iterator[tuple[int, Sequence[object]]]:
        """Number of each row, and its cells in some columns."""
        for block in self.blocks(columns):
            yield from zip(block.numbers, zip(*block.cells, strict=True), strict=True)

    def peek(self, columns: Sequence[int]) -> dict[int, list[object]]:
        """First cells of some columns that are not blank."""
        if not columns:
            return {}
        limit = max(20, min(_PEEK, _PEEK_CELLS // max(1, len(columns))))
        found: dict[int, list[object]] = {column: [] for column in columns}
        left = limit
        for block in islice(self.blocks(columns), limit):
            for column, cells in zip(columns, block.cells, strict=True):
                found[column] += [cell for cell in cells[:left] if text(cell)]
            left -= len(block.numbers)
            if left <= 0:
                break
        return found

    def where(self, *numbers: int) -> str:
        """The file and the numbers of one or two rows, for messages."""
        rows = " and ".join(map(str, numbers))
        return f"{self.path}: row{'s' * (len(numbers) > 1)} {rows}{self.counted}"


def open_table(path: Path, file_column: str = "") -> Table:
    """Open a CSV, TSV, JSON Lines or Parquet file; a file of another suffix as CSV."""
    return _OPENERS.get(path.suffix.lower(), open_delimited)(path, file_column)


# -- delimited text --------------------------------------------------------------------------------------


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

    def blocks(columns: Sequence[int]) -> Iterator[Block]:
        header, width = True, len(names)
        for numbers, rows in _row_blocks(path, delimiter, max(1, min(_ROWS, _CELLS // width)), skip):
            if header:
                numbers, rows, header = numbers[1:], rows[1:], False
            if {*map(len, rows)} - {width}:
                number, row = next(each for each in zip(numbers, rows, strict=True) if len(each[1]) != width)
                raise InputError(
                    f"{path}: row {number} has {counted(len(row), 'cell')}, but the header has {width:,}: "
                    f"{shorten(map(repr, row))}. Put a cell that contains the delimiter in quotes, for "
                    'example "cat,dog"; or leave such rows out: '
                    f'pandas.read_csv("{path.name}", on_bad_lines="skip").to_csv("good.csv", index=False).'
                )
            yield Block(numbers, [list(map(itemgetter(column), rows)) for column in columns])

    separated = f"{path.name}: columns are separated by {DELIMITERS.get(delimiter, repr(delimiter))}."
    notes = () if delimiter == "," else (separated,)
    return Table(path, names, frozenset(range(len(names))), blocks, notes=notes)


def read_header(path: Path, delimiter: str = ",", *, skip: int = 0) -> tuple[str, ...]:
    """Cells of the first row that is not blank; empty if there is none or it is not valid CSV."""
    rows = csv.reader(islice(read_lines(path), skip, None), delimiter=delimiter)
    try:
        return next((tuple(map(str.strip, cells)) for cells in rows if any(map(str.strip, cells))), ())
    except csv.Error:
        return ()


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


# -- JSON Lines ------------------------------------------------------------------------------------------


def open_json_lines(path: Path, file_column: str = "") -> Table:
    """Open a JSON Lines file, whose rows are its lines, counted from 1.

    Columns are the keys, on any line, whose first value is text, a number, true or false, or a list of these,
    or that have none; a note names the others.
    """
    flat: dict[str, bool | None] = {}  # None before the first value
    several: set[str] = set()
    for _, entry in _objects(path):
        for key, value in entry.items():
            if flat.setdefault(key, None) is None and value is not None:
                flat[key] = _is_cell(value, lists=True)
            if isinstance(value, list):
                several.add(key)
        if len(flat) > MAX_COLUMNS:
            raise InputError(f"{path}: its objects have more than {MAX_COLUMNS:,} keys. {EXPECTED}.")
    left_out = tuple(key for key, is_flat in flat.items() if is_flat is False)
    names = tuple(key for key, is_flat in flat.items() if is_flat is not False)
    if not names:
        raise InputError(f"{path}: no line holds an object with text, numbers or lists of them. {EXPECTED}.")
    notes = (f"{path.name}: keys that hold objects are not read: {shorten(left_out)}.",) if left_out else ()
    scalar = frozenset(k for k, name in enumerate(names) if name not in several)

    def blocks(columns: Sequence[int]) -> Iterator[Block]:
        objects = _objects(path)
        while block := list(islice(objects, _OBJECTS)):
            numbers, entries = zip(*block, strict=True)
            cells = [[entry.get(names[column]) for entry in entries] for column in columns]
            for column, values in zip(columns, cells, strict=True):
                for number, value in zip(numbers, values, strict=True):
                    if not _is_cell(value, lists=column not in scalar):
                        lists = "" if column in scalar else ", or a list of them"
                        raise InputError(
                            f"{path}: line {number}: {quote(names[column])} is {quote(str(value))}, but must "
                            f"be text, a number, true, false or null{lists}, as on other lines."
                        )
            yield Block(numbers, cells)

    return Table(
        path, tuple(map(str.strip, names)), scalar, blocks, " (line of the file)", notes, nested=left_out
    )


def _objects(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Number and content of each line that is not blank."""
    decoder = msgspec.json.Decoder(dict[str, Any])
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip():
            continue
        try:
            yield number, decoder.decode(line)
        except (msgspec.DecodeError, RecursionError) as error:
            raise InputError(
                f"{path}: line {number} is not a JSON object: {error}; found {quote(line.strip())}. Expected"
                " one object per line, with the keys `file` and `label`."
            ) from error


def _is_cell(value: object, *, lists: bool) -> bool:
    if lists and isinstance(value, list):
        return all(isinstance(entry, _FLAT) for entry in value)
    return isinstance(value, _FLAT)


# -- Parquet ---------------------------------------------------------------------------------------------


def open_parquet(path: Path, file_column: str = "") -> Table:
    """Open a Parquet file, whose rows are counted from 0 as in pandas."""
    require_pyarrow(path)
    from pyarrow import parquet

    size = path.stat().st_size
    options = {
        "thrift_string_size_limit": max(1 << 16, size),
        "thrift_container_size_limit": 10 * MAX_COLUMNS,
    }
    with readable(path):
        plain = parquet.ParquetFile(path, **options).schema
        leaves = (plain.column(k) for k in range(min(len(plain), MAX_COLUMNS)))
        text = [leaf.path for leaf in leaves if leaf.physical_type == "BYTE_ARRAY"]
        file = parquet.ParquetFile(path, read_dictionary=text, **options)
        schema, metadata = file.schema_arrow, file.metadata
        # The metadata of single columns is not read: in some damaged files that ends the process.
        unpacked = sum(metadata.row_group(k).total_byte_size for k in range(metadata.num_row_groups))
    limits = {
        "columns": (len(schema.names), MAX_COLUMNS),
        "rows": (metadata.num_rows, min(MAX_ROWS, MAX_ROWS_PER_BYTE * size)),
        "bytes when unpacked": (unpacked, MAX_RATIO * size),
    }
    for what, (count, limit) in limits.items():
        if count > limit:
            raise InputError(f"{path}: claims to have {count:,} {what}, more than the limit of {limit:,}.")
    names = tuple(name.strip() for name in schema.names)
    flat = [k for k, field in enumerate(schema) if is_flat(field.type)]
    if not names_files([names[k] for k in flat], file_column, ids=False):
        # Bytes, alone or in a struct, as `datasets` keeps images.
        image = next((field.name for field in schema if "binary" in str(field.type)), None)
        if image is not None:
            raise InputError(
                f"{path}: has no column `file`; found: {shorten(names).lower()}. The column {quote(image)} "
                "holds bytes. To read images inside a Parquet file, rewrite it with `datasets`: "
                "load_dataset('parquet', data_files=FILE, split='train').save_to_disk(FOLDER). Or save the "
                "images as files, and name those."
            )
    scalar = frozenset(k for k in flat if not names[k].startswith("__index"))
    lists = [k for k, each in enumerate(schema) if is_list(each.type) and is_flat(each.type.value_type)]
    read = {*flat, *lists}
    nested = tuple(name for k, name in enumerate(names) if k not in read)
    max_values = min(MAX_ROWS, MAX_ROWS_PER_BYTE * size)

    def blocks(columns: Sequence[int]) -> Iterator[Block]:
        for k in columns:
            if k not in read:
                raise InputError(
                    f"{path}: column {quote(schema.names[k])} holds {str(schema.types[k])[:100]}, not text, "
                    "numbers or lists of them."
                )
        chosen = [schema.names[k] for k in columns]
        values, left, start = dict.fromkeys(chosen, 0), MAX_RATIO * size, 0
        step = max(1, _BATCH // len(chosen))
        # One group at a time, because Arrow can't join lists of dictionaries over several groups.
        batches = (
            batch
            for group in range(metadata.num_row_groups)
            for batch in file.iter_batches(step, [group], chosen, use_threads=False)
        )
        with readable(path):
            for batch in batches:
                for name in chosen:
                    column = batch.column(name)
                    # A small file can claim a very long list.
                    values[name] += len(column.flatten()) if is_list(column.type) else len(column)
                    if values[name] > max_values:
                        raise InputError(
                            f"{path}: column {quote(name)} has more than {max_values:,} values, the limit "
                            "for a file of this size."
                        )
                found = [cells(batch.column(name)) for name in chosen]
                # A small file can also repeat a long text in many cells.
                left -= sum(len(cell) for column in found for cell in column if isinstance(cell, str))
                if left < 0:
                    raise InputError(
                        f"{path}: has more than {MAX_RATIO:,} characters of text per byte of the file."
                    )
                yield Block(range(start, start + len(batch)), found)
                start += len(batch)

    return Table(path, names, scalar, blocks, counted=" (counted from 0)", nested=nested)


@contextmanager
def readable(path: Path, kind: str = "a Parquet file", advice: str = "") -> Iterator[None]:
    """Turn any exception of pyarrow, of which a damaged file raises many kinds, into an `InputError`."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        reason = " ".join(str(error).split())[:300] or type(error).__name__
        raise InputError(f"{path}: can't be read as {kind}: {reason}.{advice}") from error


def require_pyarrow(path: Path) -> Any:
    """The module `pyarrow`, which comes with the extra `tables`."""
    try:
        import pyarrow
    except ImportError as error:
        raise InputError(
            f"{path}: reading this needs the package pyarrow. {how_to_install('tables')}"
        ) from error
    return pyarrow


def is_list(kind: Any) -> bool:
    """Whether the cells of a column of this Arrow type are lists."""
    from pyarrow import types

    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def is_flat(kind: Any) -> bool:
    """Whether the cells of a column of this Arrow type are strings, numbers, booleans or null."""
    from pyarrow import types

    if types.is_dictionary(kind):
        kind = kind.value_type
    tests = (types.is_string, types.is_large_string, types.is_integer, types.is_floating, types.is_boolean)
    return bool(types.is_null(kind)) or any(test(kind) for test in tests)


def cells(array: Any) -> list[Any]:
    """Cells of a flat column, or of a column of lists; damaged ones raise an error of pyarrow or Python.

    Equal cells of a dictionary-encoded column are one object, so that a small file does not become large.
    """
    from pyarrow import array as to_array
    from pyarrow import types

    if types.is_dictionary(array.type):
        # The dictionary may be far larger than a batch, so only the values that occur are converted.
        used, positions = np.unique(array.indices.fill_null(-1).to_numpy(), return_inverse=True)
        values = array.dictionary.take(to_array(used[used >= 0])).to_pylist()
        values = [None, *values] if -1 in used else values
        return [values[position] for position in positions.tolist()]
    array.validate(full=True)
    if is_list(array.type):
        inner = iter(cells(array.flatten()))  # without the values under a missing list
        lengths = array.value_lengths().to_pylist()
        return [None if length is None else [next(inner) for _ in range(length)] for length in lengths]
    return list(array.to_pylist())


_OPENERS = {
    ".csv": open_delimited,
    ".tsv": open_delimited,
    ".parquet": open_parquet,
    ".jsonl": open_json_lines,
}
SUFFIXES = tuple(_OPENERS)
