"""Compare the runs of two rounds on the samples that were labelled in full."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

from ..common.label_checks import rows_of
from ..labels import ObservedLabels
from ..runs.audits.answers import audited_groups, audited_scores, read_audited
from ..runs.folder.held_out import read_held_out
from ..runs.judge.evaluate import Measured, measure_runs
from ..runs.predict.batches import Engine
from ..runs.run import Run
from ..scores import InMemory, Scores

METRICS = {"mAP": "mAP", "macro_F1": "macro F1", "micro_F1": "micro F1"}
"""Metrics that are compared, with their titles."""

DRAWS, SEED = 1000, 0


class Change(NamedTuple):
    """A metric before and after, in [0, 1], with half the widths of 95 % intervals.

    Attributes:
        before, after: The metric of the two runs.
        before_margin, after_margin: Half the widths of their intervals.
        difference_margin: Half the width of the interval of the difference, on the same draws of samples.
    """

    before: float
    before_margin: float
    after: float
    after_margin: float
    difference_margin: float

    @property
    def difference(self) -> float:
        """After minus before."""
        return self.after - self.before


def compare_rounds(sheet: Path, before: Run, after: Run, engine: Engine) -> dict[str, Change]:
    """Compare two runs by a paired bootstrap over fully labelled samples, or over their groups.

    Args:
        sheet: Table of the samples that were labelled in full.
        before, after: Runs that were not fitted to these samples, or have held-out scores of them, with the
            same classes.
        engine: Settings of prediction.

    Returns:
        Change of each metric of `METRICS` by name.

    Raises:
        InputError: The table does not suit, or a run has learned from one of its samples.
    """
    named: Mapping[str, Run] = {"before": before, "after": after}
    audited = read_audited(sheet, before)
    truth = ObservedLabels.from_multi_hot(audited.truth, unlisted="negative")

    def scores(run: Run) -> Scores:
        kept = read_held_out(run.folder, run.classes)
        return InMemory(audited_scores(run, read_audited(sheet, run), kept, engine))

    measured = {
        name: Measured(partial(scores, run), run.decision(), rows_of(run.classes, before.classes).tolist())
        for name, run in named.items()
    }
    groups = audited_groups(audited, read_held_out(before.folder, before.classes))
    found = measure_runs(measured, truth, before.classes, "exclude", draws=DRAWS, seed=SEED, groups=groups)[
        "runs"
    ]
    changes = {}
    for metric in METRICS:
        first, last = (found[name]["intervals"][metric] for name in named)
        # The better one is 0 behind itself.
        margin = max(first["behind_margin"], last["behind_margin"])
        changes[metric] = Change(first["value"], first["margin"], last["value"], last["margin"], margin)
    return changes
