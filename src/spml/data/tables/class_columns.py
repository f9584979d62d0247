"""Columns that stand for one class each, in a table without a column of labels."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ...common.errors import InputError
from ...common.phrases import counted, first_few, shorten
from ...common.safe import quote
from .cells import parse_cells
from .columns import INFERRED, PRESENCE_COLUMNS, SPLIT_FLAGS, is_named, option, propose_labels, repeating
from .table import EXPECTED as LAYOUTS
from .table import Table, text
from .values import BAD, BLANK, COUNT, EXPECTED, MARKS

# Headers of columns that often hold labels under a name of their own.
_LIKELY = (
    "species", "breed", "genre", "kind", "type", "target", "topic", "object", "concept", "finding", "diagnos",
    "disease", "annotation", "keyword", "subject", "scene", "choice", "taxon", "variety", "tag", "label",
    "class", "categor",
)  # fmt: skip
_ANSWERS = frozenset({"yes", "no", "y", "n", "ja", "nein", "oui", "non", "si", "sí"})
_MEASURE = re.compile(
    r"(?i)(?:^|[\W_])(?:id|ids|no|nr|number|index|width|height|size|age|year|month|day|hour|time|date|area|lat\w*|"
    r"lon\w*|x|y|w|h|fold|page|frame|weight|price|rating|seed|version)(?:$|[\W_\d])"
)
_LARGEST_COUNT = 1000
_FEW_WORDS = 3  # a column with so few different words may stand for a class, too
_COUNTS = 0.2  # share of zeros and blanks of a column of counts: most classes are absent in most images


def find_class_columns(
    table: Table, columns: Sequence[int], codes: npt.NDArray[np.int8], *, stated: bool
) -> list[int]:
    """Find the columns that stand for a class: their places in `columns`.

    A column stands for a class if its cells are known to `MARKS`; `codes` are their codes, int8 (columns,
    rows). A column of text is left out if it can't be the column of labels, nor stand for a class in words
    that are not known; otherwise the table is refused. If the user stated the columns, all of them stand for
    classes.
    """
    bad, filled = (codes == BAD).sum(axis=1), (codes != BLANK).sum(axis=1)
    numbers = (codes == COUNT).any(axis=1)
    empty = (codes == 0).sum(axis=1) + (codes == BLANK).sum(axis=1)
    marks, words = [], []
    for place, k in enumerate(columns):
        name = table.names[k].lower()
        if not stated and (not is_named(name) or name in SPLIT_FLAGS):
            continue
        if bad[place] and (stated or 2 * bad[place] <= filled[place]):
            raise _bad_cells(table, k)
        if bad[place]:
            words.append(k)
        elif stated or not numbers[place] or _are_counts(table, k, empty[place] / max(1, codes.shape[1])):
            marks.append(place)
    chosen = [columns[place] for place in marks]
    if not filled[marks].any():
        proposed = propose_labels(table, sorted({*columns} - {*chosen}))
        raise InputError(
            f"{table.path}: there is no column `label` or `labels`, and no other column holds {EXPECTED}; "
            f"found: {shorten(table.names)}. " + (f"Name {proposed}." if proposed else f"{LAYOUTS}.")
        )
    if not stated:
        _refuse_other_labels(table, chosen, words)
    used = codes[marks]
    for place in np.flatnonzero((used == COUNT).any(axis=1) & (used == -1).any()).tolist():
        raise InputError(
            f"{table.path}: ambiguous: the column {quote(table.names[chosen[place]])} holds numbers above 1,"
            " as if they were counts, but others hold -1. Write 1 for present, 0 for absent and nothing for"
            " unknown."
        )
    return marks


def _are_counts(table: Table, column: int, empty: float) -> bool:
    """Whether a column with numbers above 1 counts objects of a class; refuses one if that is not clear."""
    if _MEASURE.search(table.names[column]):
        return False
    if empty >= _COUNTS:
        return True
    cells = (text(cell).removesuffix(".0") for block in table.blocks([column]) for cell in block.cells[0])
    numbers = [int(cell) for cell in cells if cell.isdecimal()]
    index = len({*numbers}) == len(numbers) == max(numbers) - min(numbers) + 1
    if index or max(numbers) > _LARGEST_COUNT:
        return False
    raise InputError(
        f"{table.path}: ambiguous: the column {quote(table.names[column])} holds numbers, hardly any of them"
        " 0, so they may be counts of a class or something else. Name the columns of the classes:"
        " data.label_column=CLASS,CLASS,..."
    )


def _bad_cells(table: Table, column: int) -> InputError:
    """Error that names the first cells of a column of a class that have other values."""
    wrong: dict[str, int] = {}
    for block in table.blocks([column]):
        for number, cell in zip(block.numbers, block.cells[0], strict=True):
            if MARKS[cell] == BAD:
                wrong.setdefault(text(cell), number)
    some = first_few([quote(word) for word in wrong], 5)
    return InputError(
        f"{table.where(next(iter(wrong.values())))}: column {quote(table.names[column])} holds {some}, but"
        f" most of its cells are {EXPECTED}, so it stands for a class. Correct the cells, or remove the"
        " column."
    )


def _refuse_other_labels(table: Table, marks: Sequence[int], words: Sequence[int]) -> None:
    """Refuse a table in which a column of words may hold the labels, or marks in unknown words."""
    cells = table.peek([*words, *marks])
    headers = {table.names[k].casefold() for k in marks}
    answers = any(text(cell).lower() in _ANSWERS for k in marks for cell in cells[k])
    for k in words:
        name, different = table.names[k], repeating(cells[k])
        if not different or name.lower() in (*PRESENCE_COLUMNS, *INFERRED):
            continue
        likely = any(word in name.lower() for word in _LIKELY)
        if not (likely or answers or len(marks) <= 2 or different <= _FEW_WORDS):
            continue
        if likely and _same_names(cells[k], headers):
            continue
        examples = first_few([quote(word) for word in dict.fromkeys(map(text, cells[k]))], 4)
        classes = ",".join(table.names[column] for column in marks)
        raise InputError(
            f"{table.path}: ambiguous: the columns {shorten(table.names[column] for column in marks)} hold"
            f" {EXPECTED}, as if each stood for a class, but {quote(name)} holds"
            f" {counted(different, 'different word')} that repeat ({examples}). If these are the labels, pass"
            f" {option('label_column', name)}; if the other columns are the classes, pass"
            f" {option('label_column', classes)}."
        )


def _same_names(cells: Sequence[object], headers: set[str]) -> bool:
    """Whether a column lists the same classes as the columns that stand for one each."""
    distinct = [*dict.fromkeys(map(text, cells))]
    try:
        names = parse_cells(distinct, np.ones(len(distinct), np.int64), "", plural=True).names
    except InputError:
        return False
    return {name.casefold() for some in names for name in some or ()} <= headers
