"""Curves of one run: over epochs, or over the penalties of a head in closed form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from .style import COLOURS, MISSED, new_figure, save, style_axes

_LOSS, _MAP = "train/loss", "val/mAP"
_TITLES = {_LOSS: "training loss", "val/SP": "validation SP-score, %", _MAP: "validation mAP, %"}


def learning_curves(
    path: Path, history: Sequence[Mapping[str, Any]], *, metric: str, best_epoch: int
) -> None:
    """Draw training loss, the selecting validation metric and, if known, the true mAP per epoch.

    Args:
        path: PNG to write.
        history: One record per epoch: `epoch` (from 1), `train/loss`, the metric, perhaps `val/mAP`.
        metric: Name of the metric by which the epoch was selected, in [0, 1].
        best_epoch: The selected epoch.

    Raises:
        SpmlError: The file could not be written.
    """
    epochs = [record["epoch"] for record in history]
    axis = _Axis("epoch", epochs, epochs.index(best_epoch), f"epoch {best_epoch}")
    _draw(path, history, [_LOSS, metric], metric, axis)


def penalty_curves(path: Path, history: Sequence[Mapping[str, Any]], *, metric: str, best: int) -> None:
    """Draw the selecting validation metric and, if known, the true mAP per penalty of a closed-form head.

    Args:
        path: PNG to write.
        history: One record per penalty: `penalty` (a number or `infinity`), the metric, perhaps `val/mAP`.
        metric: Name of the metric by which the penalty was selected, in [0, 1].
        best: Position of the selected record.

    Raises:
        SpmlError: The file could not be written.
    """
    ticks = [_short_penalty(record["penalty"]) for record in history]
    axis = _Axis("penalty", range(len(history)), best, f"penalty {ticks[best]}", ticks)
    _draw(path, history, [metric], metric, axis)


class _Axis(NamedTuple):
    """Horizontal axis of every panel.

    Attributes:
        label: What runs along it.
        positions: Position of each record on it.
        best: Number of the selected record.
        best_name: Name of the selected record.
        ticks: Names of the positions; empty to print the positions themselves.
    """

    label: str
    positions: Sequence[int]
    best: int
    best_name: str
    ticks: Sequence[str] = ()


def _short_penalty(penalty: float | str) -> str:
    return "\N{INFINITY}" if penalty == "infinity" else f"{penalty:.3g}"


def _draw(
    path: Path, history: Sequence[Mapping[str, Any]], keys: list[str], metric: str, axis: _Axis
) -> None:
    """Draw one panel per key, and one of the true mAP if it is known and did not select."""
    if metric != _MAP and _MAP in history[0]:
        keys = [*keys, _MAP]
    figure = new_figure(3.4 * len(keys), 2.9)
    for key, axes in zip(keys, figure.subplots(1, len(keys), squeeze=False)[0], strict=True):
        _panel(axes, [record[key] for record in history], axis, is_loss=key == _LOSS)
        role = {_LOSS: "", metric: f" (selects {axis.best_name})"}.get(key, " (only shown)")
        axes.set_title(_TITLES.get(key, key) + role, fontsize=9.5, loc="left")
    figure.get_layout_engine().set(wspace=0.06)
    save(figure, path)


def _panel(axes: Any, values: Sequence[float], axis: _Axis, *, is_loss: bool) -> None:
    """A curve, as it is for a loss and in percent otherwise, with the selected record marked."""
    values = [(1 if is_loss else 100) * value for value in values]
    positions = axis.positions
    x, y = positions[axis.best], values[axis.best]
    style_axes(axes)
    axes.axvline(x, color=MISSED, linewidth=0.8, linestyle=(0, (4, 3)))
    axes.plot(positions, values, color=COLOURS[0], linewidth=1.8, marker="o", markersize=3.2)
    axes.plot([x], [y], marker="o", markersize=8, color=COLOURS[1], markeredgecolor="white")
    axes.annotate(
        f"{y:.3g}" if is_loss else f"{y:.2f}",
        (x, y),
        xytext=(0, 9 if is_loss else -9),
        textcoords="offset points",
        ha="left" if axis.best == 0 < len(positions) - 1 else "center",  # not over the labels of the ticks
        va="bottom" if is_loss else "top",
        color=COLOURS[1],
        fontweight="bold",
        fontsize=9,
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 1},
    )
    axes.set_xlim(positions[0] - 0.5, positions[-1] + 0.5)
    axes.margins(y=0.12)
    axes.set_xlabel(axis.label, fontsize=9)
    if axis.ticks:
        axes.set_xticks(positions[::2], axis.ticks[::2])
