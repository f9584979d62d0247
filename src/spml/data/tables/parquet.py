"""Parquet files as a stream of rows, read batch by batch with pyarrow, and Arrow's cells as Python values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ...common.errors import InputError, how_to_install
from ...common.phrases import shorten
from ...common.safe import quote
from .delimited import names_files
from .table import MAX_COLUMNS, Block, Table

MAX_ROWS = 100_000_000
MAX_ROWS_PER_BYTE = 100  # of the file; distinct names need more room than this
MAX_RATIO = 1000  # of the unpacked size to the size of the file
_BATCH = 1 << 19  # cells


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
        image = next((field.name for field in schema if _holds_bytes(field.type)), None)
        if image is not None:
            raise InputError(
                f"{path}: has no column `file`; found: {shorten(names).lower()}. The column {quote(image)} "
                "holds bytes. To read images inside a Parquet file, rewrite it with `datasets`: "
                "load_dataset('parquet', data_files=FILE, split='train').save_to_disk(FOLDER). Or save the "
                "images as files, and name those."
            )
    scalar = frozenset(k for k in flat if not names[k].startswith("__index"))
    return Table(path, names, scalar, partial(_blocks, path, file), counted=" (counted from 0)")


def _blocks(path: Path, file: Any, columns: Sequence[int]) -> Iterator[Block]:
    """Rows batch by batch; a missing value is None."""
    fields = [*map(file.schema_arrow.field, columns)]
    for field in fields:
        if not is_flat(field.type) and not (is_list(field.type) and is_flat(field.type.value_type)):
            raise InputError(
                f"{path}: column {quote(field.name)} holds {str(field.type)[:100]}, not text, numbers or "
                "lists of them."
            )
    names, size, start = [field.name for field in fields], path.stat().st_size, 0
    max_values, left = min(MAX_ROWS, MAX_ROWS_PER_BYTE * size), MAX_RATIO * size  # `left`: characters
    values = dict.fromkeys(names, 0)
    with readable(path):
        # One group at a time, because Arrow can't join lists of dictionaries over several groups.
        for group in range(file.metadata.num_row_groups):
            for batch in file.iter_batches(max(1, _BATCH // len(names)), [group], names, use_threads=False):
                for name in names:
                    column = batch.column(name)
                    # A small file can claim a very long list.
                    values[name] += len(column.flatten()) if is_list(column.type) else len(column)
                    if values[name] > max_values:
                        raise InputError(
                            f"{path}: column {quote(name)} has more than {max_values:,} values, the limit "
                            "for a file of this size."
                        )
                lists = [cells(batch.column(name)) for name in names]
                # A small file can also repeat a long text in many cells.
                left -= sum(len(cell) for column in lists for cell in column if isinstance(cell, str))
                if left < 0:
                    raise InputError(
                        f"{path}: has more than {MAX_RATIO:,} characters of text per byte of the file."
                    )
                yield Block(range(start, start + len(batch)), lists)
                start += len(batch)


def _holds_bytes(kind: Any) -> bool:
    """Whether a column holds bytes, alone or in a struct, as `datasets` keeps images."""
    from pyarrow import types

    kinds = [kind.field(k).type for k in range(kind.num_fields)] if types.is_struct(kind) else [kind]
    kinds = [kind.value_type if types.is_dictionary(kind) else kind for kind in kinds]
    return any(types.is_binary(kind) or types.is_large_binary(kind) for kind in kinds)


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
