"""Figures about decisions: estimated precision and recall over the threshold, and reliability."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .style import COLOURS, GRID, MISSED, add_legend, cut, label_axes, new_figure, new_sheet, save, style_axes

_COLUMNS = 4
_MOST_POINTS = 400
_PANEL, _LEFT, _TOP = (2.6, 2.1), 0.65, 0.7  # inches

Floats = npt.NDArray[np.float64]


class ThresholdCurve(NamedTuple):
    """Estimates for one class."""

    name: str
    thresholds: Floats  # ascending, of shape (M,)
    precision: Floats  # estimate at each, of shape (M,)
    recall: Floats  # estimate at each, of shape (M,)
    threshold: float | None  # the chosen one; None = the class is never predicted


def threshold_curves(path: Path, curves: Sequence[ThresholdCurve], *, title: str) -> None:
    """Draw estimated precision and recall over the threshold, a panel per class, with the chosen threshold.

    Args:
        path: PNG to write.
        curves: Estimates of some classes; at least one.
        title: Title of the figure.
    """
    columns = min(_COLUMNS, len(curves))
    rows = -(-len(curves) // columns)
    width, height = _PANEL[0] * columns + _LEFT, _PANEL[1] * rows + _TOP
    # Every training draws it, and to have the places of a dozen panels worked out takes a third of the time.
    figure = new_sheet(width, height)
    places = {
        "left": _LEFT / width, "right": 1 - 0.15 / width, "bottom": 0.5 / height, "top": 1 - _TOP / height,
        "wspace": 0.25, "hspace": 0.5,
    }  # fmt: skip
    panels = figure.subplots(rows, columns, squeeze=False, gridspec_kw=places).ravel()
    for number, (axes, curve) in enumerate(zip(panels, curves, strict=False)):
        style_axes(axes, whole=False)
        chosen = np.unique(np.linspace(0, len(curve.thresholds) - 1, _MOST_POINTS).round().astype(int))
        for name, values, line, colour in (
            ("precision", curve.precision, "-", COLOURS[0]),
            ("recall", curve.recall, "--", COLOURS[1]),
        ):
            percent = 100 * values[chosen]
            axes.plot(curve.thresholds[chosen], percent, line, color=colour, linewidth=1.6, label=name)
        never = "" if curve.threshold is not None else " (never predicted)"
        if curve.threshold is not None:
            axes.axvline(curve.threshold, color=MISSED, linewidth=1.2)
        axes.set_ylim(-3, 103)
        # Only the last panel of a column and the first of a row say what runs along their axes.
        x = "threshold (score)" if number + columns >= len(curves) else ""
        label_axes(axes, cut(curve.name, 28) + never, x, "" if number % columns else "estimate, %")
    for axes in panels[len(curves) :]:
        axes.set_axis_off()
    add_legend(panels[0], loc="best")
    figure.suptitle(title, fontsize=10, x=0.01, ha="left", parse_math=False)
    save(figure, path)


def reliability_diagram(path: Path, runs: Mapping[str, Mapping[str, Any]]) -> None:
    """Draw the share of positives over the mean probability of each bin, and how full the bins are.

    Args:
        path: PNG to write.
        runs: For each run its calibration `error`, as a share of the positives, and `bins`: the number of
            pairs of sample and class (`count`) and, unless it is 0, their mean probability (`expected`) and
            share of positives (`observed`).
    """
    figure = new_figure(5.4, 5.6)
    above, below = figure.subplots(2, 1, height_ratios=(3, 1), sharex=True)
    style_axes(above, whole=False)
    above.plot([0, 100], [0, 100], color=GRID, linewidth=1.4)
    for number, (name, run) in enumerate(runs.items()):
        used = [each for each in run["bins"] if each["count"]]
        x, y = ([100 * each[key] for each in used] for key in ("expected", "observed"))
        colour, line = COLOURS[number % len(COLOURS)], ("o-", "s--", "^:")[number // len(COLOURS) % 3]
        label = f"{name}: error {100 * run['error']:.1f} % of the positives"
        above.plot(x, y, line, color=colour, linewidth=1.6, markersize=4.5, label=label)
        below.plot(x, [each["count"] for each in used], line, color=colour, linewidth=1.2, markersize=3.5)
    above.set_xlim(-2, 102)
    above.set_ylim(-2, 102)
    add_legend(above, loc="upper left")
    label_axes(above, "Calibration: on the diagonal, probabilities are right", "", "share of positives, %")
    style_axes(below, whole=False)
    below.set_yscale("log")
    label_axes(below, "", "probability, %", "labels per bin")
    save(figure, path)
