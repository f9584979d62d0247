"""A review that is open: the data, the list, the database, and what the answers say."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from ..audit.folder import MISSING, WRONG, About, Audit, fingerprint, read_audit, read_observed
from ..common.errors import InputError, SpmlError
from ..common.files import sha256_file
from ..common.phrases import counted
from ..common.safe import quote
from ..data.records import Records
from ..data.texts import Texts
from .contents import Content, Contents
from .progress import (
    STATUSES,
    UNDECIDED,
    Answers,
    Entries,
    ListName,
    Order,
    OrderName,
    Progress,
    Selection,
    Status,
    check_names,
    make_entries,
    make_order,
    measure,
    values_at,
)
from .store import FILE, Answer, Decision, Store

Show = Literal["all", "undecided", "decided", "conflict"]
Words = Callable[[str, Sequence[str]], Sequence[Sequence[str]]]
"""From a text and classes to the words that speak most for each of them."""

_SHOWN: dict[Show, tuple[Status, ...]] = {
    "all": STATUSES,
    "undecided": ("undecided",),
    "decided": ("yes", "no", "unsure", "conflict"),
    "conflict": ("conflict",),
}


class Suggestion(NamedTuple):
    """Label to decide on: its class, probability and window, and the newest answer of each reviewer.

    The probability of a given label that looks wrong is the confidence in it; that of a label that a reviewer
    added is None. `by_name` is the second opinion of `MissingLabel`.
    """

    column: int
    probability: float | None
    status: Status
    answers: list[Decision]
    window: tuple[float, ...]
    by_name: str


class Card(NamedTuple):
    """Sample with its known positives, what it holds, and its entries, the most probable first.

    `further` are labels that have answers, but are no entries of the list: those that a reviewer added.
    """

    sample: int
    name: str
    given: list[str]
    content: Content
    suggestions: list[Suggestion]
    further: list[Suggestion]


class Undone(NamedTuple):
    """Sample and class of an answer that was taken back, the newest of those that were given in one step."""

    sample: int
    name: str
    label: str
    answers: int  # that were taken back


def undone(decisions: Sequence[Decision], row_of: Mapping[str, int]) -> Undone | None:
    """What an undo took back, given its rows and the row of the data of each sample; None if nothing."""
    if not decisions:
        return None
    newest = decisions[0]
    return Undone(row_of.get(newest.file, -1), newest.file, newest.label, len(decisions))


class _List:
    """A list under review: its entries, and the status of each.

    Args:
        entries: The entries.
    """

    def __init__(self, entries: Entries) -> None:
        self.entries = entries
        self.status = np.zeros(len(entries.rows), np.int8)
        pairs = zip(entries.rows.tolist(), entries.columns.tolist(), strict=True)
        self.entry_of = {pair: entry for entry, pair in enumerate(pairs)}
        self.of_sample: dict[int, list[int]] = {}
        for entry, row in enumerate(entries.rows.tolist()):
            self.of_sample.setdefault(row, []).append(entry)
        # The order of the samples of a selection does not depend on answers.
        self.order: Callable[[Selection], Order] = lru_cache(maxsize=64)(partial(make_order, entries))


def open_data(folder: Path, path: str = "") -> tuple[Audit, Records]:
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
        samples, names = audit.about.samples, set(records.ids)
        change = "names or known labels of samples are others now."
        if len(records.ids) != samples:
            now = counted(len(records.ids), "sample")
            gone = (f" {entry.file!r} is gone." for entry in audit.missing if entry.file not in names)
            change = f"it has {now} now, and had {samples:,}.{next(gone, '')}"
        elif records.classes != audit.about.classes:
            change = "its classes are others now."
        raise InputError(f"{records.source}: was changed since the audit: {change} Run spml audit again.")
    return audit, records


class Review:
    """The lists of an audit under review. Its methods may be called by several threads.

    Args:
        folder: Folder of the audit, which the database lies in.
        reviewer: Name under which answers are kept.
        data: Path of the data, if it was moved since the audit.
        order: Order of the entries when the page is opened.
        rows: Table with further columns of the samples, as in `Contents`.
        words: Finds what in a text speaks most for each of some classes; None = this is not shown.

    Raises:
        InputError: The audit or the data can't be used, a list or the table does not fit the data, or the
            database can't be used.
    """

    def __init__(
        self,
        folder: Path,
        reviewer: str,
        *,
        data: str = "",
        order: OrderName = "rank",
        rows: Path | None = None,
        words: Words | None = None,
    ) -> None:
        self.reviewer, self.order, self._words = reviewer, order, words
        audit, records = open_data(folder, data)
        self.records: Records = records
        self.about: About = audit.about
        listed = {
            "missing": make_entries(audit.missing, records, sha256_file(folder / MISSING)),
            "wrong": make_entries(audit.wrong, records, sha256_file(folder / WRONG), "wrong"),
        }
        self.lists: dict[str, _List] = {name: _List(entries) for name, entries in listed.items()}
        samples = {sample for each in self.lists.values() for sample in each.of_sample}
        self.contents = Contents(records, rows, samples)
        self.store = Store(folder / FILE, self.about.fingerprint)
        self._given = records.labels.to_names(records.classes)
        self._answers = Answers()
        self._row_of = {name: row for row, name in enumerate(records.ids)}
        self._column_of = {name: column for column, name in enumerate(records.classes)}
        self._lock = threading.Lock()
        try:
            self._follow("missing")  # checks every row
        except SpmlError:
            self.store.close()
            raise

    def listed_per_class(self, name: ListName) -> list[int]:
        """Number of entries of each class."""
        columns = self.lists[name].entries.columns
        return list(map(int, np.bincount(columns, minlength=len(self.records.classes))))

    def shown(self, selection: Selection, show: Show = "all") -> tuple[list[int], int]:
        """Samples of a selection that have an entry with one of the answers to `show`, in their order, and
        the position at which the page starts: that of the first one without an answer.
        """
        listed = self.lists[selection.list]
        order = listed.order(selection)
        status = self._follow(selection.list)[order.entries]
        rows = listed.entries.rows[order.entries]
        wanted = np.isin(status, [STATUSES.index(name) for name in _SHOWN[show]])
        samples = order.samples[np.isin(order.samples, rows[wanted])]
        waiting = np.isin(samples, rows[status == UNDECIDED])
        return list(map(int, samples)), int(np.argmax(waiting)) if waiting.any() else 0

    def progress(self, selection: Selection) -> Progress:
        """Numbers about a selection."""
        listed = self.lists[selection.list]
        return measure(listed.entries, listed.order(selection), self._follow(selection.list))

    def cards(self, samples: Iterable[int], selection: Selection) -> list[Card]:
        """Samples with their entries of a selection.

        Raises:
            KeyError: A sample is not on the list.
        """
        listed, cards = self.lists[selection.list], []
        entries, _ = listed.entries, self._follow(selection.list)
        with self._lock:
            for sample in samples:
                suggestions = []
                for entry in listed.of_sample[sample]:
                    column, p = int(entries.columns[entry]), float(entries.probabilities[entry])
                    if p >= selection.minimum and selection.column in (None, column):
                        about = entries.windows[entry], entries.by_name[entry]
                        suggestions.append(self._suggestion(sample, column, p, *about))
                labels = self._answers.labels_of(self.records.ids[sample])
                added = (
                    self._suggestion(sample, column)
                    for column in sorted(map(self._column_of.__getitem__, labels))
                    if (sample, column) not in listed.entry_of
                )
                further = [each for each in added if each.status != "undecided"]
                name, given = self.records.ids[sample], self._given[sample]
                content = self.contents.of(sample)
                texts = self.records.inputs
                if self._words is not None and isinstance(texts, Texts):
                    # Words of the text that speak most for the labels to decide on.
                    asked = [self.records.classes[each.column] for each in suggestions]
                    speaking = zip(asked, self._words(texts[sample], asked), strict=True)
                    content += [(f"words for {label}", ", ".join(some)) for label, some in speaking if some]
                cards.append(Card(sample, name, given, content, suggestions, further))
        return cards

    def _suggestion(
        self,
        sample: int,
        column: int,
        p: float | None = None,
        window: tuple[float, ...] = (),
        by_name: str = "",
    ) -> Suggestion:
        pair = self.records.ids[sample], self.records.classes[column]
        return Suggestion(column, p, self._answers.status(pair), self._answers.of(pair), window, by_name)

    def decide(self, sample: int, column: int, answer: Answer, selection: Selection) -> Decision:
        """Keep an answer, as `decide_all` does."""
        return self.decide_all([sample], column, answer, selection)[0]

    def decide_all(
        self, samples: Sequence[int], column: int, answer: Answer, selection: Selection
    ) -> list[Decision]:
        """Keep one answer to a label of several samples, all or none. They are on the disk when this returns.

        The label of a sample need not be an entry of the list: a reviewer may add one.

        Raises:
            KeyError: A sample is not on the list, or the class is unknown.
            InputError: The label is a known one, which is not listed as wrong.
            SpmlError: The database can't be written; nothing was kept.
        """
        listed = self.lists[selection.list]
        if not 0 <= column < len(self.records.classes):
            raise KeyError(column)
        label, checks = self.records.classes[column], listed.order(selection).checks
        known = values_at(self.records.labels, np.array(samples), np.full(len(samples), column))
        answers: list[tuple[str, str, Answer, bool]] = []
        for sample, value in zip(samples, known.tolist(), strict=True):
            file = self.records.ids[sample]
            if sample not in listed.of_sample:
                raise KeyError(sample)
            if value and not any((sample, column) in each.entry_of for each in self.lists.values()):
                kind = "given" if value > 0 else "known not to be there"
                raise InputError(
                    f"{quote(label)} is {kind} in {quote(file)} already, and not on a list. Nothing was "
                    "saved. Change it in the data if it is wrong."
                )
            entry = listed.entry_of.get((sample, column), -2)  # -1 marks a sample without a check
            answers.append((file, label, answer, bool((checks == entry).any())))
        return self.store.add_all(answers, self.reviewer)

    def undo(self) -> Undone | None:
        """Take back the newest answers of the reviewer that were given in one step.

        Returns:
            What they were about; None if the reviewer has no answer.

        Raises:
            SpmlError: The database can't be written, or is damaged; nothing was changed.
        """
        self._follow("missing")  # checks rows of other processes
        return undone(self.store.undo(self.reviewer), self._row_of)

    def _follow(self, name: ListName) -> npt.NDArray[np.int8]:
        """Status of each entry of a list, with the answers that other processes have added since."""
        with self._lock:
            decisions = self.store.since(self._answers.last)
            check_names(self.store.path, decisions, self._row_of, self._column_of)
            for file, label in self._answers.follow(decisions):
                pair = self._row_of[file], self._column_of[label]
                status = STATUSES.index(self._answers.status((file, label)))
                for each in self.lists.values():
                    entry = each.entry_of.get(pair)
                    if entry is not None:  # an earlier audit of the same data may have listed more
                        each.status[entry] = status
            return np.array(self.lists[name].status)
