"""Text of CSV files, and names in it that a spreadsheet would run as formulas."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from .messages import log
from .phrases import counted


def _starts(taken: str, quotes: str) -> re.Pattern[str]:
    """Places where a formula may start: that of a cell, and behind what another locale reads as its end.

    The characters are those that OWASP names for "CSV injection". A cell that is a number is no formula.
    """
    number, signs = r"-\d[\d.]*(?:e[+-]?\d+)?\Z", "[=+@\uff1d\uff0b\uff0d\uff20-]"
    return re.compile(
        rf"(?:\A(?!{number})|(?<=[;,\t])){taken}(?={quotes}{signs})|\A{taken}(?={quotes}[\t\r\n])"
    )


_FORMULA, _UNGUARDED, _GUARDED = _starts("", ""), _starts("", "'*"), _starts("'", "'*")


def guarded(text: str) -> str:
    """Put ' before every start of a formula, and before one with quotes, so that `unguarded` is exact."""
    return _UNGUARDED.sub("'", text)


def unguarded(text: str) -> str:
    """The text that `guarded` was given."""
    return _GUARDED.sub("", text)


class _Cells:
    """How cells are written: whether names are guarded; if not, how many would have to be."""

    def __init__(self, *, safe: bool = False) -> None:
        self.safe, self.count, self.first = safe, 0, ""

    def write(self, value: object) -> object:
        if not isinstance(value, str):
            return value
        if self.safe:
            return guarded(value)
        if _FORMULA.search(value):
            self.count, self.first = self.count + 1, self.first or value
        return value


_CELLS: ContextVar[_Cells | None] = ContextVar("cells of CSV files", default=None)


@contextmanager
def csv_cells(safe: bool | None) -> Iterator[None]:
    """Write the CSV files of a command for spreadsheets, or say which names one would run.

    Args:
        safe: Whether names are guarded; None if the command has no such option.
    """
    cells = _Cells(safe=bool(safe))
    token = _CELLS.set(cells)
    try:
        yield
    finally:
        _CELLS.reset(token)
    if cells.count:
        advice = (
            "do not open them there." if safe is None else "pass `spreadsheet_safe` to put ' before them."
        )
        begin = counted(cells.count, "cell begins", "cells begin")
        log.info(
            f"note: in the CSV or TSV files, {begin} as a formula does, the first is {cells.first[:100]!r}; "
            f"a spreadsheet would run it: {advice}"
        )


def are_guarded() -> bool:
    """Whether names in the CSV files that are written now are guarded."""
    return (_CELLS.get() or _Cells()).safe


def csv_text(rows: Iterable[Sequence[object]], delimiter: str = ",", *, names: int | None = None) -> str:
    """Rows of a CSV file, in which texts are guarded or counted as `csv_cells` says.

    Args:
        rows: Cells of each row.
        delimiter: Character between cells.
        names: Number of cells at the start of a row that may hold names; None = all.
    """
    stream, write = io.StringIO(), (_CELLS.get() or _Cells()).write
    writer = csv.writer(stream, delimiter=delimiter, lineterminator="\n")
    if names is None:
        writer.writerows(map(write, row) for row in rows)
    else:
        writer.writerows([*map(write, row[:names]), *row[names:]] for row in rows)
    return stream.getvalue()
