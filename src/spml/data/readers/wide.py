"""Tables with one column per class: 1, 0, -1, true, false, yes, no, or blank for unknown."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ...errors import InputError
from ...labels import ObservedLabels, Unlisted
from ..safe import shown
from .delimited import EXPECTED as LAYOUTS
from .delimited import Table, shorten
from .documents import class_name
from .listed import ListedFiles
from .marks import BAD, BLANK, EXPECTED, MARKS, meaning


class Wide(NamedTuple):
    """What the columns of a table say: classes, their labels, columns of another kind, and notes."""

    classes: tuple[str, ...]
    labels: ObservedLabels
    unused: tuple[str, ...]
    notes: tuple[str, ...]


def read_wide(
    path: Path, table: Table, positions: Mapping[str, int], files: ListedFiles, unlisted: Unlisted
) -> Wide:
    """Read the columns beside `file` and `split`; every row is added to `files`.

    A column is a class if its cells are what `marks.MARKS` knows. If most are not, it is not used; if some
    are not, it is refused.

    Args:
        path: the table, for messages.
        table: its rows.
        positions: of the columns `file` and perhaps `split`.
        files: the files of the rows.
        unlisted: what a label that is not listed means.

    Raises:
        InputError: no such column, another value in one, or rows of one file that contradict each other.
    """
    known = [positions[key] for key in ("file", "split") if key in positions]
    columns = [place for place in sorted(table.flat) if table.names[place] and place not in known]
    places, rows, blocks = [], [], []
    for number, row in table.rows(known + columns):
        places.append(files.add(number, row[0], row[1] if len(known) == 2 else ()))
        rows.append(number)
        blocks.append(array("b", map(MARKS.__getitem__, row[len(known) :])).tobytes())
    # One byte per cell, so never more than the file has.
    codes = np.frombuffer(b"".join(blocks), np.int8).reshape(len(rows), len(columns))
    wrong, filled = (codes == BAD).sum(axis=0), (codes != BLANK).sum(axis=0)
    other = 2 * wrong > filled
    if not (filled * ~other).any():
        raise InputError(
            f"{path}: there is no column `label` or `labels`, and no other column holds {EXPECTED}; found: "
            f"{shorten(table.names).lower()}. {LAYOUTS}."
        )
    if refused := np.flatnonzero(wrong * ~other).tolist():
        raise _refusal(table, files, columns[refused[0]])
    chosen = np.flatnonzero(~other)
    codes = codes[:, chosen]
    found = [code for code in (-1, 0, 1, BLANK) if (codes == code).any()]
    zero, blank, sentence = meaning(found, unlisted, str(path))
    known_labels = np.where(codes == BLANK, np.int8(blank), np.where(codes == 0, np.int8(zero), codes))
    classes = tuple(class_name(table.names[columns[place]], str(path)) for place in chosen.tolist())
    labels = ObservedLabels.from_ternary(_put_together(known_labels, places, rows, files, classes))
    used = {*known, *(columns[place] for place in chosen.tolist())}
    return Wide(
        classes,
        labels,
        tuple(name for place, name in enumerate(table.names) if name and place not in used),
        (f"{path.name}: {len(classes):,} columns stand for a class ({shorten(classes)}): {sentence}",),
    )


def _refusal(table: Table, files: ListedFiles, column: int) -> InputError:
    """The first cell of a column that is no mark, as an error."""
    number, (cell,) = next((number, row) for number, row in table.rows([column]) if MARKS[row[0]] == BAD)
    return InputError(
        f"{files.where(number)}: column {shown(table.names[column])} holds {shown(cell)}, but other cells of "
        f"it say that it stands for a class: {EXPECTED}. Correct the cell, or remove the column."
    )


def _put_together(
    ternary: npt.NDArray[np.int8],
    places: Sequence[int],
    rows: Sequence[int],
    files: ListedFiles,
    classes: Sequence[str],
) -> npt.NDArray[np.int8]:
    """One row per file: what any of its rows knows."""
    if not files.repeated:
        return ternary
    _, first = np.unique(places, return_index=True)
    merged = ternary[first]
    for row in np.setdiff1d(np.arange(len(rows)), first).tolist():
        place = places[row]
        one, other = merged[place], ternary[row]
        against = np.flatnonzero(one * other == -1)
        if len(against):
            raise InputError(
                f"{files.both(place, rows[row])} both name {shown(files.names[place])}, but contradict each "
                f"other about {classes[against[0]]!r}. Correct one of them."
            )
        merged[place] = np.where(one == 0, other, one)
    return merged
