"""Tables of pandas and polars. Neither library is imported: who passes a table has imported it."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ...common.errors import InputError, nearest
from ...common.safe import quote
from ...config import DataConfig
from ..files.places import images_folder
from ..records import MEMORY, Records
from ..tables.columns import find_file
from ..tables.formats import Block, Table
from ..tables.names import names_files
from ..tables.rows import read_rows
from ..values import text

_LIBRARIES = ("pandas", "polars")


def is_missing(value: object) -> bool:
    """Whether a value is None, NaN, or what pandas has for a missing value."""
    return (
        value is None
        or type(value).__name__ in ("NAType", "NaTType")
        or (isinstance(value, float) and value != value)
    )


def is_frame(value: object) -> bool:
    """Whether a value is a DataFrame of pandas or polars."""
    return _is(value, "DataFrame")


def is_series(value: object) -> bool:
    """Whether a value is a Series of pandas or polars, or an Index or a Categorical of pandas."""
    return _is(value, "Series") or _is(value, "Index") or _is(value, "Categorical")


def _is(value: object, name: str) -> bool:
    return any(
        kind.__name__ == name and kind.__module__.partition(".")[0] in _LIBRARIES
        for kind in type(value).__mro__
    )


def column_names(frame: Any) -> tuple[str, ...]:
    """Names of the columns as text."""
    return tuple(str(name).strip() for name in frame.columns)


def row_names(frame: Any) -> tuple[str, ...]:
    """Names of the rows, which must be distinct: the index of pandas, or row numbers."""
    names = tuple(map(str, frame.index if hasattr(frame, "iloc") else range(len(frame))))
    name, count = Counter(names).most_common(1)[0] if names else ("", 0)
    if count > 1:
        raise InputError(
            f"X: its index has {quote(name)} {count} times, but names of samples must be distinct: call "
            "X.reset_index(drop=True)."
        )
    return names


def split_off(frame: Any, label: str, argument: str) -> tuple[Any, list[Any]]:
    """Separate a column, which `argument` names, from the others."""
    if label not in frame.columns:
        raise InputError(
            f"{argument}: there is no column {quote(label)}. {nearest(label, column_names(frame))}"
        )
    rest = frame.drop(columns=label) if hasattr(frame, "iloc") else frame.drop(label)
    return rest, cells_of(frame, list(frame.columns).index(label))


def numbers(frame: Any, name: str, advice: str) -> npt.NDArray[np.float64]:
    """Content of a table whose columns all hold numbers; a missing value is NaN.

    A message on another column names the argument `name` and ends with `advice`.
    """
    for position, column in enumerate(column_names(frame)):
        dtype = _column(frame, position).dtype
        if hasattr(dtype, "is_numeric"):  # polars
            is_number = dtype.is_numeric() or str(dtype) == "Boolean"
        else:
            is_number = getattr(dtype, "kind", "O") in "biuf"
        several = next((cell for cell in cells_of(frame, position)[:1] if isinstance(cell, list)), None)
        if not is_number and several is not None:
            raise InputError(
                f"{name}: each cell of the column {quote(column)} holds {len(several):,} values: pass them "
                f"as an array, numpy.stack({name}[{column!r}])."
            )
        if not is_number:
            raise InputError(f"{name}: the column {quote(column)} holds {dtype}, not numbers. {advice}")
    if hasattr(frame, "iloc"):
        return np.asarray(frame.to_numpy(dtype=np.float64, na_value=np.nan))
    return np.asarray(frame.to_numpy(), np.float64)


def has_files(samples: Any, config: DataConfig) -> bool:
    """Whether samples are a table of which a column names image files, or holds texts, as in a CSV file."""
    named = is_frame(samples) and (config.text or names_files(column_names(samples), config.file_column))
    return bool(named)


def as_table(frame: Any) -> tuple[Table, list[list[Any]]]:
    """A DataFrame as the readers of tables take it, and the cells of its columns, which the table shares."""
    names = column_names(frame)
    columns = [cells_of(frame, position) for position in range(len(names))]
    scalar = (k for k, cells in enumerate(columns) if not any(isinstance(cell, list) for cell in cells))

    def blocks(positions: Sequence[int]) -> Iterator[Block]:
        yield Block(range(len(frame)), [columns[k] for k in positions])

    return Table(Path(MEMORY), names, frozenset(scalar), blocks, counted=" (counted from 0)"), columns


def read_frame(frame: Any, config: DataConfig) -> Records:
    """Read a table of texts, or of image files, and labels by the rules for CSV files.

    Files are relative to `config.images` or to the working folder, or absolute.
    """
    table, columns = as_table(frame)
    if config.text:
        return read_rows(table, Path(), config)
    root = (images_folder(config) or Path()).absolute()
    file = find_file(table, config.file_column, root)
    paths = [name and os.path.normpath(root / name) for name in map(text, columns[file])]
    if all(Path(path).is_relative_to(root) for path in filter(None, paths)):
        return read_rows(table, root, config)
    columns[file] = paths
    top = Path(root.anchor)
    records = read_rows(table, top, config)
    return replace(records, ids=tuple((top / name).as_posix() for name in records.ids))


def cells_of(frame: Any, position: int) -> list[Any]:
    """Cells of a column; None where a value is missing, and lists instead of arrays."""
    column = _column(frame, position)
    if hasattr(frame, "iloc"):
        column = column.astype(object).where(column.notna(), None)
    several = (tuple, set, frozenset, np.ndarray)
    return [list(cell) if isinstance(cell, several) else cell for cell in column.to_list()]


def _column(frame: Any, position: int) -> Any:
    return frame.iloc[:, position] if hasattr(frame, "iloc") else frame.to_series(position)
