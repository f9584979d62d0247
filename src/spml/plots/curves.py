"""Curves of one run: over epochs, or over the penalties of heads in closed form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .style import COLOURS, MISSED, label_axes, new_figure, save, style_axes

_LOSS, _MAP = "train/loss", "val/mAP"
_NAMES = {"val/SP": "SP-score", "val/mAP": "mAP"}
_STYLES = {"ridge": "-", "lda": (0, (4, 2)), "multinomial": (0, (1, 1.5))}
_TITLES = {_LOSS: "training loss", "val/SP": "validation SP-score, %", _MAP: "validation mAP, %"}


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
        role = {_LOSS: "", metric: f" (selects {name})"}.get(key, " (only shown)")
        _panel(axes, positions, [record[key] for record in history], best, is_loss=key == _LOSS)
        label_axes(axes, _TITLES.get(key, key) + role, along, "")
        if along == "penalty":
            axes.set_xticks(positions[::2], names[::2])
    figure.get_layout_engine().set(wspace=0.06)
    save(figure, path)


def _panel(axes: Any, positions: Sequence[int], values: Sequence[float], best: int, *, is_loss: bool) -> None:
    """A curve, as it is for a loss and in percent otherwise, with the selected record marked."""
    values = [(1 if is_loss else 100) * value for value in values]
    x, y = positions[best], values[best]
    style_axes(axes)
    axes.axvline(x, color=MISSED, linewidth=0.8, linestyle=(0, (4, 3)))
    axes.plot(positions, values, color=COLOURS[0], linewidth=1.8, marker="o", markersize=3.2)
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
        label_axes(axes, scaling, "penalty", "")
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
    panels[0].set_ylabel(f"{_NAMES.get(metric, metric)} of held-out samples", fontsize=9)
    for space, colour in colours.items():
        panels[-1].plot([], [], color=colour, label=space)
    for head in dict.fromkeys(head for by in lines.values() for _, head in by):
        panels[-1].plot([], [], color=MISSED, linestyle=_STYLES[head], label=head)
    panels[-1].legend(fontsize=7, frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    save(figure, path)
