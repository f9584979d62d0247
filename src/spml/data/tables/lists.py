"""Lists in the cells of tables, as programs write them."""

from __future__ import annotations

import re
from typing import NamedTuple

import msgspec

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
    """Names in a cell that is written as a list.

    Attributes:
        names: The names.
        certain: Whether only a list is written so; otherwise it may also be a name with brackets.
    """

    names: tuple[str, ...]
    certain: bool


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
