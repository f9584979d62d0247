"""Answers that stand, and what they say about a list: its precision, and how much is still to be found."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import betaincinv

from ..common.errors import InputError
from ..common.safe import quote
from .queue import Entries, Order
from .store import Decision

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
        self.last = 0
        """Number of the newest row that has been followed."""

    def follow(self, decisions: Iterable[Decision]) -> set[Pair]:
        """Take in the next rows of the log, and return the pairs that they are about."""
        pairs = set()
        for decision in decisions:
            pair = decision.file, decision.label
            of_reviewer = self._standing.setdefault(pair, {}).setdefault(decision.reviewer, [])
            if decision.undoes is None:
                of_reviewer.append(decision)
            else:
                of_reviewer[:] = [answer for answer in of_reviewer if answer.id != decision.undoes]
            pairs.add(pair)
            self.last = decision.id
        return pairs

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
    precision = _precision(right, len(clear), complete=not len(waiting))
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


def _precision(right: int, count: int, *, complete: bool) -> Estimate | None:
    """Share of right entries with the interval of Clopper and Pearson (1934)."""
    if complete and count:
        return Estimate(right / count, right / count, right / count)
    if count < LEAST_CHECKS:
        return None
    tail = (1 - LEVEL) / 2
    low = betaincinv(right, count - right + 1, tail) if right else 0.0
    high = betaincinv(right + 1, count - right, 1 - tail) if right < count else 1.0
    return Estimate(right / count, float(low), float(high))
