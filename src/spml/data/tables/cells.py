"""Labels in the cells of a column: one name, names with a separator, or a list as programs write it.

A cell is one label unless a separator is stated, its form is that of a list, or it holds a mark that hardly
occurs in names. The rules are those of `docs/data.md`; none counts how often something occurs. What no rule
decides is refused with the readings that the cells allow.
"""

from __future__ import annotations

import csv
import re
from array import array
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec
import numpy as np

from ...common.documents import class_name
from ...common.errors import InputError
from ...common.label_checks import rows_of
from ...common.phrases import counted, first_few
from ...common.safe import MAX_NAME, quote
from ...labels import IntArray
from ..values import is_blank, text
from .names import option

Cell = str | tuple[str, ...]
"""Text without blanks around it, or the entries of a list."""

SEPARATORS = {
    ";": ("semicolons", r"[;；؛](?!\))"),  # not in `;)`
    "|": ("bars", "[|｜]{1,2}"),  # `cat || dog`
    "\n": ("line breaks", r"[\r\n]\s*"),
    "\t": ("tabs", r"\t"),
    "、": ("ideographic commas", "、"),
    "،": ("Arabic commas", "،"),
    ",": ("commas", r"[,，](?:\s*(?:and|or|&)\s+)?"),  # `cat, dog, and fox`
    "#": ("#", "[#＃]"),
    "/": ("slashes", "[/／]"),
    "\\": ("backslashes", r"\\"),
    ">": (">", ">"),
    "·": ("middle dots", "·"),
    "+": ("plus signs", "[+＋]"),
    "&": ("`and` or &", " (?:and|or|with) | ?[&＆] ?"),  # of a cell with single blanks
    " ": ("spaces", r"\s+"),
}
"""Name of each separator, and the pattern of its forms."""

HARD = (";", "|", "\n", "\t", "、", "،")
"""Separators that hardly occur in names: one of them in a cell separates labels."""

_SOFT = ("#", "/", "\\", ">", "·", "+", "&")
_CONJUNCTIONS = frozenset({"and", "or", "with", "&", "＆", "+", "/"})
_TYPED = {"\\n": "\n", "\\t": "\t"}  # as they are typed on a command line

_ONE_HOT = re.compile(r"\s*[01](?:\.0?)?(?:[\s,;|]+[01](?:\.0?)?)+\s*")
_BITS = re.compile(r"[01]{2,}")
_ZERO_ONE = {"0": 0, "0.0": 0, "0.": 0, "false": 0, "1": 1, "1.0": 1, "1.": 1, "true": 1}
_WHOLE = re.compile(r"([-+]?\d+)\.0+")

_AMOUNT = r"(?:\d{1,3}(?:[.,]\d+)?|[.,]\d+)\s?%?"
_SHARE = r"(?:0?[.,]\d+|1[.,]0+|\d{1,3}(?:[.,]\d+)?\s?%)"
_END = r"(?=$|[\s,;|])"
_SCORE = re.compile(
    rf"(?<=[^\W\d_])\s*[:=@]\s*{_AMOUNT}{_END}|(?<=[^\W\d_])\s*[(\[]\s*[x×]?\s*{_AMOUNT}\s*[)\]]{_END}"
    rf"|(?<=[^\W\d_])\s+(?:{_SHARE}|[x×*]\s*\d{{1,3}}){_END}|(?:^|(?<=[\s,;|]))\d{{1,3}}\s*[x×*]\s+(?=[^\W\d])"
)
"""A score or a count at a name: `dog:0.82`, `dog (0.98)`, `dog 82%`, `2x dog`, `dog x3`."""

_ABSENT = re.compile(
    r"(?:[-\u2212\u2013!~¬]\s*|(?:no|non|not|without)(?:\s+|_|-))(?P<name>\S.*)"
    r"|(?P<other>.+?)(?:\s*\((?:no|absent|negative)\)|[\s_]absent)",
    re.IGNORECASE | re.DOTALL,
)
_DOUBT = re.compile(r"[?？]+\s*(?P<name>[^?？].*)|(?P<other>.*[^?？\s(])\s*(?:\([?？]+\)|[?？]+)", re.DOTALL)


class Column:
    """Cells of a column in the order of the rows. Equal cells are stored once."""

    def __init__(self, cells: Sequence[object] = ()) -> None:
        self._first: dict[Any, int] = {}  # row in which each distinct cell first occurs
        self._rows = array("q")
        self.extend(cells)

    def extend(self, cells: Sequence[object]) -> None:
        """Add the cells of further rows: text without blanks around it, or the entries of lists as text."""
        values: Iterable[object]
        if {*map(type, cells)} == {str}:  # in a third of the time
            values = map(str.strip, cells)  # type: ignore[arg-type]
        else:
            values = (
                tuple(map(text, cell)) if isinstance(cell, (list, tuple)) else text(cell) for cell in cells
            )
        start = len(self._rows)
        self._rows.extend(map(self._first.setdefault, values, range(start, start + len(cells))))

    @property
    def values(self) -> list[Any]:
        """Distinct cells, in the order in which they first occur."""
        return list(self._first)

    @property
    def first(self) -> IntArray:
        """First row of each of the distinct cells, int64."""
        return np.fromiter(self._first.values(), np.int64, len(self._first))

    @property
    def codes(self) -> IntArray:
        """Position in `values` of the cell of each row, int64 (rows,)."""
        rows = np.frombuffer(self._rows, np.int64)
        return (np.cumsum(rows == np.arange(len(rows))) - 1)[rows]


class Rules(NamedTuple):
    """What the user and the name of a column say about its cells.

    Attributes:
        separator: `data.separator`: empty = each cell is one label; None = not stated.
        plural: Whether the column has a name for several labels, such as `tags`.
        stated: Whether the user named the column.
        keep: Names that are neither words for a missing value nor marked, although they look like it.
        marks: `data.marks`: `read` what marks at names say, `cut` scores and counts off, or `keep` all.
        one_hot: `data.one_hot`: names of the places of lists of 0 and 1.
    """

    separator: str | None = None
    plural: bool = False
    stated: bool = False
    keep: Collection[str] = ()
    marks: str = "read"
    one_hot: tuple[str, ...] = ()


class CellLabels(NamedTuple):
    """Labels of the rows of a column."""

    names: list[tuple[str, ...]]  # class names in each distinct cell; empty for one that can't be read
    absent: list[tuple[str, ...]]  # names that are marked as absent, likewise
    doubtful: list[tuple[str, ...]]  # names with a question mark, likewise
    codes: IntArray  # cell of each row, int64 (rows,)
    unread: IntArray  # rows whose cell can't be read, int64
    several: bool  # whether a cell holds several labels
    notes: list[str]  # how cells were understood, one line each

    @property
    def classes(self) -> tuple[str, ...]:
        """All names that occur, sorted."""
        return tuple(sorted({name for names in self.names for name in names}))

    def entries(
        self, classes: Sequence[str], of_cells: Sequence[Sequence[str]] | None = None
    ) -> tuple[IntArray, IntArray]:
        """Row and class of each label, int64, row by row; of the names in `of_cells`, by default `names`.
        Names that are none of `classes` are left out."""
        names = self.names if of_cells is None else of_cells
        labels = rows_of(classes, (name for some in names for name in some))
        starts = np.cumsum([0, *map(len, names)])
        counts = np.diff(starts)[self.codes]
        # Labels of a row are those of its cell, from where these start.
        shift = starts[self.codes] - (np.cumsum(counts) - counts)
        rows = np.repeat(np.arange(len(self.codes)), counts)
        columns = labels[np.arange(len(rows)) + shift[rows]].astype(np.int64)
        known = columns >= 0
        return rows[known], columns[known]


def label_cells(column: Column, source: str, where: Callable[[int], str], rules: Rules) -> CellLabels:
    """Read the labels of a column, which messages call `source`, with the names of rows that `where` returns.

    Raises:
        InputError: No rule says what the cells hold, they hold scores, or one contradicts itself.
    """
    cells, codes, rows = column.values, column.codes, column.first.tolist()
    counts = np.bincount(codes, minlength=len(cells))
    if rules.marks == "cut":
        cells = [_without_scores(cell) for cell in cells]
    blank = [isinstance(cell, str) and _is_missing(cell, rules) for cell in cells]
    plain = ["" if is_missing else cell for cell, is_missing in zip(cells, blank, strict=True)]
    reading = parse_cells(plain, source, rules)
    unread = np.flatnonzero(np.array([names is None for names in reading.names])[codes])
    of_cells = zip(cells, blank, reading.names, strict=True)
    found = [_alone(cell) if is_missing else some or () for cell, is_missing, some in of_cells]
    first: dict[str, int] = {}
    for some, row in zip(found, rows, strict=True):
        for name in some:
            first.setdefault(name, row)

    meant = {name: ("missing" if _is_missing(name, rules) else "present", name) for name in first}
    if rules.marks != "keep":
        meant |= _read_marks([name for name in first if meant[name][0] == "present"], source, rules)
    kinds = {kind for kind, _ in meant.values()}
    numbers = whole_numbers(
        name for name, (kind, _) in meant.items() if kind != "missing" and name not in rules.keep
    )
    spelled = {
        name: numbers.get(bare) or class_name(bare, where(first[name]))
        for name, (kind, bare) in meant.items()
        if kind != "missing"
    }

    def of_kind(kind: str) -> list[tuple[str, ...]]:
        if kind not in kinds:
            return [()] * len(found)
        named = {name: spelled[name] for name in spelled if meant[name][0] == kind}
        return [tuple(dict.fromkeys(named[name] for name in some if name in named)) for some in found]

    names, absent, doubtful = of_kind("present"), of_kind("absent"), of_kind("doubtful")
    for k, (present, not_) in enumerate(zip(names, absent, strict=True)):
        if both := {*present} & {*not_}:
            raise InputError(
                f"{where(rows[k])}: {quote(cells[k])} says that {quote(min(both))} is present, and that it "
                "is not. Correct the cell."
            )
    several = any(len(some) > 1 for some in names)
    notes = []
    if several or reading.why:
        filled = np.array([*map(len, names)])
        mean = float((filled * counts).sum() / max(1, counts[filled > 0].sum()))
        classes = len({name for some in names for name in some})
        notes.append(
            f"{reading.how}, {counted(classes, 'class', 'classes')}, {mean:.2f} labels per sample"
            + (f" ({reading.why})" if reading.why else "")
        )
    for kind, meaning in (("absent", "is known to be absent"), ("doubtful", "is unknown")):
        if kind in kinds:
            pairs = [
                f"{quote(name)} says that {quote(bare)} {meaning}"
                for name, (its_kind, bare) in meant.items()
                if its_kind == kind
            ]
            notes.append(f"{first_few(pairs, 3)}; to read such names as they are, pass data.marks=keep")
    if numbers:
        pairs = [f"{quote(name)} is {quote(short)}" for name, short in sorted(numbers.items())]
        notes.append(f"whole numbers are one class however they are written: {first_few(pairs, 3)}")
    if "missing" in kinds:
        words: Counter[str] = Counter()
        for some, count in zip(found, counts.tolist(), strict=True):
            words.update({name: count for name in some if name and meant[name][0] == "missing"})
        listed = first_few([quote(word) for word, _ in words.most_common()], 5)
        if words:
            total, word = counted(words.total(), "word"), words.most_common(1)[0][0]
            notes.append(
                f"{total} for a missing value read as blank: {listed}; to keep such a word as a class, pass "
                f"data.rename={{{word!r}: {word!r}}}"
            )
    if len(unread):
        count = "count" if len(unread) > 1 else "counts"
        notes.append(
            f"{counted(len(unread), 'cell')} can't be read as {reading.how} and {count} as without a label, "
            f"such as {quote(cells[codes[unread[0]]])} ({where(int(unread[0]))})"
        )
    lines = [f"{source}: {note}." for note in notes]
    return CellLabels(names, absent, doubtful, codes, unread, several, lines)


def _is_missing(name: str, rules: Rules) -> bool:
    return is_blank(name) and name not in rules.keep


def _alone(cell: Cell) -> tuple[str, ...]:
    return cell if isinstance(cell, tuple) else (cell,) if cell else ()


def whole_numbers(names: Iterable[str]) -> Mapping[str, str]:
    """Names such as `3.0` that mean `3`: where `3` occurs, too, or all names are whole numbers."""
    names = {*names}
    floats = {name: found[1] for name in names if (found := _WHOLE.fullmatch(name))}
    if all(name in floats or re.fullmatch(r"[-+]?\d+", name) for name in names):
        return floats
    return {name: short for name, short in floats.items() if short in names}


# -- marks at names --------------------------------------------------------------------------------------


def _without_scores(cell: Cell) -> Cell:
    """A cell without scores and counts. Between two names, where only a blank is left, a semicolon stays."""
    if isinstance(cell, tuple):
        return tuple(_SCORE.sub("", name).strip() for name in cell)

    def left(found: re.Match[str]) -> str:
        return ";" if found.start() and re.match(r"\s+\w", cell[found.end() :]) else ""

    return _SCORE.sub(left, cell).strip(" ;")


def _read_marks(names: Sequence[str], source: str, rules: Rules) -> dict[str, tuple[str, str]]:
    """Names with a mark: whether the name without it is `absent` or `doubtful`, and this name.

    `-dog` and `no dog` say so only where `dog` is a class; elsewhere they are names, such as
    `No Finding`.
    """
    bare = {name.casefold().replace("_", " "): name for name in names}
    marked = {}
    for name in names:
        if name in rules.keep or len(name) > MAX_NAME:
            continue
        if _SCORE.search(name):
            raise _scored(source, name)
        for kind, form in (("doubtful", _DOUBT), ("absent", _ABSENT)):
            if found := form.fullmatch(name):
                rest = (found["name"] or found["other"]).strip()
                of = bare.get(rest.casefold().replace("_", " "), rest if form is _DOUBT else "")
                if of and any(map(str.isalnum if form is _DOUBT else str.isalpha, rest)):
                    marked[name] = kind, of
                    break
    return marked


def _scored(source: str, cell: str) -> InputError:
    return InputError(
        f"{source}: cells such as {quote(cell)} hold scores or counts, which are no known labels. To cut "
        "them off, pass data.marks=cut; if they are parts of the names, pass data.marks=keep."
    )


# -- how cells hold labels -------------------------------------------------------------------------------


class Reading(NamedTuple):
    """Labels of the cells of a column, as they were understood."""

    names: list[tuple[str, ...] | None]  # names in each cell; None for one that can't be read
    how: str  # how cells hold labels, for a note: `separated by commas`
    why: str = ""  # the rule; empty if there was nothing to decide
    separator: str = ""  # the `data.separator` with which this reading is stated


def split_cell(cell: str, separator: str) -> tuple[str, ...] | None:
    """Names in a cell; None if one between two others is empty. Separators at the ends separate nothing."""
    pattern = SEPARATORS[separator][1] if separator in SEPARATORS else re.escape(separator)
    cell = " ".join(cell.split()) if separator == "&" else cell
    parts = [part.strip() for part in re.split(pattern, cell)]
    while parts and not parts[-1]:
        parts.pop()
    while parts and not parts[0]:
        parts.pop(0)
    return tuple(parts) if all(parts) else None


def parse_cells(cells: Sequence[Cell], source: str, rules: Rules) -> Reading:
    """Read the labels in the distinct cells of a column, of which an empty one holds no label."""
    names: list[tuple[str, ...] | None] = [_alone(cell) for cell in cells]
    separator = _TYPED.get(rules.separator or "", rules.separator)
    if separator == "":
        return _one_hot(Reading(names, "one label per cell"), source, rules)
    filled = [k for k, cell in enumerate(cells) if cell and cell not in rules.keep]
    lists, certain = dict[int, tuple[str, ...]](), dict[int, tuple[str, ...]]()
    for k in filled:
        cell = cells[k]
        found = Listed(cell, True) if isinstance(cell, tuple) else parse_list(cell)
        if not found and _PRINTED.fullmatch(str(cell)):
            raise InputError(
                f"{source}: cells such as {quote(cell)} are arrays as NumPy prints them. Write lists with "
                'commas, such as ["cat", "dog"]: call .tolist() on the arrays first.'
            )
        for part in cell if isinstance(cell, tuple) else () if found and found.certain else (cell,):
            if part and _is_nested(part):
                raise InputError(
                    f"{source}: the cells are nested JSON, such as {quote(part)}, and where the names of "
                    "classes are in it is not known. Write the names of each row as a list of text, such as "
                    '["cat", "dog"].'
                )
        if found:
            lists[k] = found.names
            if found.certain or (len(found.names) > 1 and cell[0] in "[{<#"):
                certain[k] = found.names
    may_be_lists = {*lists}
    if len(lists) < len(filled):  # otherwise `[cat]` is a list like the others
        lists = certain
    vocabulary = {name for some in lists.values() for name in some}
    plain = []
    for k in filled:
        cell = cells[k]
        if k in lists:
            names[k] = lists[k]
        elif lists and k not in may_be_lists and is_bracketed(str(cell)):
            names[k] = None
        elif cell not in vocabulary:
            plain.append(k)
    rules = rules._replace(separator=separator)
    reading = _read_plain([str(cells[k]) for k in plain], source, rules, lists=bool(lists))
    for k, parts in zip(plain, reading.names, strict=True):
        names[k] = parts
    if lists:
        longest = cells[max(lists, key=lambda k: len(lists[k]))]
        how = "lists" if isinstance(longest, tuple) else f"lists such as {quote(longest)}"
        how = f"{how}, otherwise {reading.how}" if plain else how
        reading = reading._replace(how=how, why="by their form")
    return _one_hot(reading._replace(names=names), source, rules)


def _read_plain(cells: Sequence[str], source: str, rules: Rules, *, lists: bool) -> Reading:
    """Read cells that are not written as lists, some others perhaps are."""
    separator = rules.separator
    if separator is not None:
        return _separated(cells, separator, "stated")
    if cells and all(map(_BITS.fullmatch, cells)) and any(cell[0] == "0" for cell in cells):
        return Reading([tuple(cell) for cell in cells], "one digit per class")
    if all(map(_ONE_HOT.fullmatch, cells)):
        return Reading([tuple(re.split(r"[\s,;|]+", cell.strip())) for cell in cells], "one place per class")
    lines = "\n".join(cells)  # one search is much faster than one per cell
    if rules.marks == "read" and _SCORE.search(lines):
        for cell in cells:
            if _SCORE.search(cell):
                raise _scored(source, cell)
    one = Reading([(cell,) for cell in cells], "one label per cell")
    together = "".join(cells)
    kinds = [kind for kind in HARD if re.search(SEPARATORS[kind][1], together)]
    if len(kinds) > 1:
        raise _ambiguous(source, [one, *(_separated(cells, kind) for kind in kinds)])
    if kinds:
        return _separated(cells, kinds[0], "a mark that separates")
    if re.search(SEPARATORS[","][1], together):
        commas = _separated(
            cells, ",", "by the name of the column; for one label per cell, pass data.separator=''"
        )
        if rules.plural or rules.stated:
            return commas
        raise _ambiguous(source, [commas, one])
    several = [cell for cell in cells if len(cell.split()) > 1 and not _is_marked(cell, cells)]
    if rules.plural and several and not lists:
        parts = {part for cell in cells for part in cell.split()}
        numbers = all(re.fullmatch(r"\d+(?:\.0+)?", part) for part in parts)
        if not parts & _CONJUNCTIONS and (
            numbers or any(re.search(r"[^\W_]_[^\W_]", part) for part in parts)
        ):
            return _separated(cells, " ", "every part is a number" if numbers else "names have _ for a blank")
    alone = {*cells}
    readings = []
    for kind in _SOFT:
        found = _separated(cells, kind)
        joined = [names for names in found.names if names and len(names) > 1]
        if joined and (rules.plural or any(alone.issuperset(names) for names in joined)):
            readings.append(found)
    if rules.plural and several and not lists and not readings:
        readings.append(_separated(cells, " "))
    if readings:
        raise _ambiguous(source, [*readings[:2], one])
    return one


def _separated(cells: Sequence[str], separator: str, why: str = "") -> Reading:
    names = [split_cell(cell, separator) for cell in cells]
    how = SEPARATORS[separator][0] if separator in SEPARATORS else repr(separator)
    return Reading(names, f"separated by {how}", why, separator)


def _is_marked(cell: str, cells: Collection[str]) -> bool:
    """Whether a cell is another one with a mark of absence or doubt, rather than several words."""
    found = [form.fullmatch(cell) for form in (_DOUBT, _ABSENT) if len(cell) <= MAX_NAME]
    return any(each and (each["name"] or each["other"]) in cells for each in found)


def _ambiguous(source: str, readings: Sequence[Reading]) -> InputError:
    """Error with at most three readings, each with the cell in which it finds most names."""
    texts = []
    for reading in readings[:3]:
        some = [names for names in reading.names if names]
        longest = max(some, key=lambda names: (len(names), len(" ".join(names))), default=())
        example = first_few([quote(name) for name in longest], 3)
        shown = {"\n": "\\n", "\t": "\\t"}.get(reading.separator, reading.separator)
        texts.append(f"{reading.how}, such as {example}: pass {option('separator', shown)}")
    return InputError(f"{source}: ambiguous: labels may be {'; or '.join(texts)}.")


def _one_hot(reading: Reading, source: str, rules: Rules) -> Reading:
    """Read or refuse cells that are rows of zeros and ones, such as `[0, 1, 0]`."""
    rows = [some for some in reading.names if some]
    widths = {len(some) for some in rows}
    are_rows = len(widths) == 1 and widths != {1} and all(
        name.lower() in _ZERO_ONE for some in rows for name in some)  # fmt: skip
    if rules.one_hot and not (are_rows and widths == {len(rules.one_hot)}):
        raise InputError(
            f"{source}: data.one_hot names {counted(len(rules.one_hot), 'class', 'classes')}, but not every "
            f"cell is a list of as many zeros and ones, such as {quote(' '.join(rows[0]) if rows else '')}."
        )
    if not are_rows:
        return reading
    if not rules.one_hot:
        width, example = widths.pop(), " ".join(rows[0])
        names = "CLASS1,CLASS2,CLASS3" if width == 3 else f"CLASS1,...,CLASS{width}"
        raise InputError(
            f"{source}: the cells are rows of {width} zeros and ones, such as {quote(example)}, one place "
            f"per class, but do not name the classes. Name them in this order: data.one_hot={names}."
            + (" If they are names, pass data.separator=''." if reading.how == "one digit per class" else "")
        )
    named: list[tuple[str, ...] | None] = [
        tuple(
            name for name, place in zip(rules.one_hot, some or (), strict=False) if _ZERO_ONE[place.lower()]
        )
        for some in reading.names
    ]
    return Reading(named, "rows of zeros and ones", "stated")


# -- lists as programs write them ------------------------------------------------------------------------

_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r"}
_CLOSING = {"[": "]", "(": ")", "{": "}", "<": ">"}
_SET = re.compile(r"(?:frozen)?set\((.*)\)", re.DOTALL)
_STRING = r"""(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
_NUMBER = r"[-+]?\d+(?:\.\d*)?"
_ENTRY = rf"(?:{_STRING}|None|nan|{_NUMBER})"
_PYTHON = re.compile(rf"{_ENTRY}(?:\s*,\s*{_ENTRY})*(?:\s*,)?", re.DOTALL)
_PRINTED = re.compile(rf"array\(.*\)|\[\s*{_STRING}(?:\s*(?:\.\.\.|{_STRING}))+\s*\]", re.DOTALL)  # by NumPy
_HASHTAGS = re.compile(r"(?:#[^#\s]+\s*)+")
_NESTED = re.compile(r"""\s*(?:\{\s*(?:"[^"]*"|'[^']*')\s*:|\[\s*[\[{])""")


class Listed(NamedTuple):
    """Names in a cell that is written as a list."""

    names: tuple[str, ...]  # the names
    certain: bool  # whether only a list is written so; otherwise it may also be a name with brackets


def is_bracketed(cell: str) -> bool:
    """Whether a cell begins with a bracket and ends with the one that closes it."""
    return cell[-1] == _CLOSING.get(cell[0])


def _is_nested(cell: str) -> bool:
    """Whether a cell is an object, or a list that holds other things than text and numbers."""
    if cell[0] not in "[{" or not is_bracketed(cell):
        return False
    with suppress(msgspec.MsgspecError, ValueError, RecursionError):
        msgspec.json.decode(cell)
        return True
    return bool(_NESTED.match(cell))


def parse_list(cell: str) -> Listed | None:
    """Parse a list as JSON, Python and PostgreSQL write it, `<a><b>`, or `#a #b`.

    Example:
        >>> parse_list("['cat', 'dog']")
        Listed(names=('cat', 'dog'), certain=True)
        >>> parse_list("{cat,dog}")
        Listed(names=('cat', 'dog'), certain=False)
        >>> parse_list("cat")
    """
    wrapped = _SET.fullmatch(cell)
    text = wrapped[1].strip() if wrapped else cell
    if wrapped and not text:
        return Listed((), True)
    if text[0] == "#":
        return Listed(tuple(re.findall(r"[^#\s]+", text)), False) if _HASHTAGS.fullmatch(text) else None
    if not is_bracketed(text) or len(text) < 2:
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
    """Entries between brackets, as Python writes them or without quotes; None if they can't be told apart."""
    if not inner:
        return Listed((), opening != "(")
    words = tuple(inner.split())
    if opening == "[" and all(re.fullmatch(_NUMBER, word) for word in words):
        return Listed(words, True)
    if _PYTHON.fullmatch(inner):
        entries = re.findall(_ENTRY, inner, re.DOTALL)
        texts = [_unescaped(each[1:-1]).strip() if each[0] in "'\"" else each for each in entries]
        return Listed(tuple(texts), opening == "[" or any(each[0] in "'\"" for each in entries))
    try:
        (row,) = csv.reader([inner], skipinitialspace=True, escapechar="\\")
    except (csv.Error, ValueError):
        return None
    names = tuple(map(str.strip, row))
    if not all(names) or (opening == "(" and len(names) == 1):
        return None
    return None if opening != "{" and any(name[0] in "'\"" for name in names) else Listed(names, False)


def _unescaped(text: str) -> str:
    def character(found: re.Match[str]) -> str:
        code = found[1] or found[2] or found[3]
        if code:
            return chr(int(code, 16)) if int(code, 16) < 0x110000 else found[0]
        return _ESCAPED.get(found[4], found[4])

    return _ESCAPE.sub(character, text) if "\\" in text else text
