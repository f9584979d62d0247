"""How far apart the predictions for hidden positives and negatives are: distances and densities."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ...plots.style import COLOURS, add_legend, label_axes, new_figure, style_axes
from ..registry import register_figure
from ..result import Analysis
from .histograms import draw_histograms, new_panels
from .recorded import (
    RUNS_WITH_TRUTH,
    Mask,
    chosen_epochs,
    counted_labels,
    describe_labels,
    epoch_name,
    read_runs,
)


@register_figure(
    "separation",
    "Wasserstein distance between the probabilities of true positives and true negatives, per epoch",
    needs=RUNS_WITH_TRUTH,
)
def separation(runs: Sequence[str | Path], *, label: str | None = None, known: bool = False) -> Analysis:
    """Draw how well each run tells the unknown labels that are truly positive from those that are not.

    Args:
        runs: Folders of runs with recorded scores, on the same samples.
        label: Class to draw; all classes together if None.
        known: Count the labels that were observed, too; fully labelled samples have no others.

    Returns:
        The figure; its table has the columns run, epoch (0 = before the first), distance, and the numbers of
        positives and negatives.

    Raises:
        InputError: A run has no recorded scores or true labels, or other samples than the first one.

    Source: Chen et al., "Boosting Single Positive Multi-label Classification with Generalized Robust Loss",
    Fig. 3a; Zhou et al., "Acknowledging the Unknown for Multi-label Learning with Single Positive Labels".
    """
    recordings, notes = read_runs(runs, truth=True)
    table: dict[str, list[Any]] = {
        name: [] for name in ("run", "epoch", "distance", "positives", "negatives")
    }
    figure = new_figure(6.4, 3.8)
    axes = figure.subplots()
    style_axes(axes)
    for colour, (name, recording) in zip(itertools.cycle(COLOURS), recordings.items(), strict=False):
        mask = counted_labels(recording, label=label, known=known)
        assert recording.truth is not None
        positive = recording.truth[mask]
        distances = [
            wasserstein(recording.probabilities(epoch)[mask], positive) for epoch in recording.epochs
        ]
        axes.plot(
            recording.epochs, distances, color=colour, linewidth=1.8, marker="o", markersize=3, label=name
        )
        count = len(distances)
        table["run"] += [name] * count
        table["epoch"] += recording.epochs
        table["distance"] += distances
        table["positives"] += [int(positive.sum())] * count
        table["negatives"] += [int((~positive).sum())] * count
    axes.set_ylim(bottom=0)
    title = f"True positives against true negatives of {describe_labels(label, known)}"
    label_axes(axes, title, "epoch (0: before training)", "Wasserstein distance of probabilities")
    add_legend(axes)
    return Analysis(figure, table, notes)


def wasserstein(values: npt.NDArray[Any], positive: Mask) -> float:
    """First Wasserstein distance between the distributions of positives and of negatives.

    It is the area between their cumulative distributions, which takes one sort.

    Args:
        values: Real numbers, shape (M,).
        positive: Which of them belong to the first distribution, bool (M,); some do, and some do not.
    """
    order = np.argsort(values)
    share = np.where(positive, 1 / positive.sum(), -1 / (~positive).sum())[order]
    return float(np.abs(share.cumsum()[:-1]) @ np.diff(values[order].astype(np.float64)))


@register_figure(
    "densities",
    "Densities of the probabilities of true positives and true negatives",
    needs=RUNS_WITH_TRUTH,
)
def densities(
    runs: Sequence[str | Path],
    *,
    epochs: list[int] | None = None,
    label: str | None = None,
    known: bool = False,
    bins: int = 50,
    log: bool = True,
) -> Analysis:
    """Draw histograms of the predicted probabilities by true label: a row per epoch, a column per run.

    Args:
        runs: Folders of runs with recorded scores, on the same samples.
        epochs: Epochs to draw, 0 for the one before the first; the last one if None.
        label: Class to draw; all classes together if None.
        known: Count the labels that were observed, too; fully labelled samples have no others.
        bins: Number of bins between 0 and 1.
        log: Logarithmic density axis, because most negatives lie in few bins.

    Returns:
        The figure; its table has the columns run, epoch, truth (positive or negative), p_low, p_high, labels
        (in this bin) and density. The densities of positives, and those of negatives, integrate to 1.

    Raises:
        InputError: A run has no recorded scores or true labels, other samples than the first one, or did not
            record an epoch.

    Source: Chen et al., "Boosting Single Positive Multi-label Classification with Generalized Robust Loss",
    Fig. 3b-c; Zhou et al., "Acknowledging the Unknown for Multi-label Learning with Single Positive Labels";
    Li et al., "Pushing One Pair of Labels Apart Each Time in Multi-Label Learning: From Single Positive to
    Full Labels", Fig. 3.
    """
    recordings, notes = read_runs(runs, truth=True)
    chosen = chosen_epochs(recordings, epochs)
    panels = new_panels(len(next(iter(chosen.values()))), len(recordings))
    rows: list[tuple[Any, ...]] = []
    for column, (name, recording) in enumerate(recordings.items()):
        mask = counted_labels(recording, label=label, known=known)
        assert recording.truth is not None
        positive = recording.truth[mask]
        for row, epoch in enumerate(chosen[name]):
            p = recording.probabilities(epoch)[mask]
            groups = {"negative": p[~positive], "positive": p[positive]}
            for truth, bars in draw_histograms(panels[row, column], groups, bins, log=log).items():
                rows += [(name, epoch, truth, *bar) for bar in bars]
            label_axes(panels[row, column], f"{name}, {epoch_name(epoch)}", "probability p", "density")
    add_legend(panels[0, 0], title="truly")
    title = f"Probabilities of {describe_labels(label, known)}"
    panels[0, 0].figure.suptitle(title, fontsize=10, parse_math=False)
    header = ("run", "epoch", "truth", "p_low", "p_high", "labels", "density")
    return Analysis(panels[0, 0].figure, dict(zip(header, zip(*rows, strict=True), strict=True)), notes)
