"""What a selection mode loses on the test samples against selection by full labels, and what the last epoch
loses against the best."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ..rows import OBSERVED, ORACLE, TEST, Pick, Row, SeriesKey, column


class SelectionLoss(NamedTuple):
    """Mean over series of test mAP(pick of `oracle`) - test mAP(pick of the mode).

    Attributes:
        mode: which loses.
        data: name of the data set; None = all places together.
        hiding: name of the way of hiding labels; None = all places together.
        within: mean over candidates and seeds, trial and epoch being selected; None if none has both modes.
        series: how many those are.
        among: the same where the candidate is selected as well: mean over seeds. By `observed` only among
            those that are told the same K, which scales the SP-score.
        pools: how many those are.
        agreement: in how many of `pools` both modes select the same candidate.
    """

    mode: str
    data: str | None
    hiding: str | None
    within: float | None
    series: int
    among: float | None
    pools: int
    agreement: int


class _Pool(NamedTuple):
    """What one seed of one place gives: a loss per candidate, and that of choosing among them."""

    within: list[float]
    among: float
    same: bool


def selection_losses(
    chosen: Mapping[SeriesKey, Mapping[str, Pick]], modes: Sequence[str], outside: frozenset[str]
) -> tuple[SelectionLoss, ...]:
    """The losses of each mode, per place and over all series (the line without a place).

    Args:
        chosen: what each mode picks from each series.
        modes: `oracle` must be among them, or nothing is returned.
        outside: candidates that nobody could select, such as those trained on full labels.
    """
    if ORACLE not in modes:
        return ()
    result = []
    for mode in modes:
        if mode == ORACLE:
            continue
        grouped: dict[tuple[str, str, int], dict[str, Mapping[str, Pick]]] = {}
        for series, found in chosen.items():
            if series.candidate not in outside and mode in found and ORACLE in found:
                grouped.setdefault((series.data, series.hiding, series.seed), {})[series.candidate] = found
        pools = {key: _pool(found, mode) for key, found in grouped.items()}
        for data, hiding in sorted({key[:2] for key in pools}):
            here = [pool for key, pool in pools.items() if key[:2] == (data, hiding)]
            result.append(_mean(mode, data, hiding, here))
        result.append(_mean(mode, None, None, list(pools.values())))
    return tuple(result)


def _pool(found: Mapping[str, Mapping[str, Pick]], mode: str) -> _Pool:
    told = {name: picks[mode].row.config.get("mean_labels") for name, picks in found.items()}
    usual = Counter(told.values()).most_common(1)[0][0]

    def best(by: str) -> str:
        """The candidate whose picked run and epoch have the highest value of the mode's column."""
        scores = {
            name: p[by].row.history[column(by)][p[by].epoch]
            for name, p in found.items()
            if mode != OBSERVED or told[name] == usual
        }
        return min(scores, key=lambda name: (-scores[name], name))

    within = [picks[ORACLE].test - picks[mode].test for picks in found.values()]
    full, own = best(ORACLE), best(mode)
    return _Pool(within, found[full][ORACLE].test - found[own][mode].test, full == own)


def _mean(mode: str, data: str | None, hiding: str | None, pools: Sequence[_Pool]) -> SelectionLoss:
    within = [loss for pool in pools for loss in pool.within]
    return SelectionLoss(
        mode,
        data,
        hiding,
        float(np.mean(within)) if within else None,
        len(within),
        float(np.mean([pool.among for pool in pools])) if pools else None,
        len(pools),
        sum(pool.same for pool in pools),
    )


def last_epochs(rows: Iterable[Row], modes: Sequence[str]) -> dict[tuple[SeriesKey, str], float]:
    """Test mAP of the last epoch of the trial that a mode prefers by its last epoch, for trained series.

    What is solved has no epochs and is left out. If a run lacks the test of its last epoch, nothing is known:
    the runs that have it may be those in which it was the best.
    """
    found: dict[SeriesKey, list[Row]] = {}
    for row in sorted(rows, key=lambda row: row.trial):
        if row.status == "done" and "penalty" not in row.history and len(row.history.get(TEST, [])) > 1:
            if math.isnan(row.history[TEST][-1]):
                return {}
            found.setdefault(row.series, []).append(row)
    result = {}
    for series, trials in found.items():
        for mode in modes:
            name = column(mode)
            if all(row.history.get(name) for row in trials):
                chosen = max(trials, key=lambda row: row.history[name][-1])
                result[series, mode] = chosen.history[TEST][-1]
    return result
