"""The section of a report for each data set and way of hiding labels."""

from __future__ import annotations

from .numbers import NOTHING, p_value, place_name, settings, share, with_sd
from .pages import Block, Details, Heading, Paragraph, Picture, Table, plain
from .rankings import Place
from .tables import Entry, Report


def results(report: Report) -> list[Block]:
    """The table, the picture and the settings of each place."""
    blocks: list[Block] = [Heading(2, "Results")]
    for number, place in enumerate(report.entries, 1):
        blocks += [
            Heading(3, plain(place_name(place))),
            Paragraph(
                "Trial and epoch selected by "
                + ", ".join(f"`{mode}`" for mode in report.modes)
                + ", side by side."
            ),
            _scores(report, place),
            Picture(f"scores-{number:02d}", plain(f"Test mAP on {place_name(place)}")),
            Details("Selected settings (median over seeds) and edges", [_selected(report, place)]),
        ]
    return blocks


def _scores(report: Report, place: Place) -> Table:
    header = ["candidate", "seeds"]
    based, with_gap = report.baseline is not None, report.baseline is not None and report.ceiling is not None
    for mode in report.modes:
        header.append(f"`{mode}`: mAP")
        header += ["gap"] if with_gap else []
        header += [f"to {plain(report.baseline)}"] if based else []
        header.append("p")
    found = report.entries[place]
    rows = []
    for name in report.candidates[place]:
        entries = [found.get((name, mode)) for mode in report.modes]
        seeds = sorted({entry.test.n for entry in entries if entry is not None})
        mark = " °" if name in report.reference_only else ""
        cells = [plain(name) + mark, "/".join(map(str, seeds))]
        for entry in entries:
            cells += _score(entry, with_gap, based)
        rows.append(cells)
    return Table(header, rows)


def _score(entry: Entry | None, with_gap: bool, based: bool) -> list[str]:
    if entry is None:
        return [NOTHING] * (2 + with_gap + based)
    score = with_sd(entry.test.mean, entry.test.sd)
    score = f"**{score}**" if entry.best else f"≈ {score}" if entry.level else score
    cells = [score]
    if with_gap:
        cells.append(share(entry.gap))
    if based:
        paired = entry.difference
        cells.append(NOTHING if paired is None else with_sd(paired.mean, paired.sd, sign=True))
    return [*cells, p_value(entry.p)]


def _selected(report: Report, place: Place) -> Table:
    rows = []
    for name in report.candidates[place]:
        for mode in report.modes:
            entry = report.entries[place].get((name, mode))
            if entry is not None:
                trials = "/".join(map(str, sorted(set(entry.trials))))
                edges = ", ".join(f"{s} {side} {n} of {entry.test.n}" for (s, side), n in entry.edges.items())
                middle = plain(settings(entry.params)) or NOTHING
                rows.append([plain(name), f"`{mode}`", middle, plain(edges) or NOTHING, trials])
    return Table(["candidate", "selection", "settings", "at the edge", "trials"], rows, left=4)
