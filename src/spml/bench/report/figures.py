"""Figures of a report, as PNG and SVG; equal numbers give equal files."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from ...plots.style import COLOURS, MISSED, cut, new_figure, single_panel, style_axes
from .markdown import one_line, percent
from .results import Report
from .statistics import Ranking, Task

_LINE = 0.235  # inches per candidate
_TEXT = {"parse_math": False}
_BESIDE = {"textcoords": "offset points", "va": "center"}
_BOX = {"facecolor": "white", "edgecolor": "none", "pad": 0.6, "alpha": 0.85}


def draw(report: Report) -> Iterator[tuple[str, Any]]:
    """Draw all figures of a report.

    Yields:
        Names and matplotlib figures: `scores-NN` for each task in the order of `Report.entries`, and
        `ranks-NN` for each mode with a critical difference.
    """
    for number, task in enumerate(report.entries, 1):
        yield f"scores-{number:02d}", _scores(report, task)
    for number, mode in enumerate(report.modes, 1):
        if math.isfinite(report.rankings[mode].cd):
            yield f"ranks-{number:02d}", _ranks(report.rankings[mode], mode)


def _scores(report: Report, task: Task) -> Any:
    """A bar per candidate and mode, whiskers of one standard deviation, values at their ends."""
    names, modes, entries = report.candidates[task], report.modes, report.entries[task]
    step = max(_LINE, 0.115 * len(modes) + 0.06)
    figure, axes = single_panel(7.4, 1.15 + step * len(names), whole=False, sideways=True)
    thickness = 0.84 / len(modes)
    ends = [100 * np.nan_to_num(e.test.sd) * np.array([-1, 1]) + 100 * e.test.mean for e in entries.values()]
    lowest, highest = np.min(ends), np.max(ends)
    # Bars that differ little are told apart; the label of the axis says that it does not begin at 0.
    start = math.floor(2 * lowest - highest) if lowest > 0.7 * highest else 0
    for number, mode in enumerate(modes):
        colour = COLOURS[number % len(COLOURS)]
        rows = [i for i, name in enumerate(names) if (name, mode) in entries]
        tests = [entries[names[i], mode].test for i in rows]
        middle = np.array(rows) + (number - (len(modes) - 1) / 2) * thickness
        means = 100 * np.array([test.mean for test in tests])
        axes.barh(middle, means, 0.86 * thickness, color=colour, alpha=0.8, label=mode)
        spreads = 100 * np.nan_to_num([test.sd for test in tests])
        axes.errorbar(means, middle, xerr=spreads, fmt="none", ecolor="black", elinewidth=0.9, capsize=1.6)
        for y, mean, deviation, test in zip(middle, means, spreads, tests, strict=True):
            look = {"fontsize": 6.5, "color": colour, "bbox": _BOX}
            axes.annotate(percent(test.mean), (mean + deviation, y), xytext=(3, 0), **_BESIDE, **look)
    for name, style in ((report.baseline, ":"), (report.ceiling, "--")):
        entry = entries.get((name or "", modes[0]))
        if entry is not None:
            label = f"{cut(one_line(name or ''))}, {modes[0]}"
            axes.axvline(100 * entry.test.mean, color=MISSED, lw=0.9, ls=style, zorder=0.5, label=label)
    marks = ["°" if name in report.reference_only else "" for name in names]
    _names(axes, [cut(one_line(name), 30) + mark for name, mark in zip(names, marks, strict=True)])
    start = max(start, 0)
    axes.set_xlim(start, max(highest + 0.1 * (highest - start), 1.0))
    begins = f"; the axis begins at {start}" if start else ""
    axes.set_xlabel(f"test mAP, % (mean and standard deviation over seeds{begins})", fontsize=9)
    title = f"{cut(one_line(task[0]), 36)}, {cut(one_line(task[1]), 36)}; selected by:"
    handles, labels = axes.get_legend_handles_labels()
    place = {"loc": "outside upper left", "ncols": 4, "frameon": False, "fontsize": 8.5}
    legend = figure.legend(handles, labels, title=title, **place)
    legend.get_title().set(fontsize=9.5, fontweight="bold", **_TEXT)
    legend._legend_box.align = "left"
    return figure


def _ranks(ranking: Ranking, mode: str) -> Any:
    """Candidates in the order of their mean ranks; a line joins those that do not differ significantly."""
    count = len(ranking.candidates)
    lanes = _lanes(ranking.groups)
    figure = new_figure(7.4, 1.5 + 0.19 * count)
    axes, side = figure.subplots(
        1, 2, sharey=True, width_ratios=(6, max(0.12 * (max(lanes, default=0) + 1), 0.5))
    )
    style_axes(axes, whole=False, sideways=True)
    y = np.arange(count)
    ranks = np.array(ranking.ranks)
    axes.hlines(y, ranks[0], ranks, color="#BBBBBB", linewidth=0.8)
    axes.axvspan(ranks[0], ranks[0] + ranking.cd, color=COLOURS[0], alpha=0.09, linewidth=0)
    tied = ranks < ranks[0] + ranking.cd
    axes.scatter(ranks, y, s=26, c=[COLOURS[0] if near else COLOURS[1] for near in tied], zorder=3)
    for row, rank in enumerate(ranks):
        axes.annotate(f"{rank:.2f}", (rank, row), xytext=(5, 0), fontsize=7, **_BESIDE)
    _names(axes, [cut(one_line(name), 30) for name in ranking.candidates])
    axes.set_xlim(1 - 0.02 * count, max(ranks.max(), 1.0) + 0.09 * count)
    ends = {"arrowstyle": "|-|,widthA=.25,widthB=.25"}
    axes.annotate("", (ranks[0], -1.1), (ranks[0] + ranking.cd, -1.1), arrowprops=ends, annotation_clip=False)
    axes.annotate(f"CD {ranking.cd:.2f}", (ranks[0], -1.55), fontsize=8, annotation_clip=False)
    axes.set_ylim(count - 0.4, -2.3)
    axes.set_xlabel("mean rank, 1 = best\nshaded: not significantly worse than the best", fontsize=9)
    for group, lane in zip(ranking.groups, lanes, strict=True):
        side.plot([lane, lane], [group[0] - 0.25, group[-1] + 0.25], color="black", linewidth=2.2)
    side.set_xlim(-0.7, max(lanes, default=0) + 0.7)
    side.set_axis_off()
    note = "lines join those that\ndo not differ significantly"
    side.annotate(note, (1, -0.01), xycoords="axes fraction", ha="right", va="top", fontsize=7.5)
    head = f"mean ranks over {len(ranking.tasks)} data sets and ways of hiding, selected by {mode}"
    figure.suptitle(head, fontsize=9.5, x=0.01, ha="left", **_TEXT)
    return figure


def _lanes(groups: tuple[tuple[int, ...], ...]) -> list[int]:
    """For each group, the first lane that is free where it starts, so that no two lines touch."""
    ends: list[int] = []
    lanes = []
    for group in groups:
        lane = next((i for i, end in enumerate(ends) if end < group[0]), len(ends))
        ends[lane:] = [group[-1], *ends[lane + 1 :]]
        lanes.append(lane)
    return lanes


def _names(axes: Any, names: list[str]) -> None:
    axes.set_yticks(range(len(names)), names, fontsize=8, **_TEXT)
    axes.set_ylim(len(names) - 0.4, -0.6)
