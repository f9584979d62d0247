"""Shares of labels that are true: of the unknown ones by probability, and of pseudo-labels at a threshold."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...common.errors import InputError
from ...plots.style import COLOURS, add_legend, label_axes, new_figure, style_axes
from ..registry import Analysis, register_figure
from .runs import (
    CURVE,
    EPOCHS,
    RUNS_WITH_TRUTH,
    Mask,
    Values,
    bin_edges,
    counted_labels,
    describe_labels,
    epoch_title,
    new_panels,
    read_runs,
)


@register_figure(
    "posterior",
    "Share of hidden positives among unknown labels by predicted probability, before and after training",
    needs=RUNS_WITH_TRUTH,
)
def posterior(
    runs: Sequence[str | Path],
    *,
    mean_labels: float | None = None,
    label: str | None = None,
    buckets: int = 100,
) -> Analysis:
    """Draw FN / (FN + TN) among unknown labels per bucket of p, before the first and after the last epoch.

    If each label is taken as negative where it is unknown, this is the share of false negatives. The curve is
    what Eq. 6 derives from p = P(y = 1 | x): k(p) = (1 - a) p / (1 - a p), where a = P(s = 1 | y = 1) = 1 / K
    for single-positive labels.

    Args:
        runs: Folders of runs with recorded scores, on the same samples.
        mean_labels: Mean labels per sample K, at least 1; that of the true labels of the samples if None.
        label: Class to draw; all classes together if None.
        buckets: Number of buckets between 0 and 1.

    Returns:
        The figure; its table has the columns run, epoch, p_low, p_high, unknown (labels in this bucket),
        positives (of these), ratio, and k (Eq. 6 in the middle of the bucket). Buckets without labels are
        left out.

    Raises:
        InputError: A run has no recorded scores or true labels, or other samples than the first one; or K is
            less than 1.

    Source: Chen et al., "Boosting Single Positive Multi-label Classification with Generalized Robust Loss",
    Eq. 6 and Fig. 5.
    """
    recordings, notes = read_runs(runs, truth=True)
    edges = bin_edges(buckets)
    middle = (edges[:-1] + edges[1:]) / 2
    panels = new_panels(len(recordings), 2)
    rows: list[tuple[Any, ...]] = []
    for row, (name, recording) in enumerate(recordings.items()):
        mask, truth = counted_labels(recording, label=label)
        k = float(truth.sum(axis=1).mean()) if mean_labels is None else mean_labels
        if not 1 <= k < np.inf:
            found = "the mean of the recorded samples" if mean_labels is None else "given"
            raise InputError(
                f"{recording.folder}: Eq. 6 needs at least 1 label per sample on average, but {k:.3g} is "
                f"{found}: state it (--mean_labels)."
            )
        positive = truth[mask]
        for axes, epoch in zip(panels[row], (0, recording.epochs[-1]), strict=True):
            p = recording.probabilities(epoch)[mask]
            unknown, positives = (np.histogram(part, edges)[0] for part in (p, p[positive]))
            filled = np.flatnonzero(unknown)
            ratio = positives[filled] / unknown[filled]
            dots = {"color": COLOURS[1], "alpha": 0.7, "linewidth": 0, "label": "FN / (FN + TN)"}
            axes.scatter(middle[filled], ratio, s=6 + 6 * np.log10(unknown[filled]), **dots)
            curve = selected_completely_at_random(middle, k)
            axes.plot(middle, curve, color=COLOURS[0], label=f"Eq. 6, a = 1/{k:.3g}")
            x, y = "probability p of the unknown label", "truly positive, share"
            label_axes(axes, epoch_title(name, epoch), x, y)
            axes.set_xlim(0, 1)
            axes.set_ylim(-0.03, 1.03)
            bounds = edges[filled], edges[filled + 1]
            columns = (*bounds, unknown[filled], positives[filled], ratio, curve[filled])
            rows += [(name, epoch, *values) for values in zip(*(c.tolist() for c in columns), strict=True)]
    add_legend(panels[0, 1], loc="upper left")
    source = "of the recorded samples" if mean_labels is None else "as stated"
    notes = (*notes, f"K = {k:.4g} mean labels per sample, {source}.", "A larger dot stands for more labels.")
    header = ("run", "epoch", "p_low", "p_high", "unknown", "positives", "ratio", "k")
    return Analysis.from_rows(panels[0, 0].figure, header, rows, notes)


def selected_completely_at_random(p: Values, mean_labels: float) -> Values:
    """Eq. 6: k(p) = (1 - a) p / (1 - a p) with a = 1 / K, for p < 1."""
    a = 1 / mean_labels
    return (1 - a) * p / (1 - a * p)


@register_figure(
    "pseudo-labels",
    "Positive and negative predictive value of pseudo-labels at a threshold, and their number, per epoch",
    needs=RUNS_WITH_TRUTH,
)
def pseudo_labels(
    runs: Sequence[str | Path], *, tau: float = 0.9, label: str | None = None, known: bool = False
) -> Analysis:
    """Draw PPV = TP / (TP + FP) and NPV = TN / (TN + FN) of the pseudo-labels p > tau, means over classes.

    A class without a positive pseudo-label has no PPV, and one without a negative has no NPV; it is left out
    of the mean. The share of labels above the threshold is drawn as well: where none is, the threshold does
    nothing.

    Args:
        runs: Folders of runs with recorded scores, on the same samples.
        tau: Threshold of the probability, in [0, 1]: above it a label is taken as positive, else as negative.
            The paper takes the one that the run was trained with.
        label: Class to draw; the mean over all classes if None.
        known: Count the labels that were observed, too, as for the fully labelled test samples in the paper
            (recorded with --record_samples test).

    Returns:
        The figure; its table has the columns run, epoch (0 = before the first), ppv, npv (in [0, 1], NaN if
        no class has one), ppv_classes and npv_classes, the numbers of classes in the means, and above, the
        share of the counted labels with p > tau.

    Raises:
        InputError: A run has no recorded scores or true labels, or other samples than the first one; or the
            threshold is outside its range.

    Source: Cui et al., "Leveraged Asymmetric Loss with Disambiguation for Multi-label Recognition with
    One-Positive Annotations", Fig. 2.
    """
    if not 0 <= tau <= 1:
        raise InputError(f"--tau must be a probability in [0, 1], got {tau:g}")
    recordings, notes = read_runs(runs, truth=True)
    figure = new_figure(9.6, 3.4)
    panels = figure.subplots(1, 3, sharex=True)
    rows: list[tuple[Any, ...]] = []
    for colour, (name, recording) in zip(itertools.cycle(COLOURS), recordings.items(), strict=False):
        mask, truth = counted_labels(recording, label=label, known=known)
        epochs = recording.epochs
        positive = [recording.probabilities(epoch) > tau for epoch in epochs]
        values = [(*predictive_values(each, truth, mask), float(each[mask].mean())) for each in positive]
        rows += [(name, epoch, *value) for epoch, value in zip(epochs, values, strict=True)]
        for axes, part in zip(panels, (0, 1, 4), strict=True):
            axes.plot(epochs, [100 * value[part] for value in values], color=colour, label=name, **CURVE)
    panels[2].axhline(100 * truth[mask].mean(), color="black", linewidth=1, linestyle="--", label="true")
    for axes, title, y in zip(
        panels,
        (
            f"p > {tau:g}: positive",
            f"p \N{LESS-THAN OR EQUAL TO} {tau:g}: negative",
            f"labels with p > {tau:g}",
        ),
        ("positive predictive value, %", "negative predictive value, %", "share of the labels, %"),
        strict=True,
    ):
        style_axes(axes)
        label_axes(axes, title, EPOCHS, y)
    panels[2].set_ylim(bottom=0)
    add_legend(panels[2])
    title = f"Pseudo-labels of {describe_labels(label, known)}; predictive values: means over classes"
    figure.suptitle(title, fontsize=10, parse_math=False)
    if any(math.isnan(row[2]) for row in rows):
        notes = (*notes, f"In some epochs no label is above tau = {tau:g}, so there is no positive value.")
    header = ("run", "epoch", "ppv", "npv", "ppv_classes", "npv_classes", "above")
    return Analysis.from_rows(figure, header, rows, notes)


def predictive_values(positive: Mask, truth: Mask, mask: Mask) -> tuple[float, float, int, int]:
    """Predictive values of pseudo-labels, means over classes.

    Args:
        positive: Pseudo-labels, bool (N, C).
        truth: True labels, bool (N, C).
        mask: Labels that count, bool (N, C).

    Returns:
        PPV and NPV, NaN where no class has such a pseudo-label; and the numbers of classes in these means.
    """
    means, counts = [], []
    for given, true in ((mask & positive, truth), (mask & ~positive, ~truth)):
        of_class = given.sum(axis=0)
        some = of_class > 0
        shares = (given & true).sum(axis=0)[some] / of_class[some]
        means.append(float(shares.mean()) if some.any() else math.nan)
        counts.append(len(shares))
    return means[0], means[1], counts[0], counts[1]
