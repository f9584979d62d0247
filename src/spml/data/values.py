"""What a value says about a label: words for a missing one, marks of presence, and arrays of labels."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import numpy as np

from ..common.errors import InputError
from ..labels import LabelError, ObservedLabels, Unlisted

MAX_CLASSES = 1_000_000
BLANK_WORDS = frozenset(
    ["", "nan", "none", "null", "n/a", "n.a.", "#n/a", "<na>", "unknown", "undefined", "unlabeled",
     "unlabelled", "-", "--", "?"]
)  # fmt: skip
"""Words for a missing value, in lower case; `NA` in upper case is one, too."""

_BLOCK = 1 << 24  # labels of a matrix that are read at a time
_NUMBER = re.compile(r"[-+]?(?:\d+(?:[.,]\d*)?|[.,]\d+)(?:[eE][-+]?\d+)?")


def text(cell: object) -> str:
    """A cell as stripped text; empty if it is missing or NaN, and `3` for the number 3.0."""
    if isinstance(cell, str):
        return cell.strip()
    if cell is None or cell != cell:
        return ""
    if isinstance(cell, float) and cell.is_integer() and abs(cell) < 1e15:
        return str(int(cell))
    return str(cell).strip()


def is_blank(name: str) -> bool:
    """Whether a name is a word for a missing value."""
    return name == "NA" or name.casefold() in BLANK_WORDS


def number(cell: object) -> float | None:
    """The number in a cell, which may have a decimal comma; None if it holds none."""
    if isinstance(cell, (int, float)):
        try:
            return float(cell) if cell == cell else None
        except OverflowError:  # a whole number of JSON has any length
            return math.inf if cell > 0 else -math.inf
    word = text(cell)
    return float(word.replace(",", ".")) if _NUMBER.fullmatch(word) else None


# -- marks in columns that stand for one class each ------------------------------------------------------

# Codes next to +1, 0 and -1. A dash is 0 where there is a plus sign, and blank elsewhere.
BLANK, BAD, PLUS, DASH = 2, 3, 4, 5
EXPECTED = "1, 0, -1, x, true, false, yes, no, + and - or blank"
_PRESENT = "true t yes y x ja j wahr oui vrai si sí sì verdadero vero sim verdadeiro on ✓ ✔ ☑ ✅ √"
_ABSENT = "-0 false f no n nein falsch non faux falso não off ✗ ✘ ✕ ❌ ☐ ☒"
_WORDS: dict[object, int] = {
    **dict.fromkeys(_PRESENT.split(), 1),
    **dict.fromkeys(_ABSENT.split(), 0),
    **dict.fromkeys((*BLANK_WORDS, "na"), BLANK),
    **{"1": 1, "0": 0, "+1": 1, "-1": -1, "+": PLUS, "-": DASH, "\u2212": DASH, "\u2013": DASH},
}


class _Marks(dict[object, int]):
    """Mapping from a cell to +1, 0, -1, BLANK, PLUS, DASH or BAD."""

    def __missing__(self, cell: object) -> int:
        if isinstance(cell, str):
            # U+FE0F asks for a coloured picture of a check mark.
            word = cell.strip().casefold().rstrip("\ufe0f")
            if word[:1].isdecimal() or word[:2] == "-1":
                word = re.sub(r"[.,]0+$", "", word)
                return int(word) if word in ("0", "1", "-1") else BAD
            return _WORDS.get(word, BAD)
        return BLANK if cell != cell else BAD  # only NaN differs from itself


# True and 1.0 are the same key as 1. Missing cells are not added, so that memory stays bounded.
MARKS = _Marks({**_WORDS, 1: 1, 0: 0, -1: -1, None: BLANK})


_SAID = {"positive": 1, "pos": 1, "present": 1, "negative": 0, "neg": 0, "absent": 0}


def presence(cells: Sequence[object]) -> list[int]:
    """What each cell says about the label beside it: 1 (present), 0 (absent), BLANK or BAD."""
    codes = [MARKS[cell] for cell in cells]
    signs = {PLUS: 1, DASH: 0 if PLUS in codes else BLANK}
    words = (text(cell).casefold() for cell in cells)
    return [
        _SAID.get(word, BAD) if code == BAD else signs.get(code, code)
        for word, code in zip(words, codes, strict=True)
    ]


def meaning(
    codes: Collection[int], unlisted: Unlisted, source: str, blank_word: str = "blank"
) -> tuple[int, int, str]:
    """Meaning of 0 and of a blank among labels, as -1 or 0, and a sentence on it.

    If there are blanks and no -1, a 0 is a known negative. Otherwise a 0 is unknown where there is a -1, and
    means what `unlisted` says where there is none. A blank is unknown where there is a -1 or a 0, and means
    what `unlisted` says where there is neither. Labels in which -1, 0 and blanks all occur are refused.
    """
    dash = DASH in codes
    negative, zero = -1 in codes, 0 in codes or (dash and PLUS in codes)
    blank = BLANK in codes or (dash and PLUS not in codes)
    no_effect = ", so data.unlisted=negative has no effect" if unlisted == "negative" else ""
    if negative and zero and blank:
        raise InputError(
            f"{source}: ambiguous: the labels are 1, 0, -1 and {blank_word}, so 0 or -1 may mean absent. "
            "Leave unknown labels blank (in CheXpert's files, -1 means uncertain), and use only one of 0 and "
            "-1 for absent ones."
        )
    if negative:
        rest = " and 0 (unknown)" if zero else f" and {blank_word} (unknown)" if blank else ""
        uncertain = " If -1 means uncertain, as in CheXpert, leave these cells blank." if blank else ""
        return 0, 0, f"1 (positive), -1 (negative){rest}{no_effect}.{uncertain}"
    if zero and blank:
        return -1, 0, f"1 (positive), 0 (negative) and {blank_word} (unknown){no_effect}."
    absent = -1 if unlisted == "negative" else 0
    return absent, absent, f"1 (positive) and {'0' if zero else blank_word} ({unlisted})."


# -- arrays ----------------------------------------------------------------------------------------------

_MATRICES = "Labels are {0, 1}, {-1, 0, 1} with 0 for unknown, or {0, 1, NaN} with NaN for unknown."
_INDICES = "Class indices are integers, and the first class is 0: subtract 1 if yours begin with 1."


def read_labels(
    arrays: Sequence[tuple[str, Any]], classes: tuple[str, ...], unlisted: Unlisted
) -> tuple[ObservedLabels, str]:
    """Interpret label arrays; returns the labels of all samples, and a sentence on what values mean.

    There is one array for all samples, or one for each of several shards, each with its source for messages.
    The values of all of them say what they mean. (N, C) with {0, 1}: a 0 means what `unlisted` says; {-1, 0,
    +1}: known negative, unknown, known positive; {0, 1, NaN}: known negative, known positive, unknown. (N,)
    integers: the class of the one known positive. Instead of one dense (N, C), a SciPy CSR matrix is also
    accepted; entries that it does not store are 0. The class names may be empty if the arrays are matrices.
    """
    (first, array), *rest = arrays
    dimensions = len(array.shape)
    if array.dtype.kind not in "biuf" or dimensions not in (1, 2) or (dimensions == 1 and not classes):
        raise InputError(
            f"{first}: Y must hold numbers, one row per sample; got {array.dtype} {array.shape}. Expected a "
            "matrix with a column per class, or indices of the class names in `classes`."
        )
    columns = array.shape[1] if dimensions == 2 else len(classes)
    if not 0 < columns <= MAX_CLASSES or (classes and columns != len(classes)):
        expected = f"{len(classes):,}, one per class name" if classes else f"1 to {MAX_CLASSES:,}"
        raise InputError(f"{first}: Y has {columns:,} columns; expected {expected}.")
    for source, other in rest:
        if other.shape[1:] != array.shape[1:] or other.dtype.kind not in "biuf":
            raise InputError(
                f"{source}: Y has the type {other.dtype} and the shape {other.shape}, but {first} has the "
                f"shape {array.shape}. All shards need labels of the same kind."
            )
    parts = []
    if dimensions == 1:
        for source, index in arrays:
            try:
                parts.append(ObservedLabels.from_index(index, columns))
            except LabelError as error:
                raise InputError(
                    f"{source}: Y: {error} (rows and columns counted from 0). {_INDICES}"
                ) from error
        labels = ObservedLabels.join(parts)
        if unlisted == "negative":
            labels = ObservedLabels.from_csr(labels.to_csr(), unlisted="negative")
        return labels, "Y holds class indices, one label per sample."
    nan, negative = _special_values(arrays)
    values = {0, 1, *([BLANK] if nan else []), *([-1] if negative else [])}
    zero, _, sentence = meaning(values, unlisted, first, "NaN")
    for _, _, block in _blocks(arrays):
        if hasattr(block, "indptr"):
            block.data[np.isnan(block.data)] = 0  # still stored, unlike the other zeros
            parts.append(ObservedLabels.from_csr(block, unlisted="negative" if zero else "unknown"))
            continue
        ternary = (block > 0).astype(np.int8)  # 0 where it is NaN
        ternary[block < 0] = -1
        ternary[block == 0] = zero
        parts.append(ObservedLabels.from_ternary(ternary))
    if len({part.full for part in parts}) > 1:  # otherwise joining full ones with others makes all dense
        parts = [ObservedLabels.from_csr(part.to_csr()) if part.full else part for part in parts]
    return ObservedLabels.join(parts), f"Y holds {sentence}"


def _special_values(arrays: Sequence[tuple[str, Any]]) -> tuple[str, str]:
    """First source with a NaN, and first with a -1, empty if there is none; refuses other values and both."""
    nan = negative = ""
    for source, start, block in _blocks(arrays):
        values = block.data if hasattr(block, "indptr") else block
        known = (values >= -1) & (values <= 1)  # enough for integers, and much faster
        if values.dtype.kind == "f":
            is_nan = np.isnan(values)
            known = np.isin(values, (-1, 0, 1)) | is_nan
            nan = nan or (source if is_nan.any() else "")
        if not known.all():
            entry = np.argwhere(~known)[0]
            row, column = entry if values is block else (place[entry[0]] for place in block.nonzero())
            raise InputError(
                f"{source}: Y: row {start + row}, column {column} is {values[tuple(entry)]} (rows and "
                f"columns counted from 0). {_MATRICES}"
            )
        if values.dtype.kind in "if" and (values == -1).any():
            negative = negative or source
    if nan and negative:
        raise InputError(f"{nan}: Y holds NaN, but {negative} holds -1. {_MATRICES}")
    return nan, negative


def _blocks(arrays: Sequence[tuple[str, Any]]) -> Iterator[tuple[str, int, Any]]:
    """Some rows of a matrix at a time, with its source and the number of the first row; all of a sparse one,
    without the zeros that it stores, which mean the same as those that it does not."""
    for source, array in arrays:
        if hasattr(array, "tocsr"):
            matrix = array.tocsr().astype(np.float64)
            matrix.eliminate_zeros()
            yield source, 0, matrix
            continue
        step = max(1, _BLOCK // max(1, array.shape[1]))
        for start in range(0, max(1, len(array)), step):
            yield source, start, np.asarray(array[start : start + step])
