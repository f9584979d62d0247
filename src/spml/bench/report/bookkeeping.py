"""What a report states about its runs next to their scores: data, code, cost, failures, missing results."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..rows import Row, SeriesKey
from .statistics import Picks

FACTS = ("classes", "train", "val", "test", "mean_labels")
VERSIONS = ("spml", "code", "commit", "torch", "machine")
COMPARABLE = ("spml", "code", "torch")
"""Versions that should be the same for all runs of a table."""


class Failure(NamedTuple):
    """A run that failed."""

    series: SeriesKey
    trial: int
    message: str
    key: str


class Missing(NamedTuple):
    """A series without a result by some of the modes."""

    series: SeriesKey
    modes: tuple[str, ...]
    reason: str


class Cost(NamedTuple):
    """Cost of the finished runs of a candidate on a data set.

    Attributes:
        data: Name of the data set.
        candidate: Name of the candidate.
        runs: Number of runs.
        seconds: Sum of their durations.
        memory: Highest peak memory of a process, MiB.
    """

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
    mixed: tuple[str, ...]
    failures: tuple[Failure, ...]
    missing: tuple[Missing, ...]
    costs: tuple[Cost, ...]


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
    facts: dict[str, dict[str, set[Any]]] = {}
    prints: dict[str, set[str]] = {}
    contents: dict[tuple[str, str, int], set[str]] = {}
    versions: dict[tuple[str, ...], int] = {}
    for row in done:
        for name in FACTS:
            if row.facts.get(name) is not None:
                facts.setdefault(row.series.data, {}).setdefault(name, set()).add(row.facts[name])
        fingerprint = row.facts.get("fingerprint")
        if fingerprint is not None and row.series.candidate not in unranked:
            conditions = (row.series.data, row.series.hiding, row.series.seed)
            prints.setdefault(row.series.data, set()).add(str(fingerprint))
            contents.setdefault(conditions, set()).add(str(fingerprint))
        key = tuple(str(row.versions.get(name, "")) for name in VERSIONS)
        versions[key] = versions.get(key, 0) + 1
    return Bookkeeping(
        done=len(done),
        facts={
            data: {name: tuple(sorted(values)) for name, values in by_name.items()}
            for data, by_name in sorted(facts.items())
        },
        fingerprints={data: len(distinct) for data, distinct in sorted(prints.items())},
        changed=tuple(sorted(key for key, distinct in contents.items() if len(distinct) > 1)),
        versions=tuple(sorted(versions.items(), key=lambda item: (-item[1], item[0]))),
        mixed=tuple(n for n in COMPARABLE if len({key[VERSIONS.index(n)] for key in versions}) > 1),
        failures=tuple(
            Failure(row.series, row.trial, row.message, row.key) for row in rows if row.status == "failed"
        ),
        missing=tuple(_missing(rows, picks, modes, expected)),
        costs=tuple(_costs(done)),
    )


def _missing(
    rows: Sequence[Row], picks: Picks, modes: Sequence[str], expected: Sequence[SeriesKey]
) -> Iterable[Missing]:
    statuses: dict[SeriesKey, list[str]] = {}
    for row in rows:
        statuses.setdefault(row.series, []).append(row.status)
    every = statuses.keys() | set(expected)
    if not expected:
        names = {series.candidate for series in statuses}
        every = {SeriesKey(s.data, s.hiding, name, s.seed) for s in statuses for name in names}
    for series in sorted(every):
        absent = tuple(mode for mode in modes if mode not in picks.get(series, {}))
        if not absent:
            continue
        runs = statuses.get(series, [])
        if not runs:
            reason = "no run"
        elif "done" not in runs:
            reason = f"all {len(runs)} runs failed" if len(runs) > 1 else "its only run failed"
        else:
            reason = "no run with numbers for this selection"
        yield Missing(series, absent, reason)


def _costs(done: Sequence[Row]) -> Iterable[Cost]:
    grouped: dict[tuple[str, str], list[Row]] = {}
    for row in done:
        grouped.setdefault((row.series.data, row.series.candidate), []).append(row)
    for key, rows in sorted(grouped.items()):
        yield Cost(*key, len(rows), sum(row.seconds for row in rows), max(row.memory for row in rows))
