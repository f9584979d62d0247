"""Answers that stand, and what they say about a list: its precision, and how much is still to be found."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import betaincinv

from ..audit.folder import MISSING, WRONG, MissingLabel, WrongLabel
from ..common.draws import permutation
from ..common.errors import InputError
from ..common.safe import quote
from ..data.records import Records
from ..labels import ObservedLabels
from .store import Decision

# -- the order of samples: by rank, with random checks mixed in ------------------------------------------


CHECK_EVERY = 5  # every fifth card is that of a random entry
IntArray = npt.NDArray[np.int64]


ListName = Literal["missing", "wrong"]
"""A list of an audit: labels that are probably missing, or given labels that look wrong."""


class Entries(NamedTuple):
    """Entries of a list, by rank."""

    rows: IntArray  # sample of each entry, int64 (M,)
    columns: IntArray  # class of each entry, int64 (M,)
    probabilities: npt.NDArray[np.float64]  # of a missing label, or confidence in a given one, float64 (M,)
    shuffled: IntArray  # any beginning of it is a random sample of the list, int64 (M,)
    windows: Sequence[tuple[float, ...]]  # of each entry, as `MissingLabel.window`
    by_name: Sequence[str]  # of each entry, as `MissingLabel.by_name`
    name: ListName = "missing"


OrderName = Literal["rank", "class", "unsure"]
"""Order of entries: most probable first; the best of every class, then the second of every class, and so on;
or least sure first, those whose probability is nearest to a half."""


class Selection(NamedTuple):
    """Part of the list that a reviewer looks at, and its order."""

    column: int | None = None  # only entries of this class; None = of all classes
    minimum: float = 0.0  # only entries of at least this probability
    list: ListName = "missing"
    order: OrderName = "rank"


class Order(NamedTuple):
    """Order of the samples that have an entry in a selection."""

    entries: IntArray  # of the selection by rank, int64 (m,)
    shuffled: IntArray  # the same entries in random order, int64 (m,)
    samples: IntArray  # in the order in which they are shown, int64 (n,)
    checks: IntArray  # for each sample, the entry whose turn as a random check it is, or -1


def make_entries(
    listed: Sequence[MissingLabel] | Sequence[WrongLabel],
    records: Records,
    seed: str,
    name: ListName = "missing",
) -> Entries:
    """Look up the samples and classes of a list.

    Args:
        listed: Rows of `missing.csv`, or of `wrong.csv`.
        records: Data that they are about.
        seed: The same seed gives the same random order, so that several servers agree about it.
        name: Which list it is.

    Raises:
        InputError: A row names a sample that is not in the data, a missing label that is known, a wrong label
            that is not given, or a label that is listed twice; or samples have the same name.
    """
    row_of = {name: row for row, name in enumerate(records.ids)}
    if len(row_of) < len(records.ids):
        raise InputError(f"{records.source}: some samples have the same name. Give each one of its own.")
    column_of = {name: column for column, name in enumerate(records.classes)}
    rows = np.array([row_of.get(entry.file, -1) for entry in listed], np.int64)
    columns = np.array([column_of[entry.label] for entry in listed], np.int64)
    pairs = rows * len(records.classes) + columns
    first = np.zeros(len(pairs), np.bool_)
    first[np.unique(pairs, return_index=True)[1]] = True
    values, file = values_at(records.labels, rows, columns), MISSING if name == "missing" else WRONG
    for refused, problem in (
        (rows < 0, "there is no sample {0.file!r} in the data"),
        ((values != 0) & (name == "missing"), "{0.label!r} is a known label of {0.file!r}"),
        ((values != 1) & (name == "wrong"), "{0.label!r} is not a given label of {0.file!r}"),
        (~first, "{0.label!r} of {0.file!r} is listed twice"),
    ):
        if refused.any():
            row = int(np.argmax(refused))
            raise InputError(f"{file}: row {row + 2}: {problem.format(listed[row])}. Run spml audit again.")
    likely = [each.probability if isinstance(each, MissingLabel) else each.confidence for each in listed]
    windows = [each.window if isinstance(each, MissingLabel) else () for each in listed]
    by_name = [each.by_name if isinstance(each, MissingLabel) else "" for each in listed]
    shuffled = permutation(len(rows), "review", seed)
    return Entries(rows, columns, np.array(likely, np.float64), shuffled, windows, by_name, name)


def values_at(labels: ObservedLabels, rows: IntArray, columns: IntArray) -> npt.NDArray[np.int8]:
    """The values {-1, 0, +1} of some labels, int8 (M,)."""
    if not len(rows):
        return np.empty(0, np.int8)  # which SciPy refuses to look up
    return np.asarray(labels.to_csr()[rows, columns], np.int8).ravel()


def make_order(entries: Entries, selection: Selection) -> Order:
    """Order the samples of a selection: by the first of their entries, every fifth one by the random order.

    Args:
        entries: All entries.
        selection: Part of them, and their order.
    """
    chosen = entries.probabilities >= selection.minimum
    if selection.column is not None:
        chosen &= entries.columns == selection.column
    ranked = np.flatnonzero(chosen)
    shuffled = entries.shuffled[chosen[entries.shuffled]]
    turns = ranked
    if selection.order == "class":
        # By the place among the entries of the class; of equal places, the higher rank first.
        own = entries.columns[ranked]
        grouped = np.argsort(own, kind="stable")
        starts = np.searchsorted(own[grouped], own[grouped], side="left")
        place = np.empty(len(ranked), np.int64)
        place[grouped] = np.arange(len(ranked)) - starts
        turns = ranked[np.argsort(place, kind="stable")]
    elif selection.order == "unsure":
        turns = ranked[np.argsort(np.abs(entries.probabilities[ranked] - 0.5), kind="stable")]
    orders = []  # (sample, entry) of the first entry of each sample
    for each in (turns, shuffled):
        firsts = each[np.sort(np.unique(entries.rows[each], return_index=True)[1])]
        orders.append(zip(entries.rows[firsts].tolist(), firsts.tolist(), strict=True))
    by_rank, by_chance = orders
    checks: dict[int, int] = {}  # by sample, in the order in which they are shown
    for position in range(1, len(np.unique(entries.rows[ranked])) + 1):
        random = position % CHECK_EVERY == 0
        sample, entry = next(pair for pair in (by_chance if random else by_rank) if pair[0] not in checks)
        checks[sample] = entry if random else -1
    return Order(ranked, shuffled, np.array([*checks], np.int64), np.array([*checks.values()], np.int64))


# -- answers that stand ----------------------------------------------------------------------------------


Status = Literal["undecided", "yes", "no", "unsure", "conflict"]
STATUSES: tuple[Status, ...] = ("undecided", "yes", "no", "unsure", "conflict")

Pair = tuple[str, str]
"""Name of a sample and of a class."""

LEAST_CHECKS = 10
"""Answers to random checks from which on a precision is stated."""
LEVEL = 0.95
UNDECIDED, YES, NO, UNSURE, CONFLICT = (STATUSES.index(name) for name in STATUSES)


class Answers:
    """Answers that stand, from a log that is read once and followed.

    A later answer of the same reviewer replaces an earlier one, and an undo brings the earlier one back.
    Answers of several reviewers stand next to each other.
    """

    def __init__(self) -> None:
        # Of each pair, the answers of each reviewer that have not been taken back, the oldest first.
        self._standing: dict[Pair, dict[str, list[Decision]]] = {}
        self._labels_of: dict[str, set[str]] = {}
        self.last = 0
        """Number of the newest row that has been followed."""

    def follow(self, decisions: Iterable[Decision]) -> set[Pair]:
        """Take in the next rows of the log, and return the pairs that they are about."""
        pairs = set()
        for decision in decisions:
            pair = decision.file, decision.label
            self._labels_of.setdefault(decision.file, set()).add(decision.label)
            of_reviewer = self._standing.setdefault(pair, {}).setdefault(decision.reviewer, [])
            if decision.undoes is None:
                of_reviewer.append(decision)
            else:
                of_reviewer[:] = [answer for answer in of_reviewer if answer.id != decision.undoes]
            pairs.add(pair)
            self.last = decision.id
        return pairs

    def labels_of(self, file: str) -> Collection[str]:
        """Names of the classes that a sample has, or had, an answer to."""
        return self._labels_of.get(file, ())

    def of(self, pair: Pair) -> list[Decision]:
        """The newest answer of each reviewer to a pair, the oldest of them first."""
        newest = [answers[-1] for answers in self._standing.get(pair, {}).values() if answers]
        return sorted(newest, key=lambda decision: decision.id)

    def status(self, pair: Pair) -> Status:
        """Joint result of the answers to a pair; `conflict` if one says yes and another one no."""
        answers = {decision.answer for decision in self.of(pair)}
        if {"yes", "no"} <= answers:
            return "conflict"
        for status in ("yes", "no", "unsure"):
            if status in answers:
                return status
        return "undecided"

    def decided(self) -> Iterator[tuple[Pair, Status]]:
        """Pairs that have an answer, and what their answers amount to."""
        for pair in self._standing:
            status = self.status(pair)
            if status != "undecided":
                yield pair, status


def check_names(
    path: Path, decisions: Iterable[Decision], samples: Collection[str], classes: Collection[str]
) -> None:
    """Check that decisions are about samples and classes of the data.

    Args:
        path: Database of the decisions, for the message.
        decisions: Its rows.
        samples: Names of the samples of the data.
        classes: Names of its classes.

    Raises:
        InputError: A row is about something else.
    """
    for decision in decisions:
        for what, name, known in (("sample", decision.file, samples), ("class", decision.label, classes)):
            if name not in known:
                raise InputError(
                    f"{path}: is damaged: row {decision.id} is about the {what} {quote(name)}, which "
                    "the data does not have. Restore a copy, or move it away to begin again."
                )


class Estimate(NamedTuple):
    """A number with its 95 % interval."""

    value: float
    low: float
    high: float


class Progress(NamedTuple):
    """Numbers about the entries of a selection, and of the samples that have them.

    Attributes:
        hits: Entries that are right: those answered yes; of given labels that look wrong, those answered no.
        checks: Random entries that were answered yes or no.
        checks_left_out: Random entries that were answered unsure, or in conflict.
        precision: Share of the entries that are right, from the random entries; None with fewer than
            `LEAST_CHECKS` of them.
        expected: Number of undecided entries that are right. An interval is stated with `precision` only; of
            given labels that look wrong, which have no probability, nothing is stated without it.
        next_check: Sample of the first random entry without an answer; None if all are answered.
    """

    listed: int
    yes: int
    no: int
    unsure: int
    conflicts: int
    hits: int
    samples: int
    checks: int
    checks_left_out: int
    precision: Estimate | None
    expected: Estimate | None
    next_check: int | None


def measure(entries: Entries, order: Order, status: npt.NDArray[np.int8]) -> Progress:
    """Count the answers to a selection, and estimate its precision.

    The random entries are those at the beginning of the random order, up to the first one without an answer.
    Whether an entry was shown as a random check or at its rank does not matter: to leave out those of high
    rank would bias the sample. If all entries are answered, the precision is exact.

    Without a precision, `expected` is the sum of the probabilities p of the undecided entries. With it, the
    sum is multiplied by the precision over the mean p of the random entries. The confidence in a given label
    is no probability: there `expected` is the precision times the number of undecided entries.

    Args:
        entries: All entries.
        order: Order of the selection.
        status: Position in `STATUSES` of each entry, int8 (M,).
    """
    chosen = status[order.entries]
    counts = np.bincount(chosen, minlength=len(STATUSES)).tolist()
    waiting = np.flatnonzero(status[order.shuffled] == UNDECIDED)
    answered = order.shuffled[: waiting[0]] if len(waiting) else order.shuffled
    clear = answered[np.isin(status[answered], (YES, NO))]
    hit, weights = YES, entries.probabilities
    if entries.name == "wrong":
        hit, weights = NO, np.ones_like(weights)
    right = int((status[clear] == hit).sum())
    precision, count = None, len(clear)
    if count and not len(waiting):
        precision = Estimate(*[right / count] * 3)
    elif count >= LEAST_CHECKS:  # with the interval of Clopper and Pearson (1934)
        tail = (1 - LEVEL) / 2
        low = betaincinv(right, count - right + 1, tail) if right else 0.0
        high = betaincinv(right + 1, count - right, 1 - tail) if right < count else 1.0
        precision = Estimate(right / count, float(low), float(high))
    undecided = weights[order.entries[chosen == UNDECIDED]]
    total, mean = float(undecided.sum()), float(weights[clear].mean()) if len(clear) else 0.0
    expected = None if entries.name == "wrong" else Estimate(total, total, total)
    if precision is not None and mean:
        # No more entries can be right than there are.
        expected = Estimate(*(min(total * share / mean, len(undecided)) for share in precision))
    return Progress(
        listed=len(order.entries),
        yes=counts[YES],
        no=counts[NO],
        unsure=counts[UNSURE],
        conflicts=counts[CONFLICT],
        hits=counts[hit],
        samples=len(order.samples),
        checks=len(clear),
        checks_left_out=len(answered) - len(clear),
        precision=precision,
        expected=expected,
        next_check=int(entries.rows[order.shuffled[waiting[0]]]) if len(waiting) else None,
    )
