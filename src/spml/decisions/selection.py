"""Selection of an epoch or a model on validation samples, which often have one known label each."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ..common.errors import InputError
from ..data import Samples
from ..labels import ObservedLabels
from ..metrics import (
    Ranks,
    ScoreBlocks,
    mean_over_classes,
    precision_of_ranks,
    ranks_of,
    sample_warnings,
    sp_of_ranks,
)
from ..metrics.arrays import Empty, as_scores

Logits = npt.NDArray[np.float32]


def default_mean_labels(classes: int) -> float:
    """Mean labels per sample K if the user has not stated it: 2, or half the classes if fewer than 4.

    The choice hardly changes the ranking of models. With two classes, K = 2 would predict both for every
    sample.
    """
    return min(2.0, classes / 2)


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
                "be selected. Label some of them, or hold out more (--data.val_share)."
            )
        if select == "oracle" and truth is None:
            raise InputError(
                "--select oracle needs fully labelled validation samples, but these have unknown labels. If "
                "a label that is not listed is absent in your data, pass --data.unlisted negative; otherwise "
                "use --select observed."
            )
        oracle = select == "oracle" or (select == "auto" and samples.observed.full)
        self.metric = "val/mAP" if oracle else "val/SP"
        self._positives = samples.observed.entries(1)
        self._truth = truth
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

    def ranks(self, scores: Logits | ScoreBlocks) -> Ranks:
        """Ranks of the known positives by logits (N, C), from which the SP-score is computed."""
        (ranks,) = ranks_of(_checked(scores), self._positives)
        return ranks

    def true_map(self, scores: Logits, rows: npt.NDArray[np.int64]) -> float:
        """mAP of logits (R, C) of some validation samples on full labels, where these select models."""
        assert self.metric == "val/mAP"
        assert self._truth is not None
        return true_map(scores, self._truth.take(rows), self._empty)

    def __call__(self, scores: Logits | ScoreBlocks) -> dict[str, float]:
        """All validation metrics of logits (N, C) by name. Full labels are used for `val/mAP` only."""
        ranks, *true_ranks = ranks_of(_checked(scores), *self._sets)
        sp = sp_of_ranks(ranks, len(scores), self.mean_labels)
        metrics = {"val/SP": sp.score, "val/P": sp.p, "val/A": sp.a}
        metrics["val/naive_mAP"] = mean_over_classes(precision_of_ranks(ranks))
        for found in true_ranks:
            metrics["val/mAP"] = mean_over_classes(precision_of_ranks(found), self._empty)
        return metrics


def true_map(scores: Logits | ScoreBlocks, truth: ObservedLabels, empty: Empty = "exclude") -> float:
    """mAP of scores (N, C) on full labels, as `mean_average_precision`, without a dense matrix of labels.

    Raises:
        ValueError: A score is NaN, or no class has a positive and `empty` is `exclude`.
    """
    (ranks,) = ranks_of(_checked(scores), truth.entries(1))
    return mean_over_classes(precision_of_ranks(ranks), empty)


def _checked(scores: Logits | ScoreBlocks) -> Any:
    """Scores without NaN; blocks are checked where they are computed."""
    return scores if isinstance(scores, ScoreBlocks) else as_scores(scores)
