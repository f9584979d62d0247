"""Share of hidden positives among the unknown labels of the same predicted probability."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...common.errors import InputError
from ...plots.style import COLOURS, add_legend, label_axes
from ...runs.fit.recording import Recording
from ..registry import register_figure
from ..result import Analysis
from .histograms import bin_edges, new_panels
from .recorded import RUNS_WITH_TRUTH, Values, counted_labels, epoch_name, read_runs


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
        k = _mean_labels(recording, mean_labels)
        mask = counted_labels(recording, label=label)
        assert recording.truth is not None
        positive = recording.truth[mask]
        for axes, epoch in zip(panels[row], (0, recording.epochs[-1]), strict=True):
            p = recording.probabilities(epoch)[mask]
            unknown, positives = (np.histogram(part, edges)[0] for part in (p, p[positive]))
            filled = np.flatnonzero(unknown)
            ratio = positives[filled] / unknown[filled]
            sizes = 6 + 6 * np.log10(unknown[filled])
            axes.scatter(
                middle[filled],
                ratio,
                s=sizes,
                color=COLOURS[1],
                alpha=0.7,
                linewidth=0,
                label="FN / (FN + TN)",
            )
            axes.plot(
                middle,
                selected_completely_at_random(middle, k),
                color=COLOURS[0],
                label=f"Eq. 6, a = 1/{k:.3g}",
            )
            label_axes(
                axes,
                f"{name}, {epoch_name(epoch)}",
                "probability p of the unknown label",
                "truly positive, share",
            )
            axes.set_xlim(0, 1)
            axes.set_ylim(-0.03, 1.03)
            curve = selected_completely_at_random(middle[filled], k)
            columns = (edges[filled], edges[filled + 1], unknown[filled], positives[filled], ratio, curve)
            rows += [(name, epoch, *values) for values in zip(*(c.tolist() for c in columns), strict=True)]
    add_legend(panels[0, 1], loc="upper left")
    source = "of the recorded samples" if mean_labels is None else "as stated"
    notes = (*notes, f"K = {k:.4g} mean labels per sample, {source}.", "A larger dot stands for more labels.")
    header = ("run", "epoch", "p_low", "p_high", "unknown", "positives", "ratio", "k")
    return Analysis(panels[0, 0].figure, dict(zip(header, zip(*rows, strict=True), strict=True)), notes)


def _mean_labels(recording: Recording, stated: float | None) -> float:
    assert recording.truth is not None
    mean = float(recording.truth.sum(axis=1).mean()) if stated is None else stated
    if not 1 <= mean < np.inf:
        found = "given" if stated is not None else "the mean of the recorded samples"
        raise InputError(
            f"{recording.folder}: Eq. 6 needs at least 1 label per sample on average, but {mean:.3g} is "
            f"{found}: state it (--mean_labels)."
        )
    return mean


def selected_completely_at_random(p: Values, mean_labels: float) -> Values:
    """Eq. 6: k(p) = (1 - a) p / (1 - a p) with a = 1 / K, for p < 1."""
    a = 1 / mean_labels
    return (1 - a) * p / (1 - a * p)
