"""Columns that stand for one class each: their cells are 1, 0, -1, true, false, yes, no or blank."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ...errors import InputError
from ...labels import Unlisted
from ..safe import quote
from .delimited import EXPECTED as LAYOUTS
from .delimited import Table, shorten

BLANK, BAD = 2, 3  # codes next to +1, 0 and -1
EXPECTED = "1, 0, -1, true, false, yes, no or blank"
_WORDS: dict[object, int] = {
    **dict.fromkeys(("1", "1.0", "+1", "true", "yes"), 1),
    **dict.fromkeys(("0", "0.0", "-0.0", "false", "no"), 0),
    **dict.fromkeys(("-1", "-1.0"), -1),
    **dict.fromkeys(("", "?", "nan", "na", "n/a", "null", "none"), BLANK),
}


class _Marks(dict[object, int]):
    """Mapping from a cell to +1, 0, -1, BLANK or BAD."""

    def __missing__(self, cell: object) -> int:
        if isinstance(cell, str):
            return _WORDS.get(cell.strip().lower(), BAD)
        return BLANK if cell != cell else BAD  # only NaN differs from itself


# True and 1.0 are the same key as 1. Missing cells are not added, so that memory stays bounded.
MARKS = _Marks({**_WORDS, 1: 1, 0: 0, -1: -1, None: BLANK})


class ClassColumns(NamedTuple):
    """Columns of a table that stand for a class.

    Attributes:
        columns: Positions of the columns in the table.
        ternary: Labels of each row, int8 (rows, classes) with +1 (positive), -1 (negative) and 0 (unknown).
        sentence: What the cells mean, for a note.
    """

    columns: list[int]
    ternary: npt.NDArray[np.int8]
    sentence: str


def are_marks(cells: Iterable[object]) -> bool:
    """Whether a column with these cells stands for a class: some are filled, at most half of these differ."""
    codes = [code for code in map(MARKS.__getitem__, cells) if code != BLANK]
    return bool(codes) and 2 * codes.count(BAD) <= len(codes)


def read_class_columns(
    table: Table, columns: Sequence[int], rows: Iterable[Sequence[object]], unlisted: Unlisted
) -> ClassColumns:
    """Find the columns that stand for a class, and read their labels.

    A column stands for a class if its cells are known to `MARKS`. If most of its cells are not, it is left
    out; if only some are not, they are refused.

    Args:
        table: Table that the rows are from.
        columns: Positions of the columns to look at.
        rows: Cells of each row in those columns.
        unlisted: Meaning of a label that is not listed.

    Raises:
        InputError: No column stands for a class, or one of them has a cell with another value.
    """
    blocks = [array("b", map(MARKS.__getitem__, cells)).tobytes() for cells in rows]
    # One byte per cell, so never more than the file has.
    codes = np.frombuffer(b"".join(blocks), np.int8).reshape(len(blocks), len(columns))
    bad, filled = (codes == BAD).sum(axis=0), (codes != BLANK).sum(axis=0)
    is_class = 2 * bad <= filled
    if not (is_class & (filled > 0)).any():
        raise InputError(
            f"{table.path}: there is no column `label` or `labels`, and no other column holds {EXPECTED}; "
            f"found: {shorten(table.names).lower()}. {LAYOUTS}."
        )
    if (bad * is_class).any():
        raise _bad_cell(table, columns[int(np.flatnonzero(bad * is_class)[0])])
    codes = codes[:, is_class]
    zero, blank, sentence = meaning(np.unique(codes).tolist(), unlisted, str(table.path))
    ternary = np.where(codes == BLANK, np.int8(blank), np.where(codes == 0, np.int8(zero), codes))
    return ClassColumns([columns[k] for k in np.flatnonzero(is_class).tolist()], ternary, sentence)


def _bad_cell(table: Table, column: int) -> InputError:
    """Error that names the first cell of a column of a class that has another value."""
    number, (cell,) = next((number, row) for number, row in table.rows([column]) if MARKS[row[0]] == BAD)
    return InputError(
        f"{table.where(number)}: column {quote(table.names[column])} holds {quote(cell)}, but most of its "
        f"cells are {EXPECTED}, so it stands for a class. Correct the cell, or remove the column."
    )


def meaning(codes: Collection[int], unlisted: Unlisted, source: str) -> tuple[int, int, str]:
    """Meaning of 0 and of a blank in a label matrix, as -1 or 0, and a sentence on it.

    If there are blanks and no -1, a 0 is a known negative. Otherwise a 0 is unknown where there is a -1, and
    means what `unlisted` says where there is none. A blank is unknown where there is a -1 or a 0, and means
    what `unlisted` says where there is neither.

    Args:
        codes: Codes that occur in the matrix: 1, 0, -1 and `BLANK`.
        unlisted: Meaning of a label that is not listed.
        source: Name of the file, for messages.

    Raises:
        InputError: -1, 0 and blanks all occur.
    """
    negative, zero, blank = -1 in codes, 0 in codes, BLANK in codes
    no_effect = ", so data.unlisted=negative has no effect" if unlisted == "negative" else ""
    if negative and zero and blank:
        raise InputError(
            f"{source}: ambiguous: the columns of the classes hold 1, 0, -1 and blank cells, so 0 or -1 may "
            "mean absent. Leave unknown labels blank (in CheXpert's files, -1 means uncertain), and use only "
            "one of 0 and -1 for absent ones."
        )
    if negative:
        rest = " and 0 (unknown)" if zero else " and blank (unknown)" if blank else ""
        return 0, 0, f"1 (positive), -1 (negative){rest}{no_effect}."
    if zero and blank:
        return -1, 0, f"1 (positive), 0 (negative) and blank (unknown){no_effect}."
    absent = -1 if unlisted == "negative" else 0
    return absent, absent, f"1 (positive) and {'0' if zero else 'blank'} ({unlisted})."
