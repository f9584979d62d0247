"""Columns of a large table, read at once with pyarrow: a million rows in half the time of single rows
(`benchmarks/lists.py`).

Only what needs no second look is read in this way: rows without quotes, file names that are all different,
plainly written and present. For everything else the functions return None, and the rows are read one by one,
which gives the same result, and a message where something is wrong.
"""

from __future__ import annotations

import csv
import importlib.util
import mmap
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ...errors import InputError
from ..images import SUFFIXES
from ..names import PackedNames
from ..safe import inside, is_file
from . import places

LARGE = 4_000_000
"""Bytes of a file above which its columns are read at once."""
LONGEST = 100_000  # characters of a cell; the `csv` module refuses longer ones

_BLOCK = 1 << 23  # bytes that pyarrow reads at a time; a line can't be longer
_LONE_RETURN = re.compile(rb"\r(?!\n)")
_ODD = r"\\:\x00-\x1f\x7f-\x9f\x{2028}\x{2029}"  # in names that `inside` may change or refuse
_PLAIN = rf"^[^\pZ/{_ODD}](?:[^{_ODD}]*[^/{_ODD}])?\.(?:{'|'.join(sorted(s[1:] for s in SUFFIXES))})$"


def delimited_columns(
    path: Path, delimiter: str, names: Sequence[str], columns: Sequence[int]
) -> list[Any] | None:
    """Some columns of a CSV or TSV file, each an Arrow array of text.

    Args:
        path: CSV or TSV file.
        delimiter: Character between cells.
        names: Cells of the header.
        columns: Positions of the columns to return.

    Returns:
        The columns; None if the rows must be read one by one.
    """
    if not _is_large(path) or not _is_plain(path, delimiter, names):
        return None
    from pyarrow import ArrowInvalid, large_string
    from pyarrow import csv as arrow_csv

    numbers = list(map(str, range(len(names))))
    chosen = [numbers[column] for column in columns]
    try:
        table = arrow_csv.read_csv(
            path,
            arrow_csv.ReadOptions(use_threads=False, block_size=_BLOCK, skip_rows=1, column_names=numbers),
            arrow_csv.ParseOptions(delimiter=delimiter, quote_char=False, ignore_empty_lines=False),
            arrow_csv.ConvertOptions(
                include_columns=chosen,
                column_types=dict.fromkeys(chosen, large_string()),
                strings_can_be_null=False,
            ),
        )
    except (ArrowInvalid, OSError):
        return None
    return [table.column(name).combine_chunks() for name in chosen]


def parquet_columns(path: Path, file: Any, columns: Sequence[int]) -> list[Any] | None:
    """Some columns of a Parquet file, each an Arrow array of text.

    Args:
        path: Path of the file.
        file: The file, as a `pyarrow.parquet.ParquetFile` that reads text as dictionaries.
        columns: Positions of the columns to return.

    Returns:
        The columns; None if the rows must be read one by one.
    """
    from pyarrow import ArrowException, types

    names = [file.schema_arrow.names[column] for column in columns]
    kinds = [file.schema_arrow.field(column).type for column in columns]
    text = all(types.is_dictionary(kind) and types.is_string(kind.value_type) for kind in kinds)
    if not text or not _is_large(path) or len({*names}) < len(names):
        return None
    try:
        table = file.read(names, use_threads=False).unify_dictionaries()
        table.validate(full=True)
        return [table.column(name).combine_chunks() for name in names]
    except (ArrowException, OSError, UnicodeDecodeError):
        return None


def coded(column: Any) -> tuple[list[str], npt.NDArray[np.int64]] | None:
    """Distinct cells of a column in the order in which they first occur, and the position of each row's.

    A missing cell is empty. None if a cell is so long that reading row by row may refuse it.
    """
    from pyarrow import compute, types

    if not types.is_dictionary(column.type):
        column = column.dictionary_encode()
    longest = compute.max(compute.utf8_length(column.dictionary)).as_py()
    if longest is not None and longest > LONGEST:
        return None
    codes = column.indices.fill_null(len(column.dictionary)).to_numpy().astype(np.int64)
    values = [*column.dictionary.to_pylist(), ""]
    used, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
    order = np.argsort(first)
    position = np.empty(len(used), np.int64)
    position[order] = np.arange(len(used))
    return [values[code] for code in used[order].tolist()], position[inverse]


def present_files(root: Path, column: Any) -> PackedNames | None:
    """The names in a column, if each is the plain name of an image that is there and differs from all others.

    Args:
        root: Folder that the names are relative to.
        column: Arrow array of text.
    """
    from pyarrow import compute, large_string, types

    if column.null_count or not len(column):
        return None
    if types.is_dictionary(column.type):
        if compute.count_distinct(column.indices).as_py() < len(column):
            return None  # before a small file that repeats a long text becomes large
        column = column.dictionary_decode()
    names = column.cast(large_string())
    plain = compute.match_substring_regex(names, _PLAIN, ignore_case=True)
    if not compute.all(plain).as_py() or compute.count_distinct(names).as_py() < len(names):
        return None
    folders = compute.replace_substring_regex(names, "[^/]*$", "").dictionary_encode()
    order = np.argsort(codes := folders.indices.to_numpy(), kind="stable")
    bounds = np.searchsorted(codes[order], np.arange(len(folders.dictionary) + 1)).tolist()
    for number, folder in enumerate(folders.dictionary.to_pylist()):
        if not _are_present(root, folder, names.take(order[bounds[number] : bounds[number + 1]])):
            return None
    return _packed(names)


def _are_present(root: Path, folder: str, names: Any) -> bool:
    """Whether all names, which begin with `folder`, are those of files."""
    from pyarrow import array, compute, large_string

    if not places.is_normal(folder):
        return False
    if len(names) >= places.MANY:
        listed = array([folder + name for name in places.files_in(root, folder)], large_string())
        return bool(compute.all(compute.is_in(names, listed)).as_py())
    try:
        return all(is_file(inside(root, name, "")) for name in names.to_pylist())
    except InputError:
        return False


def _packed(names: Any) -> PackedNames:
    """Names without a copy of their text."""
    _, offsets, text = names.buffers()
    stop = np.frombuffer(offsets, np.int64)[names.offset : names.offset + len(names) + 1]
    return PackedNames(np.frombuffer(text, np.uint8), stop[:-1], stop[1:])


def _is_large(path: Path) -> bool:
    """Whether it pays to read a file at once, and it can be."""
    return path.stat().st_size >= LARGE and _has_pyarrow()


def _has_pyarrow() -> bool:
    return importlib.util.find_spec("pyarrow") is not None


def _is_plain(path: Path, delimiter: str, names: Sequence[str]) -> bool:
    """Whether every line is a row whose cells are as written, and the first one is the header."""
    with open(path, "rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content:
        if content.find(b'"') >= 0 or content.find(b"\0") >= 0 or _LONE_RETURN.search(content):
            return False
        header = stream.readline(_BLOCK)
    try:
        cells = next(csv.reader([header.decode("utf-8-sig")], delimiter=delimiter), [])
    except (UnicodeDecodeError, csv.Error):
        return False
    return [cell.strip() for cell in cells] == list(names)
