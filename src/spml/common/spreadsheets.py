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


_FORMULA, _GUARDED = _starts("", ""), _starts("'", "'*")


def unguarded(text: str) -> str:
    """The name that an earlier version wrote with ' before every start of a formula."""
    return _GUARDED.sub("", text)


class _Formulas:
    """Number of cells that begin as a formula does, and the first of them."""

    def __init__(self) -> None:
        self.count, self.first = 0, ""

    def add(self, cell: object) -> None:
        if isinstance(cell, str) and _FORMULA.search(cell):
            self.count, self.first = self.count + 1, self.first or cell


_FORMULAS: ContextVar[_Formulas | None] = ContextVar("formulas in CSV files", default=None)


@contextmanager
def note_formulas() -> Iterator[None]:
    """Say which names in the CSV files of a command a spreadsheet would run."""
    formulas = _Formulas()
    token = _FORMULAS.set(formulas)
    try:
        yield
    finally:
        _FORMULAS.reset(token)
    if formulas.count:
        begin = counted(formulas.count, "cell begins", "cells begin")
        log.info(
            f"note: in the CSV or TSV files, {begin} as a formula does, the first is "
            f"{formulas.first[:100]!r}; a spreadsheet would run it: do not open them there."
        )


def csv_text(rows: Iterable[Sequence[object]], delimiter: str = ",", *, names: int | None = None) -> str:
    """Rows of a CSV file, whose texts are counted as `note_formulas` says.

    Args:
        rows: Cells of each row.
        delimiter: Character between cells.
        names: Number of cells at the start of a row that may hold names; None = all.
    """
    stream, formulas = io.StringIO(), _FORMULAS.get()
    writer = csv.writer(stream, delimiter=delimiter, lineterminator="\n")
    for row in rows:
        if formulas:
            for cell in row[:names]:
                formulas.add(cell)
        writer.writerow(row)
    return stream.getvalue()
