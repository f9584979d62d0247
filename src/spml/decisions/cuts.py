"""A threshold for each class, from scores of samples of which only some labels are known."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..common.errors import InputError
from ..scores import as_scores, ranks_of
from ..scores.forms import ScoreArray
from .calibration import AnyLabels, AnyScores, Calibration, as_observed, label_chances
from .decide import cut_between, global_threshold
from .priors import Priors

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
        precision: Expected share of the predictions that are right, the mean of `label_chances` over the
            pairs at and above the threshold, float64 (C,); NaN without predictions.
        recall: Expected share of the positives that are predicted: the sum of `label_chances` over these
            pairs, over that of the class, float64 (C,); NaN without positives. Precision and recall are NaN
            in all classes without a calibration.
        support: Expected number of positives among the samples, float64 (C,).
    """

    thresholds: Floats
    precision: Floats
    recall: Floats
    support: Floats


class RecallCurves:
    """Recall of each class by the number of its predictions, from ranks of known positives: it places cuts.

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
        calibration: Map from scores to probabilities, by which precision and recall are estimated; None =
            they are not.

    Attributes:
        samples: Number of samples N.
        pairs: Pairs of a sample and a class whose scores were kept.
        known: Known positives.
        support: Expected number of positives `P_c`, float64 (C,).
        chances: Probability that labels are there; None without a calibration.

    Source:
        Empirical Bayes on ranks; own formula.
    """

    def __init__(
        self,
        scores: AnyScores,
        labels: AnyLabels,
        priors: Priors,
        calibration: Calibration | None = None,
    ) -> None:
        scores, positives = as_scores(scores), as_observed(labels).entries(1)
        self.chances = None if calibration is None else label_chances(scores, labels, calibration)
        self.samples, self.pairs, self.known = len(scores), scores.pairs, scores.known(*positives)
        self.support: Floats = priors.shares * self.samples
        # Rank = number of predictions at the lowest threshold that still includes the sample.
        (ranks,) = ranks_of(scores, positives)
        self._ranks, self._starts = ranks.ge, np.concatenate([[0], np.cumsum(ranks.counts)])
        support = np.repeat(self.support, np.diff(self._starts))
        self._relative = np.sort(self._ranks[support > 0] / support[support > 0])

    @property
    def possible(self) -> npt.NDArray[np.int64]:
        """Classes that can be predicted: those with expected positives and a score, ascending."""
        return np.flatnonzero((self.support > 0) & self.pairs.filled)

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
        """Expected precision and recall at given thresholds."""
        precision, recall = np.full((2, len(thresholds)), np.nan)
        if self.chances is not None:
            above = self.pairs.scores >= self.pairs.by_class(thresholds)
            predictions = self.pairs.sum_of_classes(above.astype(np.float64))
            right = self.pairs.sum_of_classes(np.where(above, self.chances.of_pairs, 0.0))
            np.divide(right, predictions, out=precision, where=predictions > 0)
            expected = self.chances.of_classes
            np.divide(right, expected, out=recall, where=(self.support > 0) & (expected > 0))
        return Cuts(thresholds, precision, recall, self.support)

    def of_class(self, column: int) -> tuple[Floats, Floats, Floats]:
        """Expected precision and recall of a class at every score of it that was kept.

        Returns:
            Thresholds in ascending order, precision and recall at each, float64 (T,).
        """
        assert self.chances is not None
        positions = self.pairs.of_classes(np.asarray([column]))
        values = self.pairs.scores[positions].astype(np.float64)
        order = np.argsort(values, kind="stable")
        thresholds, first = np.unique(values[order], return_index=True)
        right = np.cumsum(self.chances.of_pairs[positions][order][::-1])[::-1][first]
        total = max(float(self.chances.of_classes[column]), 1e-12)  # no chance at all: recall is 0
        return thresholds, right / (len(order) - first), right / total


def f1_cuts(
    scores: AnyScores, labels: AnyLabels, priors: Priors, calibration: Calibration | None = None
) -> Cuts:
    """Thresholds that maximise the expected F1 of each class, with at most 4 times its positives predicted.

    `r_c = argmax_r 2 min(P_c rec_c(r), r) / (P_c + r)`, with the curves of `RecallCurves`; the threshold lies
    midway between the scores of rank r and r + 1, or at the score of rank r if the next one was left out. A
    class without positives is never predicted.

    Args:
        scores, labels, priors, calibration: As in `RecallCurves`.
    """
    curves = RecallCurves(scores, labels, priors, calibration)
    thresholds = np.full(len(curves.support), np.inf)
    for column in curves.possible.tolist():
        ascending = curves.pairs.ascending(column)
        numbers = _possible(ascending)
        positives = curves.support[column]
        numbers = numbers[numbers <= max(1.0, LARGEST_SUPPORT * positives)]
        if len(numbers):
            hits = np.minimum(positives * curves.recall(column, numbers), numbers)
            best = int(numbers[np.argmax(2 * hits / (positives + numbers))])
            thresholds[column] = _cut(ascending, best, curves.samples)
    return curves.at(thresholds)


def recall_cuts(
    scores: AnyScores,
    labels: AnyLabels,
    priors: Priors,
    recall: float,
    *,
    per_class: bool,
    calibration: Calibration | None = None,
) -> Cuts:
    """Thresholds at which a recall is expected.

    Args:
        scores, labels, priors, calibration: As in `RecallCurves`.
        recall: Recall in (0, 1).
        per_class: Reach it in each class by `RecallCurves`, instead of by one threshold over all labels: the
            quantile of the scores of the known positives, weighted by `Priors.importance`. Where scores were
            left out, a class in which those that were kept do not reach it is never predicted.

    Raises:
        InputError: `recall` is out of its domain.
    """
    _check_share("recall", recall)
    curves = RecallCurves(scores, labels, priors, calibration)
    thresholds = np.full(len(curves.support), np.inf)
    if per_class:
        for column in curves.possible.tolist():
            ascending = curves.pairs.ascending(column)
            numbers = _possible(ascending)
            reached = numbers[curves.recall(column, numbers) >= recall]
            if len(reached):
                thresholds[column] = _cut(ascending, int(reached[0]), curves.samples)
        return curves.at(thresholds)
    known = curves.known
    weights = priors.importance(np.bincount(known.columns, minlength=len(thresholds)))[known.columns]
    order = np.argsort(-known.scores, kind="stable")
    needed = int(np.searchsorted(np.cumsum(weights[order]), recall * weights.sum() * (1 - 1e-12)))
    lowest = known.scores[order[needed]]
    seen = np.flatnonzero(curves.support > 0)
    ascending = np.sort(curves.pairs.scores[curves.pairs.of_classes(seen)])
    predictions = len(ascending) - int(np.searchsorted(ascending, lowest, side="left"))
    if known.in_order[order[needed]]:
        thresholds[seen] = _cut(ascending, predictions, len(seen) * curves.samples)
    else:
        thresholds[seen] = lowest
    return curves.at(thresholds)


def precision_cuts(
    scores: AnyScores,
    labels: AnyLabels,
    priors: Priors,
    calibration: Calibration,
    precision: float,
    *,
    per_class: bool,
) -> Cuts:
    """The lowest thresholds above which the mean of `label_chances` reaches a precision.

    Args:
        scores, labels, priors, calibration: As in `RecallCurves`.
        precision: Precision in (0, 1).
        per_class: Reach it in each class, instead of by one threshold over all of them. A class in which it
            is not reached by at least 10 predictions is never predicted.

    Raises:
        InputError: `precision` is out of its domain, or is not reached by at least 10 predictions.
    """
    _check_share("precision", precision)
    curves = RecallCurves(scores, labels, priors, calibration)
    thresholds = np.full(len(curves.support), np.inf)
    seen = np.flatnonzero(curves.support > 0)
    positions = curves.pairs.of_classes(seen)
    own = curves.pairs.scores[positions]
    order = np.argsort(own, kind="stable")
    groups = [(seen, order)]
    if per_class:
        columns = curves.pairs.indices(positions)[1][order]
        by_column = np.argsort(columns, kind="stable")
        present, first = np.unique(columns[by_column], return_index=True)
        parts = np.split(order[by_column], first[1:])
        groups = [(np.asarray([column]), part) for column, part in zip(present, parts, strict=True)]
    assert curves.chances is not None
    p, highest = curves.chances.of_pairs[positions], 0.0
    for columns, part in groups:
        ascending, own_p = own[part], p[part]
        numbers = _possible(ascending)
        numbers = numbers[numbers >= FEWEST_PAIRS]
        reached = (np.cumsum(own_p[::-1]) / np.arange(1, len(own_p) + 1))[numbers - 1]
        highest = max(highest, float(reached.max(initial=0)))
        enough = numbers[reached >= precision]
        if len(enough):
            total = len(columns) * curves.samples
            thresholds[columns] = _cut(ascending, int(enough[-1]), total)
    if np.isinf(thresholds).all():
        raise InputError(
            f"a precision of {precision:g} is not reached: the {FEWEST_PAIRS} or more highest scores have an "
            f"expected precision of {highest:.2f} at most"
        )
    return curves.at(thresholds)


def label_cuts(
    scores: AnyScores,
    labels: AnyLabels,
    priors: Priors,
    mean_labels: float,
    calibration: Calibration | None = None,
) -> Cuts:
    """One threshold for all classes at K labels per sample, as `global_threshold` places it.

    Args:
        scores, labels, priors, calibration: As in `RecallCurves`.
        mean_labels: Labels per sample to predict, in (0, C].

    Raises:
        InputError: `mean_labels` is out of its domain.
    """
    curves = RecallCurves(scores, labels, priors, calibration)
    seen = np.flatnonzero(curves.support > 0)
    chosen = curves.pairs.scores[curves.pairs.of_classes(seen)]
    samples, k = curves.samples, min(mean_labels, len(seen))
    if len(chosen) == samples * len(seen):
        threshold = global_threshold(chosen.reshape(samples, -1), k)
    elif not len(chosen):
        threshold = np.inf
    else:
        ascending = np.sort(chosen)
        numbers = np.concatenate([[0], _possible(ascending)])[::-1]  # of two equally near, the larger
        best = int(numbers[np.argmin(np.abs(numbers - k * samples))])
        threshold = _cut(ascending, best, samples * len(seen))
    thresholds = np.full(len(curves.support), np.inf)
    thresholds[seen] = threshold
    return curves.at(thresholds)


def _possible(ascending: ScoreArray) -> npt.NDArray[np.int64]:
    """Numbers of predictions that are possible with equal scores, ascending."""
    starts = np.flatnonzero(np.r_[True, ascending[1:] != ascending[:-1]])
    return (len(ascending) - starts[::-1]).astype(np.int64)


def _cut(ascending: ScoreArray, predictions: int, total: int) -> float:
    """Threshold at which a number of scores is predicted.

    Args:
        ascending: ScoreArray that were kept, in ascending order, (M,).
        predictions: Number of them at and above the threshold.
        total: Number of scores including those that were left out.
    """
    if predictions == len(ascending) < total:
        return float(ascending[0])  # what lies below is not known
    return cut_between(ascending, len(ascending) - predictions)


def _check_share(name: str, value: float) -> None:
    if not 0 < value < 1:
        raise InputError(f"{name} must be between 0 and 1, got {value:g}")
