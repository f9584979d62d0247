"""Figures that compare methods or models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .style import COLOURS, MISSED, save, single_panel


def compare_curves(path: Path, curves: Mapping[str, Sequence[tuple[float, float]]], *, ylabel: str) -> None:
    """Draw one line per method with a band of one standard deviation, named at its right end.

    Args:
        path: PNG to write.
        curves: (mean, standard deviation) per epoch for each method, in [0, 1]; drawn in percent.
        ylabel: Name of the quantity.

    Raises:
        SpmlError: The file could not be written.
    """
    figure, axes = single_panel(7.2, 4.2)
    ends = {}
    for number, (name, points) in enumerate(curves.items()):
        mean, deviation = 100 * np.asarray(points, np.float64).T
        epochs = np.arange(1, len(mean) + 1)
        colour = COLOURS[number % len(COLOURS)]
        line = ("-", "--", ":")[number // len(COLOURS) % 3]
        axes.fill_between(epochs, mean - deviation, mean + deviation, color=colour, alpha=0.15, linewidth=0)
        axes.plot(epochs, mean, line, color=colour, linewidth=2)
        ends[name] = (len(mean), mean[-1], colour)
    axes.margins(x=0)
    axes.set_xlabel("epoch")
    axes.set_ylabel(f"{ylabel}, %")
    low, high = axes.get_ylim()
    heights = _spread([value for _, value, _ in ends.values()], 0.055 * (high - low))
    for (name, (epoch, value, colour)), height in zip(ends.items(), heights, strict=True):
        style = {"color": colour, "fontweight": "bold", "fontsize": 9, "va": "center", "parse_math": False}
        place = {"xytext": (8, 0), "textcoords": "offset points", "annotation_clip": False}
        axes.annotate(f"{name}  {value:.1f}", (epoch, height), **place, **style)
    save(figure, path)


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


def _spread(values: Sequence[float], distance: float) -> list[float]:
    """Move values apart so that neighbours differ by at least `distance`; their order stays."""
    order = np.argsort(values, kind="stable")
    groups = [[value] for value in np.array(values, np.float64)[order]]
    # Neighbours that are too close become one group, spread evenly around its mean.
    i = 0
    while i + 1 < len(groups):
        group, following = groups[i], groups[i + 1]
        needed = distance * (len(group) + len(following)) / 2
        if np.mean(following) - np.mean(group) < needed:
            groups[i : i + 2] = [group + following]
            i = max(i - 1, 0)
        else:
            i += 1
    spread = [np.mean(group) + distance * (np.arange(len(group)) - (len(group) - 1) / 2) for group in groups]
    moved = np.empty(len(values))
    moved[order] = np.concatenate(spread)
    return [float(value) for value in moved]
