"""Marks in columns that stand for one class each: 1, 0, -1, x, yes, no, true, false, counts or blank."""

from __future__ import annotations

from collections.abc import Collection

from ...common.errors import InputError
from ...labels import Unlisted
from .lists import BLANK_WORDS

# Codes next to +1, 0 and -1; a count above 1 means present where nothing is negative.
BLANK, BAD, COUNT = 2, 3, 4
EXPECTED = "1, 0, -1, x, true, false, yes, no, counts or blank"
_PRESENT = "+1 true t yes y x ja j wahr oui vrai si sí sì verdadero vero sim verdadeiro on ✓ ✔ ☑ ✅ √"
_ABSENT = "-0 false f no n nein falsch non faux falso não off ✗ ✘ ✕ ❌ ☐ ☒"
_WORDS: dict[object, int] = {
    **dict.fromkeys(_PRESENT.split(), 1),
    **dict.fromkeys(_ABSENT.split(), 0),
    **dict.fromkeys(("-1",), -1),
    **dict.fromkeys((*BLANK_WORDS, "na"), BLANK),
}


class _Marks(dict[object, int]):
    """Mapping from a cell to +1, 0, -1, BLANK, COUNT or BAD."""

    def __missing__(self, cell: object) -> int:
        if isinstance(cell, str):
            # U+FE0F asks for a coloured picture of a check mark.
            word = cell.strip().casefold().rstrip("\ufe0f").removesuffix(".0")
            if word.isdecimal() and len(word) < 10:
                return COUNT if int(word) > 1 else int(word)
            return _WORDS.get(word, BAD)
        if isinstance(cell, (int, float)) and cell == cell:
            return COUNT if 1 < cell < 1e9 and cell == int(cell) else BAD
        return BLANK if cell != cell else BAD  # only NaN differs from itself


# True and 1.0 are the same key as 1. Missing cells are not added, so that memory stays bounded.
MARKS = _Marks({**_WORDS, 1: 1, 0: 0, -1: -1, None: BLANK})


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
        uncertain = " If -1 means uncertain, as in CheXpert, leave these cells blank." if blank else ""
        return 0, 0, f"1 (positive), -1 (negative){rest}{no_effect}.{uncertain}"
    if zero and blank:
        return -1, 0, f"1 (positive), 0 (negative) and blank (unknown){no_effect}."
    absent = -1 if unlisted == "negative" else 0
    return absent, absent, f"1 (positive) and {'0' if zero else 'blank'} ({unlisted})."
