"""Parquet files as tables, read batch by batch with pyarrow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...errors import InputError
from ..safe import shown
from .arrow import cells, is_flat, is_list, require_pyarrow
from .delimited import EXPECTED, MAX_COLUMNS, shorten

MAX_ROWS = 100_000_000
MAX_ROWS_PER_BYTE = 100  # of the file; names that all differ need more room
MAX_RATIO = 1000  # of what is unpacked to the file's size
_BATCH = 1 << 19  # cells at a time


@dataclass(frozen=True)
class Parquet:
    """A Parquet file. Rows are counted from 0, as pandas does."""

    path: Path
    file: Any
    names: tuple[str, ...]
    flat: frozenset[int]
    counted: str = " (counted from 0)"
    notes: tuple[str, ...] = ()

    def rows(self, columns: Sequence[int]) -> Iterator[tuple[int, Sequence[object]]]:
        """All rows; a missing value is None.

        Raises:
            InputError: damaged, or a column that holds neither values nor lists of values.
        """
        for column in columns:
            kind = self.file.schema_arrow.field(column).type
            if not is_flat(kind) and not (is_list(kind) and is_flat(kind.value_type)):
                raise InputError(
                    f"{self.path}: column {shown(self.names[column])} holds {str(kind)[:100]}, not text, "
                    "numbers or lists of them."
                )
        number = 0
        batches = self._batches(columns)
        while (batch := next(batches, None)) is not None:
            for row in zip(*batch, strict=True):
                yield number, row
                number += 1
        if not number:
            raise InputError(f"{self.path}: has no rows. {EXPECTED}.")

    def _batches(self, columns: Sequence[int]) -> Iterator[list[list[Any]]]:
        wanted = [self.file.schema_arrow.names[column] for column in columns]
        size = max(1, _BATCH // len(wanted))
        try:
            # Arrow can't join lists of dictionaries over row groups.
            for group in range(self.file.metadata.num_row_groups):
                for batch in self.file.iter_batches(size, [group], wanted, use_threads=False):
                    yield [cells(batch.column(name)) for name in wanted]
        except Exception as error:  # a damaged file raises nearly anything
            raise _damaged(self.path, error) from error


def open_parquet(path: Path) -> Parquet:
    """Read the columns of a Parquet file.

    Raises:
        InputError: no Parquet file, pyarrow is missing, or sizes that no table of files has.
    """
    require_pyarrow(path)
    from pyarrow import parquet

    size = path.stat().st_size
    try:
        options = {
            "thrift_string_size_limit": max(1 << 16, size),
            "thrift_container_size_limit": 10 * MAX_COLUMNS,
        }
        plain = parquet.ParquetFile(path, **options)
        leaves = (plain.schema.column(place) for place in range(min(len(plain.schema), MAX_COLUMNS)))
        text = [leaf.path for leaf in leaves if leaf.physical_type == "BYTE_ARRAY"]
        file = parquet.ParquetFile(path, read_dictionary=text, **options)
        schema, rows = file.schema_arrow, file.metadata.num_rows
        groups = (file.metadata.row_group(place) for place in range(file.metadata.num_row_groups))
        unpacked = sum(group.total_byte_size for group in groups)
    except Exception as error:  # a damaged file raises nearly anything
        raise _damaged(path, error) from error
    names = tuple(name.strip() for name in schema.names)
    for count, most, what in (
        (len(names), MAX_COLUMNS, "columns"),
        (rows, min(MAX_ROWS, MAX_ROWS_PER_BYTE * size), "rows"),
        (unpacked, MAX_RATIO * size, "bytes when unpacked"),
    ):
        if count > most:
            raise InputError(
                f"{path}: says that it has {count:,} {what}, more than {most:,}, so it is not read."
            )
    if len(set(schema.names)) < len(names):
        raise InputError(f"{path}: has two columns of one name: {shorten(names)}.")
    if "file" not in map(str.lower, names):
        raise InputError(
            f"{path}: has no column `file`; found: {shorten(names).lower() or 'nothing'}. {EXPECTED}."
        )
    flat = (
        place
        for place, field in enumerate(schema)
        if is_flat(field.type) and not names[place].startswith("__index")
    )
    return Parquet(path, file, names, frozenset(flat))


def _damaged(path: Path, error: Exception) -> InputError:
    reason = " ".join(str(error).split())[:300] or type(error).__name__
    return InputError(f"{path}: can't be read as a Parquet file: {reason}.")
