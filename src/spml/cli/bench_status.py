"""What `spml bench status` prints. Imported when the command runs, since it is not light."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..bench.plan import all_series
from ..bench.rows import Row, SeriesKey
from ..bench.spec import Spec
from ..bench.state import State
from ..bench.time_left import in_words, time_left
from ..common.errors import escaped
from ..common.phrases import counted, first_few

_NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[+-]?\d+)?")
_STATUSES = ("done", "failed", "missing")
_MESSAGES, _NAMES = 10, 4  # messages of failed runs that are shown, and candidates that each names

GROUPINGS: Mapping[str, tuple[str, ...]] = {"candidate": ("candidate",), "data": ("data", "hiding")}
"""What the rows of the table may stand for, and the parts of the key of a series that name them."""


def print_status(spec: Spec, state: State, *, by: str, lines: bool) -> None:
    """Print how many runs are done, failed and missing, and why runs failed.

    Args:
        spec: The specification.
        state: Its state.
        by: What a row of the table stands for, a key of `GROUPINGS`.
        lines: Whether to list every failed run, and every series with missing runs, as well.
    """
    seconds = time_left(spec, state, workers=1)
    print(state.describe() + (f"; {in_words(seconds)} left with one worker" if seconds else ""))
    print()
    _print_counts(spec, state, GROUPINGS[by])
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
    terminal = sys.stdout.isatty()
    table = Table() if terminal else Table(box=None, pad_edge=False)
    for part in parts:
        table.add_column(part, no_wrap=True)
    for status in _STATUSES:
        table.add_column(status, justify="right", no_wrap=True)
    for names, by_status in counts.items():
        table.add_row(*map(Text, names), *(f"{by_status[status]:,}" for status in _STATUSES))
    if len(counts) > 1:
        table.add_section()
        every = sum(counts.values(), Counter[str]())
        names = ("all", *[""] * (len(parts) - 1))
        table.add_row(*names, *(f"{every[status]:,}" for status in _STATUSES))
    Console(width=None if terminal else 160).print(table)


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
