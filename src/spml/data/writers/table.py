"""CSV file: one column per class with 1 (positive), -1 (negative) or nothing (unknown)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from ...errors import InputError
from ...files import write_rows
from ..records import Records
from .common import Inferred, image_names, known_by_sample, refuse_existing

INFERRED, INFERRED_NEGATIVE = "inferred", "inferred_negative"


def write_table(records: Records, inferred: Inferred, output: Path, overwrite: bool) -> tuple[str, ...]:
    """Write `file`, perhaps `split`, and one column per class.

    Inferred labels are in the further columns `inferred` and `inferred_negative`, each if there are any:
    names with scores, as in `cat:0.93;dog:0.71`. A backslash stands before what is part of a name there (`;`,
    `:`, a backslash).

    Raises:
        InputError: `output` is there, or a class is called as one of the other columns.
    """
    refuse_existing(output, overwrite)
    names, notes = image_names(records, output.parent)
    further = [
        column
        for column, value in ((INFERRED, 1), (INFERRED_NEGATIVE, -1))
        if (inferred.values == value).any()
    ]
    taken = {"file", "split", "label", "labels", *further}
    clash = next((name for name in records.classes if name.lower() in taken), None)
    if clash:
        raise InputError(
            f"{records.source}: the class {clash!r} would be a column that means something else in CSV. "
            "Rename it, or write another format."
        )
    with_split = ["split"] if records.split is not None else []
    header = ["file", *with_split, *records.classes, *further]
    write_rows(output, header, _rows(records, names, inferred, further))
    return notes


def _rows(records: Records, names: list[str], inferred: Inferred, further: list[str]) -> Iterator[list[str]]:
    positive, negative = (known_by_sample(records.labels, value) for value in (1, -1))
    guesses = inferred.by_sample(len(names))
    for row, (name, yes, no, guessed) in enumerate(zip(names, positive, negative, guesses, strict=True)):
        cells = [""] * len(records.classes)
        for column in yes:
            cells[column] = "1"
        for column in no:
            cells[column] = "-1"
        split = [records.split[row]] if records.split is not None else []
        yield [
            name,
            *split,
            *cells,
            *(
                ";".join(
                    _with_score(records.classes[column], score)
                    for column, value, score in guessed
                    if (value == 1) == (kind == INFERRED)
                )
                for kind in further
            ),
        ]


def _with_score(name: str, score: float) -> str:
    # A score is written always, since `1` alone would look like a label of a class.
    return re.sub(r"([;:\\])", r"\\\1", name) + (":" if score != score else f":{score:.6g}")
