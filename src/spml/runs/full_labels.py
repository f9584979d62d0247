"""Metrics of runs against full labels, and their comparison on the same resamples."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from ..decisions import Decision, calibration_error
from ..metrics import (
    LabelledScores,
    PairedScore,
    compare_paired,
    drawn_metrics,
    metrics,
    paired_resamples,
)

Logits = npt.NDArray[np.float32]


class Measured(NamedTuple):
    """A run to be measured.

    Attributes:
        logits: Computes its logits, over its own classes.
        decision: How they become labels.
        columns: Columns of these logits that belong to the classes of the labels.
        calibrated: Turns logits of any shape into probabilities; returns None where K is not known.
    """

    logits: Callable[[], Logits]
    decision: Decision
    columns: list[int]
    calibrated: Callable[[Logits], npt.NDArray[np.float32] | None] = lambda logits: None


def measure_runs(
    runs: Mapping[str, Measured],
    truth: npt.NDArray[np.int8],
    classes: tuple[str, ...],
    empty: Literal["exclude", "zero"],
    *,
    draws: int,
    seed: int,
) -> dict[str, Any]:
    """Compute all registered metrics of each run and, with draws, compare the runs.

    Args:
        runs: Runs by name.
        truth: Full labels (N, C) in {-1, +1}, with at least one positive.
        classes: Names of the C classes.
        empty: Treatment of a class without positives in mAP.
        draws: Number of bootstrap draws; 0 = no comparison.
        seed: Seed of the draws.

    Returns:
        `labels`; `runs` with the metrics of each by name and, with draws, `intervals`. With draws also
        `tie_set`, the names of the runs that are indistinguishable from the best by mAP, the best first;
        `draws` and `seed`.
    """
    multiplicity = paired_resamples(truth == 1, draws, seed) if draws else None
    measured: dict[str, dict[str, Any]] = {}
    drawn = {}
    for name, run in runs.items():
        data = _scored(run, truth, classes, empty)
        measured[name] = {
            "top_k_limit": run.decision.top_k,
            "top1_fallback": run.decision.top1_fallback,
            "never_predicted": [classes[column] for column in data.never],
            **_calibration(run, data),
            **{metric.name: metric.measure(data) for metric in metrics().values()},
        }
        if multiplicity is not None:
            drawn[name] = drawn_metrics(data, multiplicity)
    result: dict[str, Any] = {"labels": "full", "runs": measured}
    if not drawn:
        return result
    scores = compare_paired(drawn)
    for name, of_run in measured.items():
        of_run["intervals"] = {metric: _describe(score) for metric, score in scores[name].items()}
    tied = [name for name in runs if scores[name]["mAP"].tied]
    tied.sort(key=lambda name: -scores[name]["mAP"].value)
    return {**result, "tie_set": tied, "draws": draws, "seed": seed}


def _scored(
    run: Measured, truth: npt.NDArray[np.int8], classes: tuple[str, ...], empty: Literal["exclude", "zero"]
) -> LabelledScores:
    logits, decision = run.logits(), run.decision
    never = tuple(number for number, column in enumerate(run.columns) if column in decision.never)
    # All classes of the run take part in the decision, also those that the data lacks.
    decided = decision(logits)[:, run.columns]
    cut = decision.threshold
    if isinstance(cut, tuple):
        cut = tuple(cut[column] for column in run.columns)
    return LabelledScores(logits[:, run.columns], truth, classes, cut, empty, decided=decided, never=never)


def _calibration(run: Measured, data: LabelledScores) -> dict[str, Any]:
    """How well probabilities agree with the labels, in bins; empty where there are no probabilities."""
    p = run.calibrated(data.scores)
    if p is None:
        return {}
    found = calibration_error(p, data.truth == 1)
    columns = (found.expected, found.observed, found.counts)
    bins = [
        {"expected": mean, "observed": share, "count": count} if count else {"count": 0}
        for mean, share, count in zip(*(column.tolist() for column in columns), strict=True)
    ]
    return {"calibration": {"error": found.error, "bins": bins}}


def _describe(score: PairedScore) -> dict[str, Any]:
    return {
        "value": score.value,
        "margin": score.margin,
        "interval": [score.low, score.high],
        "behind": score.behind,
        "behind_margin": score.behind_margin,
        "behind_interval": [score.behind - score.behind_margin, score.behind + score.behind_margin],
        "tied": score.tied,
    }
