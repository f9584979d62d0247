"""Selection of an epoch or a model on validation samples, which often have one known label each."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ..common.errors import InputError
from ..data import Samples
from ..labels import ObservedLabels
from ..metrics import Ranks, mean_over_classes, precision_of_ranks, ranks_of, sample_warnings, sp_of_ranks
from ..metrics.arrays import Empty
from .calibration import AnyScores


def default_mean_labels(classes: int) -> float:
    """K of the SP-score if the user has not stated it: 2, or half the classes if fewer than 4.

    The choice hardly changes the ranking of models, and too high is better than too low. With two classes,
    K = 2 would mean that every sample has both.
    """
    return min(2.0, classes / 2)


def assumed_for_thresholds(classes: int) -> float:
    """Labels per sample for which thresholds are placed where K is not known: 1.5, or half of 2 classes.

    Measured on sets whose K lies between 1.07 and 4.24: the best F1 of each class at 1.5 loses least to the
    same rule with the true K (`benchmarks/decisions.py`).
    """
    return min(1.5, classes / 2)


class Judge:
    """Validation metrics of a model, and the one by which models are compared.

    Args:
        samples: Validation samples with their observed labels.
        truth: Full labels of these samples, if the user has them.
        select: `observed` compares by the SP-score, `oracle` by mAP on `truth`; `auto` is `oracle` only if
            the observed labels themselves are full.
        mean_labels: Mean labels per sample K of the SP-score; `default_mean_labels` if None.
        empty: Treatment of a class without positives in mAP, as in `mean_average_precision`.

    Attributes:
        metric: Name of the metric by which models are compared, `val/SP` or `val/mAP`.
        known: Number of validation samples with a known positive label.

    Raises:
        InputError: `oracle` without full labels, or validation samples without any known positive.
    """

    def __init__(
        self,
        samples: Samples,
        truth: ObservedLabels | None,
        select: Literal["auto", "observed", "oracle"],
        mean_labels: float | None,
        empty: Empty = "exclude",
    ) -> None:
        if not samples.observed.positives_per_class().any():
            raise InputError(
                f"none of the {len(samples)} validation samples has a known positive label, so no model can "
                "be selected. Label some of them, or hold out more (data.val_share)."
            )
        if select == "oracle" and truth is None:
            raise InputError(
                "select=oracle needs fully labelled validation samples, but these have unknown labels. If "
                "a label that is not listed is absent in your data, pass data.unlisted=negative; otherwise "
                "use select=observed."
            )
        oracle = select == "oracle" or (select == "auto" and samples.observed.full)
        self.metric = "val/mAP" if oracle else "val/SP"
        self._positives = samples.observed.entries(1)
        self._truth, self._samples = truth, len(samples)
        self._sets = [self._positives] if truth is None else [self._positives, truth.entries(1)]
        self._mean_labels, self._empty = mean_labels, empty
        self._classes = samples.observed.num_classes
        self.known = int((samples.observed.positives_per_sample() > 0).sum())
        self._warnings = sample_warnings(self.known, samples.observed.num_classes, self.mean_labels)

    @property
    def mean_labels(self) -> float:
        """Mean labels per sample K of the SP-score, stated or default."""
        return default_mean_labels(self._classes) if self._mean_labels is None else self._mean_labels

    def describe(self) -> dict[str, Any]:
        """Description of how models are compared, for the summary of a run."""
        if self.metric == "val/mAP":
            return {"mode": "oracle", "metric": self.metric, "labels": "fully labelled validation samples"}
        return {
            "mode": "observed",
            "metric": self.metric,
            "labels": "observed labels only (SP-score)",
            "mean_labels": self.mean_labels,
            "mean_labels_source": "default" if self._mean_labels is None else "stated",
            "warnings": list(self._warnings),
        }

    def ranks(self, scores: AnyScores) -> Ranks:
        """Ranks of the known positives by logits (N, C), from which the SP-score is computed."""
        (ranks,) = ranks_of(scores, self._positives)
        return ranks

    def true_map(self, scores: AnyScores, rows: npt.NDArray[np.int64]) -> float:
        """mAP of logits (R, C) of some validation samples on full labels, where these select models."""
        assert self.metric == "val/mAP"
        assert self._truth is not None
        return true_map(scores, self._truth.take(rows), self._empty)

    def __call__(self, scores: AnyScores) -> dict[str, float]:
        """All validation metrics of logits (N, C) by name. Full labels are used for `val/mAP` only."""
        ranks, *true_ranks = ranks_of(scores, *self._sets)
        sp = sp_of_ranks(ranks, self._samples, self.mean_labels)
        metrics = {"val/SP": sp.score, "val/P": sp.p, "val/A": sp.a}
        metrics["val/naive_mAP"] = mean_over_classes(precision_of_ranks(ranks))
        for found in true_ranks:
            metrics["val/mAP"] = mean_over_classes(precision_of_ranks(found), self._empty)
        return metrics


def true_map(scores: AnyScores, truth: ObservedLabels, empty: Empty = "exclude") -> float:
    """mAP of scores (N, C) on full labels, as `mean_average_precision`, without a dense matrix of labels.

    Raises:
        ValueError: A score is NaN, or no class has a positive and `empty` is `exclude`.
    """
    (ranks,) = ranks_of(scores, truth.entries(1))
    return mean_over_classes(precision_of_ranks(ranks), empty)
