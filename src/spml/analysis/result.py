"""Result of an analysis: a figure, the numbers behind it, and how both are written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy.typing as npt

from ..common.errors import InputError
from ..common.files import check_folder, make_folder, write_rows
from ..plots.style import save

Column: TypeAlias = Sequence[Any] | npt.NDArray[Any]

PICTURES, TABLE = (".png", ".svg"), ".csv"


@dataclass(frozen=True)
class Analysis:
    """A figure and the numbers that it shows.

    Attributes:
        figure: matplotlib figure.
        table: Columns of the CSV file by name, all of the same length: one row per point, bar or cell of the
            figure.
        notes: What a reader of the figure should know, one sentence each.
        arrays: Numbers that do not fit a table, such as images, by name.
    """

    figure: Any
    table: Mapping[str, Column]
    notes: tuple[str, ...] = ()
    arrays: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check that the columns of the table are equally long."""
        lengths = {name: len(column) for name, column in self.table.items()}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"the columns of a table must have the same length, got {lengths}")

    def write(self, folder: str | Path, name: str, *, overwrite: bool = False) -> list[Path]:
        """Write the figure as PNG and SVG, and its numbers as CSV.

        Args:
            folder: Folder of the files; made if it does not exist.
            name: Name of the files, without their suffixes.
            overwrite: Replace files of this name.

        Returns:
            The paths of the files.

        Raises:
            InputError: The folder can't be made, or a file exists and `overwrite` is not set.
            SpmlError: A file could not be written.
        """
        folder = Path(folder)
        check_free(folder, name, overwrite=overwrite)
        make_folder(folder)
        for suffix in PICTURES:
            save(self.figure, folder / (name + suffix))
        columns = [_as_list(column) for column in self.table.values()]
        write_rows(folder / (name + TABLE), list(self.table), zip(*columns, strict=True))
        return [folder / (name + suffix) for suffix in (*PICTURES, TABLE)]


def check_free(folder: Path, name: str, *, overwrite: bool) -> None:
    """Check, before a figure is drawn, that its files may be written.

    Raises:
        InputError: The folder can't be made, the name is not that of a file, or a file exists and `overwrite`
            is not set.
    """
    if not name or Path(name).name != name or name.startswith("."):
        raise InputError(f"--name must be the name of a file without a folder, got {name!r}")
    check_folder(folder)
    for suffix in (*PICTURES, TABLE):
        path = folder / (name + suffix)
        if path.exists() and not overwrite:
            raise InputError(f"{path}: exists already. Replace it (--overwrite), or choose another --name.")


def _as_list(column: Column) -> list[Any]:
    return list(column.tolist() if hasattr(column, "tolist") else column)
