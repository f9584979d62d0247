"""Labels of the data with the answers of a review merged in."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
from scipy.sparse import csr_matrix

from ..common.phrases import counted
from ..data.records import Records
from ..labels import ObservedLabels
from .progress import Answers, Status, check_names, values_at
from .session import open_data
from .store import FILE, Store, named

_VALUES: Mapping[Status, int] = {"yes": 1, "no": -1}


def reviewed(
    folder: Path, data: str = "", *, without: Collection[str] = (), skip_damaged: bool = False
) -> tuple[Records, list[str]]:
    """Read the data of an audit, and merge the answers of its review into the known labels.

    `yes` becomes a known positive and `no` a known negative. A label that reviewers disagree about, or are
    unsure of, stays unknown.

    Args:
        folder: Folder of the audit.
        data: Path of the data, if it was moved since the audit.
        without: Names of samples whose answers are left out.
        skip_damaged: Leave out damaged rows of the database.

    Returns:
        The data with the answers merged into its labels; and what was merged and what was not, one line each.

    Raises:
        InputError: The audit, the data or the database can't be used, nothing has been reviewed, or an answer
            is about a sample or class that the data does not have.
    """
    audit, records = open_data(folder, data)
    store = Store(folder / FILE, audit.about.fingerprint, create=False)
    row_of = {name: row for row, name in enumerate(records.ids)}
    column_of = {name: column for column, name in enumerate(records.classes)}
    answers = Answers()
    with contextlib.closing(store):
        decisions, lost = store.intact() if skip_damaged else ([], [])
        if not decisions:  # a review without answers is one thing, one without an intact row is another
            decisions = store.since(0)
    check_names(store.path, decisions, row_of, column_of)
    answers.follow(decisions)
    decided = {pair: status for pair, status in answers.decided() if pair[0] not in without}
    values = {
        (row_of[file], column_of[label]): _VALUES[status]
        for (file, label), status in decided.items()
        if status in _VALUES
    }
    counts = Counter(decided.values())
    positives = counted(counts["yes"], "known positive")
    notes = [f"{positives} and {counted(counts['no'], 'known negative')} from the review."]
    pairs = [pair for pair, value in values.items() if value < 0]
    rows, columns = np.array(pairs, np.int64).reshape(-1, 2).T
    if wrong := int((values_at(records.labels, rows, columns) == 1).sum()):
        notes.append(
            f"{counted(wrong, 'given label was', 'given labels were')} wrong, and known negatives now."
        )
    if lost:
        notes.append(
            f"{counted(len(lost), 'damaged row is', 'damaged rows are')} left out: {named(lost)}. An answer "
            "that one of them changed or took back counts as it did before."
        )
    if conflicts := counts["conflict"]:
        notes.append(
            f"{counted(conflicts, 'label is', 'labels are')} not written, since reviewers disagree. The page "
            "shows them under Conflicts."
        )
    if unsure := counts["unsure"]:
        notes.append(f"{counted(unsure, 'label stays', 'labels stay')} unknown, since reviewers were unsure.")
    return replace(records, labels=merge(records.labels, values)), notes


def merge(labels: ObservedLabels, values: Mapping[tuple[int, int], int]) -> ObservedLabels:
    """Labels with the values of some (row, column) replaced, each +1 or -1."""
    if not values:
        return labels
    rows, columns = (np.array(part, np.int64) for part in zip(*values, strict=True))
    change = np.array(list(values.values()), np.int8) - values_at(labels, rows, columns)
    shape = (len(labels), labels.num_classes)
    return ObservedLabels.from_csr(labels.to_csr() + csr_matrix((change, (rows, columns)), shape=shape))
