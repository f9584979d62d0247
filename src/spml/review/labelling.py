"""A sample that people label in full: the labels that each reviewer sees in it, and those all agree about."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from ..audit.folder import read_observed
from ..audit.sheets import Answers as SampleLabels
from ..audit.sheets import Sample, read_sample, write_labelled
from ..common.errors import InputError, SpmlError
from ..common.phrases import counted, first_few
from ..common.safe import quote
from ..data.records import Records
from .contents import Content, Contents
from .progress import Answers, check_names
from .session import Undone, undone
from .store import Answer, Decision, Store

COMPLETE = ""
"""In place of a class: the row says whether all labels of the sample are given."""
TABLE = "the table"
"""Reviewer of a row that is complete in the table itself."""

Status = Literal["open", "complete", "conflict"]
Show = Literal["all", "open", "complete", "conflict"]


class Opinion(NamedTuple):
    """Labels that a reviewer gave a sample, as columns."""

    reviewer: str
    complete: bool
    labels: list[int]


class Card(NamedTuple):
    """Sample with what is known about it, and the labels that reviewers gave it.

    Attributes:
        sample: Row of the data.
        name: Name of the sample.
        given: Known positives in the data, as columns.
        refused: Known negatives in the data, as columns.
        content: Columns of a table and features, as `Contents.of`.
        status: `conflict` if reviewers who completed it gave it different labels.
        mine: Labels of the reviewer; what others gave is in `others`.
        order: All columns, in the order in which the page lists them.
    """

    sample: int
    name: str
    given: list[int]
    refused: list[int]
    content: Content
    status: Status
    mine: Opinion
    others: list[Opinion]
    order: list[int]


class SampleProgress(NamedTuple):
    """Numbers about a sample.

    Attributes:
        samples: Number of samples.
        complete: Number of those that are complete.
        leading: Number of complete samples from the first one on; the others can't be used yet.
        conflicts: Number of samples to which reviewers gave different labels.
        contradicted: Known labels of the data that a complete sample does not have, and known negatives that
            it has.
    """

    samples: int
    complete: int
    leading: int
    conflicts: int
    contradicted: int


class FullLabels:
    """Labels of a sample: those of its table, changed by the answers of each reviewer.

    Its methods take in the answers that this or another process has added since, and may be called by several
    threads. A database that is damaged is an `InputError`, one that can't be read an `SpmlError`.

    Args:
        sheet: Table of the sample, next to which the database lies.
        sample: The sample.
    """

    def __init__(self, sheet: Path, sample: Sample) -> None:
        # A sample that is drawn again, with more rows of the same data, keeps its answers.
        identity = msgspec.json.encode(["sample", sample.source, sample.classes])
        self.store = Store(database_of(sheet), hashlib.sha256(identity).hexdigest())
        self._sample, self._lock, self._answers = sample, threading.Lock(), Answers()
        self._column_of = {name: column for column, name in enumerate(sample.classes)}
        try:
            self.follow()  # checks every row
        except SpmlError:
            self.store.close()
            raise

    def follow(self) -> None:
        """Check and take in new answers."""
        with self._lock:
            decisions = self.store.since(self._answers.last)
            # The same run may have been given another sample since, whose answers stay.
            files = {decision.file for decision in decisions}
            check_names(self.store.path, decisions, files, {*self._column_of, COMPLETE})
            self._answers.follow(decisions)

    def opinions(self, rows: Iterable[int]) -> list[list[Opinion]]:
        """Labels of samples by each reviewer who answered anything about them, and of complete tables."""
        self.follow()
        with self._lock:
            return [self._opinions(row) for row in rows]

    def _opinions(self, row: int) -> list[Opinion]:
        file, done = self._sample.ids[row], bool(self._sample.complete[row])
        start = frozenset(np.flatnonzero(self._sample.labels[row]).tolist())
        labels: dict[str, set[int]] = {}
        complete = dict[str, bool]()
        for label in sorted(self._answers.labels_of(file)):  # COMPLETE comes first
            for each in self._answers.of((file, label)):
                of_reviewer = labels.setdefault(each.reviewer, set(start))
                complete.setdefault(each.reviewer, done)
                if label == COMPLETE:
                    complete[each.reviewer] = each.answer == "yes"
                elif each.answer == "yes":
                    of_reviewer.add(self._column_of[label])
                else:
                    of_reviewer.discard(self._column_of[label])
        if done and not labels:
            return [Opinion(TABLE, True, sorted(start))]
        return [Opinion(name, complete[name], sorted(columns)) for name, columns in sorted(labels.items())]

    def agreed(self) -> list[tuple[Status, list[int]]]:
        """Status of each sample, and its labels if it is complete."""
        return [_agreed(opinions) for opinions in self.opinions(range(len(self._sample.ids)))]


def _agreed(opinions: Iterable[Opinion]) -> tuple[Status, list[int]]:
    """Status of a sample, and its labels if it is complete."""
    complete = [each.labels for each in opinions if each.complete]
    if not complete:
        return "open", []
    return ("complete", complete[0]) if all(each == complete[0] for each in complete) else ("conflict", [])


def database_of(sheet: Path) -> Path:
    """Database of the answers to a sample: sample.review.sqlite for sample.csv."""
    return sheet.with_suffix(".review.sqlite")


def labelled_of(sheet: Path) -> Path:
    """Table with the labels of a page filled in: sample.labelled.csv for sample.csv."""
    return sheet.with_suffix(".labelled.csv")


def count_complete(sheet: Path) -> tuple[int, int]:
    """Number of samples that are complete, in their table or on the page, and of all samples.

    Raises:
        InputError: The sample or the database can't be used.
    """
    sample = read_sample(sheet)
    if not database_of(sheet).exists():
        return int(sample.complete.sum()), len(sample.ids)
    labels = FullLabels(sheet, sample)
    with contextlib.closing(labels.store):
        return sum(status == "complete" for status, _ in labels.agreed()), len(sample.ids)


def write_page_labels(sheet: Path) -> tuple[Path, list[str]]:
    """Write the labels that people gave a sample on the page, up to the first sample that is not complete.

    Returns:
        The table to use, which is `sheet` itself if it was not labelled on a page, and remarks.

    Raises:
        InputError: The sample or the database can't be used, reviewers disagree, or too few are complete.
        SpmlError: The table can't be written.
    """
    if not database_of(sheet).exists():
        return sheet, []
    sample = read_sample(sheet)
    full = FullLabels(sheet, sample)
    with contextlib.closing(full.store):
        agreed = full.agreed()
    conflicts = [sample.ids[row] for row, (status, _) in enumerate(agreed) if status == "conflict"]
    if conflicts:
        raise InputError(
            f"{database_of(sheet)}: reviewers gave different labels to {counted(len(conflicts), 'sample')}: "
            f"{first_few([*map(quote, conflicts)], 5)}. Open the page (spml review {sheet}), choose Show: "
            "conflicts, and change one of the two."
        )
    leading = _leading(agreed)
    truth = np.zeros((leading, len(sample.classes)), np.bool_)
    for row in range(leading):
        truth[row, agreed[row][1]] = True
    output = labelled_of(sheet)
    write_labelled(output, SampleLabels(sample.ids[:leading], truth), sample.classes)
    remarks = [f"{output}: {counted(leading, 'sample')} as labelled on the page of spml review."]
    if leading < len(sample.ids):
        later = sum(status == "complete" for status, _ in agreed[leading:])
        skipped = f", nor {counted(later, 'complete sample')} after it" if later else ""
        remarks.append(
            f"note: {quote(sample.ids[leading])} is not complete and not used{skipped}, since leaving out "
            "samples in between would bias K."
        )
    return output, remarks


def _leading(agreed: Iterable[tuple[Status, list[int]]]) -> int:
    """Number of complete samples from the first one on."""
    return sum(1 for _ in itertools.takewhile(lambda each: each[0] == "complete", agreed))


class Labelling:
    """A sample that is being labelled. Its methods may be called by several threads.

    Args:
        sheet: Table that `spml audit sample` wrote.
        reviewer: Name under which answers are kept.
        data: Path of the data, if it was moved since the sample was drawn.
        rows: Table with further columns of the samples, as in `Contents`.
        scores: Scores (m, C) of the sample, by which classes are ordered; None = the order of the table.

    Raises:
        InputError: The sample, its data, the table or the database can't be used, or the data lacks a sample.
    """

    def __init__(
        self,
        sheet: Path,
        reviewer: str,
        *,
        data: str = "",
        rows: Path | None = None,
        scores: npt.NDArray[np.float32] | None = None,
    ) -> None:
        self.sheet, self.reviewer, self._scores = sheet, reviewer, scores
        self.sample: Sample = read_sample(sheet, data)
        config = self.sample.data
        if config is None:
            raise InputError(
                f"{sheet}: the run was trained on data in memory, so the page can't find the samples. "
                "Name a file or folder that holds them, under the same names: data=PATH."
            )
        self.records: Records = read_observed(config)
        self.max_pixels: int = config.max_pixels
        row_of = {name: row for row, name in enumerate(self.records.ids)}
        lost = [name for name in self.sample.ids if name not in row_of]
        if lost:
            raise InputError(
                f"{self.records.source}: lacks {counted(len(lost), 'sample')} of {sheet}, such as "
                f"{quote(lost[0])}. Was the data moved? Pass data=PATH. If it was changed, draw the sample "
                "again with spml audit sample."
            )
        self._data_rows = [row_of[name] for name in self.sample.ids]
        self._place_of = {row: place for place, row in enumerate(self._data_rows)}
        self.contents = Contents(self.records, rows, set(self._data_rows))
        # Known positives and negatives of each sample, as columns of the sample.
        column_of = {name: column for column, name in enumerate(self.sample.classes)}
        columns = [column_of.get(name, -1) for name in self.records.classes]
        self._known: list[tuple[list[int], list[int]]] = []
        for row in self.records.labels.take(np.array(self._data_rows)).to_ternary():
            of_sign = ([columns[k] for k in np.flatnonzero(row == sign)] for sign in (1, -1))
            given, refused = ([column for column in some if column >= 0] for some in of_sign)
            self._known.append((given, refused))
        self._labels = FullLabels(sheet, self.sample)
        self.store = self._labels.store

    @property
    def ordered(self) -> bool:
        """Whether the most probable classes come first."""
        return self._scores is not None

    def shown(self, show: Show = "all") -> tuple[list[int], int]:
        """Samples of a status in their order, and the position of the first one that is open."""
        statuses = [status for status, _ in self._labels.agreed()]
        places = [place for place, status in enumerate(statuses) if show in ("all", status)]
        first = next((k for k, place in enumerate(places) if statuses[place] == "open"), 0)
        return [self._data_rows[place] for place in places], first

    def progress(self) -> SampleProgress:
        """Numbers about the sample."""
        agreed = self._labels.agreed()
        statuses = [status for status, _ in agreed]
        contradicted = 0
        for (status, labels), (given, refused) in zip(agreed, self._known, strict=True):
            if status == "complete":
                contradicted += len(set(given).difference(labels)) + len(set(refused).intersection(labels))
        complete, conflicts = statuses.count("complete"), statuses.count("conflict")
        return SampleProgress(len(agreed), complete, _leading(agreed), conflicts, contradicted)

    def cards(self, samples: Sequence[int]) -> list[Card]:
        """Samples with their labels.

        Raises:
            KeyError: A row of the data is not in the sample.
        """
        cards, places = [], [self._place_of[sample] for sample in samples]
        for place, opinions in zip(places, self._labels.opinions(places), strict=True):
            start = np.flatnonzero(self.sample.labels[place]).tolist()
            own = [each for each in opinions if each.reviewer == self.reviewer]
            order = list(range(len(self.sample.classes)))
            if self._scores is not None:
                order = np.argsort(-self._scores[place], kind="stable").tolist()
            order.sort(key=lambda column, start=start: column not in start)  # type: ignore[misc]
            card = Card(
                sample=self._data_rows[place],
                name=self.sample.ids[place],
                given=self._known[place][0],
                refused=self._known[place][1],
                content=self.contents.of(self._data_rows[place]),
                status=_agreed(opinions)[0],
                mine=own[0] if own else Opinion(self.reviewer, False, start),
                others=[each for each in opinions if each not in own],
                order=order,
            )
            cards.append(card)
        return cards

    def decide(self, sample: int, column: int, answer: Answer) -> Decision:
        """Keep whether a sample has a label. It is on the disk when this returns.

        Raises:
            KeyError: The sample or class is unknown.
            SpmlError: The database can't be written; nothing was kept.
        """
        if not 0 <= column < len(self.sample.classes):
            raise KeyError(column)
        return self._add(sample, self.sample.classes[column], answer)

    def complete(self, sample: int, *, complete: bool) -> Decision:
        """Keep whether all labels of a sample are given, as `decide` does."""
        return self._add(sample, COMPLETE, "yes" if complete else "no")

    def _add(self, sample: int, label: str, answer: Answer) -> Decision:
        file = self.sample.ids[self._place_of[sample]]
        return self.store.add(file, label, answer, self.reviewer, random_check=False)

    def undo(self) -> Undone | None:
        """Take back the newest answer of the reviewer, as `Review.undo` does; its label may be COMPLETE."""
        self._labels.follow()  # checks rows of other processes
        row_of = dict(zip(self.sample.ids, self._data_rows, strict=True))
        return undone(self.store.undo(self.reviewer), row_of)
