"""The image files that a table names row by row."""

from __future__ import annotations

from pathlib import Path

from ...errors import InputError
from ..safe import inside, is_file, shown
from ..splits import SPELLINGS, split_name


def text(cell: object) -> str:
    """A cell as stripped text; empty if it is missing or NaN."""
    if isinstance(cell, str):
        return cell.strip()
    return "" if cell is None or cell != cell else str(cell).strip()


class ListedFiles:
    """Files and their splits, in the order of the first row of each.

    Args:
        path: the table.
        images: folder that names of files are relative to; None for the folder of the table.
        counted: how rows are numbered, for messages.

    Attributes:
        names: files as relative POSIX paths.
        splits: the split of each, None if the table has no such column.
        first: the number of the first row of each.
        repeated: (place of a file in `names`, number of a further row of it).
    """

    def __init__(self, path: Path, images: Path | None = None, counted: str = "") -> None:
        self.names: list[str] = []
        self.splits: list[str | None] = []
        self.first: list[int] = []
        self.repeated: list[tuple[int, int]] = []
        self._path = path
        self._root = images or path.parent
        self._counted = counted
        self._places: dict[str, int] = {}
        self._missing: list[int] = []

    def where(self, number: int) -> str:
        """The table and one of its rows, for messages."""
        return f"{self._path}: row {number}{self._counted}"

    def both(self, place: int, number: int) -> str:
        """The table, the first row of a file and another, for messages."""
        return f"{self._path}: rows {self.first[place]} and {number}{self._counted}"

    def add(self, number: int, cell: object, split: object) -> int:
        """Take note of a row.

        Args:
            number: of the row.
            cell: its file.
            split: its split; an empty tuple if the table has no such column.

        Returns:
            The place of its file in `names`.

        Raises:
            InputError: no file, one outside the folder, no split, or another one than in an earlier row.
        """
        given = text(cell)
        if not given:
            raise InputError(f"{self.where(number)}: the cell `file` is empty.")
        chosen = None if split == () else self._split(number, text(split))
        place = self._places.get(given)
        if place is None:
            file = inside(self._root, given, self.where(number))
            name = file.relative_to(self._root).as_posix()
            place = self._places.setdefault(name, len(self.names))
            self._places[given] = place
            if place == len(self.names):
                self.names.append(name)
                self.splits.append(chosen)
                self.first.append(number)
                if not is_file(file):
                    self._missing.append(place)
                return place
        if chosen != self.splits[place]:
            raise InputError(
                f"{self.both(place, number)} both name {shown(self.names[place])}, in the splits "
                f"{self.splits[place]} and {chosen}. An image may be in one split only: remove one of them."
            )
        self.repeated.append((place, number))
        return place

    def finish(self) -> tuple[tuple[Path, ...], tuple[str, ...] | None, tuple[str, ...]]:
        """The files, their splits, and a note on files with several rows if there are any.

        Raises:
            InputError: a file is missing.
        """
        if self._missing:
            place = self._missing[0]
            more = f" ({len(self._missing):,} files are missing in all)" if len(self._missing) > 1 else ""
            raise InputError(
                f"{self.where(self.first[place])}: there is no file {shown(self.names[place])} in "
                f"{self._root}{more}. Paths are relative to that folder; say --data.images with another one."
            )
        count = len({place for place, _ in self.repeated})
        some = "; ".join(
            f"{self.names[place]} (rows {self.first[place]} and {number})"
            for place, number in self.repeated[:3]
        )
        note = (
            f"{self._path.name}: {count:,} files have several rows, whose labels were put together: {some}"
            + ("; ..." if len(self.repeated) > 3 else ".")
        )
        return (
            tuple(self._root / name for name in self.names),
            None if None in self.splits else tuple(split or "" for split in self.splits),
            (note,) if count else (),
        )

    def _split(self, number: int, given: str) -> str:
        split = split_name(given)
        if split is None:
            raise InputError(
                f"{self.where(number)}: the split is {shown(given)}, but must be one of "
                f"{', '.join(SPELLINGS)}. Fill it in for every row or remove the column."
            )
        return split
