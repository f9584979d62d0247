"""Distributions of the probabilities of positives and negatives: their distance, and their densities."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ...common.errors import InputError
from ...plots.style import COLOURS, add_legend, cut, label_axes, single_panel
from ..registry import Analysis, register_figure
from .runs import (
    CURVE,
    EPOCHS,
    RUNS_WITH_TRUTH,
    Mask,
    bin_edges,
    chosen_epochs,
    counted_labels,
    describe_labels,
    epoch_title,
    new_panels,
    read_runs,
)

_NAMED = 25
"""Names of more classes than this can't be read below each other."""


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
    figure, axes = single_panel(6.4, 3.8)
    rows: list[tuple[Any, ...]] = []
    for colour, (name, recording) in zip(itertools.cycle(COLOURS), recordings.items(), strict=False):
        mask, truth = counted_labels(recording, label=label, known=known)
        positive, epochs = truth[mask], recording.epochs
        distances = [wasserstein(recording.probabilities(epoch)[mask], positive) for epoch in epochs]
        axes.plot(epochs, distances, color=colour, label=name, **CURVE)
        numbers = int(positive.sum()), int((~positive).sum())
        rows += [(name, *point, *numbers) for point in zip(epochs, distances, strict=True)]
    axes.set_ylim(bottom=0)
    title = f"True positives against true negatives of {describe_labels(label, known)}"
    label_axes(axes, title, EPOCHS, "Wasserstein distance of probabilities")
    add_legend(axes)
    return Analysis.from_rows(figure, ("run", "epoch", "distance", "positives", "negatives"), rows, notes)


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
    epochs: list[int] | Literal["best"] | None = None,
    label: str | None = None,
    known: bool = False,
    bins: int = 50,
    log: bool = True,
) -> Analysis:
    """Draw histograms of the predicted probabilities by true label: a row per epoch, a column per run.

    Args:
        runs: Folders of runs with recorded scores, on the same samples.
        epochs: Epochs to draw, 0 for the one before the first; `best` is the one of each run with the highest
            true validation mAP, as in the paper; the last one if None.
        label: Class to draw; all classes together if None.
        known: Count the labels that were observed, too; fully labelled samples have no others.
        bins: Number of bins between 0 and 1.
        log: Logarithmic density axis, because most negatives lie in few bins.

    Returns:
        The figure; its table has the columns run, epoch, truth (positive or negative), p_low, p_high, labels
        (in this bin) and density. The densities of positives, and those of negatives, integrate to 1.

    Raises:
        InputError: A run has no recorded scores or true labels, other samples than the first one, or did not
            record an epoch; or the best one is not known, for lack of true validation labels.

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
        mask, truth = counted_labels(recording, label=label, known=known)
        positive = truth[mask]
        for axes, epoch in zip(panels[:, column], chosen[name], strict=True):
            p = recording.probabilities(epoch)[mask]
            groups = {"negative": p[~positive], "positive": p[positive]}
            rows += [(name, epoch, *bar) for bar in _draw_histograms(axes, groups, bins, log=log)]
            label_axes(axes, epoch_title(name, epoch), "probability p", "density")
    add_legend(panels[0, 0], title="truly")
    title = f"Probabilities of {describe_labels(label, known)}"
    panels[0, 0].figure.suptitle(title, fontsize=10, parse_math=False)
    header = ("run", "epoch", "truth", "p_low", "p_high", "labels", "density")
    return Analysis.from_rows(panels[0, 0].figure, header, rows, notes)


@register_figure(
    "observed-only",
    "Without true labels: probabilities of observed positives against unknown labels, and expected labels",
    needs="runs that were trained with --record scores",
)
def observed_only(
    runs: Sequence[str | Path], *, epoch: int | None = None, bins: int = 50, log: bool = True
) -> Analysis:
    """Draw what can be seen without true labels; they are not used, even if they were recorded.

    Above, the densities of the probabilities of observed positives and of unknown labels. Below, for each
    class the number of samples of which it is an observed positive, and the number that is expected to have
    it: the sum of its probabilities over all samples.

    Args:
        runs: Folders of runs with recorded scores, on the same samples.
        epoch: Epoch to draw, 0 for the one before the first; the last one if None.
        bins: Number of bins between 0 and 1.
        log: Logarithmic density axis, because most unknown labels lie in few bins.

    Returns:
        The figure; its table has the columns run, epoch, quantity, name, p_low, p_high and value. `density`
        is that of the group `name` (observed positive, unknown) in a bin, and integrates to 1; `observed` and
        `expected` are labels of the class `name`.

    Raises:
        InputError: A run has no recorded scores, other samples than the first one, no observed positive or no
            unknown label.
    """
    recordings, notes = read_runs(runs, truth=False)
    chosen = chosen_epochs(recordings, None if epoch is None else [epoch])
    panels = new_panels(2, len(recordings))
    rows: list[tuple[Any, ...]] = []
    for (above, below), (name, recording) in zip(panels.T, recordings.items(), strict=True):
        (number,) = chosen[name]
        p, known = recording.probabilities(number), recording.observed == 1
        groups = {"unknown": p[recording.unknown], "observed positive": p[known]}
        for group, values in groups.items():
            if not len(values):
                raise InputError(
                    f"{recording.folder}: of the labels of its recorded samples, none is {group}: record "
                    "partly labelled samples (--record_samples)."
                )
        for group, low, high, _, density in _draw_histograms(above, groups, bins, log=log):
            rows.append((name, number, "density", group, low, high, density))
        label_axes(above, epoch_title(name, number), "probability p", "density")
        observed, expected = known.sum(axis=0), p.sum(axis=0, dtype=np.float64)
        for quantity, counts in (("observed", observed), ("expected", expected)):
            for label, count in zip(recording.classes, counts.tolist(), strict=True):
                rows.append((name, number, quantity, label, "", "", count))
        order, places = np.argsort(-observed, kind="stable"), np.arange(len(recording.classes))
        below.bar(places, observed[order], color=COLOURS[0], width=0.75, label="observed")
        below.plot(places, expected[order], "o", color=COLOURS[1], markersize=4, label="expected")
        labels = [cut(recording.classes[place]) for place in order] if len(places) <= _NAMED else []
        below.set_xticks(places[: len(labels)], labels, rotation=90, parse_math=False)
        share = expected.sum() / len(p)
        label_axes(below, f"{share:.3g} labels per sample are expected", "class", "samples with it")
    add_legend(panels[0, 0])
    add_legend(panels[1, 0])
    panels[1, 0].set_ylim(bottom=0)  # when all are drawn, because they share the axis
    notes = (
        *notes,
        "Probabilities are not calibrated: expected labels compare classes and runs, and are no true counts.",
    )
    header = ("run", "epoch", "quantity", "name", "p_low", "p_high", "value")
    return Analysis.from_rows(panels[0, 0].figure, header, rows, notes)


def _draw_histograms(
    axes: Any, groups: Mapping[str, npt.NDArray[Any]], bins: int, *, log: bool
) -> list[tuple[str, float, float, int, float]]:
    """Draw the densities of groups of probabilities over each other.

    Returns:
        For each group and bin: the group, the edges of the bin, the number of values in it, and its density.
        The densities of a group integrate to 1.
    """
    edges = bin_edges(bins)
    bars: list[tuple[str, float, float, int, float]] = []
    for colour, (name, values) in zip((COLOURS[1], COLOURS[0]), groups.items(), strict=False):
        counts, _ = np.histogram(values, edges)
        density = counts * bins / len(values)
        axes.stairs(density, edges, color=colour, fill=True, alpha=0.3)
        axes.stairs(density, edges, color=colour, linewidth=1.4, label=name)
        columns = (edges[:-1], edges[1:], counts, density)
        bars += [(name, *bar) for bar in zip(*(column.tolist() for column in columns), strict=True)]
    axes.set_xlim(0, 1)
    if log:
        axes.set_yscale("log")
        axes.tick_params(which="minor", length=0)
    return bars
