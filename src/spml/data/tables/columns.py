"""Columns of a table that name the images and hold labels and split, found by their names or values."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ...common.errors import InputError, nearest
from ...common.phrases import counted, first_few, shorten
from ...common.safe import CONTROL, quote
from ...config import DataConfig
from ..images.image_files import SUFFIXES
from ..splits import SPELLINGS, split_name
from .delimited import FILE_COLUMNS
from .table import EXPECTED, Table, text
from .values import BAD, BLANK, MARKS

LABEL_COLUMNS = (("label", "labels"), ("tag", "tags", "category", "categories", "class", "classes"))
PLURALS = ("labels", "tags", "categories", "classes")
SPLIT_COLUMNS = (
    "split", "subset", "set", "partition", "part", "phase", "usage", "ml_use", "learn_tag", "fold",
)  # fmt: skip
SPLIT_FLAGS = {
    "is_valid": "val", "is_val": "val", "is_validation": "val", "is_test": "test", "is_train": "train",
    "is_training": "train",
}  # fmt: skip
PRESENCE_COLUMNS = (
    "present", "is_present", "presence", "exists", "value", "answer", "positive", "is_positive", "truth",
    "verified", "observed", "confidence", "vote", "score",
)  # fmt: skip
INFERRED = {"inferred": 1, "inferred_negative": -1}
"""Columns in which `spml data convert` writes labels that a model inferred, which are no known ones."""

_DESCRIBED = 100  # columns that are looked at for a note
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")


class Columns(NamedTuple):
    """Positions of the columns of a table; -1 for one that it does not have."""

    file: int  # column that names the images
    label: int  # column that holds class names; -1 if there is a column per class
    marks: tuple[int, ...] | None = None  # columns of classes that the user named; None = found by cells
    split: int = -1  # column that holds the split
    split_if: str = ""  # split of the rows where that column is true; empty if it holds names of splits
    presence: int = -1  # says whether the label of a row is present, where rows are labels
    notes: tuple[str, ...] = ()  # what was decided by the values of columns
    checked: int = -1  # column that lists the classes that were looked for
    text: tuple[int, ...] = ()  # columns that make up the text of a sample, where samples are texts
    group: int = -1  # column that names the group of each row

    @property
    def used(self) -> set[int]:
        """Positions of the columns that the table has."""
        return {self.file, self.label, self.split, self.checked, self.group, *self.text} - {-1}


def is_named(name: str) -> bool:
    """Whether a column has a name of its own, unlike the index that pandas writes."""
    return bool(name) and not name.lower().startswith(("unnamed:", "__index_level_"))


def _peek(table: Table, taken: Iterable[int]) -> dict[int, list[object]]:
    """First cells of the further columns that have a name and whose cells hold one value each."""
    return table.peek([k for k in sorted(table.scalar - {*taken}) if is_named(table.names[k])])


def _are_marks(cells: Sequence[object]) -> bool:
    """Whether cells seem to say of each row whether it has a class."""
    codes = [code for code in map(MARKS.__getitem__, cells) if code != BLANK]
    return bool(codes) and 2 * codes.count(BAD) <= len(codes)


def find_columns(table: Table, config: DataConfig) -> Columns:
    """Find the columns of a table."""
    names = table.names
    if repeated := [name for name, count in Counter(names).items() if name and count > 1]:
        raise InputError(f"{table.path}: the header names a column twice: {shorten(repeated)}. {EXPECTED}.")
    text = find_text(table, config.text)
    file = find_id(table, config.file_column) if text else find_file(table, config.file_column)
    lower = [name.lower() for name in names]
    if config.split_column:
        split = find_stated(names, config.split_column, "split_column", str(table.path))
    else:
        split = _only(table, _positions(names, ("split",)), "hold the split", "split_column")
    checked = -1
    if config.checked_column:
        checked = find_stated(names, config.checked_column, "unlisted column:", str(table.path))
    group = find_stated(names, config.group, "group", str(table.path)) if config.group else -1
    taken = {file, split, checked, group, *text}
    cells = _peek(table, taken)
    label, marks = _find_label(table, config, taken, cells)
    rest = [k for k in cells if k != label and k not in (marks or ())]
    if split < 0:
        split, split_if, notes = _find_split(table, rest, cells)
    else:
        split_if, notes = SPLIT_FLAGS.get(lower[split], ""), ()
    presence = [
        k
        for k in rest
        if lower[k] in PRESENCE_COLUMNS and {MARKS[cell] for cell in cells[k]} - {BLANK} == {0, 1}
    ]
    present = presence[0] if label >= 0 and len(presence) == 1 else -1
    return Columns(file, label, marks, split, split_if, present, notes, checked, text, group)


def find_text(table: Table, stated: str) -> tuple[int, ...]:
    """Positions of the columns that hold the text of a sample, which `data.text` names; empty without it."""
    if not stated:
        return ()
    parts = [stated] if stated in table.names else [part.strip() for part in stated.split(",")]
    found = tuple(dict.fromkeys(find_stated(table.names, part, "text", str(table.path)) for part in parts))
    cells = table.peek([k for k in found if k in table.scalar])
    for k in found:
        words, name = [*map(text, cells.get(k, ()))], table.names[k]
        problem = ""
        if k not in cells:
            problem = "lists, not text. Join their entries in one cell"
        elif not words:
            problem = "nothing in its first rows. Name another column"
        elif _are_numbers(words):
            problem = "numbers, not text. Leave it out"
        elif all(map(_looks_like_file, words)):
            problem = (
                f"names of image files, such as {quote(words[0])}. To learn from the images, pass "
                f"{option('file_column', name)} without data.text"
            )
        if problem:
            raise InputError(f"{table.path}: data.text: the column {quote(name)} holds {problem}.")
    return found


def find_id(table: Table, stated: str = "") -> int:
    """Position of the column that names samples that are texts: as stated, or `id`; -1 without one."""
    if stated:
        return find_stated(table.names, stated, "file_column", str(table.path))
    return next((k for k in _positions(table.names, ("id",)) if k in table.scalar), -1)


def find_file(table: Table, stated: str = "") -> int:
    """Position of the column that names the images: the one that is stated, or found by its name."""
    if stated:
        return find_stated(table.names, stated, "file_column", str(table.path))
    for known in FILE_COLUMNS:
        named = [k for k in _positions(table.names, known) if k in table.scalar]
        if (file := _only(table, named, "name the images", "file_column")) >= 0:
            return file
    raise _no_file(table)


def find_stated(names: Sequence[str], stated: str, setting: str, source: str) -> int:
    """Position of the column that a setting names."""
    if stated in names:
        return names.index(stated)
    if found := _positions(names, (stated.lower(),)):
        return found[0]
    by_lower = {name.lower(): name for name in names if name}
    raise InputError(
        f"{source}: data.{setting} {stated}: no column has this name; found: {shorten(names)}. "
        f"{nearest(stated, by_lower)}"
    )


def option(setting: str, name: str) -> str:
    """An option with the name of a column, as it is typed."""
    return f"data.{setting} {quote(name) if CONTROL.search(name) else shlex.quote(name)}"


def repeating(cells: Sequence[object], *, numbers: bool = False) -> int:
    """Number of different words in a column whose words repeat, as labels do; 0 for other columns.

    Numbers are no words, unless `numbers` says that they may be the ids of classes.
    """
    words = [word for word in map(text, cells) if word]
    different = len({*words})
    digits = 0 if numbers else sum(word.replace(".", "", 1).lstrip("-").isdecimal() for word in words)
    return different if 2 <= different < len(words) and 2 * digits < len(words) else 0


def _find_label(
    table: Table, config: DataConfig, taken: set[int], cells: Mapping[int, Sequence[object]]
) -> tuple[int, tuple[int, ...] | None]:
    """Position of the column that holds class names, or -1 and the columns of classes that the user named."""
    names, source = table.names, str(table.path)
    if stated := config.label_column:
        several = [part.strip() for part in stated.split(",")]
        if stated not in names and len(several) > 1:
            return -1, tuple(find_stated(names, part, "label_column", source) for part in several)
        return find_stated(names, stated, "label_column", source), None
    certain, likely = ([k for k in _positions(names, known) if k not in taken] for known in LABEL_COLUMNS)
    found = certain or likely
    if not found:
        return -1, None
    # A table with a column per class may have a class `tag`, or a column `category` of its own.
    marks = [k for k in cells if _are_marks(cells[k])]
    words = [k for k in found if certain or k not in marks]
    others = [
        k for k in marks if k not in found and names[k].lower() not in (*SPLIT_FLAGS, *PRESENCE_COLUMNS)
    ]
    _only(table, words, "hold the labels", "label_column")
    if not words and (len(likely) > 1 or others):
        return -1, None
    label = (words or likely)[0]
    classes = []
    if label in marks:
        different = len({*map(text, cells[label])})
        blank = [k for k in cells if k != label and not cells[k]]
        classes = others if certain and different <= 2 else blank if not certain and different == 1 else []
    elif not certain and len(others) > 1:
        classes = others
    if not classes:
        return label, None
    too, every = ("it and ", [label, *classes]) if label in marks else ("", classes)
    raise InputError(
        f"{source}: ambiguous: the column {quote(names[label])} may hold the labels, but {too}the columns "
        f"{shorten(names[k] for k in classes)} hold marks or nothing, as if each stood for a class. If it "
        f"holds the labels, pass {option('label_column', names[label])}; otherwise name the classes: "
        f"{option('label_column', ','.join(names[k] for k in every))}."
    )


def _find_split(
    table: Table, rest: Sequence[int], peeked: Mapping[int, Sequence[object]]
) -> tuple[int, str, tuple[str, ...]]:
    """Position of a column that holds the split, the split of its true cells, and a note; -1 if none does."""
    names = table.names
    found: dict[int, str] = {}
    for k in rest:
        flag = SPLIT_FLAGS.get(names[k].lower(), "")
        if flag and {MARKS[cell] for cell in peeked[k]} == {0, 1}:
            found[k] = flag
        cells = {text(cell).lower() for cell in peeked[k]}
        if cells and cells <= SPELLINGS.keys():
            splits = {split_name(cell) for cell in cells}
            if ("train" in splits and len(splits) > 1) or names[k].lower() in SPLIT_COLUMNS:
                found[k] = ""
    _only(table, [*found], "hold the split", "split_column")
    for k, flag in found.items():
        how = f"true = {flag}" if flag else "recognised by its values"
        return k, flag, (f"{table.path.name}: the split is that of the column {quote(names[k])} ({how}).",)
    return -1, "", ()


def _no_file(table: Table) -> InputError:
    """Error of a table that has no column with a known name for files, with what its values suggest."""
    names, path = table.names, table.path
    if any(_looks_like_file(name) or _ADDRESS.match(name) for name in names):
        return InputError(
            f"{path}: has no header: its first row is {shorten(names)}. Add a line above it that names the "
            f"columns, such as file,label. {EXPECTED}."
        )
    cells = _peek(table, ())
    files = [k for k in cells if cells[k] and all(_looks_like_file(text(cell)) for cell in cells[k])]
    known = any(_positions(names, group) for group in LABEL_COLUMNS)
    found = (
        f"{path}: the header has no column `file` (or `filename`, `image`, `path`, `id`); found:"
        f" {shorten(names)}."
    )
    if addresses := [k for k in files if any(_ADDRESS.match(text(cell)) for cell in cells[k])]:
        return InputError(
            f"{found} The column {quote(names[addresses[0]])} holds addresses, but only files on this machine"
            " are read: download the images, and name the files in a column `file`."
        )
    if files:
        labels = "" if known else propose_labels(table, [k for k in cells if k not in files])
        options = " or ".join(option("file_column", names[k]) for k in files)
        return InputError(f"{found} Pass {options}{labels and f', and {labels}'}.")
    if all(repeating(some) or _are_marks(some) or _are_numbers(map(text, some)) for some in cells.values()):
        return InputError(
            f"{found} If the rows are features instead of images, save them as an .npz file with the arrays"
            " X, Y and classes, or pass a DataFrame X and labels y in Python."
        )
    return InputError(f"{found} If another column names the images, pass it as data.file_column. {EXPECTED}.")


def propose_labels(table: Table, columns: Iterable[int]) -> str:
    """Phrase on columns that may hold the labels, since their values repeat; empty if there are none."""
    cells = table.peek([*columns])
    named = {k: repeating(cells[k], numbers=True) for k in cells if is_named(table.names[k])}
    words = {k: different for k, different in named.items() if repeating(cells[k])}
    labels = [
        f"{option('label_column', table.names[k])} ({different:,} different values)"
        for k, different in (words or named).items()
        if different
    ]
    lists = [option("label_column", name) for k, name in enumerate(table.names) if k not in table.scalar]
    some = f"{first_few(lists, 4, ' or ')} (lists)" if lists else first_few(labels, 4, " or ")
    return f"the column that holds the labels, such as {some}" if some else ""


def propose_classes(table: Table, columns: Columns) -> str:
    """Sentence on unused columns that may stand for a class each, since they hold marks; empty if there are
    none."""
    cells = _peek(table, columns.used)
    classes = [table.names[k] for k in cells if _are_marks(cells[k])]
    if not classes:
        return ""
    return (
        f" If the labels are not those of {quote(table.names[columns.label])}, but each of the columns "
        f"{shorten(classes)} stands for a class, name the classes: "
        f"{option('label_column', ','.join(classes))}."
    )


def describe(table: Table, columns: Sequence[int]) -> list[str]:
    """Names of columns with what they hold, for a note on those that are not used."""
    cells = table.peek([k for k in columns if k in table.scalar][:_DESCRIBED])
    described = []
    for k in columns:
        name = table.names[k]
        words = [*map(text, cells.get(k, ()))]
        if k not in cells:
            content = "lists" if is_named(name) and k not in table.scalar else ""
        elif not words:
            content = "blank"
        elif _are_numbers(words):
            content = "numbers"
        else:
            different = repeating(words)
            content = f"{counted(different, 'word')} that repeat" if different else "text"
        described.append(f"{name} ({content})" if content else name)
    return described


def _looks_like_file(word: str) -> bool:
    dot = word.rfind(".")
    return dot > 0 and word[dot:].lower() in SUFFIXES


def _are_numbers(words: Iterable[str]) -> bool:
    try:
        return bool([*map(float, words)])
    except ValueError:
        return False


def _positions(names: Sequence[str], known: Iterable[str]) -> list[int]:
    return [k for k, name in enumerate(names) if name.lower() in known]


def _only(table: Table, found: Sequence[int], what: str, setting: str) -> int:
    """The one column among those that may serve for something; -1 if there is none, refused if several."""
    if len(found) > 1:
        columns = " and ".join(quote(table.names[k]) for k in found)
        options = " or ".join(option(setting, table.names[k]) for k in found)
        raise InputError(f"{table.path}: ambiguous: the columns {columns} may {what}. Pass {options}.")
    return found[0] if found else -1
