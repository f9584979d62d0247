"""Selection of an epoch or a model on validation samples, which often have one known label each."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ..data import Samples
from ..errors import InputError
from ..labels import ObservedLabels
from ..metrics import (
    Ranks,
    mean_average_precision,
    mean_over_classes,
    observed_ranks,
    precision_of_ranks,
    sample_warnings,
    sp_of_ranks,
)


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
        empty: Literal["exclude", "zero"] = "exclude",
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
        self._observed: npt.NDArray[Any] | None = samples.observed.index
        if self._observed is None:
            self._observed = samples.observed.to_ternary()
        self._truth = None if truth is None else truth.to_ternary()
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

    def ranks(self, scores: npt.NDArray[np.float32]) -> Ranks:
        """Ranks of the known positives by logits (N, C), from which the SP-score is computed."""
        assert self._observed is not None
        return observed_ranks(scores, self._observed)

    def true_map(self, scores: npt.NDArray[np.float32], rows: npt.NDArray[np.int64]) -> float:
        """mAP of logits (R, C) of some validation samples on full labels, where these select models."""
        assert self.metric == "val/mAP"
        assert self._truth is not None
        return mean_average_precision(scores, self._truth[rows], self._empty)

    def __call__(self, scores: npt.NDArray[np.float32]) -> dict[str, float]:
        """All validation metrics of logits (N, C) by name. Full labels are used for `val/mAP` only."""
        ranks = self.ranks(scores)
        sp = sp_of_ranks(ranks, len(scores), self.mean_labels)
        metrics = {"val/SP": sp.score, "val/P": sp.p, "val/A": sp.a}
        metrics["val/naive_mAP"] = mean_over_classes(precision_of_ranks(ranks))
        if self._truth is not None:
            metrics["val/mAP"] = mean_average_precision(scores, self._truth, self._empty)
        return metrics
