"""Numbers of a report, from the rows of a store; runs, files and tables are not touched here."""

from __future__ import annotations

import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ..rows import Pick, Row, SeriesKey, picks, picks_of_runs
from .statistics import (
    ALPHA,
    Picks,
    Ranking,
    Task,
    gap_closed,
    holm,
    last_epochs,
    paired_p,
    rank,
)  # fmt: skip

FACTS = ("classes", "train", "val", "test", "mean_labels")
VERSIONS = ("spml", "code", "commit", "torch", "machine")
COMPARABLE = ("spml", "code", "torch")
"""Versions that should be the same for all runs of a table."""


class Missing(NamedTuple):
    """A series without a result by some of the modes."""

    series: SeriesKey
    modes: tuple[str, ...]
    reason: str


class Cost(NamedTuple):
    """Finished runs of a candidate on a data set: their number, seconds in sum, highest peak memory (MiB)."""

    data: str
    candidate: str
    runs: int
    seconds: float
    memory: float


@dataclass(frozen=True)
class Bookkeeping:
    """Everything about the runs of a report except scores.

    Attributes:
        done: Number of finished runs.
        facts: By data set and name of `FACTS`, the distinct values over its runs, sorted.
        fingerprints: By data set, the number of distinct contents that its runs saw.
        changed: (data set, way of hiding, seed) whose runs saw different contents.
        versions: (values of `VERSIONS`, number of runs), the most frequent first.
        own: (method outside the package, SHA-256 of its source, number of runs).
        mixed: Names of `COMPARABLE` with several values.
        failures: Runs that failed.
        missing: Series without a result.
        costs: Cost by data set and candidate.
    """

    done: int
    facts: dict[str, dict[str, tuple[Any, ...]]]
    fingerprints: dict[str, int]
    changed: tuple[tuple[str, str, int], ...]
    versions: tuple[tuple[tuple[str, ...], int], ...]
    own: tuple[tuple[str, str, int], ...]
    mixed: tuple[str, ...]
    failures: tuple[Row, ...]
    missing: tuple[Missing, ...]
    costs: tuple[Cost, ...]


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
        p: Holm-corrected p-value of the difference to the best, or to `Report.against`; None for that one
            itself, and without comparable draws.
        best: Whether it is the best of the ranked candidates.
        params: By searched setting, the median of the picked values, or the most frequent one if they have no
            order.
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
        against: Candidate that p-values compare with; None = the best of each task and mode.
        notes: Footnotes by candidate.
        entries: Results by task, then by (candidate, mode).
        candidates: By task, the candidates from the highest mAP by the first mode to the lowest.
        rankings: Ranking by mode.
        books: Data, code, cost, failed and missing runs.
        trials: Epoch of every finished run that each mode picks.
    """

    modes: tuple[str, ...]
    baseline: str | None
    ceiling: str | None
    reference_only: frozenset[str]
    entries: Mapping[Task, Mapping[tuple[str, str], Entry]]
    candidates: Mapping[Task, tuple[str, ...]]
    rankings: Mapping[str, Ranking]
    books: Bookkeeping
    trials: tuple[Pick, ...] = ()
    against: str | None = None
    notes: Mapping[str, str] = field(default_factory=dict)

    @property
    def has_gap(self) -> bool:
        """Whether there is a gap between baseline and ceiling to close."""
        return self.baseline is not None and self.ceiling is not None


def build_report(
    rows: Sequence[Row],
    *,
    modes: Sequence[str],
    baseline: str | None = None,
    ceiling: str | None = None,
    reference_only: Sequence[str] = (),
    expected: Sequence[SeriesKey] = (),
    against: str | None = None,
    notes: Mapping[str, str] | None = None,
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
        against: Candidate that p-values compare with; None = the best of each task and mode.
        notes: Footnotes by candidate.
    """
    rows = sorted(rows, key=lambda row: (row.series, row.trial, row.key))
    picked, unranked = picks(rows, modes), frozenset(reference_only)
    by_task: dict[Task, dict[str, dict[str, dict[int, Pick]]]] = {}
    for (data, hiding, candidate, seed), by_mode in picked.items():
        of_task = by_task.setdefault((data, hiding), {mode: {} for mode in modes})
        for mode, pick in by_mode.items():
            of_task[mode].setdefault(candidate, {})[seed] = pick
    runs = Counter(row.series for row in rows if row.status == "done")
    ends = last_epochs(rows, modes)

    def entries_of(by_seed: Mapping[str, Mapping[int, Pick]]) -> Iterator[tuple[str, Entry]]:
        """Entries of one task by one mode, which picked `by_seed` of each candidate."""
        tests = {name: _spread([pick.test for pick in seeds.values()]) for name, seeds in by_seed.items()}
        low, high = (tests[name].mean if name in tests else math.nan for name in (baseline, ceiling))
        base = by_seed.get(baseline or "", {})
        best = _best(tests, unranked)
        p_values = _p_values(by_seed, against or best, unranked)
        for name, seeds in by_seed.items():
            paired = [seeds[seed].test - base[seed].test for seed in seeds if seed in base]
            last = [ends.get((pick.row.series, pick.mode), math.nan) for pick in seeds.values()]
            trials = [runs[pick.row.series] for pick in seeds.values()]
            yield (
                name,
                Entry(
                    picks=seeds,
                    test=tests[name],
                    last=None if any(map(math.isnan, last)) else float(np.mean(last)),
                    gap=gap_closed(tests[name].mean, low, high),
                    difference=_spread(paired) if paired and name != baseline else None,
                    p=p_values.get(name),
                    best=name == best,
                    params=_medians([pick.row.params for pick in seeds.values()]),
                    trials=(min(trials), max(trials)),
                ),
            )

    entries = {
        task: {
            (name, mode): entry for mode, of_mode in selected.items() for name, entry in entries_of(of_mode)
        }
        for task, selected in by_task.items()
    }

    def ranking(mode: str) -> Ranking:
        means = {
            task: {name: entry.test.mean for (name, by), entry in by_key.items() if by == mode}
            for task, by_key in entries.items()
        }
        return rank(
            {task: {n: mean for n, mean in by.items() if n not in unranked} for task, by in means.items()},
            {t: (by[baseline], by[ceiling]) for t, by in means.items() if baseline in by and ceiling in by},
        )

    return Report(
        modes=tuple(modes),
        baseline=baseline,
        ceiling=ceiling,
        reference_only=unranked,
        entries=entries,
        candidates={task: _order(by_key, modes) for task, by_key in entries.items()},
        rankings={mode: ranking(mode) for mode in modes},
        books=keep_books(rows, picked, modes, expected, unranked),
        trials=tuple(picks_of_runs(rows, modes)),
        against=against,
        notes=notes or {},
    )


def _spread(values: Sequence[float]) -> Spread:
    array = np.array(values, np.float64)
    return Spread(float(array.mean()), float(array.std(ddof=1)) if len(array) > 1 else math.nan, len(array))


def _best(tests: Mapping[str, Spread], unranked: frozenset[str]) -> str | None:
    """Ranked candidate with the highest mean among those with the most seeds, so that none wins by a lucky
    seed."""
    ranked = {name: test for name, test in tests.items() if name not in unranked}
    return min(ranked, key=lambda name: (-ranked[name].n, -ranked[name].mean, name), default=None)


def _p_values(
    by_seed: Mapping[str, Mapping[int, Pick]], other: str | None, unranked: frozenset[str]
) -> dict[str, float]:
    """Holm-corrected p-values of the differences to one candidate."""
    names, values = [], []
    for name, seeds in by_seed.items():
        if other is None or other not in by_seed or name == other or name in unranked:
            continue
        pairs = [(by_seed[other][seed], seeds[seed]) for seed in seeds if seed in by_seed[other]]
        if len({len(pick.draws) for pair in pairs for pick in pair}) != 1 or len(pairs[0][0].draws) < 2:
            continue
        names.append(name)
        values.append(
            paired_p([a.test - b.test for a, b in pairs], np.stack([a.draws - b.draws for a, b in pairs]))
        )
    return dict(zip(names, holm(values).tolist(), strict=True))


def _medians(params: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """By setting the lower median, which is a value that was picked; without an order, the usual value."""
    result = {}
    for name in sorted({name for picked in params for name in picked}):
        values = [picked[name] for picked in params if name in picked]
        if all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values):
            result[name] = statistics.median_low(values)
        else:
            texts = [repr(value) for value in values]
            result[name] = min(values, key=lambda value: (-texts.count(repr(value)), repr(value)))
    return result


def _order(by_key: Mapping[tuple[str, str], Entry], modes: Sequence[str]) -> tuple[str, ...]:
    """Candidates by the mean of the first mode that they have a result by, highest first."""
    firsts = {
        name: entry.test.mean
        for mode in reversed(modes)
        for (name, by), entry in by_key.items()
        if by == mode
    }
    return tuple(sorted(firsts, key=lambda name: (-firsts[name], name)))


# -- bookkeeping ------------------------------------------------------------------------------------------


def keep_books(
    rows: Sequence[Row],
    picks: Picks,
    modes: Sequence[str],
    expected: Sequence[SeriesKey],
    unranked: frozenset[str] = frozenset(),
) -> Bookkeeping:
    """Bookkeeping of rows, given what each mode picks from each series.

    Candidates that are not ranked see other labels, so they are left out where contents are compared.
    """
    done = [row for row in rows if row.status == "done"]
    facts: dict[str, dict[str, set[Any]]] = defaultdict(lambda: defaultdict(set))
    contents: dict[tuple[str, str, int], set[str]] = defaultdict(set)
    runs: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in done:
        data, hiding, candidate, seed = row.series
        runs[data, candidate].append(row)
        for name in FACTS:
            if row.facts.get(name) is not None:
                facts[data][name].add(row.facts[name])
        fingerprint = row.facts.get("fingerprint")
        if fingerprint is not None and candidate not in unranked:
            contents[data, hiding, seed].add(str(fingerprint))
    prints: dict[str, set[str]] = defaultdict(set)
    for (data, _, _), distinct in sorted(contents.items()):
        prints[data] |= distinct
    versions = Counter(tuple(str(row.versions.get(name, "")) for name in VERSIONS) for row in done)
    statuses: dict[SeriesKey, list[str]] = defaultdict(list)
    for row in rows:
        statuses[row.series].append(row.status)
    names = {series.candidate for series in statuses}
    wanted = expected or [s._replace(candidate=name) for s in statuses for name in names]
    missing = []
    for series in sorted({*statuses, *wanted}):
        made = statuses.get(series, [])
        if not made:
            reason = "no run"
        elif "done" not in made:
            reason = f"all {len(made)} runs failed" if len(made) > 1 else "its only run failed"
        else:
            reason = "no run with numbers for this selection"
        if absent := tuple(mode for mode in modes if mode not in picks.get(series, {})):
            missing.append(Missing(series, absent, reason))
    own = Counter(
        (str(row.config["method"]), row.versions["method"]) for row in done if "method" in row.versions
    )
    return Bookkeeping(
        done=len(done),
        facts={
            data: {name: tuple(sorted(values)) for name, values in by_name.items()}
            for data, by_name in sorted(facts.items())
        },
        fingerprints={data: len(distinct) for data, distinct in prints.items()},
        changed=tuple(sorted(key for key, distinct in contents.items() if len(distinct) > 1)),
        versions=tuple(sorted(versions.items(), key=lambda item: (-item[1], item[0]))),
        own=tuple((*key, runs) for key, runs in sorted(own.items())),
        mixed=tuple(n for n in COMPARABLE if len({key[VERSIONS.index(n)] for key in versions}) > 1),
        failures=tuple(row for row in rows if row.status == "failed"),
        missing=tuple(missing),
        costs=tuple(
            Cost(*key, len(some), sum(row.seconds for row in some), max(row.memory for row in some))
            for key, some in sorted(runs.items())
        ),
    )
