"""Table of images in CSV, TSV, JSON Lines or Parquet: a column `file`, labels and perhaps `split`."""

from __future__ import annotations

from ..tables.read import SUFFIXES, read_table
from .registry import Source, register_reader


def is_table(source: Source) -> bool:
    """Whether the suffix of a file is that of a table."""
    return source.suffix in SUFFIXES


register_reader("table", "a table", recognises=is_table, priority=-1)(read_table)
