"""From the rows of a store to the numbers of a report: nothing is trained, read or written here."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..rows import TEST, Pick, Row, SeriesKey, column, picks
from ..space import Range, Space, edges
from .accounts import Account, account
from .rankings import ALPHA, Place, Ranking, rank
from .selecting import SelectionLoss, last_epochs, selection_losses
from .statistics import gap_closed, holm, paired_p

Picks = Mapping[SeriesKey, Mapping[str, Pick]]


class Spread(NamedTuple):
    """Mean and standard deviation (n - 1; NaN for one value) over so many seeds or series."""

    mean: float
    sd: float
    n: int


@dataclass(frozen=True)
class Entry:
    """A candidate on a data set under a way of hiding labels, selected by one mode.

    Attributes:
        picks: what the mode takes from the series of each seed, in the order of seeds.
        test: mAP on the test samples.
        last: mean of the same where trials are compared by their last epochs, of which none is selected;
            None where that is not known.
        gap: share of the gap between baseline and ceiling that is closed; None where that says nothing.
        difference: to the baseline, paired by seed; None without a common seed.
        p: Holm-corrected, against the best; None for the best itself, and without draws to compare.
        best: whether it is the best of those that are ranked.
        params: per searched setting the median of what was picked, or the most frequent if it has no order.
        edges: how often a picked trial lies at the edge of its range, or a picked solution at an end of its
            path of penalties, by (setting, side).
        trials: finished runs of a series, the fewest and the most.
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
    def level(self) -> bool:
        """Not significantly different from the best, and not it."""
        return self.p is not None and self.p >= ALPHA


@dataclass(frozen=True)
class Report:
    """All numbers of a report.

    Attributes:
        modes: by what trial and epoch are selected, in the order of the columns.
        baseline: name of the candidate that the gap starts at, if any.
        ceiling: name of the candidate that the gap ends at, if any.
        reference_only: candidates that are shown, but neither ranked nor ever the best.
        entries: by place, then by (candidate, mode).
        candidates: by place, the order of its table: from the highest mAP by the first mode to the lowest.
        rankings: by mode.
        losses: what each mode but `oracle` loses against it; empty without `oracle`.
        account: data, code, cost, failed and missing runs.
    """

    modes: tuple[str, ...]
    baseline: str | None
    ceiling: str | None
    reference_only: frozenset[str]
    entries: Mapping[Place, Mapping[tuple[str, str], Entry]]
    candidates: Mapping[Place, tuple[str, ...]]
    rankings: Mapping[str, Ranking]
    losses: tuple[SelectionLoss, ...]
    account: Account


def build(
    rows: Sequence[Row],
    *,
    modes: Sequence[str],
    baseline: str | None = None,
    ceiling: str | None = None,
    reference_only: Sequence[str] = (),
    expected: Sequence[SeriesKey] = (),
    spaces: Mapping[str, Space] | None = None,
) -> Report:
    """All numbers of a report. The order of `rows` does not matter.

    Args:
        rows: of finished runs, `done` or `failed`.
        modes: selection modes, in the order of the columns.
        baseline: candidate that the gap starts at, and to which differences are taken.
        ceiling: candidate that the gap ends at.
        reference_only: candidates that are shown, but neither ranked nor ever the best.
        expected: series that should be there; those of `rows` always belong to them. Empty = every candidate
            that occurs, on every seed of every place that occurs.
        spaces: what was searched for each candidate; without it no edge is told.
    """
    rows = sorted(rows, key=lambda row: (row.series, row.trial, row.key))
    chosen, ends = _picks(rows, modes), last_epochs(rows, modes)
    outside = frozenset(reference_only)
    runs: dict[SeriesKey, int] = {}
    for row in rows:
        if row.status == "done":
            runs[row.series] = runs.get(row.series, 0) + 1
    entries: dict[Place, dict[tuple[str, str], Entry]] = {}
    for place in sorted({(series.data, series.hiding) for series in chosen}):
        here = {series: found for series, found in chosen.items() if (series.data, series.hiding) == place}
        entries[place] = {}
        for mode in modes:
            found = _entries(here, mode, runs, ends, baseline, ceiling, outside, spaces or {})
            entries[place].update({(name, mode): entry for name, entry in found.items()})
    return Report(
        modes=tuple(modes),
        baseline=baseline,
        ceiling=ceiling,
        reference_only=outside,
        entries=entries,
        candidates={place: _order(found, modes) for place, found in entries.items()},
        rankings={mode: _ranking(entries, mode, baseline, ceiling, outside) for mode in modes},
        losses=selection_losses(chosen, modes, outside),
        account=account(rows, chosen, modes, expected, outside),
    )


def _ranking(
    entries: Mapping[Place, Mapping[tuple[str, str], Entry]],
    mode: str,
    baseline: str | None,
    ceiling: str | None,
    outside: frozenset[str],
) -> Ranking:
    means = {
        place: {name: entry.test.mean for (name, by), entry in found.items() if by == mode}
        for place, found in entries.items()
    }
    return rank(
        {place: {n: mean for n, mean in here.items() if n not in outside} for place, here in means.items()},
        {place: (here[baseline], here[ceiling]) for place, here in means.items()
         if baseline in here and ceiling in here},
    )  # fmt: skip


def _picks(rows: Sequence[Row], modes: Sequence[str]) -> dict[SeriesKey, dict[str, Pick]]:
    """As `picks`, but a run or a value of the test that is not there costs its mode only."""
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
        for series, found in picks(usable, [mode]).items():
            if math.isfinite(found[mode].test):
                result.setdefault(series, {})[mode] = found[mode]
    return {series: result[series] for series in sorted(result)}


def _entries(
    here: Picks,
    mode: str,
    runs: Mapping[SeriesKey, int],
    ends: Mapping[tuple[SeriesKey, str], float],
    baseline: str | None,
    ceiling: str | None,
    outside: frozenset[str],
    spaces: Mapping[str, Space],
) -> dict[str, Entry]:
    """The entries of one place by one mode."""
    taken: dict[str, dict[int, Pick]] = {}
    trials: dict[str, list[int]] = {}
    last: dict[str, list[float | None]] = {}
    for series, found in here.items():
        if mode in found:
            taken.setdefault(series.candidate, {})[series.seed] = found[mode]
            trials.setdefault(series.candidate, []).append(runs[series])
            last.setdefault(series.candidate, []).append(ends.get((series, mode)))
    tests = {name: spread(pick.test for pick in found.values()) for name, found in taken.items()}
    best = _best(tests, outside)
    p_values = _p_values(taken, best, outside)
    low = tests[baseline].mean if baseline in tests else math.nan
    high = tests[ceiling].mean if ceiling in tests else math.nan
    base = taken.get(baseline or "", {})
    entries = {}
    for name, picked in taken.items():
        common = [picked[seed].test - base[seed].test for seed in picked if seed in base and name != baseline]
        entries[name] = Entry(
            picks=picked,
            test=tests[name],
            last=_mean(last[name]),
            gap=gap_closed(tests[name].mean, low, high),
            difference=spread(common) if common else None,
            p=p_values.get(name),
            best=name == best,
            params=_middle([pick.row.params for pick in picked.values()]),
            edges=_edges(picked.values(), spaces.get(name, {})),
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


def _best(tests: Mapping[str, Spread], outside: frozenset[str]) -> str | None:
    """The highest mean of those with the most seeds, so that none wins by a lucky seed; None if none is
    ranked."""
    ranked = {name: found for name, found in tests.items() if name not in outside}
    return min(ranked, key=lambda name: (-ranked[name].n, -ranked[name].mean, name), default=None)


def _p_values(
    taken: Mapping[str, Mapping[int, Pick]], best: str | None, outside: frozenset[str]
) -> dict[str, float]:
    """Holm-corrected p-values against the best."""
    names, values = [], []
    for name, found in taken.items():
        if best is None or name == best or name in outside:
            continue
        pairs = [(taken[best][seed], found[seed]) for seed in found if seed in taken[best]]
        if len({len(pick.draws) for pair in pairs for pick in pair}) != 1 or len(pairs[0][0].draws) < 2:
            continue
        names.append(name)
        values.append(
            paired_p([a.test - b.test for a, b in pairs], np.stack([a.draws - b.draws for a, b in pairs]))
        )
    return dict(zip(names, holm(values).tolist(), strict=True))


def _middle(params: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    result = {}
    for name in sorted({name for found in params for name in found}):
        values = [found[name] for found in params if name in found]
        if all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values):
            result[name] = sorted(values)[(len(values) - 1) // 2]  # one that was picked
        else:
            texts = [repr(value) for value in values]
            result[name] = min(values, key=lambda value: (-texts.count(repr(value)), repr(value)))
    return result


def _edges(found: Iterable[Pick], space: Space) -> dict[tuple[str, str], int]:
    counts: dict[tuple[str, str], int] = {}
    for pick in found:
        at = edges(space, pick.row.params)
        path = pick.row.history.get("penalty", [])
        if path and math.isfinite(path[pick.epoch]):  # nothing lies beyond an infinite one
            at |= edges({"penalty": Range(choices=tuple(path))}, {"penalty": path[pick.epoch]})
        for edge in at.items():
            counts[edge] = counts.get(edge, 0) + 1
    return dict(sorted(counts.items()))


def _order(found: Mapping[tuple[str, str], Entry], modes: Sequence[str]) -> tuple[str, ...]:
    def place(name: str) -> tuple[float, str]:
        means = [found[name, mode].test.mean for mode in modes if (name, mode) in found]
        return -means[0], name

    return tuple(sorted({name for name, _ in found}, key=place))
