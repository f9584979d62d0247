"""Members of the auto head: scores of all penalties, and the weights of the best."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .style import COLOURS, MISSED, new_figure, save, style_axes

_NAMES = {"val/SP": "SP-score", "val/mAP": "mAP"}


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
        axes.set_title(scaling, fontsize=9.5, loc="left")
        axes.set_xlabel("penalty", fontsize=9)
        for (space, head), records in by.items():
            finite = [record for record in records if record["penalty"] != "infinity"]
            member = chosen.get((f"{scaling}, {space}", head))
            colour = colours[space] if member else MISSED
            axes.plot(
                [record["penalty"] for record in finite],
                [100 * record["score"] for record in finite],
                color=colour,
                linewidth=1.6 if member else 0.8,
                linestyle="-" if head == "ridge" else (0, (4, 2)),
            )
            if member and member["penalty"] != "infinity":
                axes.plot(
                    [member["penalty"]],
                    [100 * member["score"]],
                    marker="o",
                    markersize=3 + 14 * member["weight"],
                    color=colour,
                    markeredgecolor="white",
                )
    panels[0].set_ylabel(f"{_NAMES.get(metric, metric)} of held-out samples", fontsize=9)
    for space, colour in colours.items():
        panels[-1].plot([], [], color=colour, label=space)
    panels[-1].plot([], [], color=MISSED, label="ridge")
    panels[-1].plot([], [], color=MISSED, linestyle=(0, (4, 2)), label="lda")
    panels[-1].legend(fontsize=7, frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    save(figure, path)
