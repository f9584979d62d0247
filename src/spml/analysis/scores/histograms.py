"""Histograms of probabilities in panels, as several figures draw them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ...common.errors import InputError
from ...plots.style import COLOURS, new_figure, style_axes


class Bar(NamedTuple):
    """A bin of a histogram: its edges, the number of values in it, and its density."""

    low: float
    high: float
    values: int
    density: float


def new_panels(rows: int, columns: int) -> npt.NDArray[Any]:
    """Styled axes (rows, columns) of a new figure, which share their axes row by row."""
    figure = new_figure(max(3.2 * columns, 4.2), 2.7 * rows + 0.3)
    panels: npt.NDArray[Any] = figure.subplots(rows, columns, squeeze=False, sharey="row")
    for axes in panels.flat:
        style_axes(axes, whole=False)
    return panels


def draw_histograms(
    axes: Any, groups: Mapping[str, npt.NDArray[Any]], bins: int, *, log: bool
) -> dict[str, list[Bar]]:
    """Draw the densities of groups of probabilities over each other.

    Args:
        axes: Axes of a figure.
        groups: Probabilities of each group, at least one in each.
        bins: Number of bins between 0 and 1.
        log: Whether the axis of the density is logarithmic.

    Returns:
        The bars of each group; their densities integrate to 1.

    Raises:
        InputError: The number of bins is not positive.
    """
    edges = bin_edges(bins)
    histograms = {}
    for colour, (name, values) in zip((COLOURS[1], COLOURS[0]), groups.items(), strict=False):
        counts, _ = np.histogram(values, edges)
        density = counts * bins / len(values)
        axes.stairs(density, edges, color=colour, fill=True, alpha=0.3)
        axes.stairs(density, edges, color=colour, linewidth=1.4, label=name)
        histograms[name] = [
            Bar(*bar)
            for bar in zip(
                edges[:-1].tolist(), edges[1:].tolist(), counts.tolist(), density.tolist(), strict=True
            )
        ]
    axes.set_xlim(0, 1)
    if log:
        axes.set_yscale("log")
        axes.tick_params(which="minor", length=0)
    return histograms


def bin_edges(bins: int) -> npt.NDArray[np.float64]:
    """Edges of equal bins between 0 and 1, shape (bins + 1,).

    Raises:
        InputError: The number of bins is not positive.
    """
    if bins < 1:
        raise InputError(f"the number of bins must be at least 1, got {bins}")
    return np.linspace(0, 1, bins + 1)
