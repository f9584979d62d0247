"""Metrics of runs against full labels, and their comparison on the same resamples."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ...decisions import Decision, calibration_error
from ...decisions.calibration import Reliability
from ...labels import ObservedLabels
from ...metrics import (
    LabelledScores,
    Metric,
    PairedScore,
    ScoreBlocks,
    compare_paired,
    count_blocks,
    drawn_metrics,
    metrics,
    paired_resamples,
)
from ...metrics.arrays import Empty

Logits = npt.NDArray[np.float32]


class Measured(NamedTuple):
    """A run to be measured.

    Attributes:
        logits: Computes its logits, over its own classes: an array for `measure_runs`, blocks for
            `measure_blocks`.
        decision: How they become labels.
        columns: Columns of these logits that belong to the classes of the labels.
        calibrated: Turns logits of any shape into probabilities; returns None where K is not known.
    """

    logits: Callable[[], Any]
    decision: Decision
    columns: list[int]
    calibrated: Callable[[Logits], npt.NDArray[np.float32] | None] = lambda logits: None


def measure_runs(
    runs: Mapping[str, Measured],
    truth: npt.NDArray[np.int8],
    classes: tuple[str, ...],
    empty: Empty,
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
            **{metric.name: metric.measure(data) for metric in _reported(classes)},
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


def measure_blocks(
    runs: Mapping[str, Measured],
    truth: ObservedLabels,
    classes: tuple[str, ...],
    empty: Empty,
) -> dict[str, Any]:
    """Compute the metrics of runs whose scores do not fit (`fits`), one block of samples after the other.

    Args:
        runs: Runs by name.
        truth: Full labels of N samples, with at least one positive.
        classes: Names of the C classes.
        empty: Treatment of a class without positives in mAP.

    Returns:
        As `measure_runs` without draws, and `not_measured`, the titles of the metrics that need all scores.
    """
    positives, measured = truth.entries(1), {}
    for name, run in runs.items():
        scores: ScoreBlocks = run.logits()
        never, cut = _of_columns(run)
        bins = _Bins()

        def decided(
            run: Measured = run, scores: ScoreBlocks = scores, bins: _Bins = bins
        ) -> Iterator[tuple[Logits, npt.NDArray[np.bool_]]]:
            for rows, logits in scores.blocks():
                block = logits[:, run.columns]
                bins.add(run.calibrated(block), truth.take(rows).to_ternary() == 1)
                yield block, run.decision(logits)[:, run.columns]

        def columns(wanted: Any, run: Measured = run, scores: ScoreBlocks = scores) -> Iterator[Logits]:
            return scores.compute(np.asarray(run.columns)[wanted])

        own = ScoreBlocks(scores.samples, len(classes), columns)
        data = count_blocks(own, decided(), positives, classes, cut, empty, never)
        measured[name] = {
            "top_k_limit": run.decision.top_k,
            "top1_fallback": run.decision.top1_fallback,
            "never_predicted": [classes[column] for column in never],
            **bins.describe(),
            **{metric.name: metric.measure(data) for metric in _reported(classes) if metric.blocks},
        }
    left_out = [metric.title for metric in _reported(classes) if not metric.blocks]
    return {"labels": "full", "runs": measured, "not_measured": left_out}


def _reported(classes: tuple[str, ...]) -> list[Metric]:
    """Metrics that are reported of so many classes."""
    return [metric for metric in metrics().values() if len(classes) >= metric.fewest_classes]


class _Bins:
    """Bins of probabilities, summed over blocks of samples."""

    def __init__(self) -> None:
        self._sums: npt.NDArray[np.float64] | None = None
        self._positives = 0

    def add(self, p: npt.NDArray[np.float32] | None, positive: npt.NDArray[np.bool_]) -> None:
        """Add the probabilities (B, C) of a block, if there are any."""
        if p is None:
            return
        with np.errstate(divide="ignore"):  # a block may have no positive
            found = calibration_error(p, positive)
        counts = found.counts.astype(np.float64)
        sums = np.nan_to_num(np.stack([found.expected * counts, found.observed * counts, counts]))
        self._sums = sums if self._sums is None else self._sums + sums
        self._positives += int(positive.sum())

    def describe(self) -> dict[str, Any]:
        """Calibration over all blocks; empty where there are no probabilities."""
        if self._sums is None:
            return {}
        expected, observed, counts = self._sums
        error = float(np.abs(expected - observed).sum() / self._positives)
        with np.errstate(invalid="ignore"):
            found = Reliability(error, expected / counts, observed / counts, counts.astype(np.int64))
        return _describe_bins(found)


def _of_columns(run: Measured) -> tuple[tuple[int, ...], float | tuple[float, ...] | None]:
    """Classes that are never predicted, and the thresholds, over the classes of the labels."""
    forbidden, cut = set(run.decision.never), run.decision.threshold
    never = tuple(number for number, column in enumerate(run.columns) if column in forbidden)
    if isinstance(cut, tuple):
        cut = tuple(cut[column] for column in run.columns)
    return never, cut


def _scored(
    run: Measured, truth: npt.NDArray[np.int8], classes: tuple[str, ...], empty: Empty
) -> LabelledScores:
    logits = run.logits()
    never, cut = _of_columns(run)
    # All classes of the run take part in the decision, also those that the data lacks.
    decided = run.decision(logits)[:, run.columns]
    return LabelledScores(logits[:, run.columns], truth, classes, cut, empty, decided=decided, never=never)


def _calibration(run: Measured, data: LabelledScores) -> dict[str, Any]:
    """How well probabilities agree with the labels, in bins; empty where there are no probabilities."""
    p = run.calibrated(data.scores)
    if p is None:
        return {}
    return _describe_bins(calibration_error(p, data.truth == 1))


def _describe_bins(found: Reliability) -> dict[str, Any]:
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
