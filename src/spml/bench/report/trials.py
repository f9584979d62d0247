"""Scores of every trial of a comparison, not only of those that a mode selects."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ..rows import ORACLE, TEST, Row, best_epoch, column


class TrialScore(NamedTuple):
    """Result of one trial, at the epoch that a mode selects.

    Attributes:
        row: The run.
        mode: Selection mode.
        epoch: Selected epoch, or position on a path of penalties, from 0.
        value: Value by which it was selected.
        val: mAP on fully labelled validation samples; NaN if there are none.
        test: Test mAP.
    """

    row: Row
    mode: str
    epoch: int
    value: float
    val: float
    test: float


def trial_scores(rows: Iterable[Row], modes: Sequence[str]) -> list[TrialScore]:
    """Scores of all finished trials, in the order of `rows`; runs that lack the numbers of a mode are left
    out there."""
    scores = []
    for row in rows:
        for mode in modes:
            values = row.history.get(column(mode), [])
            if row.status != "done" or not values or any(map(math.isnan, values)):
                continue
            epoch = best_epoch(row.history, mode)
            val, test = (_at(row, name, epoch) for name in (column(ORACLE), TEST))
            scores.append(TrialScore(row, mode, epoch, values[epoch], val, test))
    return scores


def _at(row: Row, name: str, epoch: int) -> float:
    return row.history[name][epoch] if row.history.get(name) else math.nan
