"""Labels of the data with the answers of a review merged in."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_matrix

from ..common.phrases import counted
from ..data.records import Records
from ..labels import ObservedLabels
from .answers import Answers, Status
from .queue import values_at
from .session import open_data, read_decisions
from .store import FILE, Store

_VALUE: Mapping[Status, int] = {"yes": 1, "no": -1}


class Reviewed(NamedTuple):
    """Result of a review.

    Attributes:
        records: The data with the answers merged into its labels.
        notes: What was merged and what was not, one line each.
    """

    records: Records
    notes: tuple[str, ...]


def reviewed(folder: Path, data: str = "") -> Reviewed:
    """Read the data of an audit, and merge the answers of its review into the known labels.

    `yes` becomes a known positive and `no` a known negative. A label that reviewers disagree about, or are
    unsure of, stays unknown.

    Args:
        folder: Folder of the audit.
        data: Path of the data, if it was moved since the audit.

    Raises:
        InputError: The audit, the data or the database can't be used, nothing has been reviewed, or an answer
            is about a sample or class that the data does not have.
    """
    audit, records = open_data(folder, data)
    store = Store(folder / FILE, audit.about.fingerprint, audit.about.classes, create=False)
    row_of = {name: row for row, name in enumerate(records.ids)}
    column_of = {name: column for column, name in enumerate(records.classes)}
    answers = Answers()
    with contextlib.closing(store):
        answers.follow(read_decisions(store, 0, row_of, column_of))
    decided = dict(answers.decided())
    values = {
        (row_of[file], column_of[label]): _VALUE[status]
        for (file, label), status in decided.items()
        if status in _VALUE
    }
    return Reviewed(replace(records, labels=merge(records.labels, values)), _notes(Counter(decided.values())))


def merge(labels: ObservedLabels, values: Mapping[tuple[int, int], int]) -> ObservedLabels:
    """Labels with the values of some (row, column) replaced, each +1 or -1."""
    if not values:
        return labels
    rows, columns = (np.array(part, np.int64) for part in zip(*values, strict=True))
    change = np.array(list(values.values()), np.int8) - values_at(labels, rows, columns)
    shape = (len(labels), labels.num_classes)
    return ObservedLabels.from_csr(labels.to_csr() + csr_matrix((change, (rows, columns)), shape=shape))


def _notes(counts: Counter[Status]) -> tuple[str, ...]:
    yes, no = counts["yes"], counts["no"]
    notes = [
        f"{counted(yes, 'known positive', 'known positives')} and "
        f"{counted(no, 'known negative', 'known negatives')} from the review."
    ]
    if conflicts := counts["conflict"]:
        notes.append(
            f"{counted(conflicts, 'label is', 'labels are')} not written, since reviewers disagree. The page "
            "shows them under Conflicts."
        )
    if unsure := counts["unsure"]:
        notes.append(f"{counted(unsure, 'label stays', 'labels stay')} unknown, since reviewers were unsure.")
    return tuple(notes)
