"""A threshold for each class, from scores of samples of which only some labels are known."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..common.errors import InputError
from ..metrics.arrays import Scores
from .by_class import AnyLabels, AnyScores, ByClass, by_class
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

    Where only the highest scores of each sample are kept, a known positive that is not among them has the
    last rank in its class.

    Args:
        scores: Scores of samples that the model was not fitted to, of shape (N, C), or the highest of each.
        labels: Observed labels in {-1, 0, +1}, of shape (N, C).
        priors: Class priors.

    Attributes:
        scores: Scores of each class.
        support: Expected number of positives `P_c`, float64 (C,).

    Source:
        Empirical Bayes on ranks; own formula.
    """

    def __init__(self, scores: AnyScores, labels: AnyLabels, priors: Priors) -> None:
        self.scores: ByClass = by_class(scores, labels)
        samples, known = self.scores.samples, self.scores.known
        self.support: Floats = priors.shares * samples
        order = np.argsort(known.columns, kind="stable")
        self._starts = np.searchsorted(known.columns[order], np.arange(self.scores.classes + 1))
        self._ranks = np.full(len(order), samples)
        for column in np.unique(known.columns).tolist():
            own = slice(self._starts[column], self._starts[column + 1])
            in_order = known.in_order[order[own]]
            # Rank = number of predictions at the lowest threshold that still includes the sample.
            ascending = self.scores.ascending(column)
            lower = np.searchsorted(ascending, known.scores[order[own]], side="left")
            self._ranks[own] = np.sort(np.where(in_order, len(ascending) - lower, samples))
        support = np.repeat(self.support, np.diff(self._starts))
        self._relative = np.sort(self._ranks[support > 0] / support[support > 0])

    @property
    def possible(self) -> npt.NDArray[np.int64]:
        """Classes that can be predicted: those with expected positives and a score, ascending."""
        return np.flatnonzero((self.support > 0) & self.scores.filled)

    def recall(self, column: int, predictions: npt.ArrayLike) -> Floats:
        """Recall of a class where its `predictions` highest scores are predicted."""
        number = np.asarray(predictions, np.float64)
        ranks = self._ranks[self._starts[column] : self._starts[column + 1]]
        own = np.searchsorted(ranks, number, side="right")
        common = np.searchsorted(self._relative, number / self.support[column], side="right")
        pooled = PSEUDO_ROWS * common / max(len(self._relative), 1)
        recall: Floats = (own + pooled) / (len(ranks) + PSEUDO_ROWS)
        return recall

    def at(self, thresholds: Floats) -> Cuts:
        """What is expected at given thresholds."""
        precision, recall = np.full((2, len(thresholds)), np.nan)
        recall[self.support > 0] = 0.0
        for column in self.possible[np.isfinite(thresholds[self.possible])].tolist():
            predictions = self.scores.count(column, thresholds[column])
            if predictions:
                recall[column] = self.recall(column, predictions)
                hits = min(self.support[column] * recall[column], predictions)
                precision[column] = hits / predictions
        return Cuts(thresholds, precision, recall, self.support)


def f1_cuts(scores: AnyScores, labels: AnyLabels, priors: Priors) -> Cuts:
    """Thresholds that maximise the expected F1 of each class, with at most 4 times its positives predicted.

    `r_c = argmax_r 2 min(P_c rec_c(r), r) / (P_c + r)`, with the curves of `RecallCurves`; the threshold lies
    midway between the scores of rank r and r + 1, or at the score of rank r if the next one was left out. A
    class without positives is never predicted.

    Args:
        scores: Scores of samples that the model was not fitted to, of shape (N, C), or the highest of each.
        labels: Observed labels in {-1, 0, +1}, of shape (N, C).
        priors: Class priors.
    """
    curves = RecallCurves(scores, labels, priors)
    thresholds = np.full(curves.scores.classes, np.inf)
    for column in curves.possible.tolist():
        ascending = curves.scores.ascending(column)
        numbers = _possible(ascending)
        positives = curves.support[column]
        numbers = numbers[numbers <= max(1.0, LARGEST_SUPPORT * positives)]
        if len(numbers):
            hits = np.minimum(positives * curves.recall(column, numbers), numbers)
            best = int(numbers[np.argmax(2 * hits / (positives + numbers))])
            thresholds[column] = _cut(ascending, best, curves.scores.samples)
    return curves.at(thresholds)


def recall_cuts(
    scores: AnyScores, labels: AnyLabels, priors: Priors, recall: float, *, per_class: bool
) -> Cuts:
    """Thresholds at which a recall is expected.

    Args:
        scores: Scores of samples that the model was not fitted to, of shape (N, C), or the highest of each.
        labels: Observed labels in {-1, 0, +1}, of shape (N, C).
        priors: Class priors.
        recall: Recall in (0, 1).
        per_class: Reach it in each class by `RecallCurves`, instead of by one threshold over all labels: the
            quantile of the scores of the known positives, weighted by `Priors.importance`. Where scores were
            left out, a class in which those that were kept do not reach it is never predicted.

    Raises:
        InputError: `recall` is out of its domain.
    """
    _check_share("recall", recall)
    curves = RecallCurves(scores, labels, priors)
    thresholds = np.full(curves.scores.classes, np.inf)
    if per_class:
        for column in curves.possible.tolist():
            ascending = curves.scores.ascending(column)
            numbers = _possible(ascending)
            reached = numbers[curves.recall(column, numbers) >= recall]
            if len(reached):
                thresholds[column] = _cut(ascending, int(reached[0]), curves.scores.samples)
        return curves.at(thresholds)
    known = curves.scores.known
    counts = np.bincount(known.columns, minlength=curves.scores.classes)
    weights = priors.importance(counts)[known.columns]
    order = np.argsort(-known.scores, kind="stable")
    needed = int(np.searchsorted(np.cumsum(weights[order]), recall * weights.sum() * (1 - 1e-12)))
    lowest = known.scores[order[needed]]
    seen = np.flatnonzero(curves.support > 0)
    ascending = np.sort(curves.scores.chosen(seen)[0])
    predictions = len(ascending) - int(np.searchsorted(ascending, lowest, side="left"))
    if known.in_order[order[needed]]:
        thresholds[seen] = _cut(ascending, predictions, len(seen) * curves.scores.samples)
    else:
        thresholds[seen] = lowest
    return curves.at(thresholds)


def precision_cuts(
    scores: AnyScores,
    labels: AnyLabels,
    priors: Priors,
    probabilities: npt.NDArray[np.floating],
    precision: float,
    *,
    per_class: bool,
) -> Cuts:
    """The lowest thresholds above which the mean probability reaches a precision.

    Args:
        scores: Scores of samples that the model was not fitted to, of shape (N, C), or the highest of each.
        labels: Observed labels in {-1, 0, +1}, of shape (N, C).
        priors: Class priors.
        probabilities: Calibrated probabilities of the same samples, of shape (N, C), or of the entries of
            `scores`, of shape (M,).
        precision: Precision in (0, 1).
        per_class: Reach it in each class, instead of by one threshold over all of them. A class in which it
            is not reached by at least 10 predictions is never predicted.

    Raises:
        InputError: `precision` is out of its domain, or is not reached by at least 10 predictions.
    """
    _check_share("precision", precision)
    curves = RecallCurves(scores, labels, priors)
    thresholds = np.full(curves.scores.classes, np.inf)
    seen = np.flatnonzero(curves.support > 0)
    own, positions = curves.scores.chosen(seen)
    order = np.argsort(own, kind="stable")
    groups = [(seen, order)]
    if per_class:
        columns = curves.scores.columns(positions)[order]
        by_column = np.argsort(columns, kind="stable")
        present, first = np.unique(columns[by_column], return_index=True)
        parts = np.split(order[by_column], first[1:])
        groups = [(np.asarray([column]), part) for column, part in zip(present, parts, strict=True)]
    p, highest = probabilities.ravel()[positions], 0.0
    for columns, part in groups:
        ascending, own_p = own[part], p[part]
        numbers = _possible(ascending)
        numbers = numbers[numbers >= FEWEST_PAIRS]
        reached = (np.cumsum(own_p[::-1]) / np.arange(1, len(own_p) + 1))[numbers - 1]
        highest = max(highest, float(reached.max(initial=0)))
        enough = numbers[reached >= precision]
        if len(enough):
            total = len(columns) * curves.scores.samples
            thresholds[columns] = _cut(ascending, int(enough[-1]), total)
    if np.isinf(thresholds).all():
        raise InputError(
            f"a precision of {precision:g} is not reached: the {FEWEST_PAIRS} or more highest scores have an "
            f"expected precision of {highest:.2f} at most"
        )
    return curves.at(thresholds)


def label_cuts(scores: AnyScores, labels: AnyLabels, priors: Priors, mean_labels: float) -> Cuts:
    """One threshold for all classes at K labels per sample, as `global_threshold` places it.

    Args:
        scores: Scores of samples that the model was not fitted to, of shape (N, C), or the highest of each.
        labels: Observed labels in {-1, 0, +1}, of shape (N, C).
        priors: Class priors.
        mean_labels: Labels per sample to predict, in (0, C].

    Raises:
        InputError: `mean_labels` is out of its domain.
    """
    curves = RecallCurves(scores, labels, priors)
    seen = np.flatnonzero(curves.support > 0)
    chosen = curves.scores.chosen(seen)[0]
    samples, k = curves.scores.samples, min(mean_labels, len(seen))
    if len(chosen) == samples * len(seen):
        threshold = global_threshold(chosen.reshape(samples, -1), k)
    elif not len(chosen):
        threshold = np.inf
    else:
        ascending = np.sort(chosen)
        numbers = np.concatenate([[0], _possible(ascending)])[::-1]  # of two equally near, the larger
        best = int(numbers[np.argmin(np.abs(numbers - k * samples))])
        threshold = _cut(ascending, best, samples * len(seen))
    thresholds = np.full(curves.scores.classes, np.inf)
    thresholds[seen] = threshold
    return curves.at(thresholds)


def _possible(ascending: Scores) -> npt.NDArray[np.int64]:
    """Numbers of predictions that are possible with equal scores, ascending."""
    starts = np.flatnonzero(np.r_[True, ascending[1:] != ascending[:-1]])
    return (len(ascending) - starts[::-1]).astype(np.int64)


def _cut(ascending: Scores, predictions: int, total: int) -> float:
    """Threshold at which a number of scores is predicted.

    Args:
        ascending: Scores that were kept, in ascending order, (M,).
        predictions: Number of them at and above the threshold.
        total: Number of scores including those that were left out.
    """
    if predictions == len(ascending) < total:
        return float(ascending[0])  # what lies below is not known
    return cut_between(ascending, len(ascending) - predictions)


def _check_share(name: str, value: float) -> None:
    if not 0 < value < 1:
        raise InputError(f"{name} must be between 0 and 1, got {value:g}")
