"""Which column of a table is what: decided by names and the form of cells, never by how often they occur.

The rules are those of `docs/data.md`. What no rule decides is refused with the readings that the table
allows, and with what to type for each.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from ...common.errors import InputError, nearest
from ...common.phrases import first_few, shorten
from ...common.safe import is_file, quote
from ...config import DataConfig
from ..images.image_files import SUFFIXES
from ..splits import split_name
from ..values import BAD, BLANK, MARKS, number, text
from ..values import EXPECTED as MARKS_EXPECTED
from ..values import presence as read_presence
from .names import (
    EXPECTED,
    FILE_COLUMNS,
    INFERRED,
    LABEL_COLUMNS,
    LIKELY,
    MEASURE,
    PRESENCE_COLUMNS,
    SPLIT_COLUMNS,
    canonical,
    is_named,
    listed_names,
    option,
    split_flag,
    typed_names,
)

if TYPE_CHECKING:
    from .formats import Table

_FOLDERS = ("relativepath", "relative_path")  # of the file, in tables of camera traps
_RANKS = frozenset({"order", "family", "genus", "phylum", "kingdom"})
_TAXA = ("species", "common_name", "vernacularname", "scientificname", "scientific_name")
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_DESCRIBED = 100  # columns that a note names
_OWN = {
    "file given label probability": "lists labels that are probably missing",
    "file label confidence rank": "lists given labels that look wrong",
    "label known prior hidden": "is a report on classes",
    "class positive negative unknown": "is a report on classes",
}
"""First columns of tables that spml itself writes, and what they are."""

Kind = Literal["lists", "blank", "marks", "numbers", "files", "text"]
_CALLED = {"blank": "nothing in its first rows", "files": "names of files"}


class Columns(NamedTuple):
    """Positions of the columns of a table; -1 for one that it does not have."""

    file: int  # column that names the images
    labels: tuple[int, ...] = ()  # columns that hold class names; empty if there is a column per class
    marks: tuple[int, ...] = ()  # columns that stand for a class each
    split: int = -1  # column that holds the split
    split_if: str = ""  # split of the rows where that column is true; empty if it holds names of splits
    presence: int = -1  # says whether the label of a row is present, where rows are labels
    notes: tuple[str, ...] = ()  # how columns were found, and which are not used
    text: tuple[int, ...] = ()  # columns that make up the text of a sample, where samples are texts
    group: int = -1  # column that names the group of each row
    folder: int = -1  # column of the folders that the files are in


def find_stated(
    names: Sequence[str], stated: str, setting: str, source: str, nested: Collection[str] = ()
) -> int:
    """Position of the column that a setting names."""
    if stated in names:
        return names.index(stated)
    if found := [k for k, name in enumerate(names) if name.lower() == stated.lower()]:
        return found[0]
    if stated in nested:
        raise InputError(
            f"{source}: the column {quote(stated)} holds nested objects or bytes, which are not "
            "read. Write its names as text, or as a list of text, under a key of their own."
        )
    by_lower = {name.lower(): name for name in names if name}
    raise InputError(
        f"{source}: data.{setting}={stated}: no column has this name; found: {shorten(names)}. "
        f"{nearest(stated, by_lower)}"
    )


def find_columns(table: Table, config: DataConfig, root: Path | None = None) -> Columns:
    """Find the columns of a table, whose files are relative to `root`."""
    names, source = table.names, str(table.path)
    if repeated := [name for name, count in Counter(names).items() if name and count > 1]:
        raise InputError(f"{source}: the header names a column twice: {shorten(repeated)}. {EXPECTED}.")
    _refuse_own(table, config)
    texts = find_text(table, config.text)
    notes: list[str] = []
    file = find_id(table, config.file_column) if texts else find_file(table, config.file_column, root, notes)
    group = find_stated(names, config.group, "group", source) if config.group else -1
    folders = [k for k in _positions(names, _FOLDERS) if k in table.scalar and k != file and not texts]
    folder = folders[0] if folders else -1
    if folders:
        notes.append(
            f"{table.path.name}: files are those of {quote(names[file])} in the folders of "
            f"{quote(names[folder])}."
        )
    taken = {file, group, folder, *texts} - {-1}
    for name in table.nested:
        if not config.label_column and canonical(name) in LABEL_COLUMNS[0]:
            find_stated((), name, "label_column", source, table.nested)
    unread = {*map(names.index, filter(names.__contains__, table.nested))}
    own = [k for k, name in enumerate(names) if is_named(name) and k not in taken | unread]
    cells = table.peek([k for k in own if k in table.scalar])
    kinds = {k: _kind(cells[k], config.present_above) if k in table.scalar else "lists" for k in own}
    stated: tuple[int, ...] = ()
    if named := config.label_column:
        parts = [named] if named in names else listed_names(named)
        stated = tuple(find_stated(names, part, "label_column", source, table.nested) for part in parts)
    seen = _Seen(table, config, kinds, cells, notes)
    split, split_if = seen.find_split([k for k in own if k not in stated])
    taken |= {split} - {-1}
    rest = [k for k in own if k not in taken and not (split_flag(names[k]) and k not in stated)]
    labels, marks = seen.find_labels(rest, stated)
    present = [
        k
        for k in rest
        if canonical(names[k]) in PRESENCE_COLUMNS
        and k not in (*labels, *marks)
        and {*read_presence(cells.get(k, ()))} - {BLANK} == {0, 1}
    ]
    presence = present[0] if labels and len(present) == 1 else -1
    left = [k for k in own if k not in taken and k not in (*labels, *marks, presence)]
    used = []
    if texts:
        used.append(f"the texts are those of {shorten(names[k] for k in texts)}")
    if file >= 0 and canonical(names[file]) != ("id" if texts else "file"):
        what = "names of the samples" if texts else "images"
        used.append(f"the {what} are those of the column {quote(names[file])}")
    if len(labels) == 1 and canonical(names[labels[0]]) not in LABEL_COLUMNS[0]:
        used.append(f"the labels are those of the column {quote(names[labels[0]])}")
    if used:
        notes.append(f"{table.path.name}: {', '.join(used)}.")
    if left := left[:_DESCRIBED]:
        words = seen.words(left)  # first, so that none of them is cut off
        advice = " If one of them holds labels, name it with data.label_column." if words else ""
        listed = shorten(f"{names[k]} ({kinds[k]})" for k in sorted(left, key=lambda k: k not in words))
        notes.append(f"{table.path.name}: columns that are not used: {listed}.{advice}")
    return Columns(file, labels, marks, split, split_if, presence, tuple(notes), texts, group, folder)


def _refuse_own(table: Table, config: DataConfig) -> None:
    """Refuse a table that spml wrote about data, whose labels are suspicions or predictions."""
    names, what = table.names, _OWN.get(" ".join(table.names[:4]), "")
    predicted = names[:2] == ("file", "labels") and (
        any(name.startswith("probability of ") for name in names)
        or names[2:3] in (("scores",), ("where",))
        or (len(names) > 2 and all(map(_are_scores, table.peek(range(2, len(names))).values())))
    )
    if config.label_column or not (what or predicted):
        return
    if what:
        raise InputError(
            f"{table.path}: was written by spml and {what}: none of it is a known label. Decide on "
            "suspicions with `spml review`, and write the labels with `spml review export`."
        )
    raise InputError(
        f"{table.path}: was written by `spml predict`: predictions are no known labels. To add them to the "
        f"data, run `spml data convert DATA OUTPUT --predictions {table.path.name}`; to read them as if "
        f"people had given them, pass {option('label_column', 'labels')}."
    )


def _are_scores(cells: Sequence[object]) -> bool:
    """Whether cells are fractions between 0 and 1."""
    values = [number(cell) for cell in cells]
    return any(value not in (0, 1) for value in values) and all(
        value is not None and 0 <= value <= 1 for value in values
    )


def _kind(cells: Sequence[object], present_above: float | None = None) -> Kind:
    """What a column holds, by its first cells that are not blank."""
    words = [*map(text, cells)]
    if not words:
        return "blank"
    if all(MARKS[cell] != BAD for cell in cells):
        return "marks"
    if all(number(cell) is not None or MARKS[cell] == BLANK for cell in cells):
        return "marks" if present_above is not None else "numbers"
    return "files" if all(map(_looks_like_file, words)) or all(map(_ADDRESS.match, words)) else "text"


# -- files and texts -------------------------------------------------------------------------------------


def find_text(table: Table, stated: str) -> tuple[int, ...]:
    """Positions of the columns that hold the text of a sample, which `data.text` names; empty without it."""
    if not stated:
        return ()
    parts = [stated] if stated in table.names else [part.strip() for part in stated.split(",")]
    found = tuple(dict.fromkeys(find_stated(table.names, part, "text", str(table.path)) for part in parts))
    cells = table.peek([k for k in found if k in table.scalar])
    for k in found:
        kind = _kind(cells[k]) if k in cells else "lists"
        if kind != "text":
            column, what = quote(table.names[k]), _CALLED.get(kind, kind)
            raise InputError(
                f"{table.path}: data.text: the column {column} holds {what}, not text. Name a column of "
                "text; to learn from images, leave data.text out."
            )
    return found


def find_id(table: Table, stated: str = "") -> int:
    """Position of the column that names samples that are texts: as stated, or `id`; -1 without one."""
    if stated:
        return find_stated(table.names, stated, "file_column", str(table.path))
    return next((k for k in _positions(table.names, ("id",)) if k in table.scalar), -1)


def find_file(
    table: Table, stated: str = "", root: Path | None = None, notes: list[str] | None = None
) -> int:
    """Position of the column that names the images: the one that is stated, that has a known name, or whose
    cells are files below `root`, which a line in `notes` says."""
    if stated:
        return find_stated(table.names, stated, "file_column", str(table.path), table.nested)
    names = table.names
    groups = ([k for k in _positions(names, known) if k in table.scalar] for known in FILE_COLUMNS)
    named = next(filter(None, groups), [])
    if len(named) == 1:
        return named[0]
    if not named and any(_looks_like_file(name) or _ADDRESS.match(name) for name in names):
        raise InputError(
            f"{table.path}: has no header: its first row is {shorten(names)}. Add a line above it that names "
            f"the columns, such as file,label. {EXPECTED}."
        )
    other = {*LABEL_COLUMNS[0], *LABEL_COLUMNS[1], *SPLIT_COLUMNS}
    own = [k for k in sorted(table.scalar) if is_named(names[k]) and canonical(names[k]) not in other]
    cells = table.peek(named or own)
    there = [
        k
        for k in named or own
        if root and cells[k] and all(is_file(root / text(cell).replace("\\", "/")) for cell in cells[k])
    ]
    if len(there) == 1:
        if notes is not None:
            what = f"every cell of the column {quote(names[there[0]])} is a file that exists"
            notes.append(f"{table.path.name}: {what}.")
        return there[0]
    if there or named:
        raise _several(table, there or named, "name the images", "file_column")
    start = (
        f"{table.path}: the header has no column `file` (or `filename`, `image`, `path`, `id`); found: "
        f"{shorten(names)}."
    )
    words = {k: [*map(text, some)] for k, some in cells.items() if some}
    if addresses := [k for k, some in words.items() if all(map(_ADDRESS.match, some))]:
        raise InputError(
            f"{start} The column {quote(names[addresses[0]])} holds addresses, but only files on this "
            "machine are read: download the images, and name the files in a column `file`."
        )
    stems = (
        {entry.stem for entry in root.iterdir() if entry.suffix.lower() in SUFFIXES}
        if root and root.is_dir()
        else set()
    )
    for k, some in words.items():
        if all(_looks_like_file(word) or word in stems for word in some):
            raise InputError(
                f"{start} Pass {option('file_column', names[k])}, of which the cells are such as "
                f"{quote(some[0])}."
            )
    raise InputError(
        f"{start} If another column names the images, pass it as data.file_column. If the rows are features "
        "instead of images, save them as an .npz file with the arrays X, Y and classes, or pass a DataFrame "
        f"X and labels y in Python. {EXPECTED}."
    )


def _looks_like_file(word: str) -> bool:
    dot = word.rfind(".")
    return dot > 0 and word[dot:].lower() in SUFFIXES


# -- split and labels ------------------------------------------------------------------------------------


class _Seen(NamedTuple):
    """A table and what the first cells of its columns hold, those of files and texts left out."""

    table: Table
    config: DataConfig
    kinds: Mapping[int, Kind]  # of each column
    cells: Mapping[int, Sequence[object]]  # first cells that are not blank; not of lists
    notes: list[str]  # how columns were found

    def find_split(self, columns: Sequence[int]) -> tuple[int, str]:
        """Position of the column that holds the split, and the split of its true cells; -1 if none does.

        A name for splits needs cells that name them, or that are 0 and 1 under a name such as `is_train`.
        Cells that name several splits, `train` among them, need no name.
        """
        names, source = self.table.names, str(self.table.path)
        if self.config.split_column:
            split = find_stated(names, self.config.split_column, "split_column", source)
            return split, split_flag(names[split])
        found: dict[int, str] = {}
        known = {name for group in LABEL_COLUMNS for name in group}
        has_labels = bool(self.config.label_column) or not known.isdisjoint(map(canonical, names))
        for k in columns:
            name, flag = canonical(names[k]), split_flag(names[k])
            words = {text(cell).lower() for cell in self.cells.get(k, ())}
            splits = {split_name(word) for word in words}
            are_marks = bool(words) and {MARKS[word] for word in words} <= {0, 1}
            if has_labels and are_marks:  # otherwise, `train` may be a class
                flag = flag or split_name(name) or ""
            named = name in SPLIT_COLUMNS
            if flag and are_marks:
                found[k] = flag
            elif words and None not in splits and (named or ("train" in splits and len(splits) > 1)):
                found[k] = ""
            elif (named or flag) and words and self.config.split == "given":
                some = first_few([quote(word) for word in sorted(words)], 3)
                raise InputError(
                    f"{source}: the column {quote(names[k])} is called like one that holds the split, but "
                    f"holds {some}. If it does, write train, val or test in its cells, or name the column "
                    f"that does with {option('split_column', 'NAME')}; if it does not, pass "
                    f"{option('split', 'ignore')}."
                )
        exact = [k for k in found if canonical(names[k]) == "split"]
        if len(found) > 1 and len(exact) != 1:
            raise _several(self.table, [*found], "hold the split", "split_column")
        for k in exact or found:
            if canonical(names[k]) != "split":
                how = f"true = {found[k]}" if found[k] else "by its cells"
                self.note(f"the split is that of the column {quote(names[k])} ({how})")
            return k, found[k]
        return -1, ""

    def find_labels(
        self, rest: Sequence[int], stated: tuple[int, ...]
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Positions of the columns that hold class names, and of those that stand for a class each."""
        names, kinds, cells = self.table.names, self.kinds, self.cells
        measures = {k for k in rest if MEASURE.search(names[k]) and self.is_numeric(k)}
        marks = [k for k in rest if kinds[k] == "marks" and k not in measures]
        are_marks = {*marks, *(k for k in rest if kinds[k] == "blank")}
        if stated:
            if len(stated) == 1 and self.config.present_above is None:
                return stated, ()
            # Several columns are a class each if all hold marks, and hold the labels together if none does.
            known = [k for k in stated if k in kinds and kinds[k] not in ("marks", "blank")]
            filled = [k for k in stated if kinds.get(k) == "marks"]
            return (stated, ()) if known and not filled else ((), stated)
        classes = [k for k in marks if canonical(names[k]) not in PRESENCE_COLUMNS]
        for certain, known_names in zip((True, False), LABEL_COLUMNS, strict=True):
            groups = _label_groups(names, rest, known_names)
            if len(classes) > 1:  # which `tag` and `class` with marks in their cells belong to
                marked = [g for g in groups if are_marks.issuperset(g) and (cells[g[0]] or not certain)]
                if marked and certain:
                    readings = [self.labels_in(marked[0][0]), self.classes_are(marks)]
                    raise _ambiguous(self.table, "there may be", readings)
                groups = [group for group in groups if group not in marked]
            ranks = [k for (k, *_) in groups if canonical(names[k]) == "class"]
            if ranks and not _RANKS.isdisjoint(map(canonical, names)):
                groups = [*((k,) for k in _positions(names, _TAXA) if k in rest), (ranks[0],)]
            if len(groups) > 1:
                raise _several(self.table, [group[0] for group in groups], "hold the labels", "label_column")
            for group in groups:
                if len(group) > 1:
                    joined = shorten(names[k] for k in group)
                    self.note(f"the columns {joined} hold the labels of a row together")
                return group, ()
        other_roles = {*INFERRED, *FILE_COLUMNS[1], *FILE_COLUMNS[2]}
        left = [k for k in rest if k not in are_marks | measures and canonical(names[k]) not in other_roles]
        if marks and not left:
            return (), tuple(k for k in rest if k in are_marks)
        if not marks and len(left) == 1 and self.words(left):
            only = quote(names[left[0]])
            self.note(f"no column is called label; {only} is the only one that may hold the labels")
            return (left[0],), ()
        raise self.no_labels(left, marks)

    def no_labels(self, columns: Sequence[int], marks: Sequence[int]) -> InputError:
        """Error of a table of which no rule says where the labels are. Likely names come first."""
        names, cells, words = self.table.names, self.cells, self.words(columns)
        likely = [k for k in words if LIKELY.search(names[k])]
        numbers = [k for k in columns if self.kinds[k] == "numbers"]
        numbers = [k for k in numbers if not words or LIKELY.search(names[k])]
        for k in words:  # a class with a word among its marks
            if not likely and {text(cell) for cell in cells.get(k, ())} & {"0", "1"}:
                return bad_cells(self.table, k)
        readings = [*map(self.labels_in, likely)]
        if len(numbers) == 1 and not marks:
            readings.append(self.labels_in(numbers[0]))
        if numbers:
            stated = option("label_column", typed_names(names[k] for k in sorted({*marks, *numbers})))
            some = first_few([quote(text(cell)) for cell in cells[numbers[0]]], 3)
            above = f"classes that are present above a number (numbers are such as {some})"
            readings.append(f"{above}: pass {stated} {option('present_above', '0.5')}")
        if len(marks) > 1 or (marks and not readings and not words):
            readings.append(self.classes_are(marks))
        if not likely:
            readings += map(self.labels_in, words)
        if readings:
            hold = f"(Columns that stand for a class hold {MARKS_EXPECTED}.)"
            what = f"no rule says which columns hold the labels. {hold} They may be"
            return _ambiguous(self.table, what, readings)
        nested = f"Nested objects are not read: {shorten(self.table.nested)}. " if self.table.nested else ""
        return InputError(
            f"{self.table.path}: there is no column `label` or `labels`, and no other column holds class "
            f"names or {MARKS_EXPECTED}; found: {shorten(names)}. {nested}{EXPECTED}."
        )

    def note(self, what: str) -> None:
        """Add a note on the table."""
        self.notes.append(f"{self.table.path.name}: {what}.")

    def words(self, columns: Sequence[int]) -> list[int]:
        """Those of some columns that hold text or lists."""
        return [k for k in columns if self.kinds[k] in ("text", "lists")]

    def is_numeric(self, column: int) -> bool:
        """Whether a column holds numbers, and not only marks."""
        cells = self.cells.get(column, ())
        return all(number(cell) is not None for cell in cells) and any(MARKS[cell] == BAD for cell in cells)

    def labels_in(self, column: int) -> str:
        """A reading: labels in a column, with its own cells, and what to type."""
        words = [*dict.fromkeys(quote(text(cell)) for cell in self.cells.get(column, ()))]
        name = self.table.names[column]
        such = f" (such as {first_few(words, 3)})" if words else " (lists)"
        return f"the labels in {quote(name)}{such}: pass {option('label_column', name)}"

    def classes_are(self, columns: Iterable[int]) -> str:
        """A reading: columns that stand for a class each, and what to type."""
        names = [self.table.names[k] for k in columns]
        stated = option("label_column", typed_names(names))
        return f"a class per column of marks ({shorten(names)}): pass {stated}"


def _label_groups(
    names: Sequence[str], columns: Sequence[int], known: Collection[str]
) -> list[tuple[int, ...]]:
    """Columns that have one of some names, with those that are numbered, such as `tag1` and `tag2`."""
    bases: dict[str, list[int]] = {}
    for k in columns:
        bases.setdefault(re.sub(r"_?\d+$", "", canonical(names[k])), []).append(k)
    groups: list[tuple[int, ...]] = []
    for base in known:
        some = bases.get(base, [])
        if len(some) > 1 and any(names[k][-1].isdigit() for k in some):
            groups.append(tuple(some))
        else:
            groups += [(k,) for k in some if canonical(names[k]) == base]
    return sorted(groups)


def bad_cells(table: Table, column: int) -> InputError:
    """Error that names the first cells of a column of a class that are not marks."""
    wrong: dict[str, int] = {}
    for block in table.blocks([column]):
        for position, cell in zip(block.numbers, block.cells[0], strict=True):
            if MARKS[cell] == BAD:
                wrong.setdefault(text(cell), position)
    some = first_few([quote(word) for word in wrong], 5)
    return InputError(
        f"{table.where(next(iter(wrong.values())))}: column {quote(table.names[column])} holds {some}, but a "
        f"column that stands for a class holds {MARKS_EXPECTED}. Correct the cells; if numbers above a limit "
        f"mean present, pass {option('present_above', '0.5')}; if it is no class, name those that are "
        "(data.label_column)."
    )


def _ambiguous(table: Table, what: str, readings: Sequence[str]) -> InputError:
    """Error with at most three readings, the likeliest first."""
    return InputError(f"{table.path}: ambiguous: {what} {'; or '.join(readings[:3])}.")


def _several(table: Table, found: Sequence[int], what: str, setting: str) -> InputError:
    """Error of several columns that may serve for one thing."""
    columns = " and ".join(quote(table.names[k]) for k in found[:5])
    options = " or ".join(option(setting, table.names[k]) for k in found[:3])
    return InputError(f"{table.path}: ambiguous: the columns {columns} may {what}. Pass {options}.")


def _positions(names: Sequence[str], known: Iterable[str]) -> list[int]:
    known = {*known}
    return [k for k, name in enumerate(names) if canonical(name) in known]
