"""What the predictions of a run show without true labels."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ...common.errors import InputError
from ...plots.style import COLOURS, add_legend, cut, label_axes
from ..registry import register_figure
from ..result import Analysis
from .histograms import draw_histograms, new_panels
from .recorded import chosen_epochs, epoch_name, read_runs

_NAMED = 25
"""Names of more classes than this can't be read below each other."""


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
        for group, bars in draw_histograms(above, groups, bins, log=log).items():
            rows += [(name, number, "density", group, bar.low, bar.high, bar.density) for bar in bars]
        label_axes(above, f"{name}, {epoch_name(number)}", "probability p", "density")
        observed, expected = known.sum(axis=0), p.sum(axis=0, dtype=np.float64)
        for quantity, counts in (("observed", observed), ("expected", expected)):
            values = zip(recording.classes, counts.tolist(), strict=True)
            rows += [(name, number, quantity, label, "", "", count) for label, count in values]
        _draw_labels(below, recording.classes, observed, expected)
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
    return Analysis(panels[0, 0].figure, dict(zip(header, zip(*rows, strict=True), strict=True)), notes)


def _draw_labels(
    axes: Any, classes: Sequence[str], observed: npt.NDArray[Any], expected: npt.NDArray[Any]
) -> None:
    """Observed and expected labels of each class, the class with most observed ones first."""
    order, places = np.argsort(-observed, kind="stable"), np.arange(len(classes))
    axes.bar(places, observed[order], color=COLOURS[0], width=0.75, label="observed")
    axes.plot(places, expected[order], "o", color=COLOURS[1], markersize=4, label="expected")
    axes.set_xticks([])
    if len(classes) <= _NAMED:
        axes.set_xticks(places, [cut(classes[place]) for place in order], rotation=90, parse_math=False)
