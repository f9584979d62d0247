"""Output of `spml bench` on the terminal. Imported when a command runs, since it is not light."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from rich.text import Text

from ..bench.plan import all_series
from ..bench.report.markdown import UNKNOWN, criterion, share, task_name, with_sd
from ..bench.report.results import Report
from ..bench.rows import Row, SeriesKey
from ..bench.spec import Spec
from ..bench.state import State, describe_left
from ..common.errors import escaped
from ..common.phrases import counted, first_few
from .shared import new_table, print_table

_NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[+-]?\d+)?")
_STATUSES = ("done", "failed", "missing")
_MAX_TASKS = 12  # with more data sets and ways of hiding, only mean ranks are printed of a report
_MESSAGES, _NAMES = 10, 4  # messages of failed runs that are shown, and candidates that each names


def print_status(spec: Spec, state: State, *, by: str, lines: bool) -> None:
    """Print how many runs are done, failed and missing, and why runs failed; for the options, see
    `bench.bench_status`."""
    left = describe_left(state, workers=1)
    print(state.describe() + (f"; {left} with one worker" if left else ""))
    print()
    _print_counts(spec, state, ("data", "hiding") if by == "data" else ("candidate",))
    if state.failed:
        print("\nfailed runs by message:")
        for line in _messages(state.failed):
            print(f"  {line}")
    if lines:
        print()
        for row in state.failed:
            print(f"failed: {_name(row.series)}, trial {row.trial}: {_line(row.message)}")
        for series, count in state.missing.items():
            print(f"missing: {_name(series)}: {counted(count, 'run')}")
    elif state.failed or state.missing:
        print("\n--lines lists the failed runs, and the series with missing ones.")


def _print_counts(spec: Spec, state: State, parts: Sequence[str]) -> None:
    def group(series: SeriesKey) -> tuple[str, ...]:
        return tuple(getattr(series, part) for part in parts)

    counts: dict[tuple[str, ...], Counter[str]] = {group(each.key): Counter() for each in all_series(spec)}
    for row in state.rows:
        counts[group(row.series)][row.status] += 1
    for series, missing in state.missing.items():
        counts[group(series)]["missing"] += missing
    table = new_table((*parts, *_STATUSES), left=len(parts), lines=True)
    for names, by_status in counts.items():
        table.add_row(*map(Text, names), *(f"{by_status[status]:,}" for status in _STATUSES))
    if len(counts) > 1:
        table.add_section()
        every = sum(counts.values(), Counter[str]())
        names = ("all", *[""] * (len(parts) - 1))
        table.add_row(*names, *(f"{every[status]:,}" for status in _STATUSES))
    print_table(table)


def _messages(failed: Sequence[Row]) -> list[str]:
    """One line per message of failed runs, the most frequent first; numbers in a message may differ."""
    groups: dict[str, list[Row]] = {}
    for row in failed:
        groups.setdefault(_NUMBER.sub("0", row.message), []).append(row)
    ordered = sorted(groups.values(), key=len, reverse=True)
    lines = []
    for rows in ordered[:_MESSAGES]:
        candidates = first_few(list(dict.fromkeys(row.series.candidate for row in rows)), _NAMES)
        lines.append(f"{counted(len(rows), 'run')} ({candidates}): {_line(rows[0].message)}")
    if len(ordered) > _MESSAGES:
        lines.append(f"and {counted(len(ordered) - _MESSAGES, 'other message')}")
    return lines


def _line(text: str) -> str:
    return escaped(" ".join(text.split()))


def _name(series: SeriesKey) -> str:
    return "/".join(map(str, series))


def print_report(report: Report) -> None:
    """Print the results of each data set and way of hiding, or only mean ranks where there are many."""
    for mode in report.modes:
        print(f"{mode}: trial and epoch with {criterion(mode)}")
    print()
    if len(report.entries) <= _MAX_TASKS:
        for task, entries in report.entries.items():
            rows = []
            for name in report.candidates[task]:
                cells = [name + (" (reference)" if name in report.reference_only else "")]
                for mode in report.modes:
                    entry = entries.get((name, mode))
                    cells.append(with_sd(entry.test.mean, entry.test.sd) if entry else UNKNOWN)
                    cells.append(share(entry.gap) if entry else UNKNOWN)
                rows.append(cells)
            _print_scores(f"{task_name(task)}: test mAP, share of the gap", ["mAP", "gap"], rows, report)
    if len(report.entries) > 1:
        ranks = {
            mode: dict(zip(ranking.candidates, ranking.ranks, strict=True))
            for mode, ranking in report.rankings.items()
        }
        first = report.rankings[report.modes[0]]
        rows = [
            [name, *(f"{ranks[mode][name]:.2f}" if name in ranks[mode] else UNKNOWN for mode in report.modes)]
            for name in first.candidates
        ]
        title = f"mean ranks over {len(first.tasks)} data sets and ways of hiding"
        _print_scores(title, ["rank"], rows, report)


def _print_scores(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], report: Report) -> None:
    headers = [f"{mode} {name}" for mode in report.modes for name in columns]
    table = new_table(["candidate", *headers], lines=True)
    for row in rows:
        table.add_row(*map(Text, row))
    print(title)
    print_table(table)
    print()
