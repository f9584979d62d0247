"""Export a run."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from .. import models
from ..export import Model
from .folder import layout as run_files
from .folder.contents import read_summary

if TYPE_CHECKING:
    from .run import Run


def exportable(run: Run) -> Model:
    """What exporters need of a run.

    Raises:
        InputError: A file of the run is missing or damaged.
    """
    decision = run.decision()
    assert decision.threshold is not None
    cut = decision.threshold
    thresholds = list(cut) if isinstance(cut, tuple) else [cut] * len(run.classes)
    for column in decision.never:
        thresholds[column] = math.inf
    network = run.model.cpu()  # predictions leave it on the device that they are computed on
    return Model(
        folder=run.folder,
        classifier=network.classifier,
        network=network,
        classes=run.classes,
        thresholds=tuple(thresholds),
        scores=models.LOG_SOFTMAX if run.log_probabilities else models.LOGITS,
        calibration=run.calibration,
        policy=run.thresholds,
        card=run.card,
        summary=read_summary(run.folder) if (run.folder / run_files.SUMMARY).is_file() else None,
    )
