"""What a report says on the screen: one table, the rest is in its files."""

from __future__ import annotations

import sys

from .numbers import how, place_name, share, with_sd
from .tables import Report

_PLACES = 12
"""With more data sets and ways of hiding, only the ranks over all are shown."""


def print_report(report: Report) -> None:
    """Print the results per data set, or only the ranks where there are many."""
    for mode in report.modes:
        print(f"{mode}: trial and epoch with {how(mode)}")
    print()
    if len(report.entries) <= _PLACES:
        for place, entries in report.entries.items():
            rows = []
            for name in report.candidates[place]:
                cells = [entries.get((name, mode)) for mode in report.modes]
                shown = [
                    text
                    for entry in cells
                    for text in (
                        (with_sd(entry.test.mean, entry.test.sd), share(entry.gap)) if entry else ("-", "-")
                    )
                ]
                rows.append([name + (" (reference)" if name in report.reference_only else ""), *shown])
            _print(f"{place_name(place)}: test mAP, share of the gap", ["mAP", "gap"], rows, report)
    if len(report.entries) > 1:
        first = report.rankings[report.modes[0]]
        rows = []
        for number, name in enumerate(first.candidates):
            found = [f"{first.ranks[number]:.2f}"]
            for mode in report.modes[1:]:
                other = report.rankings[mode]
                known = name in other.candidates
                found.append(f"{other.ranks[other.candidates.index(name)]:.2f}" if known else "-")
            rows.append([name, *found])
        _print(f"mean ranks over {len(first.places)} data sets and ways of hiding", ["rank"], rows, report)


def _print(title: str, columns: list[str], rows: list[list[str]], report: Report) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    terminal = sys.stdout.isatty()
    table = Table(title=Text(title), title_justify="left") if terminal else Table(box=None, pad_edge=False)
    table.add_column("candidate", no_wrap=True)
    for mode in report.modes:
        for name in columns:
            table.add_column(Text(f"{mode} {name}"), justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*map(Text, row))
    if not terminal:
        print(title)
    Console(width=None if terminal else 160).print(table)
    print()
