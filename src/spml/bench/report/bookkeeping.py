"""Facts on the runs of a report next to their scores: data, code, cost, failures, missing results."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..rows import Row, SeriesKey
from .statistics import Picks

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
    failures: tuple[Row, ...]
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
    return Bookkeeping(
        done=len(done),
        facts={
            data: {name: tuple(sorted(values)) for name, values in by_name.items()}
            for data, by_name in sorted(facts.items())
        },
        fingerprints={data: len(distinct) for data, distinct in prints.items()},
        changed=tuple(sorted(key for key, distinct in contents.items() if len(distinct) > 1)),
        versions=tuple(sorted(versions.items(), key=lambda item: (-item[1], item[0]))),
        mixed=tuple(n for n in COMPARABLE if len({key[VERSIONS.index(n)] for key in versions}) > 1),
        failures=tuple(row for row in rows if row.status == "failed"),
        missing=tuple(_missing(rows, picks, modes, expected)),
        costs=tuple(
            Cost(*key, len(some), sum(row.seconds for row in some), max(row.memory for row in some))
            for key, some in sorted(runs.items())
        ),
    )


def _missing(
    rows: Sequence[Row], picks: Picks, modes: Sequence[str], expected: Sequence[SeriesKey]
) -> Iterable[Missing]:
    statuses: dict[SeriesKey, list[str]] = defaultdict(list)
    for row in rows:
        statuses[row.series].append(row.status)
    names = {series.candidate for series in statuses}
    wanted = expected or [s._replace(candidate=name) for s in statuses for name in names]
    for series in sorted({*statuses, *wanted}):
        runs = statuses.get(series, [])
        if not runs:
            reason = "no run"
        elif "done" not in runs:
            reason = f"all {len(runs)} runs failed" if len(runs) > 1 else "its only run failed"
        else:
            reason = "no run with numbers for this selection"
        if absent := tuple(mode for mode in modes if mode not in picks.get(series, {})):
            yield Missing(series, absent, reason)
