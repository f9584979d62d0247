"""What a report says about its runs beside their scores: data, code, cost, and what is not there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..rows import Pick, Row, SeriesKey

FACTS = ("classes", "train", "val", "test", "mean_labels")
VERSIONS = ("spml", "code", "commit", "torch", "machine")
COMPARABLE = ("spml", "code", "torch")
"""Versions of which a table should have one."""


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
    """What the finished runs of a candidate on a data set took.

    Attributes:
        data: name of the data set.
        candidate: its name.
        runs: how many.
        seconds: of all of them together.
        memory: the highest peak of a process, MiB.
    """

    data: str
    candidate: str
    runs: int
    seconds: float
    memory: float


@dataclass(frozen=True)
class Account:
    """Everything about the runs that is not a score.

    Attributes:
        done: finished runs.
        facts: per data set, the values that each of `FACTS` takes over its runs, sorted.
        fingerprints: per data set, how many different contents its runs saw.
        changed: (data set, way of hiding, seed) whose runs saw different contents.
        versions: (what `VERSIONS` names, number of runs), the most frequent first.
        mixed: those of `COMPARABLE` of which there are several.
        failures: runs that failed.
        missing: series without a result.
        costs: by data set and candidate.
    """

    done: int
    facts: Mapping[str, Mapping[str, tuple[Any, ...]]]
    fingerprints: Mapping[str, int]
    changed: tuple[tuple[str, str, int], ...]
    versions: tuple[tuple[tuple[str, ...], int], ...]
    mixed: tuple[str, ...]
    failures: tuple[Failure, ...]
    missing: tuple[Missing, ...]
    costs: tuple[Cost, ...]


def account(
    rows: Sequence[Row],
    chosen: Mapping[SeriesKey, Mapping[str, Pick]],
    modes: Sequence[str],
    expected: Sequence[SeriesKey],
    outside: frozenset[str] = frozenset(),
) -> Account:
    """The account of rows, given what each mode picks from each series.

    Candidates that are `outside` the ranking see other labels, so they say nothing about changed data.
    """
    done = [row for row in rows if row.status == "done"]
    facts: dict[str, dict[str, set[Any]]] = {}
    prints: dict[str, set[str]] = {}
    contents: dict[tuple[str, str, int], set[str]] = {}
    for row in done:
        for name in FACTS:
            if row.facts.get(name) is not None:
                facts.setdefault(row.series.data, {}).setdefault(name, set()).add(row.facts[name])
        mark = row.facts.get("fingerprint")
        if mark is not None and row.series.candidate not in outside:
            prints.setdefault(row.series.data, set()).add(str(mark))
            contents.setdefault((row.series.data, row.series.hiding, row.series.seed), set()).add(str(mark))
    versions: dict[tuple[str, ...], int] = {}
    for row in done:
        key = tuple(str(row.versions.get(name, "")) for name in VERSIONS)
        versions[key] = versions.get(key, 0) + 1
    return Account(
        done=len(done),
        facts={
            data: {name: tuple(sorted(values)) for name, values in found.items()}
            for data, found in sorted(facts.items())
        },
        fingerprints={data: len(found) for data, found in sorted(prints.items())},
        changed=tuple(sorted(key for key, found in contents.items() if len(found) > 1)),
        versions=tuple(sorted(versions.items(), key=lambda item: (-item[1], item[0]))),
        mixed=tuple(n for n in COMPARABLE if len({key[VERSIONS.index(n)] for key in versions}) > 1),
        failures=tuple(
            Failure(row.series, row.trial, row.message, row.key) for row in rows if row.status == "failed"
        ),
        missing=_missing(rows, chosen, modes, expected),
        costs=_costs(done),
    )


def _missing(
    rows: Sequence[Row],
    chosen: Mapping[SeriesKey, Mapping[str, Pick]],
    modes: Sequence[str],
    expected: Sequence[SeriesKey],
) -> tuple[Missing, ...]:
    seen = {row.series for row in rows}
    wanted = seen | set(expected)
    if not expected:
        names = {series.candidate for series in seen}
        wanted = {SeriesKey(s.data, s.hiding, name, s.seed) for s in seen for name in names}
    states: dict[SeriesKey, list[str]] = {}
    for row in rows:
        states.setdefault(row.series, []).append(row.status)
    result = []
    for series in sorted(wanted):
        absent = tuple(mode for mode in modes if mode not in chosen.get(series, {}))
        if absent:
            runs = states.get(series, [])
            if not runs:
                reason = "no run"
            elif "done" not in runs:
                reason = f"all {len(runs)} runs failed" if len(runs) > 1 else "its only run failed"
            else:
                reason = "no run with numbers for this selection"
            result.append(Missing(series, absent, reason))
    return tuple(result)


def _costs(done: Sequence[Row]) -> tuple[Cost, ...]:
    grouped: dict[tuple[str, str], list[Row]] = {}
    for row in done:
        grouped.setdefault((row.series.data, row.series.candidate), []).append(row)
    return tuple(
        Cost(*key, len(found), sum(row.seconds for row in found), max(row.memory for row in found))
        for key, found in sorted(grouped.items())
    )
