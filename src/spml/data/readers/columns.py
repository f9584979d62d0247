"""Which columns of a table name the images and hold the labels, by the names that people give them."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import NamedTuple

from ...config import DataConfig
from ...errors import InputError, nearest
from ..safe import CONTROL, quote
from .delimited import EXPECTED, FILE_COLUMNS, Table, shorten
from .marks import are_marks

LABEL_COLUMNS = (
    ("label", "labels"),
    ("tag", "tags", "category", "categories", "class", "classes"),
)
PLURALS = ("labels", "tags", "categories", "classes")
_PEEK = 1000  # rows that show whether a column stands for a class


class Columns(NamedTuple):
    """Positions of the columns of a table; -1 for one that it does not have.

    Attributes:
        file: Column that names the images.
        label: Column that holds class names; -1 if there is a column per class.
        split: Column that holds the split.
        several: Whether a cell of the label column holds several labels.
    """

    file: int
    label: int
    split: int
    several: bool

    @property
    def used(self) -> set[int]:
        """Positions of the columns that the table has."""
        return {self.file, self.label, self.split} - {-1}


def find_columns(table: Table, config: DataConfig) -> Columns:
    """Find the columns of a table.

    Raises:
        InputError: A column that `config` names does not exist; none names the images; a name occurs twice;
            or several columns may hold files or labels.
    """
    names = table.names
    file = _find_file(table, config)
    if file < 0:
        raise InputError(
            f"{table.path}: the header has no column `file` (or `filename`, `image`, `path`, `id`); found: "
            f"{shorten(names).lower()}. If another column names the images, pass it as --data.file_column. "
            f"{EXPECTED}."
        )
    lower = [name.lower() for name in names]
    split = lower.index("split") if "split" in lower else -1
    label = _find_label(table, config, {file, split})
    repeated = [name for name, count in Counter(names).items() if name and count > 1]
    repeated += [names[k] for k in (file, label, split) if k >= 0 and lower.count(lower[k]) > 1]
    if repeated:
        raise InputError(f"{table.path}: the header names a column twice: {shorten(repeated)}. {EXPECTED}.")
    several = label >= 0 and any(word in lower[label] for word in PLURALS)
    return Columns(file, label, split, several)


def _find_file(table: Table, config: DataConfig) -> int:
    """Position of the column that names the images; -1 if there is none."""
    names, source = table.names, str(table.path)
    if config.file_column:
        return find_stated(names, config.file_column, "file_column", source)
    for known in FILE_COLUMNS:
        found = [k for k in _positions(names, known) if k in table.scalar]
        if found and not _one_name(names, found):
            raise _ambiguous(names, found, "name the images", "file_column", source)
        if found:
            return found[0]
    return -1


def find_stated(names: Sequence[str], stated: str, setting: str, source: str) -> int:
    """Position of the column that a setting names.

    Raises:
        InputError: The table lacks this column.
    """
    for found in (
        [k for k, name in enumerate(names) if name == stated],
        _positions(names, (stated.lower(),)),
    ):
        if found:
            return found[0]
    by_lower = {name.lower(): name for name in names if name}
    raise InputError(
        f"{source}: --data.{setting} {stated}: no column has this name; found: {shorten(names)}. "
        f"{nearest(stated, by_lower)}"
    )


def _find_label(table: Table, config: DataConfig, taken: set[int]) -> int:
    """Position of the column that holds class names; -1 if there is a column per class."""
    names, source = table.names, str(table.path)
    if config.label_column:
        return find_stated(names, config.label_column, "label_column", source)
    certain, likely = ([k for k in _positions(names, known) if k not in taken] for known in LABEL_COLUMNS)
    if certain:
        if not _one_name(names, certain):
            raise _ambiguous(names, certain, "hold the labels", "label_column", source)
        return certain[0]
    if not likely:
        return -1
    # A table with a column per class may have a class `tag`, or a column `category` of its own.
    rest = [k for k in sorted(table.scalar) if names[k] and k not in taken]
    marks = _mark_columns(table, rest)
    words = [k for k in likely if k not in marks]
    others = [k for k in marks if k not in likely]
    if len(words) > 1:
        raise _ambiguous(names, words, "hold the labels", "label_column", source)
    if words and len(others) > 1:
        raise InputError(
            f"{source}: ambiguous: the column {quote(names[words[0]])} may hold the labels, but the columns "
            f"{shorten(names[k] for k in others)} hold 1 and 0, as if each stood for a class. If it holds "
            f"them, pass {_option('label_column', names[words[0]])}; if not, remove or rename it."
        )
    if words:
        return words[0]
    return likely[0] if len(likely) == 1 and not others else -1


def _mark_columns(table: Table, columns: Sequence[int]) -> list[int]:
    """Columns whose first cells stand for a class."""
    if not columns:
        return []
    cells = zip(*(row for _, row in islice(table.rows(columns), _PEEK)), strict=True)
    return [column for column, few in zip(columns, cells, strict=False) if are_marks(few)]


def _positions(names: Sequence[str], known: Iterable[str]) -> list[int]:
    return [k for k, name in enumerate(names) if name.lower() in known]


def _one_name(names: Sequence[str], found: Sequence[int]) -> bool:
    """Whether some columns have the same name, which is another mistake than two candidates."""
    return len({names[k].lower() for k in found}) == 1


def _ambiguous(
    names: Sequence[str], found: Sequence[int], what: str, setting: str, source: str
) -> InputError:
    columns = " and ".join(quote(names[k]) for k in found)
    options = " or ".join(_option(setting, names[k]) for k in found)
    return InputError(f"{source}: ambiguous: the columns {columns} may {what}. Pass {options}.")


def _option(setting: str, name: str) -> str:
    return f"--data.{setting} {quote(name) if CONTROL.search(name) else shlex.quote(name)}"
