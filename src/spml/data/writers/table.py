"""CSV file: one column per class with 1 (positive), -1 (negative) or an empty cell (unknown)."""

from __future__ import annotations

import re
from itertools import starmap
from pathlib import Path

from ...common.errors import InputError
from ...common.spreadsheets import csv_text
from ..records import Records
from ..tables.columns import INFERRED, SPLIT_FLAGS, is_named
from ..texts import Texts
from . import Files, register_writer
from .samples import Inferred, image_names, labelled_samples


@register_writer("csv", "CSV", holds_groups=True)
def write_table(records: Records, inferred: Inferred, output: Path) -> tuple[Files, tuple[str, ...]]:
    """Write `file`, or `id` and `text` of texts, perhaps `split` and `group`, and one column per class.

    Inferred labels are in the further columns `inferred` and `inferred_negative`, each if there are any:
    names with scores, as in `cat:0.93;dog:0.71`. There, a backslash precedes `;`, `:` and a backslash that
    are part of a name.
    """
    texts = records.inputs if isinstance(records.inputs, Texts) else None
    names, notes = image_names(records, output.parent) if texts is None else (records.ids, ())
    own = ["file"] if texts is None else ["id", "text"]
    own += [*(["split"] if records.split else []), *(["group"] if records.groups else [])]
    further = {name: value for name, value in INFERRED.items() if (inferred.values == value).any()}
    for name in records.classes:
        others = (*own, "split", "label", "labels", *SPLIT_FLAGS, *further)
        if name.lower() in others or not is_named(name):
            raise InputError(
                f"{records.source}: the class {name!r} would be a column with another meaning in CSV. Rename "
                "it, or write another format."
            )
    rows = [[*own, *records.classes, *further]]
    for row, sample in enumerate(labelled_samples(records, inferred, names)):
        marks = dict.fromkeys(sample.positive, "1") | dict.fromkeys(sample.negative, "-1")
        scores = {1: sample.inferred, -1: sample.inferred_negative}
        rows.append(
            [
                sample.name,
                *([] if texts is None else [texts[row]]),
                *([sample.split] if sample.split else []),
                *([sample.group] if sample.group is not None else []),
                *(marks.get(name, "") for name in records.classes),
                *(";".join(starmap(_with_score, scores[value].items())) for value in further.values()),
            ]
        )
    return {output: csv_text(rows)}, notes


def _with_score(name: str, score: float | None) -> str:
    # The colon is always written, since `1` alone would look like a label of a class.
    return re.sub(r"([;:\\])", r"\\\1", name) + (":" if score is None else f":{score:.6g}")
