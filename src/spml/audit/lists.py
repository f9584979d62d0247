"""A list of probable missing labels as JSON lines or Parquet."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from ..common.files import write_bytes, write_with
from ..data.tables.parquet import require_pyarrow
from .folder import MissingLabel

FORMATS = ("csv", "jsonl", "parquet")


def check_format(form: str) -> None:
    """Check, before long work, that a list can be written in a format.

    Raises:
        InputError: It needs a package that is not installed.
    """
    if form == "parquet":
        require_pyarrow(Path("--format parquet"))


def write_list(path: Path, rows: Sequence[MissingLabel]) -> None:
    """Write a list in the format that the suffix of the path says, with the columns of `missing.csv`.

    Args:
        path: File that ends in .jsonl or .parquet.
        rows: Probable missing labels by rank.

    Raises:
        SpmlError: It can't be written.
    """
    if path.suffix == ".jsonl":
        write_bytes(path, b"".join(msgspec.json.encode(row) + b"\n" for row in rows))
        return
    import pyarrow
    from pyarrow import parquet

    text, number, count = pyarrow.string(), pyarrow.float64(), pyarrow.int64()
    kinds = dict(zip(MissingLabel.__struct_fields__, (text, text, text, number, count, count), strict=True))
    columns = {name: pyarrow.array([getattr(row, name) for row in rows], kinds[name]) for name in kinds}
    write_with(path, lambda stream: parquet.write_table(pyarrow.table(columns), stream))
