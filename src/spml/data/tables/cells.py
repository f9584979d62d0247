"""Labels in the cells of a column: one name, names with a separator, or a list as programs write it.

Each cell is parsed by itself, but what separates labels is decided by the evidence of the whole column:
whether parts recombine (occur alone, or with other parts), how many classes result, and how many cells a
reading fits. A character in one cell never decides. Where the evidence is not clear, the column is refused
with the two best readings.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ...errors import InputError
from ..phrases import counted, first_few
from ..safe import quote
from .lists import is_bracketed, parse_list

Cell = str | tuple[str, ...]
"""Text without blanks around it, or the entries of a list."""

SEPARATORS = {
    "\n": ("line breaks", "\r\n"),
    ";": ("semicolons", ";；"),
    "|": ("bars", "|｜"),
    ",": ("commas", ",，、"),
    "#": ("#", "#＃"),
    "/": ("slashes", "/／"),
    "+": ("plus signs", "+＋"),
    "&": ("ampersands", "&＆"),
    "\t": ("tabs", "\t"),
    " ": ("spaces", ""),
}
"""Name of each separator and its forms, from those that hardly occur in names to those that often do."""

# Share of the parts that must also occur alone, unless many different cells have many parts.
_ALONE = {"\n": 0.0, ";": 0.0, "|": 0.0, "\t": 0.0, ",": 0.25, "#": 0.25}
_WEAK_ALONE = 0.5
_STRONG = (";", "|", "\t")  # hardly ever in a name
_AT_EDGES = (*_STRONG, ",")  # at the ends of cells, as programs leave them
_RECOMBINE = 2 / 3  # share of the parts that occur in another cell, too
_NEARLY_ALL = 0.9
_FEW = 20  # rows below which it means nothing that all cells differ
_MARKS = frozenset("".join(forms for _, forms in SEPARATORS.values()))
_TYPED = {"\\n": "\n", "\\t": "\t"}  # as they are typed on a command line
_WHOLE = re.compile(r"([-+]?\d+)\.0+")
_ONE_HOT = frozenset({"0", "1", "0.0", "1.0", "0.", "1.", "true", "false"})


class Reading(NamedTuple):
    """Labels of the cells of a column, as they were understood.

    Attributes:
        names: Class names in each cell; None for a cell that can't be read in this way.
        how: How cells hold labels, for a note: `separated by commas`.
        why: The evidence for it; empty if there was nothing to decide.
        option: The `data.separator` with which this reading is stated.
    """

    names: list[tuple[str, ...] | None]
    how: str
    why: str = ""
    option: str = ""


def parse_cells(
    cells: Sequence[Cell],
    counts: npt.NDArray[np.int64],
    where: str,
    *,
    separator: str | None = None,
    plural: bool = False,
    known: Collection[str] = (),
) -> Reading:
    """Read the labels in the distinct cells of a column.

    Args:
        cells: Distinct cells; an empty one holds no label.
        counts: Number of rows with each, int64 (cells,).
        where: File and column, for messages.
        separator: `data.separator`: what separates labels; empty = each cell is one name; None = recognised.
        plural: Whether the column has a name for several labels, such as `tags`.
        known: Class names that are known already. If every cell is one of them, each is one name.

    Raises:
        InputError: The evidence is not clear; or cells are rows of 0 and 1, whose places have no names.
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
    if listed:
        example = quote(cells[max(listed, key=lambda k: len(listed[k]))])
        how = f"lists such as {example}" if not plain else f"lists such as {example}, otherwise {reading.how}"
        reading = reading._replace(
            how=how, why=f"{counted(int(counts[[*listed]].sum()), 'cell is', 'cells are')} lists"
        )
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
    """Whether cells that may be lists are: all cells may be, or entries of those with several recur.

    Raises:
        InputError: Only some of the entries recur.
    """
    if len(loose) + len(listed) == sum(map(bool, cells)):
        return True
    uses = Counter(name for names in (*loose.values(), *listed.values()) for name in {*names})
    uses.update(cell for k, cell in enumerate(cells) if isinstance(cell, str) and k not in loose)
    entries = [name for names in loose.values() if len(names) > 1 for name in names]
    recur = sum(uses[name] > 1 for name in entries)
    if 3 * recur >= len(entries) > 1 and recur < _RECOMBINE * len(entries):
        example = quote(cells[max(loose, key=lambda k: len(loose[k]))])
        raise InputError(
            f"{where}: ambiguous: cells such as {example} may be lists, but others are not written so. If"
            " each cell is one name, pass --data.separator ''; otherwise write all of them as JSON lists,"
            ' such as ["cat", "dog"].'
        )
    return recur >= max(1, _RECOMBINE * len(entries))


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


def split_cell(cell: str, separator: str) -> tuple[str, ...] | None:
    """Names in a cell; None if one between two others is empty. Separators at the ends separate nothing."""
    if separator == " ":
        return tuple(cell.split())
    forms = SEPARATORS.get(separator, ("", separator))[1]
    parts = re.split(f"[{re.escape(forms)}]", cell) if separator in SEPARATORS else cell.split(separator)
    parts = [part.strip() for part in parts]
    while parts and not parts[-1]:
        parts.pop()
    while parts and not parts[0]:
        parts.pop(0)
    if separator == "\n":
        return tuple(filter(None, parts))
    return tuple(parts) if all(parts) else None


class _Evidence(NamedTuple):
    """What speaks for a separator.

    Attributes:
        separator: The separator.
        parts: Parts of each distinct cell.
        recombine: Share of the parts of cells with several that also occur in another cell.
        alone: Share of them that are also whole cells.
        classes: Number of distinct parts.
        cells: Number of distinct cells.
        several: Number of distinct cells with several parts.
        edged: Share of the distinct cells that begin or end with the separator.
        odd: Whether it mostly stands at the start of words, as in `solo ;)`, or may belong to the only name.
        failed: Number of distinct cells that begin or end with it although that is not how cells are written.
        mean: Parts of a cell with several, on average.
        varied: Whether cells have different numbers of parts, and at least one three or more.
        repeats: Rows with the same cell with several parts, on average.
        few: Whether there are few rows, so that it means nothing that all cells differ.
        unlike: Whether cells hardly repeat, so that they can't each be the name of a class.
    """

    separator: str
    parts: list[tuple[str, ...] | None]
    recombine: float
    alone: float
    classes: int
    cells: int
    several: int
    edged: float
    odd: bool
    failed: int
    mean: float
    varied: bool
    repeats: float
    few: bool
    unlike: bool

    def is_clear(self, plural: bool) -> bool:
        """Whether the separator surely separates labels, in a column with a name for several or for one."""
        if self.odd or 10 * self.failed > self.cells:
            return False
        if plural and self.separator in _STRONG and self.several:
            common = 2 * self.several >= self.cells
            recur = self.recombine >= 1 / 3
            if (
                ((common and self.repeats < 3) or recur)
                if self.few
                else (common and recur and self.repeats < 3)
            ):
                return True
        if self.several == 1 and (self.separator == " " or (self.separator != "\n" and self.recombine < 1)):
            return False  # `hot dog` next to `hot` and `dog`
        if self.separator == "\n" or (not self.several and self.edged):
            return True
        lists = self.varied and 2 * self.classes <= self.cells and (self.unlike or self.alone >= 0.25)
        lists |= self.separator != " " and self.unlike and self.recombine >= _NEARLY_ALL and self.mean >= 3
        alone = _ALONE.get(self.separator, _WEAK_ALONE)
        if self.recombine < _NEARLY_ALL:
            alone = min(_WEAK_ALONE, alone + 0.25)
        return self.recombine >= _RECOMBINE and (self.alone >= alone or lists)

    def is_doubtful(self, plural: bool) -> bool:
        """Whether the separator may separate labels."""
        common = 2 * self.several >= self.cells
        if (self.unlike and common) or (not self.several and self.edged):
            return True
        if self.separator in _STRONG:
            return self.recombine >= 1 / 3 or (self.several > 1 and common) or (plural and self.repeats < 3)
        if self.separator == " ":
            compact = 2 * self.classes <= self.cells or self.recombine >= 0.8 or self.alone >= 0.25
            return self.recombine >= 1 / 2 and (
                self.few
                or self.repeats < 2
                or (self.recombine >= _RECOMBINE and (compact or self.repeats < 3))
            )
        return self.recombine >= 1 / 3 or (
            plural and self.separator == "," and self.repeats < 3 and 10 * self.several >= self.cells
        )

    @property
    def why(self) -> str:
        if not self.several:
            return f"{self.edged:.0%} of the different cells begin or end so"
        return (
            f"{self.recombine:.0%} of the parts also occur in other cells, {self.alone:.0%} alone; "
            f"{counted(self.several, 'cell')} of {self.cells:,} different ones "
            f"{'has' if self.several == 1 else 'have'} several"
        )


def _weigh(
    cells: Sequence[str], counts: npt.NDArray[np.int64], separator: str, known: Collection[str]
) -> _Evidence | None:
    """Weigh the evidence for a separator; None if no cell has several parts."""
    forms = SEPARATORS[separator][1]
    present = re.compile(f"[{re.escape(forms)}]" if forms else r"\S\s+\S").search
    if not any(map(present, cells)):
        return None
    parts = [split_cell(cell, separator) for cell in cells]
    edged, odd, failed = 0.0, False, 0
    if forms:
        ends = {cell.strip(forms + " ") for cell in cells if cell[-1] in forms} - {""}
        # A separator that ends most cells, or one that is written without it elsewhere, is part of no name.
        most = len(ends) > (1 if separator in _AT_EDGES else 2) and 2 * len(ends) >= len(cells)
        if most or len(cells) == 1 or (separator in _AT_EDGES and not ends.isdisjoint(cells)):
            inside = separator in _AT_EDGES or any(some and len(some) > 1 for some in parts)
            edged, odd = (len(ends) / len(cells), len(cells) == 1) if inside else (0.0, False)
        else:
            outer = [k for k, cell in enumerate(cells) if cell[0] in forms or cell[-1] in forms]
            failed = len(outer)
            for k in outer:
                parts[k] = (cells[k],)
    if forms.strip():
        mark = f"[{re.escape(forms)}]"
        before, after = rf"(?<=\s){mark}(?=\S)", rf"(?<=\S){mark}(?=\s)"
        uneven = re.compile(
            after if separator == "#" else before if separator in ";,|" else f"{before}|{after}"
        )
        count = sum(len(uneven.findall(cell)) for cell in cells)
        count += sum(cell[0] in forms for cell in cells) if count else 0
        odd |= 2 * count >= sum(cell.count(form) for cell in cells for form in forms)
    several = [some for some in parts if some and len(some) > 1]
    if not several and not edged:
        return None
    if separator == " " and 2 * sum(not _MARKS.isdisjoint(some) for some in several) >= len(several):
        return None  # blanks around another separator
    uses = Counter(part for some in parts if some for part in {*some})
    uses.update(known)
    whole = {some[0] for some in parts if some and len(some) == 1} | {*known}
    tokens = [part for some in several for part in {*some}]
    lengths = {len(some) for some in several}
    rows = int(counts.sum())
    repeats = float(counts[[len(some or ()) > 1 for some in parts]].mean()) if several else 0.0
    return _Evidence(
        separator,
        parts,
        sum(uses[part] > 1 for part in tokens) / max(1, len(tokens)),
        sum(part in whole for part in tokens) / max(1, len(tokens)),
        len(uses),
        len(cells),
        len(several),
        edged,
        odd,
        failed,
        len(tokens) / max(1, len(several)),
        len(lengths) > 1 and max(lengths) > 2,
        repeats,
        rows < _FEW,
        rows >= _FEW and 2 * len(cells) > rows,
    )


def _read_plain(
    cells: Sequence[str],
    counts: npt.NDArray[np.int64],
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
    weighed = [found for mark in SEPARATORS if (found := _weigh(cells, counts, mark, known))]
    clear = [found for found in weighed if found.is_clear(plural)]
    clear = [
        found for found in clear if found.separator != " "
    ] or clear  # which stand around other separators
    inner = {found.separator: _within(found, known) for found in clear}
    rivals = {found.separator: _rivals(found, weighed, plural, known) for found in clear}
    for found in clear:
        if not inner[found.separator] and not rivals[found.separator]:
            return _reading_of(found)
    if clear:
        marks = (
            rivals[clear[0].separator]
            or {found.separator for found in clear[1:]}
            or {*inner[clear[0].separator]}
        )
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


def _within(found: _Evidence, known: Collection[str]) -> list[str]:
    """Other separators that surely separate labels inside the parts, except spaces, which stand in names."""
    parts = sorted({part for some in found.parts if some for part in some})
    ones = np.ones(len(parts), np.int64)
    others = (mark for mark in SEPARATORS if mark not in (found.separator, " "))
    return [mark for mark in others if (other := _weigh(parts, ones, mark, known)) and other.is_clear(False)]


def _rivals(found: _Evidence, weighed: Sequence[_Evidence], plural: bool, known: Collection[str]) -> set[str]:
    """Other separators that may separate labels as well; spaces mostly stand in names of several words."""
    rivals = set()
    parts = sorted({part for some in found.parts if some for part in some})
    ones = np.ones(len(parts), np.int64)
    for other in weighed:
        weak = found.recombine < _RECOMBINE
        if other.separator == found.separator or not (found.several or found.edged):
            continue
        unsure = found.few and not plural and found.alone < 0.5 and other.several >= found.several
        if other.separator == " " and not weak and not unsure and not other.is_clear(plural):
            continue
        if found.several and weak and other.separator != " ":
            rivals.add(other.separator)
        if not other.is_doubtful(plural):
            continue
        inside = _weigh(parts, ones, other.separator, known)
        more = other.several * other.recombine > found.several * found.recombine and (
            found.alone < 0.5 or other.is_clear(plural)
        )
        if (
            other.recombine > found.recombine
            or (other.separator == " " and unsure)
            or (more and inside and inside.recombine >= 1 / 3)
        ):
            rivals.add(other.separator)
    return rivals


def _reading_of(found: _Evidence) -> Reading:
    return Reading(found.parts, f"separated by {_name(found.separator)}", found.why, found.separator)


def _name(separator: str) -> str:
    return SEPARATORS[separator][0] if separator in SEPARATORS else repr(separator)


def summary(names: Iterable[tuple[str, ...] | None], counts: npt.NDArray[np.int64]) -> str:
    """Number of classes and of labels per cell that a reading gives."""
    some = [found or () for found in names]
    filled = np.array([len(found) for found in some])
    rows = int(counts[filled > 0].sum())
    mean = float((filled * counts).sum() / max(1, rows))
    return (
        f"{counted(len({name for found in some for name in found}), 'class', 'classes')}, {mean:.2f} labels"
        " per sample"
    )


def _ambiguous(
    where: str, cells: Sequence[str], counts: npt.NDArray[np.int64], first: Reading, second: Reading
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
            f"{reading.how} ({summary(reading.names, counts)}, such as {example}): pass --data.separator"
            f" {quoted}"
        )
    return InputError(f"{where}: ambiguous: labels may be {texts[0]}; or {texts[1]}.")
