"""How often pseudo-labels at a threshold are right, epoch by epoch."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ...common.errors import InputError
from ...plots.style import COLOURS, add_legend, label_axes, new_figure, style_axes
from ..registry import register_figure
from ..result import Analysis
from .recorded import RUNS_WITH_TRUTH, Mask, counted_labels, describe_labels, read_runs


@register_figure(
    "pseudo-labels",
    "Positive and negative predictive value of pseudo-labels at a threshold, per epoch",
    needs=RUNS_WITH_TRUTH,
)
def pseudo_labels(
    runs: Sequence[str | Path], *, tau: float = 0.9, label: str | None = None, known: bool = False
) -> Analysis:
    """Draw PPV = TP / (TP + FP) and NPV = TN / (TN + FN) of the pseudo-labels p > tau, means over classes.

    A class without a positive pseudo-label has no PPV, and one without a negative has no NPV; it is left out
    of the mean.

    Args:
        runs: Folders of runs with recorded scores, on the same samples.
        tau: Threshold of the probability, in [0, 1]: above it a label is taken as positive, else as negative.
        label: Class to draw; the mean over all classes if None.
        known: Count the labels that were observed, too, as for the fully labelled test samples in the paper
            (recorded with --record_samples test).

    Returns:
        The figure; its table has the columns run, epoch (0 = before the first), ppv, npv (in [0, 1], NaN if
        no class has one), and ppv_classes and npv_classes, the numbers of classes in the means.

    Raises:
        InputError: A run has no recorded scores or true labels, or other samples than the first one; or the
            threshold is outside its range.

    Source: Cui et al., "Leveraged Asymmetric Loss with Disambiguation for Multi-label Recognition with
    One-Positive Annotations", Fig. 2.
    """
    if not 0 <= tau <= 1:
        raise InputError(f"--tau must be a probability in [0, 1], got {tau:g}")
    recordings, notes = read_runs(runs, truth=True)
    figure = new_figure(8.4, 3.4)
    panels = figure.subplots(1, 2)
    rows: list[tuple[Any, ...]] = []
    for colour, (name, recording) in zip(itertools.cycle(COLOURS), recordings.items(), strict=False):
        mask = counted_labels(recording, label=label, known=known)
        assert recording.truth is not None
        values = [
            predictive_values(recording.probabilities(epoch) > tau, recording.truth, mask)
            for epoch in recording.epochs
        ]
        rows += [(name, epoch, *value) for epoch, value in zip(recording.epochs, values, strict=True)]
        for axes, part in zip(panels, ("ppv", "npv"), strict=True):
            percent = [100 * getattr(value, part) for value in values]
            axes.plot(
                recording.epochs, percent, color=colour, linewidth=1.8, marker="o", markersize=3, label=name
            )
    for axes, value in zip(panels, ("positive", "negative"), strict=True):
        style_axes(axes)
        sign = ">" if value == "positive" else "\N{LESS-THAN OR EQUAL TO}"
        title = f"{value.capitalize()} pseudo-labels (p {sign} {tau:g}) that are right"
        label_axes(axes, title, "epoch (0: before training)", f"{value} predictive value, %")
    add_legend(panels[0])
    title = f"Of {describe_labels(label, known)}, mean over classes"
    figure.suptitle(title, fontsize=10, parse_math=False)
    if any(math.isnan(row[2]) for row in rows):
        notes = (*notes, f"In some epochs no label is above tau = {tau:g}, so there is no positive value.")
    header = ("run", "epoch", "ppv", "npv", "ppv_classes", "npv_classes")
    return Analysis(figure, dict(zip(header, zip(*rows, strict=True), strict=True)), notes)


class PredictiveValues(NamedTuple):
    """Means over classes of the shares of positive and of negative pseudo-labels that are right.

    Attributes:
        ppv: Mean of TP / (TP + FP); NaN if no class has a positive pseudo-label.
        npv: Mean of TN / (TN + FN); NaN if no class has a negative pseudo-label.
        ppv_classes: Number of classes with a positive pseudo-label.
        npv_classes: Number of classes with a negative pseudo-label.
    """

    ppv: float
    npv: float
    ppv_classes: int
    npv_classes: int


def predictive_values(positive: Mask, truth: Mask, mask: Mask) -> PredictiveValues:
    """Predictive values of pseudo-labels.

    Args:
        positive: Pseudo-labels, bool (N, C).
        truth: True labels, bool (N, C).
        mask: Labels that count, bool (N, C).
    """
    ppv = _shares(mask & positive & truth, mask & positive)
    npv = _shares(mask & ~positive & ~truth, mask & ~positive)
    means = [float(shares.mean()) if len(shares) else math.nan for shares in (ppv, npv)]
    return PredictiveValues(means[0], means[1], len(ppv), len(npv))


def _shares(right: Mask, given: Mask) -> npt.NDArray[np.float64]:
    """Share of right pseudo-labels of each class that has any."""
    count = given.sum(axis=0)
    there = count > 0
    return np.asarray(right.sum(axis=0)[there] / count[there])
