"""A report as files (Markdown, one HTML page, CSV, LaTeX, figures) and on the screen."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from ...common.errors import SpmlError
from ...common.files import write_bytes, write_rows, write_text
from .figures import draw
from .latex import to_latex
from .markdown import UNKNOWN, criterion, share, task_name, to_html, with_sd
from .page import cost_page, report_page
from .results import Report

_MAX_TASKS_ON_SCREEN = 12
"""With more data sets and ways of hiding, only the mean ranks are printed."""


def write_report(report: Report, folder: Path, *, title: str, about: Sequence[str] = ()) -> None:
    """Write report.md, report.html, tables.tex, figures/, cost.md and tables of the numbers.

    `results.csv` has a line per seed of each cell, `summary.csv` one per cell, `trials.csv` one per trial and
    mode, whether the mode selects it or not, and `cost.csv` one per data set and candidate.

    The same rows give the same files, in whatever order and whenever they are written. Only the cost of runs
    differs when a comparison is repeated, so it has files of its own. No file is ever left half-written.

    Args:
        report: Numbers of the report.
        folder: Folder for the files, created if it does not exist; files of an earlier report are replaced.
        title: Title of the report, plain text.
        about: Paragraphs in Markdown for the top of the report.

    Raises:
        SpmlError: A file could not be written.
    """
    figures = folder / "figures"
    try:
        figures.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SpmlError(f"{figures}: can't be created ({error.strerror}). Choose another folder.") from error
    pictures = draw(report)
    for name, (png, svg) in pictures.items():
        write_bytes(figures / f"{name}.png", png)
        write_bytes(figures / f"{name}.svg", svg)
    _remove_old(figures, set(pictures))
    _write_csv(report, folder)
    write_text(folder / "tables.tex", to_latex(report))
    write_text(folder / "cost.md", cost_page(report))
    page = report_page(report, title, about)
    write_text(folder / "report.md", page)
    vector = {name: svg for name, (_, svg) in pictures.items()}
    write_text(folder / "report.html", to_html(title, page, vector))


def _remove_old(figures: Path, names: set[str]) -> None:
    """Remove figures of an earlier report that this one does not have."""
    for kind in ("scores-[0-9]*", "ranks-[0-9]*", "selection"):
        for path in [*figures.glob(f"{kind}.png"), *figures.glob(f"{kind}.svg")]:
            if path.stem not in names:
                path.unlink(missing_ok=True)


def _write_csv(report: Report, folder: Path) -> None:
    results, summary = [], []
    for (data, hiding), by_key in report.entries.items():
        for (name, mode), entry in sorted(by_key.items()):
            cell = [data, hiding, name, mode]
            for seed, pick in sorted(entry.picks.items()):
                penalty = pick.row.history.get("penalty")
                results.append(
                    [*cell, seed, _number(pick.test), pick.row.trial, pick.epoch + 1]
                    + ["" if penalty is None else _number(penalty[pick.epoch])]
                    + [_json(pick.row.params), pick.row.key]
                )
            paired = entry.difference
            summary.append(
                [
                    *cell,
                    entry.test.n,
                    _number(entry.test.mean),
                    _number(entry.test.sd),
                    _number(entry.last),
                    _number(entry.gap),
                ]
                + (["", "", ""] if paired is None else [_number(paired.mean), _number(paired.sd), paired.n])
                + [_number(entry.p), int(entry.best), *entry.trials, _json(entry.params)]
                + [_json({f"{setting} {side}": count for (setting, side), count in entry.edges.items()})]
                + [_json({str(seed): round(pick.test, 6) for seed, pick in sorted(entry.picks.items())})]
            )
    cell = ["data", "hiding", "candidate", "selection"]
    header = [*cell, "seed", "test_mAP", "trial", "epoch", "penalty", "params", "key"]
    write_rows(folder / "results.csv", header, results)
    header = [*cell, "seeds", "mean_mAP", "sd_mAP", "last_epoch_mAP", "gap_closed", "difference"]
    header += ["difference_sd", "difference_seeds", "p_holm", "best", "trials_least", "trials_most"]
    header += ["median_params", "edges", "test_mAP_by_seed"]
    write_rows(folder / "summary.csv", header, summary)
    header = [*cell, "seed", "trial", "epoch", "score", "val_mAP", "test_mAP", "params", "key"]
    trials = [
        [*trial.row.series[:3], trial.mode, trial.row.series.seed, trial.row.trial, trial.epoch + 1]
        + [_number(value) for value in (trial.value, trial.val, trial.test)]
        + [_json(trial.row.params), trial.row.key]
        for trial in report.trials
    ]
    write_rows(folder / "trials.csv", header, trials)
    header = ["data", "candidate", "runs", "seconds", "memory_MiB"]
    costs = [[*cost[:3], f"{cost.seconds:.3f}", f"{cost.memory:.1f}"] for cost in report.books.costs]
    write_rows(folder / "cost.csv", header, costs)


def _number(value: float | None) -> str:
    """Six significant digits, or an empty cell for an unknown value."""
    return "" if value is None or value != value else f"{value:.6g}"


def _json(value: object) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


# -- on the screen ---------------------------------------------------------------------------------------


def print_report(report: Report) -> None:
    """Print the results of each data set and way of hiding, or only mean ranks where there are many."""
    for mode in report.modes:
        print(f"{mode}: trial and epoch with {criterion(mode)}")
    print()
    if len(report.entries) <= _MAX_TASKS_ON_SCREEN:
        for task, entries in report.entries.items():
            rows = []
            for name in report.candidates[task]:
                cells = [name + (" (reference)" if name in report.reference_only else "")]
                for mode in report.modes:
                    entry = entries.get((name, mode))
                    cells.append(with_sd(entry.test.mean, entry.test.sd) if entry else UNKNOWN)
                    cells.append(share(entry.gap) if entry else UNKNOWN)
                rows.append(cells)
            _print_table(f"{task_name(task)}: test mAP, share of the gap", ["mAP", "gap"], rows, report)
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
        _print_table(title, ["rank"], rows, report)


def _print_table(title: str, columns: list[str], rows: list[list[str]], report: Report) -> None:
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
