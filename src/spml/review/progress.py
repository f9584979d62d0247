"""What the answers so far say about a list: its precision, and how much is still to be found in it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import betaincinv

from .answers import STATUSES
from .queue import Entries, Order

LEAST_CHECKS = 10
"""Answers to random checks from which on a precision is stated."""
LEVEL = 0.95
UNDECIDED, YES, NO, UNSURE, CONFLICT = (STATUSES.index(name) for name in STATUSES)


class Estimate(NamedTuple):
    """A number with its 95 % interval."""

    value: float
    low: float
    high: float


class Progress(NamedTuple):
    """Numbers about the entries of a selection.

    Attributes:
        listed: Number of entries.
        yes: Entries that were answered yes.
        no: Entries that were answered no.
        unsure: Entries that nobody answered yes or no, but somebody unsure.
        conflicts: Entries that one reviewer answered yes and another one no.
        samples: Number of samples that have such entries.
        checks: Random entries that were answered yes or no.
        checks_left_out: Random entries that were answered unsure, or in conflict.
        precision: Share of the entries that are right, from the random entries; None with fewer than
            `LEAST_CHECKS` of them.
        expected: Number of undecided entries that are right. An interval is stated with `precision` only.
        next_check: Sample of the first random entry without an answer; None if all are answered.
    """

    listed: int
    yes: int
    no: int
    unsure: int
    conflicts: int
    samples: int
    checks: int
    checks_left_out: int
    precision: Estimate | None
    expected: Estimate
    next_check: int | None


def measure(entries: Entries, order: Order, status: npt.NDArray[np.int8]) -> Progress:
    """Count the answers to a selection, and estimate its precision.

    The random entries are those at the beginning of the random order, up to the first one without an answer.
    Whether an entry was shown as a random check or at its rank does not matter: to leave out those of high
    rank would bias the sample. If all entries are answered, the precision is exact.

    Without a precision, `expected` is the sum of the probabilities p of the undecided entries. With it, the
    sum is multiplied by the precision over the mean p of the random entries.

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
    right = int((status[clear] == YES).sum())
    precision = _precision(right, len(clear), complete=not len(waiting))
    undecided = entries.probabilities[order.entries[chosen == UNDECIDED]]
    return Progress(
        listed=len(order.entries),
        yes=counts[YES],
        no=counts[NO],
        unsure=counts[UNSURE],
        conflicts=counts[CONFLICT],
        samples=len(order.samples),
        checks=len(clear),
        checks_left_out=len(answered) - len(clear),
        precision=precision,
        expected=_expected(undecided, precision, entries.probabilities[clear]),
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


def _expected(
    undecided: npt.NDArray[np.float64], precision: Estimate | None, checked: npt.NDArray[np.float64]
) -> Estimate:
    total = float(undecided.sum())
    if precision is None or not checked.mean():
        return Estimate(total, total, total)
    # No more entries can be right than there are.
    return Estimate(*(min(total * share / float(checked.mean()), len(undecided)) for share in precision))
