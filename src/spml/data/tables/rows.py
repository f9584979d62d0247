"""Rows of a table, grouped by the image that they name."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...common.errors import InputError
from ...common.phrases import counted
from ...common.safe import quote
from ...config import DataConfig
from ...labels import IntArray
from ..files.names import FilesBelow, PackedNames
from ..files.places import IMAGE_SUFFIXES, are_listed, locate_names
from ..groups import group_names, merge_names
from ..images.image_files import SUFFIXES
from ..splits import SPELLINGS, split_name
from .cells import Column
from .columns import Columns
from .table import EXPECTED, Table
from .values import MARKS


class ImageRows:
    """Rows of a table and the images that they name, in the order in which these first occur.

    Files are relative to `root`. A name without the suffix of an image stands for a file with one.
    """

    inputs: Any  # paths of the images. This and the following are known once `read` has come to its end
    names: Sequence[str]  # the same relative to `root`
    written: Sequence[str]  # the different names as they are written in the table
    image_of_written: IntArray  # image that each of them names
    splits: tuple[str, ...] | None  # split of each image; None if the table has no such column
    groups: tuple[str, ...] | None  # name of the group of each image, likewise; empty where the cell is blank
    of_row: IntArray  # image of each row
    first: IntArray  # first row of each image
    repeats: IntArray  # rows that name an image which an earlier row names

    def __init__(self, table: Table, columns: Columns, root: Path, config: DataConfig) -> None:
        self.table, self.columns, self.config, self._root = table, columns, config, root
        self._numbers = array("q")
        self._named = Column()

    @property
    def _own(self) -> list[int]:
        """Columns that say what the samples are."""
        return [self.columns.file]

    def _collect(self, numbers: Sequence[int], cells: Sequence[Sequence[Any]]) -> None:
        """Take in the cells of these columns, of some rows with these numbers."""
        self._named.extend(cells[0])

    def read(self, columns: Sequence[int]) -> Iterator[Sequence[Sequence[Any]]]:
        """Read the table, and yield the cells of further columns in blocks of rows."""
        own, split = self._own, self.columns.split if self.config.split == "given" else -1
        about = {k: Column() for k in (split, self.columns.group) if k >= 0}
        known = len(own) + len(about)
        for block in self.table.blocks([*own, *about, *columns]):
            self._numbers.extend(block.numbers)
            self._collect(block.numbers, block.cells[: len(own)])
            for column, cells in zip(about.values(), block.cells[len(own) : known], strict=True):
                column.extend(cells)
            yield block.cells[known:]
        broken, total = self.table.broken, len(self.table.broken) + len(self._numbers)
        if len(broken) > self.config.max_unreadable * total:
            number, problem = next(iter(broken.items()))
            count = f" {len(broken):,} of {counted(total, 'row')} are broken in this way."
            more = count if len(broken) > 1 else ""
            raise InputError(
                f"{self.table.where(number)} {problem}{more} Or leave such rows out: data.max_unreadable="
                f"{min(1.0, np.ceil(100 * len(broken) / total) / 100):g}."
            )
        if not self._numbers:
            raise InputError(f"{self.table.path}: has no rows. {EXPECTED}, then one row per image.")
        self._find_samples()
        self.splits = self._read_splits(about[split]) if split in about else None
        self.groups = self._read_groups(about[self.columns.group]) if self.columns.group in about else None

    def read_columns(self, columns: Sequence[int]) -> list[Column]:
        """Read the table, and return further columns."""
        found = [Column() for _ in columns]
        for cells in self.read(columns):
            for column, some in zip(found, cells, strict=True):
                column.extend(some)
        return found

    def where(self, *rows: int) -> str:
        """The table and the numbers of one or two rows, for messages."""
        return self.table.where(*(self._numbers[row] for row in rows))

    def both(self, first: int, second: int) -> str:
        """The beginning of a message on two rows of one image."""
        return f"{self.where(first, second)} both name {quote(self.names[self.of_row[first]])}"

    def contradiction(self, first: int, second: int, name: str) -> InputError:
        """Error of two rows of one image, of which one says that it has a class and the other that not."""
        rows = self.both(*sorted((first, second)))
        return InputError(f"{rows}, but contradict each other about {name!r}. Correct one of them.")

    def notes(self) -> list[str]:
        """Notes on rows that were left out and on images with several rows."""
        notes = []
        if broken := self.table.broken:
            number, problem = next(iter(broken.items()))
            rows = counted(len(broken), "row was left out, since it is", "rows were left out, since they are")
            notes.append(f"{self.table.path.name}: {rows} broken: row {number} {problem}")
        if len(self.repeats):
            count = len(np.unique(self.of_row[self.repeats]))
            numbers, first = self._numbers, self.first
            examples = [
                f"{self.names[image]} (rows {numbers[first[image]]} and {numbers[row]})"
                for row, image in zip(self.repeats[:3], self.of_row[self.repeats[:3]], strict=True)
            ]
            notes.append(
                f"{self.table.path.name}: {counted(count, 'file has', 'files have')} several rows, whose"
                f" labels were merged, such as {', '.join(examples)}."
            )
        return notes

    def _find_samples(self) -> None:
        self.written = names = self._named.values
        self.of_row, self.first = self._named.codes, self._named.first
        self.image_of_written = np.arange(len(names))
        if not all(are_listed(self._root, names)):
            # An id may lack the suffix of the file.
            whole = (not name or name[name.rfind(".") :].lower() in SUFFIXES for name in names)
            options = [
                (name, *(() if has_suffix else map(name.__add__, IMAGE_SUFFIXES)))
                for name, has_suffix in zip(names, whole, strict=True)
            ]
            located = locate_names(
                self._root, options, lambda k: self.where(self.first[k]), self.config.missing
            )
            image: dict[str, int] = {}
            codes = (image.setdefault(name, len(image)) for name in located)
            self.image_of_written = np.fromiter(codes, np.int64, len(located))
            self.of_row = self.image_of_written[self.of_row]
            self.first = self.first[np.unique(self.image_of_written, return_index=True)[1]]
            names = [*image]
        self.names = PackedNames.of(names)
        self.inputs = FilesBelow(self._root, self.names)
        self._find_repeats()

    def _find_repeats(self) -> None:
        self.repeats = np.flatnonzero(self.first[self.of_row] != np.arange(len(self.of_row)))

    def _read_splits(self, cells: Column) -> tuple[str, ...]:
        if self.columns.split_if:
            other = "test" if self.columns.split_if == "train" else "train"
            names = [{1: self.columns.split_if, 0: other}.get(MARKS[cell], "") for cell in cells.values]
        else:
            names = [split_name(cell) or "" for cell in cells.values]
        if "" in names:
            code = names.index("")
            raise InputError(
                f"{self.where(cells.first[code])}: the split is {quote(cells.values[code])}, but must be "
                f"one of {', '.join(SPELLINGS)}. Fill it in for every row, remove the column, or pass "
                "data.split=ignore."
            )
        splits = np.array(names, np.str_)[cells.codes]
        first_rows = self.first[self.of_row]
        for row in np.flatnonzero(splits != splits[first_rows]).tolist():
            first = first_rows[row]
            raise InputError(
                f"{self.both(first, row)}, in the splits {splits[first]} and {splits[row]}. An image may be "
                "in one split only: remove one of the rows."
            )
        return tuple(map(names.__getitem__, cells.codes[self.first].tolist()))

    def _read_groups(self, cells: Column) -> tuple[str, ...]:
        names = group_names(cells.values)
        of_image, conflict = merge_names([names[code] for code in cells.codes.tolist()], self.of_row)
        if conflict:
            one, other = (quote(names[code]) for code in cells.codes[[*conflict]].tolist())
            raise InputError(
                f"{self.both(*conflict)}, in the groups {one} and {other}. An image may be in one group "
                "only: correct one of the rows."
            )
        return of_image
