"""Metrics of runs against full labels, and their comparison on the same resamples."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ...decisions import Decision, Reliability, ReliabilityBins
from ...labels import ObservedLabels
from ...metrics import (
    LabelledScores,
    compare_paired,
    drawn_metrics,
    metrics,
    paired_resamples,
)
from ...metrics.arrays import Empty
from ...scores import Scores

Logits = npt.NDArray[np.float32]


class Measured(NamedTuple):
    """A run to be measured.

    Attributes:
        logits: Computes its logits, over its own classes.
        decision: How they become labels.
        columns: Columns of these logits that belong to the classes of the labels.
        calibrated: Turns logits of any shape into probabilities; returns None where K is not known.
    """

    logits: Callable[[], Scores]
    decision: Decision
    columns: list[int]
    calibrated: Callable[[Logits], npt.NDArray[np.float32] | None] = lambda logits: None


def measure_runs(
    runs: Mapping[str, Measured],
    truth: ObservedLabels,
    classes: tuple[str, ...],
    empty: Empty,
    *,
    draws: int,
    seed: int,
    groups: npt.NDArray[np.int64] | None = None,
) -> dict[str, Any]:
    """Compute the registered metrics of each run and, with draws, compare the runs.

    Args:
        runs: Runs by name.
        truth: Full labels of N samples over C classes, with at least one positive.
        classes: Names of the C classes.
        empty: Treatment of a class without positives in mAP.
        draws: Number of bootstrap draws, for which logits must be in memory; 0 = no comparison.
        seed: Seed of the draws.
        groups: Group of each sample, (N,), where whole groups are drawn; None = samples.

    Returns:
        `labels`; `runs` with the metrics of each by name and, with draws, `intervals`. With draws also
        `tie_set`, the names of the runs that are indistinguishable from the best by mAP, the best first;
        `draws` and `seed`. Where logits are computed block by block, also `not_measured`, the titles of the
        metrics that need all of them at once.
    """
    reported = [metric for metric in metrics().values() if len(classes) >= metric.fewest_classes]
    multiplicity = paired_resamples(truth.to_ternary() == 1, draws, seed, groups) if draws else None
    result: dict[str, Any] = {"labels": "full", "runs": {}}
    drawn = {}
    for name, run in runs.items():
        logits = run.logits()
        whole = logits.array is not None
        data, bins = _labelled(run, logits, truth, classes, empty)
        values = {metric.name: metric.measure(data) for metric in reported if whole or metric.blocks}
        result["runs"][name] = {
            "top_k_limit": run.decision.top_k,
            "top1_fallback": run.decision.top1_fallback,
            "never_predicted": [classes[column] for column in data.never],
            # The bins are filled when metrics look at what is predicted.
            **({"calibration": _describe(bins.reliability())} if bins.filled else {}),
            **values,
        }
        if not whole:
            result["not_measured"] = [metric.title for metric in reported if not metric.blocks]
        if multiplicity is not None:
            drawn[name] = drawn_metrics(data, multiplicity)
    if not drawn:
        return result
    scores = compare_paired(drawn)
    for name, of_run in result["runs"].items():
        of_run["intervals"] = {
            metric: {
                "value": score.value,
                "margin": score.margin,
                "interval": [score.low, score.high],
                "behind": score.behind,
                "behind_margin": score.behind_margin,
                "behind_interval": [score.behind - score.behind_margin, score.behind + score.behind_margin],
                "tied": score.tied,
            }
            for metric, score in scores[name].items()
        }
    tied = [name for name in runs if scores[name]["mAP"].tied]
    tied.sort(key=lambda name: -scores[name]["mAP"].value)
    return {**result, "tie_set": tied, "draws": draws, "seed": seed}


def _labelled(
    run: Measured, logits: Scores, truth: ObservedLabels, classes: tuple[str, ...], empty: Empty
) -> tuple[LabelledScores, ReliabilityBins]:
    """Logits with labels, and bins of probabilities that are filled when the metrics look at these."""
    cut, bins = run.decision.threshold, ReliabilityBins()

    def decided() -> Iterator[tuple[Logits, npt.NDArray[np.bool_]]]:
        for rows, block in logits.blocks():
            own = block[:, run.columns]
            if (p := run.calibrated(own)) is not None:
                bins.add(p, truth.take(rows).to_ternary() == 1)
            # All classes of the run take part in the decision, also those that the data lacks.
            yield own, run.decision(block)[:, run.columns]

    own = logits.select(np.asarray(run.columns))
    data = LabelledScores(
        own if own.array is None else own.array,
        truth.entries(1) if own.array is None else truth.to_ternary(),
        classes,
        tuple(cut[column] for column in run.columns) if isinstance(cut, tuple) else cut,
        empty,
        decided,
        never=tuple(number for number, column in enumerate(run.columns) if column in run.decision.never),
    )
    return data, bins


def _describe(found: Reliability) -> dict[str, Any]:
    columns = (found.expected, found.observed, found.counts)
    bins = [
        {"expected": mean, "observed": share, "count": count} if count else {"count": 0}
        for mean, share, count in zip(*(column.tolist() for column in columns), strict=True)
    ]
    return {"error": found.error, "bins": bins}
