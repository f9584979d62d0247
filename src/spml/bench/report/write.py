"""A report as files (Markdown, one HTML page, CSV, LaTeX, figures)."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

from ...common.files import make_folder, write_rows, write_text
from ...plots.style import save
from .figures import draw
from .markdown import to_html
from .page import report_page, to_latex
from .results import Report


def write_report(report: Report, folder: Path, *, title: str, about: Sequence[str] = ()) -> None:
    """Write report.md, report.html, tables.tex, figures/ and tables of the numbers.

    `results.csv` has a line per seed of each cell, `summary.csv` one per cell, `trials.csv` one per trial and
    mode, whether the mode selects it or not, and `cost.csv` one per data set and candidate.

    The same rows give the same files, in whatever order and whenever they are written. Only the cost of runs
    differs when a comparison is repeated, so it has a file of its own. No file is ever left half-written.

    Args:
        report: Numbers of the report.
        folder: Folder for the files, created if it does not exist; files of an earlier report are replaced.
        title: Title of the report, plain text.
        about: Paragraphs in Markdown for the top of the report.

    Raises:
        SpmlError: A file could not be written.
    """
    pictures = folder / "figures"
    make_folder(pictures)
    drawn = {}
    for name, figure in draw(report):
        for kind in ("png", "svg"):
            save(figure, pictures / f"{name}.{kind}")
        drawn[name] = (pictures / f"{name}.svg").read_bytes()
    for path in pictures.iterdir():
        of_report = re.fullmatch(r"(scores|ranks)-\d+\.(png|svg)", path.name)
        if of_report and path.stem not in drawn:
            path.unlink(missing_ok=True)
    _write_csv(report, folder)
    write_text(folder / "tables.tex", to_latex(report))
    page = report_page(report, title, about)
    write_text(folder / "report.md", page)
    write_text(folder / "report.html", to_html(title, page, drawn))


def _write_csv(report: Report, folder: Path) -> None:
    cell = ["data", "hiding", "candidate", "selection"]
    results, summary = [], []
    for task, by_key in report.entries.items():
        for key, entry in sorted(by_key.items()):
            picks = sorted(entry.picks.items())
            for seed, pick in picks:
                path = pick.row.history.get("penalty")
                penalty = None if path is None else path[pick.epoch]
                results.append(
                    [*task, *key, seed, _number(pick.test), pick.row.trial, pick.epoch + 1]
                    + [_number(penalty), _json(pick.row.params), pick.row.key]
                )
            mean, sd, seeds = entry.difference or (None, None, "")
            tests = {str(seed): round(pick.test, 6) for seed, pick in picks}
            summary.append(
                [*task, *key, entry.test.n]
                + [_number(x) for x in (entry.test.mean, entry.test.sd, entry.last, entry.gap, mean, sd)]
                + [seeds, _number(entry.p), int(entry.best), *entry.trials]
                + [_json(entry.params), _json(tests)]
            )
    trials = [
        [*pick.row.series[:3], pick.mode, pick.row.series.seed, pick.row.trial, pick.epoch + 1]
        + [_number(value) for value in (pick.value, pick.val, pick.test)]
        + [_json(pick.row.params), pick.row.key]
        for pick in report.trials
    ]
    costs = [[*cost[:3], f"{cost.seconds:.3f}", f"{cost.memory:.1f}"] for cost in report.books.costs]
    columns = ["seed", "test_mAP", "trial", "epoch", "penalty", "params", "key"]
    write_rows(folder / "results.csv", [*cell, *columns], results)
    columns = ["seeds", "mean_mAP", "sd_mAP", "last_epoch_mAP", "gap_closed", "difference"]
    columns += ["difference_sd", "difference_seeds", "p_holm", "best", "trials_least", "trials_most"]
    columns += ["median_params", "test_mAP_by_seed"]
    write_rows(folder / "summary.csv", [*cell, *columns], summary)
    columns = ["seed", "trial", "epoch", "score", "val_mAP", "test_mAP", "params", "key"]
    write_rows(folder / "trials.csv", [*cell, *columns], trials)
    write_rows(folder / "cost.csv", ["data", "candidate", "runs", "seconds", "memory_MiB"], costs)


def _number(value: float | None) -> str:
    """Six significant digits, or an empty cell for an unknown value."""
    return "" if value is None or value != value else f"{value:.6g}"


def _json(value: object) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)
