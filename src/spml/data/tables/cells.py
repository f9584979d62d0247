"""Labels in the cells of a column: one name, names with a separator, or a list as programs write it.

Each cell is parsed by itself, but what separates labels is decided by the evidence of the whole column:
whether parts recombine (occur alone, or with other parts), how many classes result, and how many cells a
reading fits. A character in one cell never decides. Where the evidence is not clear, the column is refused
with the two best readings.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...common.documents import class_name
from ...common.errors import InputError
from ...common.label_checks import rows_of
from ...common.phrases import counted, first_few
from ...common.safe import quote
from ...labels import IntArray
from .evidence import RECOMBINE, SEPARATORS, Evidence, inner_separators, rivals, split_cell, weigh
from .table import text
from .values import is_blank, is_bracketed, parse_list

Cell = str | tuple[str, ...]
"""Text without blanks around it, or the entries of a list."""

_TYPED = {"\\n": "\n", "\\t": "\t"}  # as they are typed on a command line
_WHOLE = re.compile(r"([-+]?\d+)\.0+")
_ONE_HOT = frozenset({"0", "1", "0.0", "1.0", "0.", "1.", "true", "false"})


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


class CellLabels(NamedTuple):
    """Labels of the rows of a column."""

    names: list[tuple[str, ...]]  # class names in each distinct cell; empty for one that can't be read
    codes: IntArray  # cell of each row, int64 (rows,)
    unread: IntArray  # rows whose cell can't be read, int64
    several: bool  # whether a cell holds several labels
    notes: list[str]  # how cells were understood, one line each

    @property
    def classes(self) -> tuple[str, ...]:
        """All names that occur, sorted."""
        return tuple(sorted({name for names in self.names for name in names}))

    def entries(self, classes: Sequence[str]) -> tuple[IntArray, IntArray]:
        """Row and class of each label, int64, row by row."""
        from scipy.sparse import csr_matrix

        labels = rows_of(classes, (name for names in self.names for name in names))
        ends = np.cumsum([0, *map(len, self.names)])
        cells = csr_matrix((np.ones(len(labels), bool), labels, ends), (len(self.names), len(classes)))
        rows = cells[self.codes]
        return np.repeat(np.arange(len(self.codes)), np.diff(rows.indptr)), rows.indices.astype(np.int64)


def label_cells(
    column: Column,
    source: str,
    where: Callable[[int], str],
    *,
    separator: str | None = None,
    plural: bool = False,
    known: Collection[str] = (),
    keep: Collection[str] = (),
) -> CellLabels:
    """Read the labels of a column, which messages call `source`, with the names of rows that `where` returns.

    `separator`, `plural` and `known` are as in `parse_cells`. Names in `keep` are no words for a missing
    value although they look like it.
    """
    cells, codes = column.values, column.codes
    counts = np.bincount(codes, minlength=len(cells))
    keep = {*keep, *known}

    def is_missing(cell: Cell) -> bool:
        return isinstance(cell, str) and is_blank(cell) and cell not in keep

    plain = ["" if is_missing(cell) else cell for cell in cells]
    reading = parse_cells(plain, counts, source, separator=separator, plural=plural, known=known)
    unread = np.flatnonzero(np.array([names is None for names in reading.names])[codes])
    blanks: Counter[str] = Counter()
    cleaned: list[tuple[str, ...]] = []
    for cell, some, count in zip(cells, reading.names, counts.tolist(), strict=True):
        written = _alone(cell) if is_missing(cell) else some or ()
        blanks.update({name: count for name in written if name and is_missing(name)})
        cleaned.append(tuple(name for name in written if not is_missing(name)))
    numbers = whole_numbers(name for some in cleaned for name in some if name not in keep)
    rows = column.first.tolist()
    first = {name: rows[k] for k, some in reversed([*enumerate(cleaned)]) for name in some}
    spelled = {name: numbers.get(name) or class_name(name, where(row)) for name, row in first.items()}
    names = [tuple(dict.fromkeys(spelled[name] for name in some)) for some in cleaned]
    notes = []
    several = any(len(some) > 1 for some in names)
    if several or reading.why:
        why = f" ({reading.why})" if reading.why else ""
        notes.append(f"{reading.how}, {summary(names, counts)}{why}")
    if numbers:
        pairs = first_few([f"{quote(name)} is {quote(short)}" for name, short in sorted(numbers.items())], 3)
        notes.append(f"whole numbers are one class however they are written: {pairs}")
    if blanks:
        words = first_few([quote(word) for word, _ in blanks.most_common()], 5)
        total = counted(sum(blanks.values()), "word")
        notes.append(f"{total} for a missing value read as blank: {words}")
    if len(unread):
        count = "count" if len(unread) > 1 else "counts"
        notes.append(
            f"{counted(len(unread), 'cell')} can't be read as {reading.how} and {count} as without a label, "
            f"such as {quote(cells[codes[unread[0]]])} ({where(int(unread[0]))})"
        )
    return CellLabels(names, codes, unread, several, [f"{source}: {note}." for note in notes])


# -- how cells hold labels -------------------------------------------------------------------------------


class Reading(NamedTuple):
    """Labels of the cells of a column, as they were understood."""

    names: list[tuple[str, ...] | None]  # class names in each cell; None for one that can't be read in it
    how: str  # how cells hold labels, for a note: `separated by commas`
    why: str = ""  # the evidence for it; empty if there was nothing to decide
    option: str = ""  # the `data.separator` with which this reading is stated


def parse_cells(
    cells: Sequence[Cell],
    counts: IntArray,
    where: str,
    *,
    separator: str | None = None,
    plural: bool = False,
    known: Collection[str] = (),
) -> Reading:
    """Read the labels in the distinct cells of a column, of which an empty one holds no label.

    `counts` is the number of rows with each, int64 (cells,); messages name `where`. The separator is
    `data.separator`: empty = each cell is one name; None = recognised. `plural` says whether the column has a
    name for several labels, such as `tags`. If every cell is one of the class names `known`, each is one
    name.
    """
    separator = _TYPED.get(separator or "", separator)
    text = [cell for cell in cells if isinstance(cell, str)]
    if separator == "" or (known and separator is None and all(cell in known for cell in text if cell)):
        return Reading([_alone(cell) for cell in cells], "one label per cell")
    parsed = [None if isinstance(cell, tuple) or not cell else parse_list(cell) for cell in cells]
    listed = {k: found.names for k, found in enumerate(parsed) if found and found.certain}
    vocabulary = {name for names in listed.values() for name in names}
    loose = {
        k: found.names
        for k, found in enumerate(parsed)
        if found and not found.certain and cells[k] not in vocabulary
    }
    if any(re.match(r'\{".*"\s*:', str(cells[k])) for k in listed):
        loose = {}  # JSON objects have only JSON next to them
    if loose and _are_lists(loose, listed, cells, where):
        listed |= loose
    plain = [k for k, cell in enumerate(cells) if isinstance(cell, str) and cell and k not in listed]
    broken = {k for k in plain if listed and is_bracketed(str(cells[k]))}
    vocabulary = {name for names in listed.values() for name in names}
    plain = [k for k in plain if k not in broken and cells[k] not in vocabulary]
    reading = _read_plain(
        [str(cells[k]) for k in plain],
        counts[plain],
        where,
        separator=separator,
        plural=plural and not listed,
        known=vocabulary,
    )
    names: list[tuple[str, ...] | None] = [_alone(cell) for cell in cells]
    for k, found in (*listed.items(), *zip(plain, reading.names, strict=True), *((k, None) for k in broken)):
        names[k] = found
    how, why = "lists" if any(isinstance(cell, tuple) for cell in cells) else "", reading.why
    if listed and not how:
        how = f"lists such as {quote(cells[max(listed, key=lambda k: len(listed[k]))])}"
        why = f"{counted(int(counts[[*listed]].sum()), 'cell is', 'cells are')} lists"
    if how:
        reading = reading._replace(how=f"{how}, otherwise {reading.how}" if plain else how, why=why)
    _refuse_one_hot(names, where)
    return reading._replace(names=names)


def whole_numbers(names: Iterable[str]) -> Mapping[str, str]:
    """Names such as `3.0` that mean `3`: where `3` occurs, too, or all names are whole numbers."""
    names = {*names}
    floats = {name: found[1] for name in names if (found := _WHOLE.fullmatch(name))}
    if all(name in floats or re.fullmatch(r"[-+]?\d+", name) for name in names):
        return floats
    return {name: short for name, short in floats.items() if short in names}


def _are_lists(
    loose: Mapping[int, tuple[str, ...]],
    listed: Mapping[int, tuple[str, ...]],
    cells: Sequence[Cell],
    where: str,
) -> bool:
    """Whether cells that may be lists are: all cells may be, or entries of those with several recur."""
    if len(loose) + len(listed) == sum(map(bool, cells)):
        return True
    if any(cells[k][0] == "#" for k in loose):
        return False  # hashtags stand in all cells; elsewhere the mark may separate labels
    uses = Counter(name for names in (*loose.values(), *listed.values()) for name in {*names})
    uses.update(cell for k, cell in enumerate(cells) if isinstance(cell, str) and k not in loose)
    entries = [name for names in loose.values() if len(names) > 1 for name in names]
    recur = sum(uses[name] > 1 for name in entries)
    if 3 * recur >= len(entries) > 1 and recur < RECOMBINE * len(entries):
        example = quote(cells[max(loose, key=lambda k: len(loose[k]))])
        raise InputError(
            f"{where}: ambiguous: cells such as {example} may be lists, but others are not written so. If"
            " each cell is one name, pass data.separator=''; otherwise write all of them as JSON lists,"
            ' such as ["cat", "dog"].'
        )
    return recur >= max(1, RECOMBINE * len(entries))


def _refuse_one_hot(names: Sequence[tuple[str, ...] | None], where: str) -> None:
    """Refuse cells that are rows of a matrix, such as `[0, 1, 0]`."""
    rows = [some for some in names if some]
    widths = {len(some) for some in rows}
    if len(widths) != 1 or widths == {1} or not all({*map(str.lower, some)} <= _ONE_HOT for some in rows):
        return
    example = " ".join(rows[0])
    raise InputError(
        f"{where}: the cells are rows of {widths.pop()} zeros and ones, such as {quote(example)}, one place"
        " per class, but do not name the classes. Write a column per class, or the names of the classes of"
        " each row; in Python, pass the rows as a matrix y and the names as classes."
    )


# -- names with a separator ------------------------------------------------------------------------------


def _alone(cell: Cell) -> tuple[str, ...]:
    return tuple(cell) if isinstance(cell, tuple) else (cell,) if cell else ()


def _read_plain(
    cells: Sequence[str],
    counts: IntArray,
    where: str,
    *,
    separator: str | None,
    plural: bool,
    known: Collection[str],
) -> Reading:
    """Read cells that are not written as lists."""
    if separator is not None:
        names = [split_cell(cell, separator) for cell in cells]
        return Reading(names, f"separated by {_name(separator)}", "stated", separator)
    one = Reading([(cell,) for cell in cells], "one label per cell")
    weighed = [found for mark in SEPARATORS if (found := weigh(cells, counts, mark, known))]
    clear = [found for found in weighed if found.is_clear(plural)]
    clear = [found for found in clear if found.separator != " "] or clear  # spaces stand around others
    inner = {found.separator: inner_separators(found, known) for found in clear}
    better = {found.separator: rivals(found, weighed, plural, known) for found in clear}
    for found in clear:
        if not inner[found.separator] and not better[found.separator]:
            return _reading_of(found)
    if clear:
        first = clear[0].separator
        marks = better[first] or {found.separator for found in clear[1:]} or {*inner[first]}
        second = next((_reading_of(found) for found in weighed if found.separator in marks), one)
        raise _ambiguous(where, cells, counts, _reading_of(clear[0]), second)
    doubtful = [found for found in weighed if found.is_doubtful(plural)]
    if doubtful:
        best = max(doubtful, key=lambda found: found.recombine)
        raise _ambiguous(where, cells, counts, one, _reading_of(best))
    telling = [found for found in weighed if found.separator != " " or found.recombine >= 1 / 3]
    if telling:
        most = max(telling, key=lambda found: found.recombine)
        return one._replace(why=f"not separated by {_name(most.separator)}: {most.why}")
    return one


def _reading_of(found: Evidence) -> Reading:
    return Reading(found.parts, f"separated by {_name(found.separator)}", found.why, found.separator)


def _name(separator: str) -> str:
    return SEPARATORS[separator][0] if separator in SEPARATORS else repr(separator)


def summary(names: Iterable[tuple[str, ...] | None], counts: IntArray) -> str:
    """Number of classes and of labels per cell that a reading gives."""
    some = [found or () for found in names]
    filled = np.array([len(found) for found in some])
    rows = int(counts[filled > 0].sum())
    mean = float((filled * counts).sum() / max(1, rows))
    classes = counted(len({name for found in some for name in found}), "class", "classes")
    return f"{classes}, {mean:.2f} labels per sample"


def _ambiguous(
    where: str, cells: Sequence[str], counts: IntArray, first: Reading, second: Reading
) -> InputError:
    """Error with two readings, what each would give, and the option for each."""
    texts = []
    for reading in (first, second):
        some = [names for names in reading.names if names]
        longest = max(some, key=lambda names: (len(names), len(" ".join(names))), default=())
        example = first_few([quote(name) for name in longest], 3)
        option = reading.option if reading.option.isprintable() else repr(reading.option)[1:-1]
        quoted = f'"{option}"' if option == "'" else f"'{option}'"
        texts.append(
            f"{reading.how} ({summary(reading.names, counts)}, such as {example}): pass data.separator"
            f" {quoted}"
        )
    return InputError(f"{where}: ambiguous: labels may be {texts[0]}; or {texts[1]}.")
