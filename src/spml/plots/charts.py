"""Charts of runs and audits: curves, comparisons, thresholds, reliability, expected precision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..common.phrases import counted
from .style import (
    COLOURS,
    GIVEN,
    GRID,
    MISSED,
    add_legend,
    cut,
    label_axes,
    new_figure,
    new_sheet,
    picture,
    save,
    single_panel,
    style_axes,
)

_LOSS, _MAP = "train/loss", "val/mAP"
_PENALTY = "penalty: how simple the model is kept"
_NAMES = {"val/SP": "SP-score", "val/mAP": "mAP"}
_STYLES = {"ridge": "-", "lda": (0, (4, 2)), "multinomial": (0, (1, 1.5))}
_TITLES = {_LOSS: "training loss", "val/SP": "validation SP-score, %", _MAP: "validation mAP, %"}


@picture
def fit_curves(path: Path, history: Sequence[Mapping[str, Any]], *, metric: str, best: int) -> None:
    """Draw training loss, the selecting validation metric and, if known, the true mAP, a panel for each.

    Args:
        path: PNG to write.
        history: One record per epoch, with `epoch` (from 1) and `train/loss`, or one per penalty of a
            closed-form head, with `penalty` (a number or `infinity`); the metric, perhaps `val/mAP`.
        metric: Name of the metric by which a record was selected, in [0, 1].
        best: Position of the selected record.
    """
    along = "epoch" if "epoch" in history[0] else "penalty"
    keys = [_LOSS, metric] if along == "epoch" else [metric]
    if metric != _MAP and _MAP in history[0]:
        keys.append(_MAP)
    values = [record[along] for record in history]
    names = ["\N{INFINITY}" if value == "infinity" else f"{value:.3g}" for value in values]
    positions = values if along == "epoch" else range(len(values))
    name = f"{along} {values[best] if along == 'epoch' else names[best]}"
    figure = new_figure(3.4 * len(keys), 2.9)
    for key, axes in zip(keys, figure.subplots(1, len(keys), squeeze=False)[0], strict=True):
        is_loss = key == _LOSS
        scores = [(1 if is_loss else 100) * record[key] for record in history]
        x, y = positions[best], scores[best]
        style_axes(axes)
        axes.axvline(x, color=MISSED, linewidth=0.8, linestyle=(0, (4, 3)))
        axes.plot(positions, scores, color=COLOURS[0], linewidth=1.8, marker="o", markersize=3.2)
        axes.plot([x], [y], marker="o", markersize=8, color=COLOURS[1], markeredgecolor="white")
        axes.annotate(
            f"{y:.3g}" if is_loss else f"{y:.2f}",
            (x, y),
            xytext=(0, 9 if is_loss else -9),
            textcoords="offset points",
            ha="left" if best == 0 < len(positions) - 1 else "center",  # not over the labels of the ticks
            va="bottom" if is_loss else "top",
            color=COLOURS[1],
            fontweight="bold",
            fontsize=9,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 1},
        )
        axes.set_xlim(positions[0] - 0.5, positions[-1] + 0.5)
        axes.margins(y=0.12)
        role = {_LOSS: "", metric: f" (selects {name})"}.get(key, " (only shown)")
        label_axes(axes, _TITLES.get(key, key) + role, along if along == "epoch" else _PENALTY, "")
        if along == "penalty":
            axes.set_xticks(positions[::2], names[::2])
    figure.get_layout_engine().set(wspace=0.06)
    save(figure, path)


@picture
def member_curves(
    path: Path, tried: Sequence[Mapping[str, Any]], members: Sequence[Mapping[str, Any]], *, metric: str
) -> None:
    """Draw the score of every solution over its penalty: a panel per scaling, a line per space and head.

    A member of the ensemble is marked where it was chosen, with its weight; other lines are grey.

    Args:
        path: PNG file.
        tried: Solutions, with `space`, `head`, `penalty` and `score`.
        members: Chosen solutions, with `weight` as well.
        metric: Metric of the scores, `val/SP` or `val/mAP`.
    """
    lines: dict[str, dict[tuple[str, str], list[Mapping[str, Any]]]] = {}
    for record in tried:
        scaling, _, space = record["space"].partition(", ")
        lines.setdefault(scaling, {}).setdefault((space, record["head"]), []).append(record)
    chosen = {(member["space"], member["head"]): member for member in members}
    figure = new_figure(1 + 3.6 * len(lines), 3.4)
    panels = figure.subplots(1, len(lines), squeeze=False, sharey=True)[0]
    spaces = dict.fromkeys(space for by in lines.values() for space, _ in by)
    colours = dict(zip(spaces, COLOURS, strict=False))
    for axes, (scaling, by) in zip(panels, lines.items(), strict=True):
        style_axes(axes)
        axes.set_xscale("log")
        label_axes(axes, scaling, _PENALTY, "")
        for (space, head), records in by.items():
            finite = [record for record in records if record["penalty"] != "infinity"]
            member = chosen.get((f"{scaling}, {space}", head))
            colour = colours[space] if member else MISSED
            penalties, scores = ([record[key] for record in finite] for key in ("penalty", "score"))
            style = {"linewidth": 1.6 if member else 0.8, "linestyle": _STYLES[head]}
            axes.plot(penalties, [100 * score for score in scores], color=colour, **style)
            if member and member["penalty"] != "infinity":
                size = 3 + 14 * member["weight"]
                style = {"marker": "o", "markersize": size, "markeredgecolor": "white"}
                axes.plot([member["penalty"]], [100 * member["score"]], color=colour, **style)
    panels[0].set_ylabel(f"{_NAMES.get(metric, metric)} in the search, %", fontsize=9)
    for space, colour in colours.items():
        panels[-1].plot([], [], color=colour, label=space)
    for head in dict.fromkeys(head for by in lines.values() for _, head in by):
        panels[-1].plot([], [], color=MISSED, linestyle=_STYLES[head], label=head)
    panels[-1].legend(fontsize=7, frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    save(figure, path)


@picture
def tie_set(
    path: Path,
    candidates: Sequence[Mapping[str, Any]],
    *,
    score: str = "SP",
    axis: str = "SP-score, % (not mAP), and its 95 % interval",
) -> None:
    """Draw scores of models with their intervals, the highest at the top and the tie set filled.

    Args:
        path: PNG to write.
        candidates: `run` (its name), `in_tie_set`, and the score with its interval (low, high), such as `SP`
            and `SP_interval`, for each model. Values lie in [0, 1]; those above, which an SP-score may reach,
            are drawn at 100 %.
        score: Key of the score.
        axis: What runs along the axis.

    Raises:
        SpmlError: The file could not be written.
    """
    ordered = sorted(candidates, key=lambda candidate: candidate[score])
    figure, axes = single_panel(7.2, 1.0 + 0.26 * len(ordered), sideways=True)
    for row, candidate in enumerate(ordered):
        tied = candidate["in_tie_set"]
        colour = COLOURS[0] if tied else MISSED
        ends = candidate[f"{score}_interval"]
        low, value, high = (100 * min(number, 1.0) for number in (ends[0], candidate[score], ends[1]))
        axes.plot([low, high], [row, row], color=colour, linewidth=1.8)
        axes.plot(value, row, "o", markersize=7, color=colour if tied else "white", markeredgecolor=colour)
    axes.set_ylim(-0.6, len(ordered) - 0.4)
    axes.set_yticks(range(len(ordered)))
    names = [candidate["run"] for candidate in ordered]
    short = [name if len(name) <= 40 else "\N{HORIZONTAL ELLIPSIS}" + name[-39:] for name in names]
    for label in axes.set_yticklabels(short):
        label.set_parse_math(False)
    axes.set_xlabel(axis, fontsize=9)
    axes.set_title("Filled: the tie set, not to be told from the best", fontsize=9.5, loc="left")
    save(figure, path)


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


@picture
def threshold_curves(path: Path, curves: Sequence[ThresholdCurve], *, title: str) -> None:
    """Draw estimated precision and recall over the threshold, a panel per class, with the chosen threshold.

    Args:
        path: PNG to write.
        curves: Estimates of some classes; at least one.
        title: Title of the figure.
    """
    from matplotlib.ticker import MaxNLocator

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
        axes.set_yticks((0, 50, 100))
        axes.xaxis.set_major_locator(MaxNLocator(nbins=4))
        # Only the last panel of a column and the first of a row say what runs along their axes.
        x = "threshold (score)" if number + columns >= len(curves) else ""
        label_axes(axes, cut(curve.name, 28) + never, x, "" if number % columns else "estimate, %")
    for axes in panels[len(curves) :]:
        axes.set_axis_off()
    add_legend(panels[0], loc="best")
    figure.suptitle(title, fontsize=10, x=0.01, ha="left", parse_math=False)
    save(figure, path)


@picture
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


_MOST_CLASSES = 30


class ClassBar(NamedTuple):
    """A class of `audit_sheet`."""

    name: str
    known: int  # number of known positives
    hidden: float  # expected number of hidden positives
    learnable: bool


@picture
def audit_sheet(
    path: Path, classes: Sequence[ClassBar], precision: npt.NDArray[np.float64], listed: int
) -> None:
    """Draw known and expected hidden labels per class, and the expected precision of a list by its length.

    Args:
        path: PNG file.
        classes: All classes; the 30 with the most expected hidden labels are drawn.
        precision: Expected share of the first 1, 2, ... entries that are right, of shape (M,); may be empty.
        listed: Length of the list that was written, at most M.
    """
    shown = sorted(classes, key=lambda each: -each.hidden)[:_MOST_CLASSES]
    figure = new_figure(9.6, max(3.6, 1.4 + 0.19 * len(shown)))
    left, right = figure.subplots(1, 2)
    style_axes(left, sideways=True)
    places = np.arange(len(shown))[::-1]
    known, hidden = [each.known for each in shown], [each.hidden for each in shown]
    left.barh(places, known, color=GIVEN, height=0.72, label="known")
    missing = {"color": COLOURS[1], "label": "expected to be missing"}
    left.barh(places, hidden, left=known, height=0.72, **missing)
    names = [cut(each.name, 24) + ("" if each.learnable else " *") for each in shown]
    left.set_yticks(places, names, parse_math=False)
    of = f" (the {len(shown)} with the most of {len(classes)})" if len(shown) < len(classes) else ""
    star = "" if all(each.learnable for each in shown) else "     * not learnable from these labels"
    label_axes(left, f"Labels per class{of}", f"samples{star}", "")
    add_legend(left, loc="lower right")
    style_axes(right)
    label_axes(right, "Expected precision of the list", "entries, the highest score first", "% right")
    right.set_ylim(0, 100)
    if len(precision):
        entries = np.arange(1, len(precision) + 1)
        # Of one or two entries it says little, and jumps.
        start = min(9, len(precision) - 1)
        right.plot(entries[start:], 100 * precision[start:], color=COLOURS[1], linewidth=1.6)
        right.set_xlim(0, len(precision) * 1.02)
    if listed:
        right.axvline(listed, color=MISSED, linewidth=1.2, linestyle=(0, (4, 2)))
        about = f"- - listed: {counted(listed, 'label')}, {100 * precision[listed - 1]:.0f} % expected right"
        white = {"facecolor": "white", "edgecolor": "none", "pad": 2}
        right.text(0.98, 0.03, about, transform=right.transAxes, ha="right", fontsize=8.5, bbox=white)
    save(figure, path)
