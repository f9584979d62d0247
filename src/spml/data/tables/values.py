"""Values in cells of tables: lists as programs write them, and marks that say whether a class is present."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import NamedTuple

import msgspec

from ...common.errors import InputError
from ...labels import Unlisted

BLANK_WORDS = frozenset({"", "nan", "none", "null", "n/a", "#n/a", "<na>", "unknown", "-", "--", "?"})
"""Words for a missing value, in lower case; `NA` in upper case is one, too."""

_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r"}
_CLOSING = {"[": "]", "(": ")", "{": "}", "<": ">"}
_WRAPPER = re.compile(r"(?:set|frozenset|list|tuple|array)\((.*)\)", re.DOTALL)
# A quote inside a name is none that a comma, another quote or the end follows.
_QUOTED = re.compile(
    r"""\s*(?:'((?:[^'\\]|\\.|'(?!\s*(?:[,'"]|$)))*)'|"((?:[^"\\]|\\.|"(?!\s*(?:[,'"]|$)))*)")\s*(?:,|(?=['"])|$)""",
    re.DOTALL,
)
_BARE = re.compile(r"""\s*([^\s,'"][^,]*?)\s*(?:,|$)""")
_UNQUOTED = re.compile(r"""\s*([^\s,"][^,]*?)\s*(?:,|$)""")  # an apostrophe is a letter in PostgreSQL
_HASHTAGS = re.compile(r"(?:#[^#\s]+\s*)+")
_SHORTENED = re.compile(r"""['"]\s+\.\.\.\s+['"]""")  # as NumPy prints long arrays
_NUMBER = re.compile(r"[-+]?\d+(?:\.\d*)?")


def is_blank(name: str) -> bool:
    """Whether a name is a word for a missing value."""
    return name == "NA" or name.casefold() in BLANK_WORDS


class Listed(NamedTuple):
    """Names in a cell that is written as a list."""

    names: tuple[str, ...]  # the names
    certain: bool  # whether only a list is written so; otherwise it may also be a name with brackets


def parse_list(cell: str) -> Listed | None:
    """Parse a list as JSON, Python, NumPy and PostgreSQL write it, `<a><b>`, or `#a #b`.

    Example:
        >>> parse_list("['cat', \\"dog's\\"]")
        Listed(names=('cat', "dog's"), certain=True)
        >>> parse_list("{cat,dog}")
        Listed(names=('cat', 'dog'), certain=False)
        >>> parse_list("cat")
    """
    wrapped = _WRAPPER.fullmatch(cell)
    text = wrapped[1].strip() if wrapped else cell
    before, _, kind = text.rpartition("dtype=")
    if wrapped and before.rstrip().endswith(",") and not {*kind} & {*"])}"}:
        text = before.rstrip()[:-1].rstrip()
    if wrapped and not text:
        return Listed((), True)
    if text[0] == "#":
        return Listed(tuple(re.findall(r"[^#\s]+", text)), False) if _HASHTAGS.fullmatch(text) else None
    if text[-1] != _CLOSING.get(text[0]) or len(text) < 2:
        return None
    if text[0] == "<":
        tags = tuple(part.strip() for part in re.split(r">\s*<", text[1:-1]))
        return Listed(tags, False) if all(tags) else None
    if text[0] in "[{" and (found := _from_json(text)) is not None:
        return Listed(found, True)
    return _entries(text[1:-1].strip(), text[0])


def _from_json(text: str) -> tuple[str, ...] | None:
    """Entries of a JSON list of text and numbers, which may be the one value of an object; else None."""
    try:
        value = msgspec.json.decode(text)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    if isinstance(value, dict) and len(value) == 1:  # as in {"choices": ["cat", "dog"]}
        value = next(iter(value.values()))
    if not isinstance(value, list) or not all(
        isinstance(entry, (str, int, float, type(None))) for entry in value
    ):
        return None
    return tuple("" if entry is None else str(entry).strip() for entry in value)


def _entries(inner: str, opening: str) -> Listed | None:
    """Entries between brackets, quoted or not; None if they can't be told apart."""
    if not inner:
        return Listed((), opening != "(")
    if _SHORTENED.search(inner):
        return None
    names: list[str] = []
    quotes: list[tuple[int, str]] = []
    position, certain = 0, True
    while position < len(inner):
        found = _QUOTED.match(inner, position)
        if found:
            quotes.append((len(names), found[0].strip().removesuffix(",")))
            names.append(_unescaped(found[1] if found[1] is not None else found[2]).strip())
        else:
            found = (_BARE if opening != "{" else _UNQUOTED).match(inner, position)
            if not found:
                return None
            words = found[1].split()
            numbers = all(map(_NUMBER.fullmatch, words))
            certain &= (numbers and opening == "[") or is_blank(found[1])
            names += words if numbers else [found[1]]
        position = found.end()
    if not certain and opening == "{":  # PostgreSQL has apostrophes in names, and double quotes around them
        for place, quoted in quotes:
            names[place] = quoted.strip() if quoted[0] == "'" else names[place]
    if not certain and opening == "(" and len(names) == 1:
        return None
    return Listed(tuple(names), certain and (opening == "[" or bool(quotes)))


def _unescaped(text: str) -> str:
    def character(found: re.Match[str]) -> str:
        code = found[1] or found[2] or found[3]
        if code:
            return chr(int(code, 16)) if int(code, 16) < 0x110000 else found[0]
        return _ESCAPED.get(found[4], found[4])

    return _ESCAPE.sub(character, text) if "\\" in text else text


def is_bracketed(cell: str) -> bool:
    """Whether a cell begins with a bracket and ends with the one that closes it."""
    return cell[-1] == _CLOSING.get(cell[0])


# -- marks of columns that stand for one class each: 1, 0, -1, x, yes, no, true, false, counts or blank -----

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
    what `unlisted` says where there is neither. A matrix in which -1, 0 and blanks all occur is refused.
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
