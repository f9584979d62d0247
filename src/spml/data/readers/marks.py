"""What the cells of a column that stands for one class say: 1, 0, -1, true, false, yes, no, or nothing."""

from __future__ import annotations

from collections.abc import Collection

from ...errors import InputError
from ...labels import Unlisted

BLANK, BAD = 2, 3  # beside +1, 0 and -1
EXPECTED = "1, 0, -1, true, false, yes, no, or blank"
_WORDS: dict[object, int] = {
    **dict.fromkeys(("1", "1.0", "+1", "true", "yes"), 1),
    **dict.fromkeys(("0", "0.0", "-0.0", "false", "no"), 0),
    **dict.fromkeys(("-1", "-1.0"), -1),
    **dict.fromkeys(("", "?", "nan", "na", "n/a", "null", "none"), BLANK),
}


class _Marks(dict[object, int]):
    """From a cell to +1, 0, -1, BLANK or BAD."""

    def __missing__(self, cell: object) -> int:
        if isinstance(cell, str):
            return _WORDS.get(cell.strip().lower(), BAD)
        return BLANK if cell != cell else BAD  # a NaN differs from itself


# True and 1.0 are the same key as 1. Nothing is ever added, so that memory stays bounded.
MARKS = _Marks({**_WORDS, 1: 1, 0: 0, -1: -1, None: BLANK})


def meaning(found: Collection[int], unlisted: Unlisted, source: str) -> tuple[int, int, str]:
    """What 0 and a blank mean in a matrix that holds the codes `found`, as -1 or 0, and a sentence on it.

    A 0 is a known negative if some cells are blank and none is -1, and a blank is a label that is not listed
    unless there is another sign for known negatives, as in `features.read_labels`.

    Raises:
        InputError: -1, 0 and blanks all occur.
    """
    negative, zero, blank = -1 in found, 0 in found, BLANK in found
    no_effect = ", so data.unlisted=negative has no effect" if unlisted == "negative" else ""
    if negative and zero and blank:
        raise InputError(
            f"{source}: the columns of the classes hold 1, 0, -1 and blank cells, so it can't be told which "
            "of 0 and -1 means absent. Leave blank what is unknown (in CheXpert's files, -1 is uncertain), "
            "and use only one of 0 and -1 for what is absent."
        )
    if negative:
        rest = " and 0 (unknown)" if zero else " and blank (unknown)" if blank else ""
        return 0, 0, f"1 (positive), -1 (negative){rest}{no_effect}."
    if zero and blank:
        return -1, 0, f"1 (positive), 0 (negative) and blank (unknown){no_effect}."
    other = -1 if unlisted == "negative" else 0
    return other, other, f"1 (positive) and {'0' if zero else 'blank'} ({unlisted})."
