"""Where the scores of a run are cut: at the thresholds of its classes, or as the user says."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

from ...common.errors import InputError
from ...decisions import threshold_at
from ..settle.resolve import check_mean_labels
from .thresholds import read_thresholds

if TYPE_CHECKING:
    from ..compute.trained_model import TrainedModel

GLOBAL = "global"
"""One threshold for all classes, in place of thresholds.json."""

Cut = float | tuple[float, ...] | None


def choose_cut(
    run: TrainedModel,
    *,
    mean_labels: float | None,
    threshold: float | None,
    thresholds: str | Path | float | None,
    top_k: int,
) -> Cut:
    """Logit from which on labels are predicted, for all classes or for each; None = the `top_k` highest.

    Args:
        run: The run.
        mean_labels, threshold, thresholds, top_k: As in `Run.decision`.

    Raises:
        InputError: Two of the first three are stated, one is out of its domain, or a file does not suit.
    """
    options = {"mean_labels": mean_labels, "threshold": threshold, "thresholds": thresholds}
    stated = [f"--{name}" for name, value in options.items() if value is not None]
    if len(stated) > 1:
        raise InputError(f"pass {stated[0]} or {stated[1]}, not both")
    if mean_labels is not None:
        return _cut_at(run, mean_labels)
    if threshold is not None:
        return _logit(run, threshold)
    if thresholds is not None:
        return _stated_cut(run, thresholds)
    if top_k:
        return None
    return run.threshold if run.thresholds is None else run.thresholds.thresholds


def _cut_at(run: TrainedModel, mean_labels: float) -> float:
    """Logit at which K labels per validation sample were predicted."""
    check_mean_labels(mean_labels, len(run.classes))
    curve = run.card["threshold"].get("curve")
    if curve is None:
        raise InputError(
            f"{run.folder}: was trained by an earlier version, which kept no thresholds for other numbers of "
            "labels. Pass --threshold or --top_k, or train again."
        )
    return threshold_at(curve, mean_labels)


def _stated_cut(run: TrainedModel, thresholds: str | Path | float) -> Cut:
    """Logit for all classes or for each, as `--thresholds` states it."""
    if thresholds == GLOBAL:
        return run.threshold
    try:
        score = float(thresholds)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return read_thresholds(Path(str(thresholds)), run.classes, run.weights_sha256).thresholds
    return _logit(run, score)


def _logit(run: TrainedModel, score: float) -> float:
    """Turn a score as in `Predictions.scores` into the logit that it was computed from."""
    from scipy.special import logit

    if not 0 < score < 1:
        raise InputError(f"a threshold must be between 0 and 1, as scores are, got {score:g}")
    return math.log(score) if run.log_probabilities else float(logit(score))
