"""A report as files: Markdown, one HTML page, CSV, LaTeX and pictures."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from ...errors import SpmlError
from ...files import write_bytes, write_rows, write_text
from ..rows import Row, SeriesKey
from ..space import Space
from . import cells, sections
from .figures import draw
from .latex import to_latex
from .pages import Block, Bullets, Heading, Paragraph, plain, to_html, to_markdown
from .tables import Report, build


def write_report(
    rows: Iterable[Row],
    folder: Path,
    *,
    title: str,
    modes: Sequence[str],
    baseline: str | None = None,
    ceiling: str | None = None,
    reference_only: Sequence[str] = (),
    about: Sequence[str] = (),
    expected: Sequence[SeriesKey] = (),
    spaces: Mapping[str, Space] | None = None,
) -> Report:
    """Write report.md, report.html, results.csv, summary.csv, tables.tex, cost.md, cost.csv and figures/.

    The files are the same for the same rows in any order, whenever they are written; what the runs cost is
    the only thing that differs when a sweep is repeated, so it has files of its own. Each is whole or
    not there.

    Args:
        rows: of the store.
        folder: made if it is not there; files of an earlier report in it are replaced.
        title: of the report, plain text.
        modes: selection modes, in the order of the columns.
        baseline: candidate that the gap starts at, and to which differences are taken.
        ceiling: candidate that the gap ends at.
        reference_only: candidates that are shown, but neither ranked nor ever the best.
        about: paragraphs in Markdown for the top of the report.
        expected: series that should be there, so that those without any run are listed as missing.
        spaces: what was searched for each candidate, so that settings at its edge are listed.

    Returns:
        The numbers of the report.

    Raises:
        SpmlError: a file could not be written.
    """
    report = build(
        list(rows),
        modes=modes,
        baseline=baseline,
        ceiling=ceiling,
        reference_only=reference_only,
        expected=expected,
        spaces=spaces,
    )
    figures = folder / "figures"
    try:
        figures.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SpmlError(f"{figures}: could not be made ({error.strerror}). Choose another folder.") from error
    pictures = draw(report)
    for name, (png, svg) in pictures.items():
        write_bytes(figures / f"{name}.png", png)
        write_bytes(figures / f"{name}.svg", svg)
    _remove_old(figures, set(pictures))
    _write_csv(report, folder)
    write_text(folder / "tables.tex", to_latex(report))
    write_text(folder / "cost.md", to_markdown(sections.cost(report)))
    blocks = _page(report, title, about)
    write_text(folder / "report.md", to_markdown(blocks))
    write_text(
        folder / "report.html", to_html(title, blocks, {name: svg for name, (_, svg) in pictures.items()})
    )
    return report


def _page(report: Report, title: str, about: Sequence[str]) -> list[Block]:
    return [
        Heading(1, plain(title)),
        *(_written(text.strip()) for text in about),
        *sections.reading(report),
        *sections.warnings(report),
        *sections.data(report),
        *sections.ranks(report),
        *sections.losses(report),
        *sections.last_epochs(report),
        *cells.results(report),
        *sections.edges(report),
        *sections.absent(report),
        *sections.reproduction(report),
    ]


def _written(text: str) -> Block:
    """A paragraph or a list."""
    lines = text.splitlines()
    return Bullets([s[2:] for s in lines]) if all(s.startswith("- ") for s in lines) else Paragraph(text)


def _remove_old(figures: Path, names: set[str]) -> None:
    """Remove pictures of an earlier report that this one does not have."""
    for kind in ("scores-[0-9]*", "ranks-[0-9]*", "selection"):
        for path in [*figures.glob(f"{kind}.png"), *figures.glob(f"{kind}.svg")]:
            if path.stem not in names:
                path.unlink(missing_ok=True)


def _write_csv(report: Report, folder: Path) -> None:
    results, summary = [], []
    for (data, hiding), found in report.entries.items():
        for (name, mode), entry in sorted(found.items()):
            where = [data, hiding, name, mode]
            for seed, pick in sorted(entry.picks.items()):
                penalty = pick.row.history.get("penalty")
                results.append(
                    [*where, seed, _number(pick.test), pick.row.trial, pick.epoch + 1]
                    + ["" if penalty is None else _number(penalty[pick.epoch])]
                    + [_json(pick.row.params), pick.row.key]
                )
            paired = entry.difference
            summary.append(
                [
                    *where,
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
    where = ["data", "hiding", "candidate", "selection"]
    header = [*where, "seed", "test_mAP", "trial", "epoch", "penalty", "params", "key"]
    write_rows(folder / "results.csv", header, results)
    header = [*where, "seeds", "mean_mAP", "sd_mAP", "last_epoch_mAP", "gap_closed", "difference"]
    header += ["difference_sd", "difference_seeds", "p_holm", "best", "trials_least", "trials_most"]
    header += ["median_params", "edges", "test_mAP_by_seed"]
    write_rows(folder / "summary.csv", header, summary)
    header = ["data", "candidate", "runs", "seconds", "memory_MiB"]
    costs = [[*cost[:3], f"{cost.seconds:.3f}", f"{cost.memory:.1f}"] for cost in report.account.costs]
    write_rows(folder / "cost.csv", header, costs)


def _number(value: float | None) -> str:
    """Six decimals, or nothing for what is not known."""
    return "" if value is None or value != value else f"{value:.6g}"


def _json(value: object) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)
