"""Labels of the rows of a column, from files and from memory: parsed, cleaned and counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ...common.documents import class_name
from ...common.phrases import counted, first_few
from ...common.safe import quote
from .cells import Cell, parse_cells, summary, whole_numbers
from .lists import is_blank

Integers = npt.NDArray[np.int64]


class CellLabels(NamedTuple):
    """Labels of the rows of a column.

    Attributes:
        names: Class names in each distinct cell; empty for one that can't be read.
        codes: Cell of each row, int64 (rows,).
        unread: Rows whose cell can't be read, int64.
        several: Whether a cell holds several labels.
        notes: How cells were understood, one line each.
    """

    names: list[tuple[str, ...]]
    codes: Integers
    unread: Integers
    several: bool
    notes: list[str]

    @property
    def classes(self) -> tuple[str, ...]:
        """All names that occur, sorted."""
        return tuple(sorted({name for names in self.names for name in names}))

    def entries(self, classes: Sequence[str]) -> tuple[Integers, Integers]:
        """Row and class of each label, int64, row by row."""
        position = {name: k for k, name in enumerate(classes)}
        count = np.array([len(names) for names in self.names])
        start = np.cumsum(count) - count
        labels = np.array([position[name] for names in self.names for name in names], np.int64)
        number = count[self.codes]
        # Row by row, the positions in `labels` of its cell: from the start of the cell on.
        within = np.arange(number.sum()) - np.repeat(np.cumsum(number) - number, number)
        return np.repeat(np.arange(len(self.codes)), number), labels[
            np.repeat(start[self.codes], number) + within
        ]


def label_cells(
    cells: Sequence[Cell],
    codes: Integers,
    source: str,
    column: str,
    where: Callable[[int], str],
    *,
    separator: str | None = None,
    plural: bool = False,
    known: Collection[str] = (),
    keep: Collection[str] = (),
) -> CellLabels:
    """Read the labels of a column.

    Args:
        cells: Distinct cells, text without blanks around it or the entries of lists.
        codes: Cell of each row, int64 (rows,).
        source: Name of the data, for notes.
        column: What holds the labels, for messages: `column 'tags'`.
        where: Function from a row to its name, for messages.
        separator, plural, known: As in `parse_cells`.
        keep: Names that are no words for a missing value although they look like it.

    Raises:
        InputError: The evidence for a reading is not clear, or a name can't be that of a class.
    """
    counts = np.bincount(codes, minlength=len(cells))
    keep = {*keep, *known}
    blanks: Counter[str] = Counter()
    plain: list[Cell] = []
    for cell, count in zip(cells, counts.tolist(), strict=True):
        blank = isinstance(cell, str) and bool(cell) and is_blank(cell) and cell not in keep
        if blank:
            blanks[str(cell)] += count
        plain.append("" if blank else cell)
    reading = parse_cells(
        plain, counts, f"{source}: {column}", separator=separator, plural=plural, known=known
    )
    unread = np.flatnonzero(np.array([names is None for names in reading.names])[codes])
    cleaned: list[tuple[str, ...]] = []
    for some, count in zip(reading.names, counts.tolist(), strict=True):
        missing = [name for name in some or () if is_blank(name) and name not in keep]
        blanks.update({name: count for name in missing if name})
        cleaned.append(tuple(name for name in some or () if name not in missing))
    numbers = whole_numbers(name for some in cleaned for name in some if name not in keep)
    first_row = np.zeros(len(cells), np.int64)
    first_row[codes[::-1]] = np.arange(len(codes))[::-1]
    rows = first_row.tolist()
    first = {name: k for k, some in reversed([*enumerate(cleaned)]) for name in some}
    spelled = {name: numbers.get(name) or class_name(name, where(rows[k])) for name, k in first.items()}
    names = [tuple(dict.fromkeys(spelled[name] for name in some)) for some in cleaned]
    notes = []
    several = any(len(some) > 1 for some in names)
    if several or reading.why:
        why = f" ({reading.why})" if reading.why else ""
        notes.append(f"{source}: {column}: {reading.how}, {summary(names, counts)}{why}.")
    if numbers:
        pairs = first_few([f"{quote(name)} is {quote(short)}" for name, short in sorted(numbers.items())], 3)
        notes.append(f"{source}: {column}: whole numbers are one class however they are written: {pairs}.")
    if blanks:
        words = first_few([quote(word) for word, _ in blanks.most_common()], 5)
        total = counted(sum(blanks.values()), "word", "words")
        notes.append(f"{source}: {column}: {total} for a missing value read as blank: {words}.")
    if len(unread):
        cell = cells[codes[unread[0]]]
        many = len(unread) > 1
        notes.append(
            f"{source}: {column}: {counted(len(unread), 'cell')} can't be read as {reading.how} and "
            f"{'count' if many else 'counts'} as without a label, such as "
            f"{quote(cell)} ({where(int(unread[0]))})."
        )
    return CellLabels(names, codes, unread, several, notes)
