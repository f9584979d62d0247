"""Rows of a table, grouped by the image that they name."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import numpy.typing as npt

from ...config import DataConfig
from ...errors import InputError
from ..images import SUFFIXES
from ..names import FilesBelow, PackedNames
from ..phrases import counted
from ..safe import quote
from ..splits import SPELLINGS, split_name
from .columns import Columns
from .delimited import EXPECTED, Table
from .places import IMAGE_SUFFIXES, locate_names
from .whole import coded, present_files

Integers = npt.NDArray[np.int64]


def text(cell: object) -> str:
    """A cell as stripped text; empty if it is missing or NaN."""
    if isinstance(cell, str):
        return cell.strip()
    return "" if cell is None or cell != cell else str(cell).strip()


def _with_suffixes(name: str) -> tuple[str, ...]:
    """Possible names of an image; people leave the suffix out where the column is an id."""
    stem, _, suffix = name.rpartition(".")
    if stem[-1:] not in ("", "/") and f".{suffix.lower()}" in SUFFIXES:  # much faster than to parse the path
        return (name,)
    if not name or PurePosixPath(name).suffix.lower() in SUFFIXES:
        return (name,)
    return (name, *(name + suffix for suffix in IMAGE_SUFFIXES))


class Column:
    """Cells of a column in the order of the rows. Equal cells are stored once."""

    def __init__(self) -> None:
        self._codes: dict[Any, int] = {}
        self._rows = array("q")

    @classmethod
    def of(cls, cells: Sequence[str], codes: Integers) -> Column:
        """The column of which `codes` says which of the distinct `cells` each row has."""
        column = cls()
        code = np.array([column._codes.setdefault(text(cell), len(column._codes)) for cell in cells])
        column._rows.frombytes(code[codes].tobytes())
        return column

    def append(self, cell: str | tuple[str, ...]) -> None:
        """Add the cell of the next row."""
        self._rows.append(self._codes.setdefault(cell, len(self._codes)))

    @property
    def values(self) -> list[Any]:
        """Distinct cells, in the order in which they first occur."""
        return list(self._codes)

    @property
    def codes(self) -> Integers:
        """Position in `values` of the cell of each row."""
        return np.frombuffer(self._rows, np.int64)

    def first_row(self, code: int) -> int:
        """First row that has the cell `values[code]`."""
        return self._rows.index(code)


class ImageRows:
    """Rows of a table and the images that they name, in the order in which these first occur.

    Args:
        table: Table to read.
        columns: Its columns.
        root: Folder that files are relative to. A name without the suffix of an image stands for a file with
            one.
        config: Settings, of which `missing` and `split` are used.

    Attributes:
        paths: Paths of the images. This and the following are known once `read` has come to its end, or
            after `read_column`.
        names: The same relative to `root`.
        splits: Split of each image; None if the table has no such column.
        of_row: Image of each row.
        first: First row of each image.
        repeats: Rows that name an image which an earlier row names.
    """

    paths: Sequence[Path]
    names: Sequence[str]
    splits: tuple[str, ...] | None
    of_row: Integers
    first: Integers
    repeats: Integers

    def __init__(self, table: Table, columns: Columns, root: Path, config: DataConfig) -> None:
        self._table = table
        self._root = root
        split = columns.split if config.split == "given" else -1
        self._columns = [k for k in (columns.file, split) if k >= 0]
        self._config = config
        self._numbers: array[int] | range = range(0)

    def read_column(self, column: int) -> Column:
        """Read the table, and return one further column.

        Raises:
            InputError: As `read`.
        """
        whole = self._read_whole(column)
        if whole is not None:
            return whole
        cells = Column()
        for (cell,) in self.read([column]):
            cells.append(tuple(map(text, cell)) if isinstance(cell, list) else text(cell))
        return cells

    def read(self, columns: Sequence[int]) -> Iterator[Sequence[Any]]:
        """Read the table, and yield the cells of each row in some further columns.

        Raises:
            InputError: There are no rows, a file is missing or lies outside the folder, or a split is not
                known or differs between rows of one image.
        """
        known = len(self._columns)
        files, splits, numbers = Column(), Column(), array("q")
        for number, cells in self._table.rows([*self._columns, *columns]):
            numbers.append(number)
            files.append(text(cells[0]))
            if known > 1:
                splits.append(text(cells[1]))
            yield cells[known:]
        if not numbers:
            raise InputError(f"{self._table.path}: has no rows. {EXPECTED}, then one row per image.")
        self._numbers = numbers
        self._find_images(files)
        self.splits = self._read_splits(splits) if known > 1 else None

    def where(self, *rows: int) -> str:
        """The table and the numbers of one or two rows, for messages."""
        return self._table.where(*(self._numbers[row] for row in rows))

    def both(self, first: int, second: int) -> str:
        """The beginning of a message on two rows of one image."""
        return f"{self.where(first, second)} both name {quote(self.names[self.of_row[first]])}"

    def note(self) -> str:
        """Note on images with several rows; empty if there are none."""
        if not len(self.repeats):
            return ""
        count = len(np.unique(self.of_row[self.repeats]))
        examples = []
        for row in self.repeats[:3].tolist():
            image = self.of_row[row]
            rows = f"{self._numbers[self.first[image]]} and {self._numbers[row]}"
            examples.append(f"{self.names[image]} (rows {rows})")
        return (
            f"{self._table.path.name}: {counted(count, 'file has', 'files have')} several rows, whose labels "
            f"were merged, such as {', '.join(examples)}."
        )

    def _read_whole(self, column: int) -> Column | None:
        """Read the table at once and return one further column; None if that is not possible."""
        columns = self._table.whole([*self._columns, column])
        names = None if columns is None else present_files(self._root, columns[0])
        if columns is None or names is None:
            return None
        further = [cells for cells in map(coded, columns[1:]) if cells is not None]
        if len(further) < len(columns) - 1:
            return None
        self._numbers = range(self._table.first_row, self._table.first_row + len(names))
        self._keep(names, np.arange(len(names)))
        *splits, cells = (Column.of(*some) for some in further)
        self.splits = self._read_splits(*splits) if splits else None
        return cells

    def _find_images(self, files: Column) -> None:
        first = np.unique(files.codes, return_index=True)[1].tolist()
        options = [_with_suffixes(name) for name in files.values]
        names = locate_names(self._root, options, lambda code: self.where(first[code]), self._config.missing)
        image: dict[str, int] = {}
        image_of_file = np.array([image.setdefault(name, len(image)) for name in names])
        self._keep(PackedNames.of(image), image_of_file[files.codes])

    def _keep(self, names: PackedNames, of_row: Integers) -> None:
        """Keep the images and what follows from the image of each row."""
        self.paths = FilesBelow(self._root, names)
        self.names = names
        self.of_row = of_row
        self.first = np.unique(self.of_row, return_index=True)[1]
        self.repeats = np.flatnonzero(self.first[self.of_row] != np.arange(len(self.of_row)))

    def _read_splits(self, cells: Column) -> tuple[str, ...]:
        names = [split_name(cell) or "" for cell in cells.values]
        if "" in names:
            code = names.index("")
            raise InputError(
                f"{self.where(cells.first_row(code))}: the split is {quote(cells.values[code])}, but must be "
                f"one of {', '.join(SPELLINGS)}. Fill it in for every row, remove the column, or pass "
                "--data.split ignore."
            )
        splits = np.array(names, np.str_)[cells.codes]
        first_rows = self.first[self.of_row]
        wrong = np.flatnonzero(splits != splits[first_rows]).tolist()
        if wrong:
            row, first = wrong[0], first_rows[wrong[0]]
            raise InputError(
                f"{self.both(first, row)}, in the splits {splits[first]} and {splits[row]}. An image may be "
                "in one split only: remove one of the rows."
            )
        return tuple(map(names.__getitem__, cells.codes[self.first].tolist()))
