"""A review that is open: the data, the list, the database, and what the answers say so far."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from ..audit.folder import MISSING, About, Audit, fingerprint, read_audit, read_observed
from ..common.errors import InputError
from ..common.files import sha256_file
from ..common.phrases import counted
from ..common.safe import quote
from ..data.records import Records
from .answers import STATUSES, Answers, Status
from .contents import Content, Contents
from .progress import UNDECIDED, Progress, measure
from .queue import Entries, Order, Selection, make_entries, make_order
from .store import FILE, Answer, Decision, Store

Show = Literal["all", "undecided", "decided", "conflict"]
_SHOWN: dict[Show, tuple[Status, ...]] = {
    "all": STATUSES,
    "undecided": ("undecided",),
    "decided": ("yes", "no", "unsure", "conflict"),
    "conflict": ("conflict",),
}


class Suggestion(NamedTuple):
    """Entry of the list with its answers.

    Attributes:
        column: Class.
        probability: Probability that the sample has the label.
        status: What the answers amount to.
        answers: The newest answer of each reviewer.
    """

    column: int
    probability: float
    status: Status
    answers: list[Decision]


class Card(NamedTuple):
    """Sample with the entries of a selection.

    Attributes:
        sample: Row of the data.
        name: Name of the sample.
        given: Names of its known positives.
        content: Columns and features to show.
        suggestions: Its entries, the most probable first.
    """

    sample: int
    name: str
    given: list[str]
    content: Content
    suggestions: list[Suggestion]


class Shown(NamedTuple):
    """Samples in the order in which they are shown.

    Attributes:
        samples: Rows of the data.
        start: Position of the first sample that has an entry without an answer; 0 if there is none.
    """

    samples: list[int]
    start: int


class Undone(NamedTuple):
    """Sample and class of an answer that was taken back."""

    sample: int
    name: str
    label: str


class Data(NamedTuple):
    """Data of an audit, which it still fits."""

    audit: Audit
    records: Records


def open_data(folder: Path, path: str = "") -> Data:
    """Read an audit and the data that it is about.

    Args:
        folder: Folder of the audit.
        path: Path of the data, if it was moved since the audit.

    Raises:
        InputError: The audit or the data can't be read, or the data was changed since the audit.
    """
    audit = read_audit(folder)
    config = audit.about.config
    records = read_observed(replace(config, path=path) if path else config)
    if fingerprint(records.ids, records.classes, records.labels) != audit.about.fingerprint:
        raise InputError(f"{records.source}: {_changed(audit, records)} Run spml audit again.")
    return Data(audit, records)


def _changed(audit: Audit, records: Records) -> str:
    """How the data differs from what was audited."""
    about, names = audit.about, set(records.ids)
    if len(records.ids) != about.samples:
        now = counted(len(records.ids), "sample")
        gone = next((f" {entry.file!r} is gone." for entry in audit.missing if entry.file not in names), "")
        return f"was changed since the audit: it has {now} now, and had {about.samples:,}.{gone}"
    if records.classes != about.classes:
        return "was changed since the audit: its classes are others now."
    return "was changed since the audit: names or known labels of samples are others now."


def read_decisions(
    store: Store, last: int, rows: Collection[str], columns: Collection[str]
) -> list[Decision]:
    """Read the decisions after the row `last`, which must be about samples and classes of the data.

    Args:
        store: Database of the decisions.
        last: As in `Store.since`.
        rows: Names of the samples.
        columns: Names of the classes.

    Raises:
        InputError: A row is about something else, or damaged.
        SpmlError: The database can't be read.
    """
    decisions = store.since(last)
    for decision in decisions:
        for what, name, known in (("sample", decision.file, rows), ("class", decision.label, columns)):
            if name not in known:
                raise InputError(
                    f"{store.path}: is damaged: row {decision.id} is about the {what} {quote(name)}, which "
                    "the data does not have. Restore a copy, or move it away to begin again."
                )
    return decisions


class Review:
    """A list under review. Its methods may be called by several threads.

    Args:
        folder: Folder of the audit, which the database lies in.
        data: Audit and data.
        reviewer: Name under which answers are kept.
        by_class: Show the best entry of every class first, then the second of every class, and so on.
        rows: Table with further columns of the samples, as in `Contents`.

    Raises:
        InputError: The list or the table does not fit the data, or the database can't be used.
    """

    def __init__(
        self, folder: Path, data: Data, reviewer: str, *, by_class: bool = False, rows: Path | None = None
    ) -> None:
        self.records, self.reviewer, self._by_class = data.records, reviewer, by_class
        self.about: About = data.audit.about
        self.entries: Entries = make_entries(data.audit.missing, data.records, sha256_file(folder / MISSING))
        self.contents = Contents(data.records, rows, set(self.entries.rows.tolist()))
        self.store = Store(folder / FILE, self.about.fingerprint, self.about.classes)
        self._given = data.records.labels.to_names(data.records.classes)
        self._answers = Answers()
        self._status = np.zeros(len(self.entries.rows), np.int8)
        pairs = zip(self.entries.rows.tolist(), self.entries.columns.tolist(), strict=True)
        self._entry_of = {pair: entry for entry, pair in enumerate(pairs)}
        self._of_sample: dict[int, list[int]] = {}
        for entry, row in enumerate(self.entries.rows.tolist()):
            self._of_sample.setdefault(row, []).append(entry)
        self._row_of = {name: row for row, name in enumerate(data.records.ids)}
        self._column_of = {name: column for column, name in enumerate(data.records.classes)}
        self._lock = threading.Lock()
        self.order = lru_cache(maxsize=64)(self._order)

    def listed_per_class(self) -> list[int]:
        """Number of entries of each class."""
        return list(map(int, np.bincount(self.entries.columns, minlength=len(self.records.classes))))

    def _order(self, selection: Selection) -> Order:
        """Order of the samples of a selection, which does not depend on answers."""
        return make_order(self.entries, selection, by_class=self._by_class)

    def shown(self, selection: Selection, show: Show = "all") -> Shown:
        """Samples of a selection that have an entry with one of the answers to `show`."""
        order, status = self.order(selection), self._follow()[self.order(selection).entries]
        rows = self.entries.rows[order.entries]
        wanted = np.isin(status, [STATUSES.index(name) for name in _SHOWN[show]])
        samples = order.samples[np.isin(order.samples, rows[wanted])]
        waiting = np.isin(samples, rows[status == UNDECIDED])
        return Shown(list(map(int, samples)), int(np.argmax(waiting)) if waiting.any() else 0)

    def progress(self, selection: Selection) -> Progress:
        """Numbers about a selection."""
        return measure(self.entries, self.order(selection), self._follow())

    def cards(self, samples: Iterable[int], selection: Selection) -> list[Card]:
        """Samples with their entries of a selection.

        Raises:
            KeyError: A sample is not on the list.
        """
        status = self._follow()
        with self._lock:
            return [self._card(sample, selection, status) for sample in samples]

    def _card(self, sample: int, selection: Selection, status: npt.NDArray[np.int8]) -> Card:
        entries = self._of_sample[sample]  # first, since it knows which samples are on the list
        name, classes, suggestions = self.records.ids[sample], self.records.classes, []
        for entry in entries:
            column, probability = int(self.entries.columns[entry]), float(self.entries.probabilities[entry])
            if probability >= selection.minimum and selection.column in (None, column):
                answers = self._answers.of((name, classes[column]))
                suggestions.append(Suggestion(column, probability, STATUSES[status[entry]], answers))
        return Card(sample, name, self._given[sample], self.contents.of(sample), suggestions)

    def decide(self, sample: int, column: int, answer: Answer, selection: Selection) -> Decision:
        """Keep an answer. It is on the disk when this returns.

        Raises:
            KeyError: The sample does not have this entry.
            SpmlError: The database can't be written; nothing was kept.
        """
        entry = self._entry_of[sample, column]
        order = self.order(selection)
        file, label = self.records.ids[sample], self.records.classes[column]
        return self.store.add(
            file, label, answer, self.reviewer, random_check=bool((order.checks == entry).any())
        )

    def undo(self) -> Undone | None:
        """Take back the newest answer of the reviewer.

        Returns:
            What it was about; None if the reviewer has no answer.

        Raises:
            SpmlError: The database can't be written, or is damaged; nothing was changed.
        """
        self._follow()  # checks every row
        undone = self.store.undo(self.reviewer)
        return None if undone is None else Undone(self._row_of[undone.file], undone.file, undone.label)

    def _follow(self) -> npt.NDArray[np.int8]:
        """Status of each entry, with the answers that other processes have added since."""
        with self._lock:
            decisions = read_decisions(self.store, self._answers.last, self._row_of, self._column_of)
            for file, label in self._answers.follow(decisions):
                entry = self._entry_of.get((self._row_of[file], self._column_of[label]))
                if entry is not None:  # an earlier audit of the same data may have listed more
                    self._status[entry] = STATUSES.index(self._answers.status((file, label)))
            return np.array(self._status)
