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
        left = MAX_RATIO * self.path.stat().st_size
        most = min(MAX_ROWS, MAX_ROWS_PER_BYTE * self.path.stat().st_size)
        values = dict.fromkeys(wanted, 0)
        try:
            # Arrow can't join lists of dictionaries over row groups.
            for group in range(self.file.metadata.num_row_groups):
                for batch in self.file.iter_batches(size, [group], wanted, use_threads=False):
                    for name in wanted:
                        values[name] += _values(batch.column(name))
                        if values[name] > most:
                            raise InputError(
                                f"{self.path}: column {shown(name)} has more than {most:,} values, so it is "
                                "not read."
                            )
                    found = [cells(batch.column(name)) for name in wanted]
                    # One text may be that of many cells, which a file of some bytes can say.
                    left -= sum(len(cell) for column in found for cell in column if isinstance(cell, str))
                    if left < 0:
                        raise InputError(
                            f"{self.path}: its texts have more than {MAX_RATIO:,} times the characters that "
                            "the file has bytes, so it is not read."
                        )
                    yield found
        except InputError:
            raise
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
        # What a group says of its columns is not asked for: of some damaged files that ends the process.
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
        what = f"{path}: has no column `file`; found: {shorten(names).lower() or 'nothing'}. "
        if image := next((field.name for field in schema if _holds_bytes(field.type)), None):
            raise InputError(
                f"{what}The column {shown(image)} holds bytes; images inside a Parquet file are read once "
                "`datasets` has rewritten it: load_dataset('parquet', data_files=FILE, split='train')"
                ".save_to_disk(FOLDER). Or write the images to files, and name those."
            )
        raise InputError(f"{what}{EXPECTED}.")
    flat = (
        place
        for place, field in enumerate(schema)
        if is_flat(field.type) and not names[place].startswith("__index")
    )
    return Parquet(path, file, names, frozenset(flat))


def _values(column: Any) -> int:
    """How many values a column has, in its lists too; a small file can claim a list that is very long."""
    return len(column.flatten()) if is_list(column.type) else len(column)


def _holds_bytes(kind: Any) -> bool:
    """Whether a column holds bytes, alone or with names, as `datasets` keeps images."""
    from pyarrow import types

    kinds = [kind.field(place).type for place in range(kind.num_fields)] if types.is_struct(kind) else [kind]
    kinds = [kind.value_type if types.is_dictionary(kind) else kind for kind in kinds]
    return any(types.is_binary(kind) or types.is_large_binary(kind) for kind in kinds)


def _damaged(path: Path, error: Exception) -> InputError:
    reason = " ".join(str(error).split())[:300] or type(error).__name__
    return InputError(f"{path}: can't be read as a Parquet file: {reason}.")
