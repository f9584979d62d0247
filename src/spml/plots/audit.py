"""Expectations of an audit: hidden labels of each class, and the precision of the list over its length."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..common.phrases import counted
from .style import (
    COLOURS,
    GIVEN,
    MISSED,
    add_legend,
    cut,
    label_axes,
    new_figure,
    save,
    style_axes,
)

_MOST_CLASSES = 30


class ClassBar(NamedTuple):
    """A class of `audit_sheet`."""

    name: str
    known: int  # number of known positives
    hidden: float  # expected number of hidden positives
    learnable: bool


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
    _draw_classes(left, shown, len(classes))
    _draw_precision(right, precision, listed)
    save(figure, path)


def _draw_classes(axes: Any, shown: Sequence[ClassBar], total: int) -> None:
    style_axes(axes, sideways=True)
    places = np.arange(len(shown))[::-1]
    known = [each.known for each in shown]
    axes.barh(places, known, color=GIVEN, height=0.72, label="known")
    axes.barh(
        places, [each.hidden for each in shown], left=known, color=COLOURS[1], height=0.72,
        label="expected to be missing",
    )  # fmt: skip
    names = [cut(each.name, 24) + ("" if each.learnable else " *") for each in shown]
    axes.set_yticks(places, names, parse_math=False)
    of = f" (the {len(shown)} with the most of {total})" if len(shown) < total else ""
    star = "" if all(each.learnable for each in shown) else "     * not learnable from these labels"
    label_axes(axes, f"Labels per class{of}", f"samples{star}", "")
    add_legend(axes, loc="lower right")


def _draw_precision(axes: Any, precision: npt.NDArray[np.float64], listed: int) -> None:
    style_axes(axes)
    label_axes(axes, "Expected precision of the list", "entries, the highest score first", "% right")
    axes.set_ylim(0, 100)
    if not len(precision):
        return
    entries = np.arange(1, len(precision) + 1)
    # Of one or two entries it says little, and jumps.
    start = min(9, len(precision) - 1)
    axes.plot(entries[start:], 100 * precision[start:], color=COLOURS[1], linewidth=1.6)
    axes.set_xlim(0, len(precision) * 1.02)
    if listed:
        axes.axvline(listed, color=MISSED, linewidth=1.2, linestyle=(0, (4, 2)))
        about = f"- - listed: {counted(listed, 'label')}, {100 * precision[listed - 1]:.0f} % expected right"
        white = {"facecolor": "white", "edgecolor": "none", "pad": 2}
        axes.text(0.98, 0.03, about, transform=axes.transAxes, ha="right", fontsize=8.5, bbox=white)
