"""Scorers for the searches of scikit-learn: from observed labels only, and from full labels."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .. import metrics
from ..common.errors import InputError
from ..decisions import default_mean_labels, true_map
from ..labels import ObservedLabels
from ..metrics.arrays import Empty
from .inputs import read_labels


def sp_score(estimator: Any, X: Any, y: Any, *, mean_labels: float | None = None) -> float:
    """Score a fitted classifier by observed labels alone (the SP-score); `scoring=sp_score` in a search.

    With `functools.partial(sp_score, mean_labels=1.5)`, candidates are compared at your K.

    Args:
        estimator: Classifier with `classes_` and `decision_function` or `predict_proba` of shape (N, C), such
            as `SinglePositiveClassifier`, a `Pipeline` that ends in one, or `OneVsRestClassifier`.
        X: Samples.
        y: Labels, as in `SinglePositiveClassifier.fit`. Only known positives count.
        mean_labels: Mean labels per sample K; if None, 2, or half of fewer than 4 classes.

    Returns:
        SP-score, 0 or more; see `spml.metrics.sp_score`.

    Raises:
        InputError: A label is not among the classes, none is a known positive, or the scores have another
            shape.
    """
    labels = read_labels(y, estimator.classes_, "unknown").observed()
    return sp_of(_scores(estimator, X), labels, mean_labels)


def mean_average_precision(estimator: Any, X: Any, y: Any, *, empty: Empty = "exclude") -> float:
    """Score a fitted classifier by full labels (mAP); `scoring=mean_average_precision` in a search.

    Args:
        estimator: Classifier, as in `sp_score`.
        X: Samples.
        y: All labels: a matrix (N, C) in which 0 or -1 is absent, or a list of classes for each sample.
        empty: Treatment of a class without positives, as in `spml.metrics.mean_average_precision`.

    Returns:
        mAP in [0, 1].

    Raises:
        InputError: A label is unknown or not among the classes, no class has a positive, or the scores have
            another shape.
    """
    labels = read_labels(y, estimator.classes_, "negative")
    observed = labels.observed()
    if labels.content.ndim == 1 or not observed.full:
        found = "one class for each sample" if labels.content.ndim == 1 else "unknown labels"
        raise InputError(
            f"mean_average_precision needs all labels of the samples, but y holds {found}. Use sp_score, "
            "which needs known positives only."
        )
    return map_of(_scores(estimator, X), observed, empty)


def sp_of(scores: npt.NDArray[Any], labels: ObservedLabels, mean_labels: float | None) -> float:
    """SP-score of scores (N, C)."""
    if not labels.positives_per_class().any():
        raise InputError("y: no sample has a known positive label, so nothing can be measured.")
    k = default_mean_labels(labels.num_classes) if mean_labels is None else mean_labels
    (ranks,) = metrics.ranks_of(scores, labels.entries(1))
    return metrics.sp_of_ranks(ranks, len(scores), k).score


def map_of(scores: npt.NDArray[Any], labels: ObservedLabels, empty: Empty = "exclude") -> float:
    """mAP of scores (N, C) against full labels."""
    if not labels.positives_per_class().any():
        raise InputError("y: no sample has a label, so nothing can be measured.")
    return true_map(scores, labels, empty)


def _scores(estimator: Any, X: Any) -> npt.NDArray[Any]:
    """Scores (N, C) of a classifier."""
    classes = len(estimator.classes_)
    for method in ("decision_function", "predict_proba"):
        scores = getattr(estimator, method)(X) if hasattr(estimator, method) else None
        if isinstance(scores, np.ndarray) and scores.shape[1:] == (classes,):
            return scores
    raise InputError(
        f"{type(estimator).__name__} has no decision_function or predict_proba with a score for each of the "
        f"{classes} classes: use one that scores every class, such as OneVsRestClassifier."
    )
