"""The one way to open a file as a table."""

from __future__ import annotations

from pathlib import Path

from .delimited import open_delimited
from .json_lines import open_json_lines
from .parquet import open_parquet
from .table import Table

_OPENERS = {
    ".csv": open_delimited,
    ".tsv": open_delimited,
    ".parquet": open_parquet,
    ".jsonl": open_json_lines,
}
SUFFIXES = tuple(_OPENERS)


def open_table(path: Path, file_column: str = "") -> Table:
    """Open a CSV, TSV, JSON Lines or Parquet file; a file of another suffix as CSV.

    Args:
        path: File to open.
        file_column: `data.file_column`.

    Raises:
        InputError: The file can't be read, or is not a table.
    """
    return _OPENERS.get(path.suffix.lower(), open_delimited)(path, file_column)
