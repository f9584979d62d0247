"""A threshold for each class, from scores of samples of which only some labels are known."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from ..metrics.arrays import Scores, as_scores
from .priors import Priors
from .thresholds import cut_between, global_threshold

PSEUDO_ROWS = 5.0
"""Strength with which a class is drawn to the common recall curve, in known positives."""

LARGEST_SUPPORT = 4.0
"""Most predictions of a class, in multiples of its expected number of positives."""

FEWEST_PAIRS = 10
"""Fewest predictions from which a precision is estimated."""

Floats = npt.NDArray[np.float64]


class Cuts(NamedTuple):
    """Thresholds with what is expected at them.

    Attributes:
        thresholds: Score of each class at and above which it is predicted, float64 (C,); infinite = never.
        precision: Expected share of the predictions that are right, float64 (C,); NaN without predictions.
        recall: Expected share of the positives that are predicted, float64 (C,); NaN without positives.
        support: Expected number of positives among the samples, float64 (C,).
    """

    thresholds: Floats
    precision: Floats
    recall: Floats
    support: Floats


class RecallCurves:
    """Recall of each class by the number of its predictions, estimated from known positives.

    A class has few known positives, so their ranks are not enough. Every rank is divided by the expected
    number of positives of its class, `P_c = pi_c N`; and `R(d)`, the share of the known positives of all
    classes with a relative rank up to d, counts as five further known positives of each class:
    `rec_c(r) = (known positives of c among the r highest + 5 R(r / P_c)) / (n_c + 5)`.

    Args:
        scores: Scores of samples that the model was not fitted to, of shape (N, C).
        labels: Observed labels in {-1, 0, +1}, of shape (N, C).
        priors: Class priors.

    Attributes:
        support: Expected number of positives `P_c`, float64 (C,).

    Source:
        Empirical Bayes on ranks; own formula.
    """

    def __init__(self, scores: Scores, labels: npt.NDArray[np.int8], priors: Priors) -> None:
        samples, classes = scores.shape
        self._scores, self._samples = scores, samples
        self.support: Floats = priors.shares * samples
        self._ranks: list[npt.NDArray[np.int64]] = []
        relative = []
        for column in range(classes):
            rows = np.flatnonzero(labels[:, column] == 1)
            ascending = np.sort(scores[:, column])
            # Rank = number of predictions at the lowest threshold that still includes the sample.
            ranks = samples - np.searchsorted(ascending, scores[rows, column], side="left")
            self._ranks.append(np.sort(ranks))
            if self.support[column] > 0:
                relative.append(ranks / self.support[column])
        self._relative = np.sort(np.concatenate(relative)) if relative else np.empty(0)

    def recall(self, column: int, predictions: npt.ArrayLike) -> Floats:
        """Recall of a class where its `predictions` highest scores are predicted."""
        number, ranks = np.asarray(predictions, np.float64), self._ranks[column]
        own = np.searchsorted(ranks, number, side="right")
        common = np.searchsorted(self._relative, number / self.support[column], side="right")
        pooled = PSEUDO_ROWS * common / max(len(self._relative), 1)
        recall: Floats = (own + pooled) / (len(ranks) + PSEUDO_ROWS)
        return recall

    def at(self, thresholds: Floats) -> Cuts:
        """What is expected at given thresholds."""
        precision, recall = np.full((2, len(thresholds)), np.nan)
        for column in np.flatnonzero(self.support > 0).tolist():
            predictions = int((self._scores[:, column] >= thresholds[column]).sum())
            recall[column] = self.recall(column, predictions) if predictions else 0.0
            if predictions:
                hits = min(self.support[column] * recall[column], predictions)
                precision[column] = hits / predictions
        return Cuts(thresholds, precision, recall, self.support)


def f1_cuts(scores: npt.ArrayLike, labels: npt.NDArray[np.int8], priors: Priors) -> Cuts:
    """Thresholds that maximise the expected F1 of each class, with at most 4 times its positives predicted.

    `r_c = argmax_r 2 min(P_c rec_c(r), r) / (P_c + r)`, with the curves of `RecallCurves`; the threshold lies
    midway between the scores of rank r and r + 1. A class without positives is never predicted.

    Args:
        scores: Scores of samples that the model was not fitted to, of shape (N, C).
        labels: Observed labels in {-1, 0, +1}, of shape (N, C).
        priors: Class priors.
    """
    values = as_scores(scores)
    curves = RecallCurves(values, labels, priors)
    thresholds = np.full(values.shape[1], np.inf)
    for column in np.flatnonzero(curves.support > 0).tolist():
        ascending, numbers = _possible(values[:, column])
        positives = curves.support[column]
        numbers = numbers[numbers <= max(1.0, LARGEST_SUPPORT * positives)]
        if len(numbers):
            hits = np.minimum(positives * curves.recall(column, numbers), numbers)
            best = int(numbers[np.argmax(2 * hits / (positives + numbers))])
            thresholds[column] = cut_between(ascending, len(ascending) - best)
    return curves.at(thresholds)


def recall_cuts(
    scores: npt.ArrayLike, labels: npt.NDArray[np.int8], priors: Priors, recall: float, *, per_class: bool
) -> Cuts:
    """Thresholds at which a recall is expected.

    Args:
        scores: Scores of samples that the model was not fitted to, of shape (N, C).
        labels: Observed labels in {-1, 0, +1}, of shape (N, C).
        priors: Class priors.
        recall: Recall in (0, 1).
        per_class: Reach it in each class by `RecallCurves`, instead of by one threshold over all labels: the
            quantile of the scores of the known positives, weighted by `Priors.importance`.

    Raises:
        InputError: `recall` is out of its domain.
    """
    _check_share("recall", recall)
    values = as_scores(scores)
    curves = RecallCurves(values, labels, priors)
    thresholds = np.full(values.shape[1], np.inf)
    seen = np.flatnonzero(curves.support > 0)
    if per_class:
        for column in seen.tolist():
            ascending, numbers = _possible(values[:, column])
            reached = numbers[curves.recall(column, numbers) >= recall]
            if len(reached):
                thresholds[column] = cut_between(ascending, len(ascending) - int(reached[0]))
        return curves.at(thresholds)
    rows, columns = np.nonzero(labels == 1)
    known = values[rows, columns]
    weights = priors.importance((labels == 1).sum(0))[columns]
    order = np.argsort(-known, kind="stable")
    needed = int(np.searchsorted(np.cumsum(weights[order]), recall * weights.sum() * (1 - 1e-12)))
    lowest = known[order[needed]]
    ascending = np.sort(values[:, seen], axis=None)
    thresholds[seen] = cut_between(ascending, int(np.searchsorted(ascending, lowest, side="left")))
    return curves.at(thresholds)


def precision_cuts(
    scores: npt.ArrayLike,
    labels: npt.NDArray[np.int8],
    priors: Priors,
    probabilities: npt.NDArray[np.floating],
    precision: float,
    *,
    per_class: bool,
) -> Cuts:
    """The lowest thresholds above which the mean probability reaches a precision.

    Args:
        scores: Scores of samples that the model was not fitted to, of shape (N, C).
        labels: Observed labels in {-1, 0, +1}, of shape (N, C).
        priors: Class priors.
        probabilities: Calibrated probabilities of the same samples, of shape (N, C).
        precision: Precision in (0, 1).
        per_class: Reach it in each class, instead of by one threshold over all of them. A class in which it
            is not reached by at least 10 predictions is never predicted.

    Raises:
        InputError: `precision` is out of its domain, or is not reached by at least 10 predictions.
    """
    _check_share("precision", precision)
    values = as_scores(scores)
    curves = RecallCurves(values, labels, priors)
    thresholds = np.full(values.shape[1], np.inf)
    seen = np.flatnonzero(curves.support > 0)
    groups = [np.asarray([column]) for column in seen] if per_class else [seen]
    highest = 0.0
    for columns in groups:
        own = values[:, columns].ravel()
        order = np.argsort(own, kind="stable")
        ascending, p = own[order], probabilities[:, columns].ravel()[order]
        numbers = _possible(own)[1]
        numbers = numbers[numbers >= FEWEST_PAIRS]
        reached = (np.cumsum(p[::-1]) / np.arange(1, len(p) + 1))[numbers - 1]
        highest = max(highest, float(reached.max(initial=0)))
        enough = numbers[reached >= precision]
        if len(enough):
            thresholds[columns] = cut_between(ascending, len(ascending) - int(enough[-1]))
    if np.isinf(thresholds).all():
        raise InputError(
            f"a precision of {precision:g} is not reached: the {FEWEST_PAIRS} or more highest scores have an "
            f"expected precision of {highest:.2f} at most"
        )
    return curves.at(thresholds)


def label_cuts(
    scores: npt.ArrayLike, labels: npt.NDArray[np.int8], priors: Priors, mean_labels: float
) -> Cuts:
    """One threshold for all classes at K labels per sample, as `global_threshold` places it.

    Args:
        scores: Scores of samples that the model was not fitted to, of shape (N, C).
        labels: Observed labels in {-1, 0, +1}, of shape (N, C).
        priors: Class priors.
        mean_labels: Labels per sample to predict, in (0, C].

    Raises:
        InputError: `mean_labels` is out of its domain.
    """
    values = as_scores(scores)
    curves = RecallCurves(values, labels, priors)
    seen = curves.support > 0
    threshold = global_threshold(values[:, seen], min(mean_labels, int(seen.sum())))
    return curves.at(np.where(seen, threshold, np.inf))


def _possible(scores: Scores) -> tuple[Scores, npt.NDArray[np.int64]]:
    """Scores in ascending order, and the numbers of predictions that are possible with equal scores."""
    ascending = np.sort(scores)
    starts = np.flatnonzero(np.r_[True, ascending[1:] != ascending[:-1]])
    return ascending, (len(ascending) - starts[::-1]).astype(np.int64)


def _check_share(name: str, value: float) -> None:
    if not 0 < value < 1:
        raise InputError(f"{name} must be between 0 and 1, got {value:g}")
