"""The evidence of a column for what separates labels in its cells."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ...common.phrases import counted

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
RECOMBINE = 2 / 3  # share of the parts that occur in another cell, too
_NEARLY_ALL = 0.9
_FEW = 20  # rows below which it means nothing that all cells differ
_MARKS = frozenset("".join(forms for _, forms in SEPARATORS.values()))


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


class Evidence(NamedTuple):
    """Evidence for a separator. Cells are the distinct cells of a column."""

    separator: str
    parts: list[tuple[str, ...] | None]  # of each cell
    recombine: float  # share of the parts of cells with several that also occur in another cell
    alone: float  # share of them that are also whole cells
    classes: int  # distinct parts
    cells: int
    several: int  # cells with several parts
    edged: float  # share of the cells that end with the separator; 1 if a name is written without it, too
    odd: bool  # whether it mostly begins words, as in `solo ;)`, or may belong to the only name
    failed: int  # cells that begin or end with it although that is not how cells are written
    mean: float  # parts of a cell with several
    varied: bool  # whether cells have different numbers of parts, and at least one three or more
    repeats: float  # rows with the same cell with several parts, on average
    few: bool  # whether there are few rows, so that it means nothing that all cells differ
    unlike: bool  # whether cells hardly repeat, so that they can't each be the name of a class

    def is_clear(self, plural: bool) -> bool:
        """Whether the separator surely separates labels, in a column with a name for several or for one."""
        if self.odd or 10 * self.failed > self.cells:
            return False
        if plural and self.separator in _STRONG and self.several:
            common = 2 * self.several >= self.cells and self.repeats < 3
            recur = self.recombine >= 1 / 3
            if (common or recur) if self.few else (common and recur and self.several > 2):
                return True
        rare = self.several == 1 or (self.several == 2 and self.cells > 8)
        lone_space = self.separator == " " and self.several == 1
        proof = self.recombine if self.separator in _AT_EDGES else self.alone
        if rare and (lone_space or (self.separator != "\n" and proof < 1)):
            return False  # `hot dog` next to `hot` and `dog`
        if self.separator == "\n" or (not self.several and self.edged >= _NEARLY_ALL):
            return True
        lists = self.varied and 2 * self.classes <= self.cells and (self.unlike or self.alone >= 0.25)
        lists |= self.separator != " " and self.unlike and self.recombine >= _NEARLY_ALL and self.mean >= 3
        alone = _ALONE.get(self.separator, _WEAK_ALONE)
        if self.recombine < _NEARLY_ALL:
            alone = min(_WEAK_ALONE, alone + 0.25)
        return self.recombine >= RECOMBINE and (self.alone >= alone or lists)

    def is_doubtful(self, plural: bool) -> bool:
        """Whether the separator may separate labels."""
        common = 2 * self.several >= self.cells
        if (self.unlike and common) or (not self.several and self.edged):
            return True
        if self.separator in _STRONG:
            return self.recombine >= 1 / 3 or (self.several > 1 and common) or (plural and self.repeats < 3)
        if self.separator == " ":
            compact = 2 * self.classes <= self.cells or self.recombine >= 0.8 or self.alone >= 0.25
            recur = self.recombine >= RECOMBINE and (compact or self.repeats < 3)
            return self.recombine >= 1 / 2 and (self.few or self.repeats < 2 or recur)
        return self.recombine >= 1 / 3 or (
            plural and self.separator == "," and self.repeats < 3 and 10 * self.several >= self.cells
        )

    @property
    def why(self) -> str:
        if not self.several:
            return "names are written with it at their ends"
        return (
            f"{self.recombine:.0%} of the parts also occur in other cells, {self.alone:.0%} alone; "
            f"{counted(self.several, 'cell')} of {self.cells:,} different ones "
            f"{'has' if self.several == 1 else 'have'} several"
        )


def weigh(
    cells: Sequence[str], counts: npt.NDArray[np.int64], separator: str, known: Collection[str]
) -> Evidence | None:
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
        twins = separator in _AT_EDGES and not ends.isdisjoint(cells)
        if most or len(cells) == 1 or twins:
            inside = separator in _AT_EDGES or any(some and len(some) > 1 for some in parts)
            share = 1.0 if twins else len(ends) / len(cells)
            edged, odd = (share, len(cells) == 1) if inside else (0.0, False)
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
    if several and 2 * sum(not _MARKS.isdisjoint(some) for some in several) >= len(several):
        return None  # blanks around another separator
    uses = Counter(part for some in parts if some for part in {*some})
    uses.update(known)
    whole = {some[0] for some in parts if some and len(some) == 1} | {*known}
    tokens = [part for some in several for part in {*some}]
    lengths = {len(some) for some in several}
    rows = int(counts.sum())
    repeats = float(counts[[len(some or ()) > 1 for some in parts]].mean()) if several else 0.0
    return Evidence(
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


def rivals(found: Evidence, weighed: Sequence[Evidence], plural: bool, known: Collection[str]) -> set[str]:
    """Other separators that may separate labels as well; spaces mostly stand in names of several words."""
    found_rivals = set()
    parts = sorted({part for some in found.parts if some for part in some})
    ones = np.ones(len(parts), np.int64)
    for other in weighed:
        weak = found.recombine < RECOMBINE
        if other.separator == found.separator or not (found.several or found.edged):
            continue
        unsure = found.few and not plural and found.alone <= 0.5 and other.several >= found.several
        if other.separator == " " and not weak and not unsure and not other.is_clear(plural):
            continue
        if found.several and weak and other.separator != " ":
            found_rivals.add(other.separator)
        if not other.is_doubtful(plural):
            continue
        inside = weigh(parts, ones, other.separator, known)
        more = other.several * other.recombine > found.several * found.recombine and (
            found.alone <= 0.5 or other.is_clear(plural)
        )
        if (
            other.recombine > found.recombine
            or (found.separator == "#" and other.separator == " " and other.is_clear(plural))  # `cat #dog`
            or (other.separator == " " and unsure)
            or _is_as_strong(other, found, plural)
            or (more and inside and inside.recombine >= 1 / 3)
        ):
            found_rivals.add(other.separator)
    return found_rivals


def _is_as_strong(other: Evidence, found: Evidence, plural: bool) -> bool:
    """Whether as much speaks for another separator; nothing does if line breaks separate labels."""
    may = other.is_clear(plural) if found.is_clear(False) else other.is_doubtful(plural)
    strength = [(one.several, one.recombine, one.alone) for one in (other, found)]
    stronger = all(mine >= its for mine, its in zip(*strength, strict=True)) or other.edged > found.edged
    stronger |= other.separator in _STRONG and other.alone > found.alone and not found.is_clear(False)
    return found.separator != "\n" and may and stronger


def inner_separators(found: Evidence, known: Collection[str]) -> list[str]:
    """Other separators that surely separate labels inside the parts, except spaces, which stand in names."""
    parts = sorted({part for some in found.parts if some for part in some})
    ones = np.ones(len(parts), np.int64)
    others = (mark for mark in SEPARATORS if mark not in (found.separator, " "))
    return [mark for mark in others if (other := weigh(parts, ones, mark, known)) and other.is_clear(False)]
