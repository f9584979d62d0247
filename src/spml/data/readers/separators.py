"""Several labels in one cell of a table: what separates them, and cells that are lists in brackets."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ...errors import InputError
from ..safe import quote

SEPARATORS = {";": "semicolons", "|": "bars", ",": "commas", " ": "spaces"}
_SHARE = 0.1  # of the rows; a class name may contain a comma
_QUOTED = re.compile(r"""'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)\"""")


def are_lists(cells: Sequence[str]) -> bool:
    """Whether all cells are lists in brackets, as pandas and JSON write them."""
    return bool(cells) and all(cell.startswith("[") and cell.endswith("]") for cell in cells)


def split_list(cell: str | tuple[str, ...]) -> tuple[str, ...]:
    """Class names in a cell such as `['cat', 'dog']`, `["cat", "dog"]` or `[cat, dog]`."""
    if isinstance(cell, tuple) or not cell:
        return tuple(cell)
    inner = cell[1:-1].strip()
    if not inner:
        return ()
    if inner[0] in "'\"":
        return tuple((one or two).strip() for one, two in _QUOTED.findall(inner))
    return tuple(name.strip() for name in inner.split(","))


def list_separator(cells: Sequence[object], counts: npt.NDArray[np.int64]) -> str:
    """Separator of labels in cells of a column that should hold one label each; empty if none seems to.

    Args:
        cells: Distinct cells.
        counts: Number of rows with each, int64 (cells,).
    """
    for separator in SEPARATORS:
        rows = sum(int(counts[k]) for k, cell in enumerate(cells) if looks_split(cell, separator))
        if rows and (separator in ";|" or rows > _SHARE * int(counts.sum())):
            return separator
    return ""


def looks_split(cell: object, separator: str) -> bool:
    """Whether a cell seems to hold several labels, or a list in brackets, separated in this way."""
    if not isinstance(cell, str) or separator == " ":
        return False
    if separator == "," and are_lists([cell]):
        return True
    return separator in cell and all(part.strip() for part in cell.split(separator))


def recognise_separator(cells: Sequence[str], source: str) -> str:
    """Separator of the labels in cells such as "cat;dog"; empty if no cell holds more than one word.

    It is `;`, `|` or `,` if exactly one of them occurs. As a class name may contain a space, a space is a
    separator only where words recombine: at least two thirds of the words of cells with several words must
    also occur in other cells.

    Args:
        cells: Cells of the column `labels`.
        source: Name of the file, for messages.

    Raises:
        InputError: Several of these characters occur, or spaces may or may not separate labels.
    """
    marks = [mark for mark in (";", "|", ",") if any(mark in cell for cell in cells)]
    if len(marks) > 1:
        example = next(cell for cell in cells if marks[0] in cell)
        raise InputError(
            f"{source}: ambiguous: labels contain {' and '.join(map(repr, marks))} (for example "
            f"{quote(example)}), and any of them may separate labels. Pass --data.separator '{marks[0]}', or "
            "another one."
        )
    if marks:
        return marks[0]
    distinct = {tuple(cell.split()) for cell in cells}
    uses = Counter(word for words in distinct for word in set(words))
    compound = {word for words in distinct if len(words) > 1 for word in words}
    if not compound:
        return ""
    if sum(uses[word] > 1 for word in compound) * 3 >= len(compound) * 2:
        return " "
    example = next(cell for cell in cells if len(cell.split()) > 1)
    raise InputError(
        f"{source}: ambiguous: {quote(example)} may be one label, or several separated by spaces. If spaces "
        "separate labels, pass --data.separator ' '; if every row has one label, call the column `label`; "
        "otherwise separate labels by ';'."
    )
