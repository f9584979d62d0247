"""Loss around the trained weights of runs, along random directions that are scaled filter by filter."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ...common.errors import InputError
from ...plots.style import COLOURS, label_axes, new_figure, style_axes
from ..registry import Analysis, register_figure
from .loss_around import LossAround, Values
from .opened import open_runs

_POINTS = {1: 41, 2: 15}
_LEVELS = 16
_LOSSES = {"own": "training loss", "full": "binary cross-entropy on full labels"}


@register_figure(
    "landscape",
    "Loss around the trained weights, along filter-normalised random directions",
    needs="folders of runs, and the data that they were trained on",
)
def landscape(
    runs: Sequence[str | Path],
    *,
    dimensions: Literal[1, 2] = 1,
    loss: Literal["own", "full"] = "own",
    points: int | None = None,
    radius: float = 1.0,
    samples: int = 256,
    seed: int = 0,
) -> Analysis:
    """Draw the loss on training samples around the trained weights of each run, runs side by side.

    A direction has a random Gaussian number for each weight that was trained; each filter (row of a weight
    matrix) of it is scaled to the norm of that filter of the weights. Biases and parameters of normalisation
    do not move. Runs with the same architecture have the same random numbers.

    The model is in evaluation mode and images are not augmented; views of a sample that a loss compares are
    drawn once. A schedule is at its end, and labels that a method has inferred are those of the epoch whose
    weights are kept.

    Args:
        runs: Folders of runs.
        dimensions: Number of directions: 1 draws curves, 2 draws contours.
        loss: `own` is the loss of each run, as in the poster, whose axis reaches below 0; its values are not
            comparable between methods, its shapes are. `full` is the mean binary cross-entropy on full
            labels, the same for all runs; it needs the true labels of the training samples.
        points: Odd number of points along each direction; 41 in one dimension and 15 in two if None.
        radius: Distance from the trained weights to the ends, in multiples of the scaled direction.
        samples: Number of training samples, drawn at random; 0 = all of them.
        seed: Seed of the directions and of the draw of samples.

    Returns:
        The figure; its table has the columns run, x, y (in two dimensions) and loss.

    Raises:
        InputError: An option is out of its domain, the data of a run can't be opened as in its training, the
            state of its method is missing, its head was solved without a loss, or true labels are missing.

    Source: Li, Xu, Taylor, Studer, Goldstein, "Visualizing the Loss Landscape of Neural Nets", NeurIPS 2018,
    section 4; Zhou et al., "Acknowledging the Unknown for Multi-label Learning with Single Positive Labels",
    ECCV 2022, poster.
    """
    points = _POINTS[dimensions] if points is None else points
    if points < 3 or points % 2 == 0:
        raise InputError(f"--points must be an odd number of at least 3, got {points}")
    if not 0 < radius < np.inf:
        raise InputError(f"--radius must be greater than 0, got {radius:g}")
    if samples < 0:
        raise InputError(f"--samples must be at least 0, got {samples}")
    axis = np.linspace(-radius, radius, points)
    opened, surfaces, notes = open_runs(runs), [], []
    for each in opened:
        around = LossAround(each, loss, samples, seed)
        surfaces.append(around.grid(axis, dimensions, seed))
        centre = surfaces[-1][(points // 2,) * dimensions]
        notes.append(
            f"{each.name}: {centre:.6g} at the trained weights, {around.samples:,} training samples."
        )
    names = [each.name for each in opened]
    draw = _curves if dimensions == 1 else _contours
    figure = draw(names, axis, surfaces, _LOSSES[loss], shared=loss == "full")
    rows = [
        (name, *(float(axis[k]) for k in place), float(value))
        for name, surface in zip(names, surfaces, strict=True)
        for place, value in np.ndenumerate(surface)
    ]
    return Analysis.from_rows(figure, ("run", *"xy"[:dimensions], "loss"), rows, notes)


def _curves(
    names: Sequence[str], axis: Values, surfaces: Sequence[Values], quantity: str, *, shared: bool
) -> Any:
    figure = new_figure(max(2.6 * len(names), 4.0) + 0.3, 3.0)
    panels = figure.subplots(1, len(names), squeeze=False, sharey=shared)[0]
    for number, (axes, name, surface) in enumerate(zip(panels, names, surfaces, strict=True)):
        colour = COLOURS[number % len(COLOURS)]
        style_axes(axes, whole=False)
        axes.plot(axis, surface, color=colour, linewidth=1.8)
        axes.plot(0, surface[len(axis) // 2], "o", color=colour, markersize=5)
        label_axes(axes, name, "distance along the direction", "" if number else quantity)
    return figure


def _contours(
    names: Sequence[str], axis: Values, surfaces: Sequence[Values], quantity: str, *, shared: bool
) -> Any:
    from matplotlib.colors import BoundaryNorm
    from matplotlib.ticker import MaxNLocator

    figure = new_figure(3.3 * len(names) + 0.5, 2.9)
    panels = figure.subplots(1, len(names), squeeze=False)[0]
    together = np.concatenate([surface.ravel() for surface in surfaces])
    for axes, name, surface in zip(panels, names, surfaces, strict=True):
        values = together if shared else surface
        # Closer together at the bottom of the valley, which is the interesting part.
        levels = values.min() + (np.ptp(values) or 1) * np.linspace(0, 1, _LEVELS) ** 2
        norm = BoundaryNorm(levels, 256)
        filled = axes.contourf(axis, axis, surface.T, levels=levels, cmap="viridis", norm=norm)
        lines = {"colors": "white", "linestyles": "solid", "linewidths": 0.5, "alpha": 0.7}
        axes.contour(axis, axis, surface.T, levels=levels, **lines)
        axes.plot(0, 0, "o", color="white", markeredgecolor="black", markersize=5)
        axes.set_aspect("equal")
        axes.locator_params(nbins=4)
        axes.tick_params(labelsize=8.5, length=0)
        label_axes(axes, name, "first direction", "second direction")
        # Levels are no round numbers, so that ticks are put between them.
        ticks = MaxNLocator(4).tick_values(levels[0], levels[-1])
        bar = figure.colorbar(filled, ax=axes, fraction=0.046, spacing="proportional", format="%g")
        bar.set_ticks(ticks[(ticks >= levels[0]) & (ticks <= levels[-1])])
        bar.minorticks_off()
        bar.ax.tick_params(labelsize=8, length=0)
        bar.set_label(quantity, fontsize=8.5)
    return figure
