"""Probabilities from scores, calibrated on samples of which only some labels are known."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..labels import ObservedLabels
from ..metrics.arrays import as_scores
from ..metrics.top_scores import TopScores
from .by_class import AnyLabels, AnyScores
from .pooled import AllPairs, HighestPairs, Pairs
from .priors import Priors

ROUNDS = 6
_FLOOR = 1e-6
_LARGEST_SHIFT = 30.0
_SLOPE_DEVIATION, _SHIFT_DEVIATION = 0.3, 1.0

Floats = npt.NDArray[np.float64]


class Calibration(NamedTuple):
    """Non-decreasing map from scores to probabilities, linear between knots and constant beyond them.

    Attributes:
        scores: Scores of the knots, ascending, float64 (M,).
        probabilities: Probabilities at the knots, float64 (M,).
    """

    scores: Floats
    probabilities: Floats

    def __call__(self, scores: npt.ArrayLike) -> Floats:
        """Probabilities of scores of any shape, float64."""
        return np.interp(np.asarray(scores, np.float64), self.scores, self.probabilities)

    def to_dict(self) -> dict[str, list[float]]:
        """Knots as lists, for JSON."""
        return {"scores": self.scores.tolist(), "probabilities": self.probabilities.tolist()}

    @classmethod
    def from_dict(cls, knots: dict[str, list[float]]) -> Calibration:
        """Calibration from knots as `to_dict` returns them.

        Raises:
            ValueError: They are not two ascending lists of equal length, with probabilities in [0, 1].
        """
        scores, p = (np.asarray(knots[name], np.float64) for name in ("scores", "probabilities"))
        if not len(scores) or scores.shape != p.shape or scores.ndim != 1:
            raise ValueError("knots must be two lists of equal length, not empty")
        ordered = (np.diff(scores) >= 0).all() and (np.diff(p) >= 0).all()
        if not (np.isfinite(scores).all() and ordered and p[0] >= 0 and p[-1] <= 1):
            raise ValueError("knots must be finite and ascending, with probabilities in [0, 1]")
        return cls(scores, p)


class Reliability(NamedTuple):
    """Agreement of probabilities with labels, in bins of equal width.

    Attributes:
        error: Sum over bins of |expected - true number of positives|, over the number of positives.
        expected: Mean probability of each bin, NaN where it is empty, float64 (B,).
        observed: Share of positives of each bin, NaN where it is empty, float64 (B,).
        counts: Number of pairs of sample and class in each bin, int64 (B,).
    """

    error: float
    expected: Floats
    observed: Floats
    counts: npt.NDArray[np.int64]


def fit_calibration(scores: AnyScores, labels: AnyLabels, priors: Priors) -> Calibration:
    """Fit probabilities by isotonic regression with inverse probability weights.

    A known label stands for the labels of its sample that are not known, so its weight is the number of
    labels that the sample is expected to have. From `w_i = K v`, six times: isotonic regression of
    `w_i [known]` on the pooled score in about 3,000 bins; a shift of all log-odds such that probabilities sum
    to K per sample; then `w_i = v (1 + (K - 1) m_i / mean m)`, where `m_i` sums the probabilities of the
    unknown labels of sample i, scaled to the mean K and at least 1. `v` is
    `Priors.importance` of the known class. With several known labels in a sample each takes an equal part.

    Where only the highest scores of each sample are kept, all others are one bin, the lowest, together with
    the known positives among them. Its probability is that of the lowest score that was kept, and of all
    below.

    Args:
        scores: Scores of samples that the model was not fitted to, comparable between classes, (N, C), or the
            highest of each.
        labels: Observed labels in {-1, 0, +1}, of shape (N, C), with a known positive.
        priors: Class priors, with K.

    Returns:
        Calibration whose probabilities sum to about K per sample.

    Source:
        Own; inverse probability weights as in learning from labels that are missing at random.
    """
    from sklearn.isotonic import isotonic_regression

    if isinstance(scores, TopScores):
        labels = labels if isinstance(labels, ObservedLabels) else ObservedLabels.from_ternary(labels)
        pairs: Pairs = HighestPairs(scores, labels)
    else:
        labels = labels.to_ternary() if isinstance(labels, ObservedLabels) else labels
        pairs = AllPairs(as_scores(scores), labels)
    known = pairs.known
    samples, mean_labels = pairs.samples, priors.mean_labels
    per_sample = np.bincount(known.rows, minlength=samples).astype(np.float64)
    v = priors.importance(np.bincount(known.columns, minlength=pairs.classes))[known.columns]
    counts, own, centres = pairs.counts, pairs.own, pairs.centres
    used = np.flatnonzero(counts)
    weights = mean_labels / per_sample[known.rows] * v
    p = np.zeros(len(counts))
    for _ in range(ROUNDS):
        target = np.bincount(own, weights, minlength=len(counts))[used] / counts[used]
        fitted = isotonic_regression(target, sample_weight=counts[used].astype(np.float64))
        p[used] = _shifted(np.clip(fitted, 0, 1 - _FLOOR), counts[used], mean_labels * samples)
        weights = _weights(pairs.hidden(p), per_sample, known.rows, v, mean_labels)
    return _knots(centres[used], p[used])


def refine_calibration(calibration: Calibration, scores: npt.ArrayLike, truth: npt.ArrayLike) -> Calibration:
    """Move probabilities p to sigmoid(a logit p + b), fitted to samples all labels of which are known.

    The negative log-likelihood has the penalty `((a - 1) / .3)^2 / 2 + b^2 / 2`.

    Args:
        calibration: Calibration from known positives.
        scores: Scores of the audited samples, of shape (m, C).
        truth: All their labels, bool of shape (m, C).
    """
    from scipy.optimize import minimize
    from scipy.special import expit, logit

    odds = logit(np.clip(calibration(scores), _FLOOR, 1 - _FLOOR)).ravel()
    positive = np.asarray(truth, np.bool_).ravel()

    def loss(parameters: Floats) -> tuple[float, Floats]:
        a, b = parameters
        moved = a * odds + b
        error = expit(moved) - positive
        pull = np.asarray([(a - 1) / _SLOPE_DEVIATION**2, b / _SHIFT_DEVIATION**2])
        penalty = ((a - 1) / _SLOPE_DEVIATION) ** 2 / 2 + (b / _SHIFT_DEVIATION) ** 2 / 2
        likelihood = np.logaddexp(0, np.where(positive, -moved, moved)).sum()
        return float(likelihood + penalty), np.asarray([error @ odds, error.sum()]) + pull

    a, b = minimize(loss, np.asarray([1.0, 0.0]), jac=True, bounds=[(0.05, 10), (None, None)]).x
    at_knots = logit(np.clip(calibration.probabilities, _FLOOR, 1 - _FLOOR))
    return Calibration(calibration.scores, expit(a * at_knots + b))


def calibration_error(probabilities: npt.ArrayLike, truth: npt.ArrayLike, bins: int = 15) -> Reliability:
    """Compare probabilities with all labels, in bins of equal width.

    Args:
        probabilities: Probabilities of shape (N, C).
        truth: Labels, bool of shape (N, C), with a positive.
        bins: Number of bins.
    """
    p, positive = np.asarray(probabilities, np.float64).ravel(), np.asarray(truth, np.bool_).ravel()
    which = np.minimum((p * bins).astype(np.int64), bins - 1)
    counts = np.bincount(which, minlength=bins)
    expected, found = (np.bincount(which, values, minlength=bins) for values in (p, positive))
    with np.errstate(invalid="ignore"):
        error = float(np.abs(expected - found).sum() / positive.sum())
        return Reliability(error, expected / counts, found / counts, counts)


def _weights(
    hidden: Floats, per_sample: Floats, rows: npt.NDArray[np.int64], v: Floats, mean_labels: float
) -> Floats:
    """Weight of each known positive: labels that its sample is expected to have, over those known."""
    labelled = per_sample > 0
    average = float(hidden[labelled].mean())
    missing = max(mean_labels - float(per_sample[labelled].mean()), 0.0)
    expected = per_sample + (missing * hidden / average if average > 0 else 0.0)
    weights = v * expected[rows] / per_sample[rows]
    # Scaled such that the mean over labelled samples of their sum is K.
    weights *= mean_labels * labelled.sum() / weights.sum()
    return np.maximum(weights, 1.0)


def _shifted(p: Floats, counts: npt.NDArray[np.int64], total: float) -> Floats:
    """Add one number to all log-odds such that probabilities sum to `total`, as far as possible."""
    from scipy.special import expit, logit

    with np.errstate(divide="ignore"):
        odds = logit(p)
    low, high = -_LARGEST_SHIFT, _LARGEST_SHIFT
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if expit(odds + middle) @ counts < total else (low, middle)
    shifted: Floats = expit(odds + (low + high) / 2)
    return shifted


def _knots(centres: Floats, p: Floats) -> Calibration:
    """Keep the first and last bin of each stretch of equal probabilities."""
    changes = np.flatnonzero(p[1:] != p[:-1])
    kept = np.unique(np.concatenate([[0], changes, changes + 1, [len(p) - 1]]))
    return Calibration(centres[kept].astype(np.float64), p[kept])
