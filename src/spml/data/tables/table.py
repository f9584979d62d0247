"""A table as a stream of blocks of columns, whatever it was read from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from ...common.errors import InputError

MAX_COLUMNS = 100_000
EXPECTED = (
    "Expected the columns `file` and `label`, or `file` and `labels`, or `file` and one column per class, "
    "and optionally `split`"
)
_PEEK = 1000  # rows that show what a column holds
_PEEK_CELLS = 1_000_000


class Block(NamedTuple):
    """Some rows of a table."""

    numbers: Sequence[int]  # number of each row, for messages
    cells: Sequence[Sequence[object]]  # cells of each requested column


@dataclass(frozen=True)
class Table:
    """Rows and columns of a table."""

    path: Path  # path of the file
    names: tuple[str, ...]  # names of the columns, without surrounding blanks
    scalar: frozenset[int]  # positions of the columns whose cells hold one value each rather than a list
    blocks: Callable[[Sequence[int]], Iterator[Block]]  # rows of some columns
    counted: str = ""  # how rows are numbered; empty if as in a spreadsheet, whose header is row 1
    notes: tuple[str, ...] = ()  # what was inferred from the file, one line each
    broken: dict[int, str] = field(default_factory=dict)  # what is wrong with rows that were left out

    def rows(self, columns: Sequence[int]) -> Iterator[tuple[int, Sequence[object]]]:
        """Number of each row, and its cells in some columns."""
        for block in self.blocks(columns):
            for number in self.broken:
                raise InputError(f"{self.where(number)} {self.broken[number]}")
            yield from zip(block.numbers, zip(*block.cells, strict=True), strict=True)

    def peek(self, columns: Sequence[int]) -> dict[int, list[object]]:
        """First cells of some columns that are not blank."""
        if not columns:
            return {}
        limit = max(20, min(_PEEK, _PEEK_CELLS // max(1, len(columns))))
        found: dict[int, list[object]] = {column: [] for column in columns}
        left = limit
        for block in islice(self.blocks(columns), limit):
            for column, cells in zip(columns, block.cells, strict=True):
                found[column] += [cell for cell in cells[:left] if text(cell)]
            left -= len(block.numbers)
            if left <= 0:
                break
        return found

    def where(self, *numbers: int) -> str:
        """The file and the numbers of one or two rows, for messages."""
        rows = " and ".join(map(str, numbers))
        return f"{self.path}: row{'s' * (len(numbers) > 1)} {rows}{self.counted}"


def text(cell: object) -> str:
    """A cell as stripped text; empty if it is missing or NaN, and `3` for the number 3.0."""
    if isinstance(cell, str):
        return cell.strip()
    if cell is None or cell != cell:
        return ""
    if isinstance(cell, float) and cell.is_integer() and abs(cell) < 1e15:
        return str(int(cell))
    return str(cell).strip()
