"""Numbers of a report, from the rows of a store; runs, files and tables are not touched here."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..rows import TEST, Pick, Row, SeriesKey, column, picks
from ..space import Range, Space, edges
from .bookkeeping import Bookkeeping, keep_books
from .statistics import (
    ALPHA,
    Picks,
    Ranking,
    SelectionLoss,
    Task,
    gap_closed,
    holm,
    last_epochs,
    paired_p,
    rank,
    selection_losses,
)  # fmt: skip
from .trials import TrialScore, trial_scores


class Spread(NamedTuple):
    """Mean and standard deviation (n - 1; NaN for one value) over n seeds or series."""

    mean: float
    sd: float
    n: int


@dataclass(frozen=True)
class Entry:
    """Result of a candidate on one task, selected by one mode.

    Attributes:
        picks: Run and epoch that the mode picks, by seed, in the order of seeds.
        test: Test mAP.
        last: Mean test mAP of last epochs, with the trial selected by its last epoch too; None if unknown.
        gap: Share of the gap between baseline and ceiling that is closed; None if the gap is too small.
        difference: Difference to the baseline, paired by seed; None without a common seed.
        p: Holm-corrected p-value of the difference to the best; None for the best itself, and without
            comparable draws.
        best: Whether it is the best of the ranked candidates.
        params: By searched setting, the median of the picked values, or the most frequent one if they have no
            order.
        edges: By (setting, side), how often a picked trial lies at the edge of its range, or a picked
            solution at an end of its path of penalties.
        trials: Smallest and largest number of finished runs of a series.
    """

    picks: Mapping[int, Pick]
    test: Spread
    last: float | None
    gap: float | None
    difference: Spread | None
    p: float | None
    best: bool
    params: Mapping[str, Any]
    edges: Mapping[tuple[str, str], int]
    trials: tuple[int, int]

    @property
    def tied(self) -> bool:
        """Whether it is another candidate than the best and does not differ significantly from it."""
        return self.p is not None and self.p >= ALPHA


@dataclass(frozen=True)
class Report:
    """All numbers of a report.

    Attributes:
        modes: Selection modes, in the order of the columns.
        baseline: Candidate that the gap starts at, if any.
        ceiling: Candidate that the gap ends at, if any.
        reference_only: Candidates that are listed, but neither ranked nor ever the best.
        entries: Results by task, then by (candidate, mode).
        candidates: By task, the candidates from the highest mAP by the first mode to the lowest.
        rankings: Ranking by mode.
        losses: Loss of each mode except `oracle` against `oracle`; empty without `oracle`.
        books: Data, code, cost, failed and missing runs.
        trials: Scores of every trial by every mode.
    """

    modes: tuple[str, ...]
    baseline: str | None
    ceiling: str | None
    reference_only: frozenset[str]
    entries: Mapping[Task, Mapping[tuple[str, str], Entry]]
    candidates: Mapping[Task, tuple[str, ...]]
    rankings: Mapping[str, Ranking]
    losses: tuple[SelectionLoss, ...]
    books: Bookkeeping
    trials: tuple[TrialScore, ...] = ()


def build_report(
    rows: Sequence[Row],
    *,
    modes: Sequence[str],
    baseline: str | None = None,
    ceiling: str | None = None,
    reference_only: Sequence[str] = (),
    expected: Sequence[SeriesKey] = (),
    spaces: Mapping[str, Space] | None = None,
) -> Report:
    """Compute all numbers of a report. The order of `rows` does not matter.

    Args:
        rows: Rows of finished runs, `done` or `failed`.
        modes: Selection modes, in the order of the columns.
        baseline: Candidate that the gap starts at, and that differences are taken to.
        ceiling: Candidate that the gap ends at.
        reference_only: Candidates that are listed, but neither ranked nor ever the best.
        expected: Series that should have a result, in addition to those of `rows`. Empty = every candidate
            that occurs, on every seed of every task that occurs.
        spaces: Search space of each candidate; without it no edges are reported.
    """
    rows = sorted(rows, key=lambda row: (row.series, row.trial, row.key))
    picked, ends = _usable_picks(rows, modes), last_epochs(rows, modes)
    unranked = frozenset(reference_only)
    runs: dict[SeriesKey, int] = {}
    for row in rows:
        if row.status == "done":
            runs[row.series] = runs.get(row.series, 0) + 1
    entries: dict[Task, dict[tuple[str, str], Entry]] = {}
    for task in sorted({(series.data, series.hiding) for series in picked}):
        of_task = {series: by for series, by in picked.items() if (series.data, series.hiding) == task}
        entries[task] = {}
        for mode in modes:
            by_name = _entries(of_task, mode, runs, ends, baseline, ceiling, unranked, spaces or {})
            entries[task].update({(name, mode): entry for name, entry in by_name.items()})
    return Report(
        modes=tuple(modes),
        baseline=baseline,
        ceiling=ceiling,
        reference_only=unranked,
        entries=entries,
        candidates={task: _order(by_key, modes) for task, by_key in entries.items()},
        rankings={mode: _ranking(entries, mode, baseline, ceiling, unranked) for mode in modes},
        losses=selection_losses(picked, modes, unranked),
        books=keep_books(rows, picked, modes, expected, unranked),
        trials=tuple(trial_scores(rows, modes)),
    )


def _ranking(
    entries: Mapping[Task, Mapping[tuple[str, str], Entry]],
    mode: str,
    baseline: str | None,
    ceiling: str | None,
    unranked: frozenset[str],
) -> Ranking:
    means = {
        task: {name: entry.test.mean for (name, by), entry in by_key.items() if by == mode}
        for task, by_key in entries.items()
    }
    return rank(
        {task: {n: mean for n, mean in by.items() if n not in unranked} for task, by in means.items()},
        {task: (by[baseline], by[ceiling]) for task, by in means.items() if baseline in by and ceiling in by},
    )


def _usable_picks(rows: Sequence[Row], modes: Sequence[str]) -> dict[SeriesKey, dict[str, Pick]]:
    """As `picks`, but a run that lacks the numbers of a mode or its test mAP is missing only there."""
    result: dict[SeriesKey, dict[str, Pick]] = {}
    for mode in modes:
        name = column(mode)
        usable = [
            row
            for row in rows
            if row.status == "done"
            and TEST in row.history
            and row.history.get(name)
            and not any(map(math.isnan, row.history[name]))
        ]
        for series, by_mode in picks(usable, [mode]).items():
            if math.isfinite(by_mode[mode].test):
                result.setdefault(series, {})[mode] = by_mode[mode]
    return {series: result[series] for series in sorted(result)}


def _entries(
    of_task: Picks,
    mode: str,
    runs: Mapping[SeriesKey, int],
    ends: Mapping[tuple[SeriesKey, str], float],
    baseline: str | None,
    ceiling: str | None,
    unranked: frozenset[str],
    spaces: Mapping[str, Space],
) -> dict[str, Entry]:
    """Entries of one task by one mode."""
    by_seed: dict[str, dict[int, Pick]] = {}
    trials: dict[str, list[int]] = {}
    last: dict[str, list[float | None]] = {}
    for series, by_mode in of_task.items():
        if mode in by_mode:
            by_seed.setdefault(series.candidate, {})[series.seed] = by_mode[mode]
            trials.setdefault(series.candidate, []).append(runs[series])
            last.setdefault(series.candidate, []).append(ends.get((series, mode)))
    tests = {name: spread(pick.test for pick in seeds.values()) for name, seeds in by_seed.items()}
    best = _best(tests, unranked)
    p_values = _p_values(by_seed, best, unranked)
    low = tests[baseline].mean if baseline in tests else math.nan
    high = tests[ceiling].mean if ceiling in tests else math.nan
    base = by_seed.get(baseline or "", {})
    entries = {}
    for name, seeds in by_seed.items():
        paired = [seeds[seed].test - base[seed].test for seed in seeds if seed in base and name != baseline]
        entries[name] = Entry(
            picks=seeds,
            test=tests[name],
            last=_mean(last[name]),
            gap=gap_closed(tests[name].mean, low, high),
            difference=spread(paired) if paired else None,
            p=p_values.get(name),
            best=name == best,
            params=_medians([pick.row.params for pick in seeds.values()]),
            edges=_edges(seeds.values(), spaces.get(name, {})),
            trials=(min(trials[name]), max(trials[name])),
        )
    return entries


def spread(values: Iterable[float]) -> Spread:
    """Mean and standard deviation of at least one value."""
    array = np.fromiter(values, np.float64)
    deviation = float(array.std(ddof=1)) if len(array) > 1 else math.nan
    return Spread(float(array.mean()), deviation, len(array))


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if len(known) == len(values) else None


def _best(tests: Mapping[str, Spread], unranked: frozenset[str]) -> str | None:
    """Ranked candidate with the highest mean among those with the most seeds, so that none wins by a lucky
    seed."""
    ranked = {name: test for name, test in tests.items() if name not in unranked}
    return min(ranked, key=lambda name: (-ranked[name].n, -ranked[name].mean, name), default=None)


def _p_values(
    by_seed: Mapping[str, Mapping[int, Pick]], best: str | None, unranked: frozenset[str]
) -> dict[str, float]:
    """Holm-corrected p-values of the differences to the best."""
    names, values = [], []
    for name, seeds in by_seed.items():
        if best is None or name == best or name in unranked:
            continue
        pairs = [(by_seed[best][seed], seeds[seed]) for seed in seeds if seed in by_seed[best]]
        if len({len(pick.draws) for pair in pairs for pick in pair}) != 1 or len(pairs[0][0].draws) < 2:
            continue
        names.append(name)
        values.append(
            paired_p([a.test - b.test for a, b in pairs], np.stack([a.draws - b.draws for a, b in pairs]))
        )
    return dict(zip(names, holm(values).tolist(), strict=True))


def _medians(params: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    result = {}
    for name in sorted({name for picked in params for name in picked}):
        values = [picked[name] for picked in params if name in picked]
        if all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values):
            result[name] = sorted(values)[(len(values) - 1) // 2]  # the lower median, a value that was picked
        else:
            texts = [repr(value) for value in values]
            result[name] = min(values, key=lambda value: (-texts.count(repr(value)), repr(value)))
    return result


def _edges(picked: Iterable[Pick], space: Space) -> dict[tuple[str, str], int]:
    counts: dict[tuple[str, str], int] = {}
    for pick in picked:
        at_edge = edges(space, pick.row.params)
        path = pick.row.history.get("penalty", [])
        if path and math.isfinite(path[pick.epoch]):  # an infinite penalty can't be exceeded
            at_edge |= edges({"penalty": Range(choices=tuple(path))}, {"penalty": path[pick.epoch]})
        for edge in at_edge.items():
            counts[edge] = counts.get(edge, 0) + 1
    return dict(sorted(counts.items()))


def _order(by_key: Mapping[tuple[str, str], Entry], modes: Sequence[str]) -> tuple[str, ...]:
    def sort_key(name: str) -> tuple[float, str]:
        means = [by_key[name, mode].test.mean for mode in modes if (name, mode) in by_key]
        return -means[0], name

    return tuple(sorted({name for name, _ in by_key}, key=sort_key))
