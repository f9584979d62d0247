"""Table of image files for prediction: CSV, TSV or Parquet with a column of file names."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from pathlib import Path

from ...errors import InputError
from ..names import FilesBelow
from ..phrases import counted
from ..safe import inside, is_file, quote
from .delimited import FILE_COLUMNS, Table, open_delimited, shorten
from .image_rows import text
from .parquet import open_parquet
from .places import are_listed
from .whole import present_files

SUFFIXES = (".csv", ".tsv", ".parquet")
COLUMNS = tuple(name for group in FILE_COLUMNS[:-1] for name in group)
"""Names of the column that names the images; an `id` is not a file here."""


def read_file_list(path: Path, images: str | None) -> tuple[Sequence[str], Sequence[Path]]:
    """Read the names of files in a table.

    Args:
        path: CSV, TSV or Parquet file. The first of `COLUMNS` that it has names the files.
        images: Folder that the names are relative to; None = the folder of the table.

    Returns:
        The names as they are written, each once, and the files.

    Raises:
        InputError: The table can't be read, has no such column or no rows, a name leads out of the folder, or
            a file is missing; names the row.
    """
    table = open_parquet(path) if path.suffix.lower() == ".parquet" else open_delimited(path)
    root = path.parent if images is None else Path(images)
    if not root.is_dir():
        raise InputError(f"--images: {quote(str(root))} is not a folder.")
    column = _find_column(table)
    columns = table.whole([column])
    whole = None if columns is None else present_files(root, columns[0])
    if whole is not None:
        return whole, FilesBelow(root, whole)
    names, rows = _read_names(table, column)
    files, missing = [], []
    for name, row, present in zip(names, rows, are_listed(root, names), strict=True):
        if present:
            files.append(root / name)
            continue
        try:
            file = inside(root, name, table.where(row))
        except InputError as error:
            raise InputError(str(error).replace("--data.images", "--images")) from error
        files.append(file)
        if not is_file(file):
            missing.append((name, row))
    if missing:
        name, row = missing[0]
        some = f" ({len(missing):,} of {counted(len(names), 'file')} are missing)" if len(missing) > 1 else ""
        raise InputError(
            f"{table.where(row)}: there is no file {quote(name)} in {root}{some}. Add the file, remove the "
            "row, or pass --images with the folder that the names are relative to."
        )
    return names, tuple(files)


def _find_column(table: Table) -> int:
    """Position of the column that names the images."""
    lower = [name.lower() for name in table.names]
    column = next((lower.index(name) for name in COLUMNS if name in lower), None)
    if column is None:
        raise InputError(
            f"{table.path}: has no column that names the images, such as {', '.join(COLUMNS[:3])}, path or "
            f"image; found: {shorten(table.names)}. Rename the one that does to `file`."
        )
    return column


def _read_names(table: Table, column: int) -> tuple[tuple[str, ...], array[int]]:
    """Distinct names of files, and the first row of each."""
    first: dict[str, int] = {}
    for row, (cell,) in table.rows([column]):
        name = text(cell)
        if not name:
            raise InputError(
                f"{table.where(row)}: the name of the file is empty. Fill it in or remove the row."
            )
        first.setdefault(name, row)
    if not first:
        raise InputError(f"{table.path}: has no rows. Expected one row per image below the header.")
    return tuple(first), array("q", first.values())
