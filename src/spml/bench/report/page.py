"""The report as a page of Markdown and as tables for LaTeX: values for the templates next to this file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ...common.phrases import counted
from .markdown import (
    UNKNOWN,
    one_line,
    p_value,
    percent,
    plain,
    render,
    share,
    task_name,
    with_sd,
)  # fmt: skip
from .results import FACTS, VERSIONS, Entry, Report
from .statistics import ALPHA, Task

_MAX_LISTED = 100
_PER_TABLE = 6  # data sets side by side in LaTeX
_ESCAPES = str.maketrans(
    {character: "\\" + character for character in "{}$&#%_"}
    | {
        "\\": r"\textbackslash{}", "^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "<": r"\textless{}",
        ">": r"\textgreater{}", "|": r"\textbar{}", "`": r"\textasciigrave{}", '"': "''", "*": "{*}",
        "[": "{[}",  # at the start of a line it would become an argument of the line break before
    }
)  # fmt: skip


def report_page(report: Report, title: str, about: Sequence[str] = ()) -> str:
    """The whole report: below its plain title, paragraphs in Markdown about it."""
    results = [
        (task, task_name(task), _scores(report, task), _compared(report, task), [*_selected(report, task)])
        for task in report.entries
    ]
    failures, missing = report.books.failures, report.books.missing
    failed = [[*map(plain, f.series), str(f.trial), plain(f.message)] for f in failures[:_MAX_LISTED]]
    absent = [
        [*map(plain, m.series), ", ".join(f"`{mode}`" for mode in m.modes), plain(m.reason)]
        for m in missing[:_MAX_LISTED]
    ]
    return render(
        "report.md.j2",
        report=report,
        title=title,
        about=about,
        alpha=ALPHA,
        ranks=_ranks(report),
        results=results,
        reservations=_reservations(report),
        gains=_gains(report),
        data=[
            [plain(name), *(_range(facts.get(fact, ())) for fact in FACTS)]
            + [str(report.books.fingerprints.get(name, UNKNOWN))]
            for name, facts in report.books.facts.items()
        ],
        mode_columns=[f"`{mode}`" for mode in report.modes],
        absent=[
            ("Runs that failed", ["trial", "message"], failed, len(failures)),
            ("Series without a result", ["selection", "why"], absent, len(missing)),
        ],
        versions=VERSIONS,
        code=[[*map(plain, names), str(runs)] for names, runs in report.books.versions],
    )


# -- sections --------------------------------------------------------------------------------------------


def _ranks(report: Report) -> dict[str, Any] | None:
    usable = {mode: ranking for mode, ranking in report.rankings.items() if len(ranking.tasks) > 1}
    if not usable:
        return None
    wide = 2 + report.has_gap
    cells = dict[str, dict[str, list[str]]]()
    for mode, r in usable.items():
        for name, rank, mean, gap in zip(r.candidates, r.ranks, r.means, r.gaps, strict=True):
            cells.setdefault(name, {})[mode] = [f"{rank:.2f}", percent(mean), share(gap)][:wide]
    return {
        "rankings": usable,
        "header": [
            "candidate",
            *(name for mode in usable for name in [f"`{mode}`: rank", "mAP", "gap"][:wide]),
        ],
        "rows": [
            [plain(name), *(cell for mode in usable for cell in by_mode.get(mode, [UNKNOWN] * wide))]
            for name, by_mode in cells.items()
        ],
    }


def _reservations(report: Report) -> list[str]:
    books, items = report.books, []
    entries = [(name, entry) for by_key in report.entries.values() for (name, _), entry in by_key.items()]
    if books.mixed:
        items.append(
            f"**The runs come from several versions of {', '.join(books.mixed)}** (see Code): differences "
            "between candidates may be differences between versions."
        )
    for data, hiding, seed in books.changed[:_MAX_LISTED]:
        items.append(f"**The data changed between runs** of {plain(data)}, {plain(hiding)}, seed {seed}.")
    if books.failures:
        items.append(f"{counted(len(books.failures), 'run')} failed, as listed below.")
    if books.missing:
        items.append(f"{counted(len(books.missing), 'series', 'series')} without a result, as listed below.")
    if uneven := sum(entry.trials[0] < entry.trials[1] for _, entry in entries):
        items.append(
            f"In {counted(uneven, 'cell')} the number of finished trials differs between seeds, so not all "
            "candidates had the same budget."
        )
    single = [task for task, by_key in report.entries.items() if max(e.test.n for e in by_key.values()) == 1]
    if single:
        items.append(
            f"One seed only, so no spread over seeds: {'; '.join(plain(task_name(task)) for task in single)}."
        )
    without_p = sum(
        entry.p is None and not entry.best and name not in report.reference_only for name, entry in entries
    )
    if without_p:
        items.append(
            f"In {counted(without_p, 'cell')} there is no p-value, because the selected runs belong to "
            "another search and hold no draws of the test samples, or different ones: a missing ≈ has no "
            "meaning there."
        )
    return items


def _gains(report: Report) -> list[list[str]]:
    """Rows of what the best epoch gains over the last; empty if no run has a last epoch."""

    def mean(values: Sequence[float]) -> str:
        return percent(sum(values) / len(values)) if values else UNKNOWN

    rows, total = [], {mode: list[float]() for mode in report.modes}
    for task, entries in report.entries.items():
        gains: dict[str, list[float]] = {mode: [] for mode in report.modes}
        for (name, mode), entry in entries.items():
            if entry.last is not None and name not in report.reference_only:
                gains[mode].append(entry.test.mean - entry.last)
                total[mode].append(gains[mode][-1])
        rows.append([*map(plain, task), *map(mean, gains.values())])
    return [*rows, ["**all**", "", *map(mean, total.values())]] if any(total.values()) else []


def _scores(report: Report, task: Task) -> list[list[str]]:
    """Header and rows of the scores by each mode."""
    rows = [["candidate", "seeds", *(f"`{mode}`: mAP" for mode in report.modes)]]
    for name in report.candidates[task]:
        entries = [report.entries[task].get((name, mode)) for mode in report.modes]
        seeds = sorted({entry.test.n for entry in entries if entry is not None})
        mark = " °" if name in report.reference_only else ""
        mark += " †" if name in report.notes else ""
        cells = [_score(entry) if entry else UNKNOWN for entry in entries]
        rows.append([plain(name) + mark, "/".join(map(str, seeds)), *cells])
    return rows


def _compared(report: Report, task: Task) -> list[list[str]]:
    """Header and rows of how far candidates are from the baseline and the best, by each mode."""
    columns: dict[str, Callable[[Entry], str]] = {}
    if report.has_gap:
        columns["gap"] = lambda entry: share(entry.gap)
    if report.baseline is not None:
        columns[f"to {plain(report.baseline)}"] = _difference
    p = "p" if report.against is None else f"p, to {plain(report.against)}"
    columns[p] = lambda entry: p_value(entry.p)
    rows = [["candidate", *(f"`{mode}`: {column}" for mode in report.modes for column in columns)]]
    for name in report.candidates[task]:
        entries = [report.entries[task].get((name, mode)) for mode in report.modes]
        cells = [cell(entry) if entry else UNKNOWN for entry in entries for cell in columns.values()]
        rows.append([plain(name), *cells])
    return rows


def _score(entry: Entry) -> str:
    score = with_sd(entry.test.mean, entry.test.sd)
    return f"**{score}**" if entry.best else f"≈ {score}" if entry.tied else score


def _difference(entry: Entry) -> str:
    paired = entry.difference
    return UNKNOWN if paired is None else with_sd(paired.mean, paired.sd, sign=True)


def _selected(report: Report, task: Task) -> Iterator[list[str]]:
    for name in report.candidates[task]:
        for mode in report.modes:
            entry = report.entries[task].get((name, mode))
            if entry is not None:
                trials = "/".join(map(str, sorted(set(entry.trials))))
                medians = ", ".join(
                    f"{setting} {value:.4g}" if isinstance(value, float) else f"{setting} {value}"
                    for setting, value in sorted(entry.params.items())
                )
                yield [plain(name), f"`{mode}`", plain(medians) or UNKNOWN, trials]


def _range(values: Sequence[object]) -> str:
    texts = [f"{value:.2f}" if isinstance(value, float) else str(value) for value in values]
    if not texts:
        return UNKNOWN
    return plain(texts[0] if texts[0] == texts[-1] else f"{texts[0]} to {texts[-1]}")


# -- LaTeX -----------------------------------------------------------------------------------------------


def escape(text: object) -> str:
    """Any text as LaTeX that prints it literally, on one line."""
    return one_line(text).translate(_ESCAPES)


def to_latex(report: Report) -> str:
    """One table per way of hiding and selection mode, with at most six data sets each (package booktabs)."""
    tables = []
    for hiding in sorted({hiding for _, hiding in report.entries}):
        names = [name for name, other in report.entries if other == hiding]
        for mode in report.modes:
            for first in range(0, len(names), _PER_TABLE):
                data = names[first : first + _PER_TABLE]
                columns = [report.entries[name, hiding] for name in data]
                present = {name for entries in columns for name, by in entries if by == mode}
                ranked = [name for name in report.rankings[mode].candidates if name in present]
                rows = [
                    [escape(name) + (r"$^\circ$" if name in report.reference_only else "")]
                    + [_cell(entries.get((name, mode))) for entries in columns]
                    for name in [*ranked, *sorted(present.difference(ranked))]
                ]
                tables.append((hiding, mode, data, rows))
    return render("tables.tex.j2", report=report, tables=tables, filters={"tex": escape})


def _cell(entry: Entry | None) -> str:
    if entry is None:
        return "--"
    mean = percent(entry.test.mean)
    if entry.best:
        mean = f"\\textbf{{{mean}}}"
    elif entry.tied:
        mean = f"\\underline{{{mean}}}"
    deviation = percent(entry.test.sd)
    return mean if deviation == UNKNOWN else f"{mean}\\,{{\\scriptsize$\\pm${deviation}}}"
