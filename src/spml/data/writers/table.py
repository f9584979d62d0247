"""CSV file: one column per class with 1 (positive), -1 (negative) or an empty cell (unknown)."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from pathlib import Path

from ...errors import InputError
from ..records import Records
from ..tables.columns import INFERRED, SPLIT_FLAGS, is_named
from .inferred import Inferred, known_by_sample
from .names import image_names
from .registry import Files, register_writer

_OTHER_COLUMNS = ("file", "split", "label", "labels")


@register_writer("csv", "CSV")
def write_table(records: Records, inferred: Inferred, output: Path) -> tuple[Files, tuple[str, ...]]:
    """Write `file`, perhaps `split`, and one column per class.

    Inferred labels are in the further columns `inferred` and `inferred_negative`, each if there are any:
    names with scores, as in `cat:0.93;dog:0.71`. There, a backslash precedes `;`, `:` and a backslash that
    are part of a name.

    Raises:
        InputError: A class has the name of one of the other columns.
    """
    names, notes = image_names(records, output.parent)
    further = {name: value for name, value in INFERRED.items() if (inferred.values == value).any()}
    for name in records.classes:
        if name.lower() in (*_OTHER_COLUMNS, *SPLIT_FLAGS, *further) or not is_named(name):
            raise InputError(
                f"{records.source}: the class {name!r} would be a column with another meaning in CSV. Rename "
                "it, or write another format."
            )
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    with_split = ["split"] if records.split is not None else []
    writer.writerow(["file", *with_split, *records.classes, *further])
    positive, negative = (known_by_sample(records.labels, value) for value in (1, -1))
    labels = zip(names, positive, negative, inferred.by_sample(len(names)), strict=True)
    for row, (name, present, absent, guesses) in enumerate(labels):
        cells = [""] * len(records.classes)
        for column in present:
            cells[column] = "1"
        for column in absent:
            cells[column] = "-1"
        split = [records.split[row]] if records.split is not None else []
        guessed = [_inferred_cell(records.classes, guesses, value) for value in further.values()]
        writer.writerow([name, *split, *cells, *guessed])
    return {output: stream.getvalue()}, notes


def _inferred_cell(classes: Sequence[str], guesses: Sequence[tuple[int, int, float]], value: int) -> str:
    return ";".join(_with_score(classes[column], score) for column, sign, score in guesses if sign == value)


def _with_score(name: str, score: float) -> str:
    # The colon is always written, since `1` alone would look like a label of a class.
    return re.sub(r"([;:\\])", r"\\\1", name) + (":" if score != score else f":{score:.6g}")
