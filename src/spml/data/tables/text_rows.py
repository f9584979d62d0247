"""Rows of a table whose samples are texts, and lists of texts to predict."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ...common.errors import InputError
from ...common.phrases import counted, first_few
from ...common.safe import quote
from ...config import DataConfig
from ..files.names import RowNames, take
from ..records import Records, take_rows
from ..texts import Texts
from .columns import Columns, find_id, find_text
from .rows import ImageRows
from .table import Table, text

NO_TEXT = "no text"
"""Reason why a sample is left out that is an empty text."""


class TextRows(ImageRows):
    """Rows of a table and the texts that they hold: those of some columns, one below the other.

    A sample has the name in the column `Columns.file`, of which several rows may have the same one, with the
    same text; without that column each row is a sample, named by its number.
    """

    def __init__(self, table: Table, columns: Columns, root: Path, config: DataConfig) -> None:
        super().__init__(table, columns, root, config)
        self._texts: list[str] = []

    @property
    def _own(self) -> list[int]:
        return [*self.columns.text, *([self.columns.file] if self.columns.file >= 0 else [])]

    def _collect(self, numbers: Sequence[int], cells: Sequence[Sequence[Any]]) -> None:
        parts = cells[: len(self.columns.text)]
        self._texts += map(join_cells, zip(*parts, strict=True))
        self._named.extend(cells[-1] if self.columns.file >= 0 else numbers)

    def _find_samples(self) -> None:
        texts, self.of_row, self.first = self._texts, self._named.codes, self._named.first
        named = self._named.values
        self.names = named if self.columns.file >= 0 else RowNames(np.array(named, np.int64))
        self._find_repeats()
        if "" in self.names:
            where = self.where(int(self.first[self.names.index("")]))
            raise InputError(f"{where}: the name of the sample is empty. Fill it in.")
        for row in self.repeats.tolist():
            first = int(self.first[self.of_row[row]])
            if texts[first] != texts[row]:
                raise InputError(
                    f"{self.both(first, row)}, with different texts. Names of samples must be distinct: "
                    "correct one, or name another column (data.file_column)."
                )
        self.inputs = Texts.of(texts[row] for row in self.first.tolist())
        self._texts = []


def join_cells(cells: Iterable[object]) -> str:
    """Text of a sample: what its cells hold, one below the other."""
    return "\n".join(filter(None, map(text, cells)))


def read_texts(table: Table, stated: str) -> tuple[Sequence[str], Texts, tuple[str, ...]]:
    """Read the texts of a table to predict, in the columns that `stated` names.

    Returns:
        Names of the samples, their texts, and notes on what was left out.
    """
    config = DataConfig(text=stated, max_unreadable=0)
    rows = TextRows(table, Columns(find_id(table), -1, text=find_text(table, stated)), Path(), config)
    rows.read_columns([])
    filled, _, notes = _split_by_text(rows.names, rows.inputs, str(table.path))
    return take(rows.names, filled), rows.inputs.take(filled), notes


def without_empty(records: Records) -> Records:
    """Leave out samples that are empty texts."""
    assert isinstance(records.inputs, Texts)
    filled, empty, notes = _split_by_text(records.ids, records.inputs, records.source)
    taken = take_rows(records, filled)
    left_out = tuple((name, NO_TEXT) for name in empty)
    return replace(taken, notes=(*records.notes, *notes), skipped=(*records.skipped, *left_out))


def _split_by_text(
    names: Sequence[str], texts: Texts, source: str
) -> tuple[npt.NDArray[np.int64], list[str], tuple[str, ...]]:
    """Rows whose text is not empty, names of the others, and a note on these."""
    filled = np.array([bool(each.strip()) for each in texts], bool)
    if not filled.any():
        raise InputError(f"{source}: every text is empty. Name other columns (data.text).")
    empty = [names[row] for row in np.flatnonzero(~filled).tolist()]
    shown = first_few([*map(quote, empty)], 3)
    notes = (f"{counted(len(empty), 'sample')} without text left out: {shown}.",) if empty else ()
    return np.flatnonzero(filled), empty, notes
