"""Table of images in CSV, TSV, JSON Lines or Parquet: a column `file`, labels and perhaps `split`."""

from __future__ import annotations

from ..tables.read import SUFFIXES, read_table
from .registry import register_reader

register_reader("table", "a table", recognises=lambda source: source.suffix in SUFFIXES, priority=-1)(
    read_table
)
