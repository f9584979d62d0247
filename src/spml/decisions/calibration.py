"""Probabilities from scores, calibrated on samples of which only some labels are known."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..labels import ObservedLabels
from ..scores import Pairs, Scores, as_scores
from ..scores.forms import ScoreArray
from .priors import LARGEST_SHARE, Priors, filled

ROUNDS = 6
_BINS_OF_ALL, _BINS_OF_KNOWN = 2000, 1000
_FLOOR = 1e-6
_LARGEST_SHIFT = 30.0
_SLOPE_DEVIATION, _SHIFT_DEVIATION = 0.3, 1.0
_PREDICTABLE = 0.85
_TRUSTED_POSITIVES = 100
_SMOOTHNESS = 0.01

Floats = npt.NDArray[np.float64]
AnyScores = npt.ArrayLike | Scores
AnyLabels = npt.NDArray[np.int8] | ObservedLabels


def as_observed(labels: AnyLabels) -> ObservedLabels:
    """Observed labels, also from a matrix in {-1, 0, +1}."""
    return labels if isinstance(labels, ObservedLabels) else ObservedLabels.from_ternary(labels)


class Calibration(NamedTuple):
    """Non-decreasing maps from scores to probabilities, linear between knots and constant beyond them.

    Attributes:
        scores: Scores of the knots, ascending, float64 (M,).
        probabilities: Probabilities at the knots that a label is there, float64 (M,).
        hidden: Probabilities at the knots that a label is there although another one is given and this one is
            not, float64 (M,).
    """

    scores: Floats
    probabilities: Floats
    hidden: Floats

    def __call__(self, scores: npt.ArrayLike) -> Floats:
        """Probabilities of labels of which nothing is known, by scores of any shape, float64."""
        return np.interp(np.asarray(scores, np.float64), self.scores, self.probabilities)

    def of_hidden(self, scores: npt.ArrayLike) -> Floats:
        """Probabilities of labels that are not given, of samples with a given one, float64."""
        return np.interp(np.asarray(scores, np.float64), self.scores, self.hidden)

    def to_dict(self) -> dict[str, list[float]]:
        """Knots as lists, for JSON."""
        return {name: values.tolist() for name, values in self._asdict().items()}

    @classmethod
    def from_dict(cls, knots: dict[str, list[float]]) -> Calibration:
        """Calibration from knots as `to_dict` returns them.

        Raises:
            ValueError: They are not three ascending lists of equal length, with probabilities in [0, 1].
        """
        scores, *both = (np.asarray(knots[name], np.float64) for name in cls._fields)
        if not len(scores) or scores.ndim != 1 or any(scores.shape != p.shape for p in both):
            raise ValueError("knots must be three lists of equal length, not empty")
        ordered = all((np.diff(values) >= 0).all() for values in (scores, *both))
        if not (np.isfinite(scores).all() and ordered and all(p[0] >= 0 and p[-1] <= 1 for p in both)):
            raise ValueError("knots must be finite and ascending, with probabilities in [0, 1]")
        return cls(scores, *both)


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
    """Fit probabilities by isotonic regression with inverse probability weights; see `fit_probabilities`."""
    return fit_probabilities(scores, labels, priors)[0]


def fit_probabilities(
    scores: AnyScores,
    labels: AnyLabels,
    priors: Priors,
    positives: npt.ArrayLike | None = None,
    total: int | None = None,
) -> tuple[Calibration, Priors]:
    """Fit probabilities by isotonic regression with inverse probability weights, and class priors with them.

    A known label stands for the labels of its sample that are not known, so its weight w is the number of
    labels that the sample is expected to have. From `w_i = K v`, six times:

    1. Probabilities p: isotonic regression of `w_i [known]` on the pooled score in about 3,000 bins, and a
       shift of all log-odds such that they sum to K per sample.
    2. Probabilities h of the unknown labels of labelled samples: isotonic regression of `(w_i - 1) [known]`
       over the number of unknown labels of each bin, since a known label hides `w_i - 1` others, whose scores
       are distributed like its own.
    3. `w_i = v (1 + (K - 1) (.85 m_i / mean m + .15 u_i / mean u))`, where `m_i` sums h over the `u_i`
       unknown labels of sample i, scaled to the mean K and at least 1. The number of labels of a sample is
       predicted in part only: on ten sets, the true number rises by .8 on average where `m_i` rises by 1.
       Without the second summand, a label that a model is sure of would hide next to nothing.

    `v` is `Priors.importance` of the known class. With several known labels in a sample each takes an equal
    part. A class whose known labels are mostly alone is rarer than K times its share of the known labels, and
    one that has company more frequent: it is hidden as often as its known labels hide others, so its prior is
    the share of samples in which it is known and its part of `w_i - 1`, scaled such that priors sum to K, at
    most .95. Priors of an audit remain.

    Where only the highest scores of each sample are kept, all others are one bin, the lowest, together with
    the known positives among them. Its probability is that of the lowest score that was kept, and of all
    below.

    Args:
        scores: Scores of samples that the model was not fitted to, comparable between classes, (N, C), or the
            highest of each.
        labels: Observed labels in {-1, 0, +1}, of shape (N, C), with a known positive.
        priors: Class priors, with K.
        positives: Known positives of each class (C,) among more samples than these, which the shares of the
            classes follow then; None = those of `labels`.
        total: Number of samples that `positives` counts; None = with as many known positives each as here.

    Returns:
        Calibration whose probabilities sum to about K per sample, and class priors that sum to about K.

    Source:
        Own; inverse probability weights as in learning from labels that are missing at random.
    """
    from scipy.optimize import isotonic_regression

    scores, observed = as_scores(scores), as_observed(labels)
    pairs, known = scores.pairs, scores.known(*observed.entries(1))
    samples, classes = scores.shape
    mean_labels = priors.mean_labels
    edges = _edges(pairs.scores, known.scores[known.in_order])
    # All pairs that were left out are in bin 0, and no other.
    bins = np.searchsorted(edges, pairs.scores, side="right").astype(np.int32) + 1
    own = np.where(known.in_order, np.searchsorted(edges, known.scores, side="right") + 1, 0)
    counts = np.bincount(bins, minlength=len(edges) + 2)
    with np.errstate(invalid="ignore", divide="ignore"):
        centres = np.bincount(bins, pairs.scores, minlength=len(counts)) / counts
    counts[0], centres[0] = pairs.left_out.sum(), pairs.scores.min()
    per_sample = np.bincount(known.rows, minlength=samples).astype(np.float64)
    labelled = per_sample > 0
    unknown = (pairs.labels(observed) == 0) & pairs.by_sample(labelled)
    unknown_labels = ((classes - observed.known_per_sample()) * labelled).astype(np.float64)
    unknown_left_out = unknown_labels - pairs.sum_of_samples(unknown)
    unknown_counts = np.bincount(bins[unknown], minlength=len(counts)).astype(np.float64)
    unknown_counts[0] = unknown_left_out.sum()

    counted = np.bincount(known.columns, minlength=classes)
    v = priors.importance(counted)[known.columns]
    used = np.flatnonzero(counts)
    # Of each known positive: labels that its sample is expected to have, over those known.
    weights = mean_labels / per_sample[known.rows] * v
    missing = max(mean_labels - float(per_sample[labelled].mean()), 0.0)
    p = np.zeros(len(counts))
    for _ in range(ROUNDS):
        target = np.bincount(own, weights, minlength=len(counts))[used] / counts[used]
        fitted = isotonic_regression(target, weights=counts[used].astype(np.float64)).x
        p[used] = _shifted(np.clip(fitted, 0, 1 - _FLOOR), counts[used], mean_labels * samples)
        h, _ = _hidden_by_bin(own, weights, unknown_counts)
        hidden = pairs.sum_of_samples(np.where(unknown, h[bins], 0)) + h[0] * unknown_left_out
        share, even = (
            part / average if (average := float(part[labelled].mean())) > 0 else np.zeros_like(part)
            for part in (hidden, unknown_labels)
        )
        expected = per_sample + missing * (_PREDICTABLE * share + (1 - _PREDICTABLE) * even)
        weights = v * expected[known.rows] / per_sample[known.rows]
        # Scaled such that the mean over labelled samples of their sum is K.
        weights *= mean_labels * labelled.sum() / weights.sum()
        weights = np.maximum(weights, 1.0)
    h, number = _hidden_by_bin(own, weights, unknown_counts)
    h = _steadied(h, number, unknown_counts, counts, np.bincount(own, minlength=len(counts)))
    if priors.gamma is None:
        hides = np.divide(
            np.bincount(known.columns, weights - 1, minlength=classes),
            counted,
            out=np.full(classes, float(weights.mean()) - 1),
            where=counted > 0,
        )
        everywhere = np.asarray(counted if positives is None else positives, np.float64)
        there = everywhere / (total or samples * everywhere.sum() / counted.sum())
        hidden = filled(hides * there, mean_labels - there.sum(), np.maximum(LARGEST_SHARE - there, 0))
        priors = priors._replace(shares=there + hidden)
    return _knots(centres[used], p[used], np.maximum.accumulate(h[used])), priors


def refine_calibration(calibration: Calibration, scores: npt.ArrayLike, truth: npt.ArrayLike) -> Calibration:
    """Move probabilities p to sigmoid(a logit p + b), fitted to samples all labels of which are known.

    The negative log-likelihood has the penalty `((a - 1) / .3)^2 / 2 + b^2 / 2`. Probabilities of hidden
    labels are moved by the same a and b.

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
    both = (calibration.probabilities, calibration.hidden)
    moved = (expit(a * logit(np.clip(at_knots, _FLOOR, 1 - _FLOOR)) + b) for at_knots in both)
    return Calibration(calibration.scores, *moved)


def calibration_error(probabilities: npt.ArrayLike, truth: npt.ArrayLike, bins: int = 15) -> Reliability:
    """Compare probabilities with all labels, in bins of equal width.

    Args:
        probabilities: Probabilities of shape (N, C).
        truth: Labels, bool of shape (N, C), with a positive.
        bins: Number of bins.
    """
    sums = ReliabilityBins(bins)
    sums.add(probabilities, truth)
    return sums.reliability()


class ReliabilityBins:
    """Sums of probabilities and labels in bins of equal width, to which blocks of samples are added.

    Args:
        bins: Number of bins.
    """

    def __init__(self, bins: int = 15) -> None:
        self._expected, self._observed = np.zeros((2, bins))
        self._counts = np.zeros(bins, np.int64)

    @property
    def filled(self) -> bool:
        """Whether anything was added."""
        return bool(self._counts.any())

    def add(self, probabilities: npt.ArrayLike, truth: npt.ArrayLike) -> None:
        """Add probabilities (B, C) and labels, bool (B, C)."""
        p, positive = np.asarray(probabilities, np.float64).ravel(), np.asarray(truth, np.bool_).ravel()
        bins = len(self._counts)
        which = np.minimum((p * bins).astype(np.int64), bins - 1)
        self._counts += np.bincount(which, minlength=bins)
        self._expected += np.bincount(which, p, minlength=bins)
        self._observed += np.bincount(which, positive, minlength=bins)

    def reliability(self) -> Reliability:
        """Agreement of all that was added."""
        expected, observed, counts = self._expected, self._observed, self._counts
        with np.errstate(invalid="ignore"):
            error = float(np.abs(expected - observed).sum() / observed.sum())
            return Reliability(error, expected / counts, observed / counts, counts)


def _edges(values: ScoreArray, known: ScoreArray) -> ScoreArray:
    """Edges of bins: quantiles of all scores, and of those of known positives, which are rare and high."""
    quantiles = [
        np.quantile(part, np.linspace(0, 1, count + 1)[1:-1], method="inverted_cdf")
        for part, count in ((values, _BINS_OF_ALL), (known, _BINS_OF_KNOWN))
        if len(part)
    ]
    return np.unique(np.concatenate(quantiles))


def _hidden_by_bin(own: npt.NDArray[np.int64], weights: Floats, unknown: Floats) -> tuple[Floats, Floats]:
    """Probability that an unknown label of each bin is there, non-decreasing, and the number it stands on.

    Args:
        own: Bin of each known positive, (P,).
        weights: Its weight, (P,).
        unknown: Number of unknown labels of each bin, (B,).

    Returns:
        Probabilities, and numbers of hidden labels as the weights count them, both float64 (B,).
    """
    from scipy.optimize import isotonic_regression

    h, number, used = np.zeros(len(unknown)), np.zeros(len(unknown)), np.flatnonzero(unknown)
    if len(used):
        # Where a bin has known labels only, those that they hide are in the next one below.
        nearest = np.maximum(np.searchsorted(used, own, side="right") - 1, 0)
        number[used] = np.bincount(nearest, np.maximum(weights - 1, 0), minlength=len(used))
        fitted = isotonic_regression(number[used] / unknown[used], weights=unknown[used]).x
        h[used] = np.clip(fitted, 0, 1)
    return h, number


def _steadied(
    h: Floats,
    number: Floats,
    unknown: Floats,
    counts: npt.NDArray[np.int64],
    positives: npt.NDArray[np.int64],
) -> Floats:
    """Draw probabilities h of few known labels to a smooth curve, so that none is 1 without evidence.

    At the top, isotonic regression takes the luckiest block for the rule. Each block of equal probabilities
    is drawn to a curve, `A / (A + 100) h + 100 / (A + 100) curve`, with A known labels in it and above. The
    curve is the logistic regression of hidden against other unknown labels on `-log(share of all scores that
    are as high)` and its square; a bin can't hide more labels than are unknown in it, and a surplus there
    makes no other bin poorer. Then all log-odds are shifted such that the sum stays. On real sets this halves
    the error of the first 500 of a list; where all assumptions hold, the first 100 are stated about 10 points
    too low.

    Args:
        h, number: From `_hidden_by_bin`.
        unknown, counts, positives: Number of unknown, of all and of known labels of each bin, (B,).
    """
    from scipy.optimize import minimize
    from scipy.special import expit

    used = np.flatnonzero(unknown)
    if not len(used):
        return h
    depth = -np.log((np.cumsum(counts[::-1])[::-1] - counts / 2)[used] / counts.sum()) / 3 - 1
    features = np.stack([np.ones(len(used)), depth, depth**2], axis=1)
    hidden, others = number[used], np.maximum(unknown - number, 0)[used]

    def loss(weights: Floats) -> tuple[float, Floats]:
        odds = features @ weights
        value = hidden @ np.logaddexp(0, -odds) + others @ np.logaddexp(0, odds)
        slope = features.T @ (others * expit(odds) - hidden * expit(-odds))
        return float(value + _SMOOTHNESS * weights @ weights / 2), slope + _SMOOTHNESS * weights

    def curvature(weights: Floats) -> Floats:
        odds = features @ weights
        spread = (hidden + others) * expit(odds) * expit(-odds)
        return np.asarray(features.T @ (spread[:, None] * features) + _SMOOTHNESS * np.eye(3))

    start = np.asarray([-4.0, 3.0, 0.0])
    found = minimize(loss, start, jac=True, hess=curvature, method="trust-exact", options={"gtol": 1e-8})
    curve = expit(features @ found.x)
    starts = np.flatnonzero(np.r_[True, np.diff(h[used]) > 0])
    above = np.cumsum(positives[::-1])[::-1][used][starts]
    trust = above / (above + _TRUSTED_POSITIVES)
    of_blocks = np.add.reduceat(curve * unknown[used], starts) / np.add.reduceat(unknown[used], starts)
    steady = np.maximum.accumulate(trust * h[used][starts] + (1 - trust) * of_blocks)
    result = np.zeros_like(h)
    result[used] = np.repeat(steady, np.diff(np.r_[starts, len(used)]))
    result[used] = _shifted(result[used], unknown[used], float(h @ unknown))
    return result


def _shifted(p: Floats, counts: npt.NDArray[Any], total: float) -> Floats:
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


def _knots(centres: Floats, p: Floats, h: Floats) -> Calibration:
    """Keep the first and last bin of each stretch of equal probabilities."""
    changes = np.flatnonzero((p[1:] != p[:-1]) | (h[1:] != h[:-1]))
    kept = np.unique(np.concatenate([[0], changes, changes + 1, [len(p) - 1]]))
    return Calibration(centres[kept].astype(np.float64), p[kept], h[kept])


def hidden_probabilities(scores: AnyScores, labels: AnyLabels, calibration: Calibration) -> Floats:
    """Probability that a label which is not known is a positive that was not shown.

    It rises with the score. With a known label in the sample it is `Calibration.of_hidden`: the label is less
    probable than the same label of a sample of which nothing is known.

    Args:
        scores: Scores of shape (N, C), or the highest of each sample.
        labels: Observed labels in {-1, 0, +1}, of shape (N, C).
        calibration: Map from these scores to probabilities.

    Returns:
        float64 (N, C); 0 where a label is known or its score was left out. A sum over a list of pairs is its
        expected yield.
    """
    scores, observed = as_scores(scores), as_observed(labels)
    hidden = np.zeros(scores.shape)
    for first, pairs in scores.pairs.parts():
        rows = np.arange(first, first + pairs.shape[0])
        own = observed.take(rows)
        places = pairs.indices(np.arange(len(pairs.scores)))
        hidden[first + places[0], places[1]] = hidden_of_pairs(pairs, own, calibration)[0]
    return hidden


def hidden_of_pairs(pairs: Pairs, labels: ObservedLabels, calibration: Calibration) -> tuple[Floats, Floats]:
    """Probabilities as in `hidden_probabilities`, of pairs of which some may be left out.

    Args:
        pairs: Pairs of N samples.
        labels: Observed labels of the samples.
        calibration: Map from scores to probabilities.

    Returns:
        float64 (M,), 0 where a label is known; and that of each pair of a sample which was left out and whose
        label is not known, float64 (N,).
    """
    labelled = labels.positives_per_sample() > 0
    hidden = np.where(
        pairs.by_sample(labelled), calibration.of_hidden(pairs.scores), calibration(pairs.scores)
    )
    others = np.where(labelled, calibration.hidden[0], calibration.probabilities[0])
    return np.where(pairs.labels(labels) == 0, hidden, 0.0), others


class Chances(NamedTuple):
    """Probability that labels are there, given what is known of each sample.

    Attributes:
        of_pairs: 1 for a known positive, 0 for a known negative, and the probability that it is hidden for
            any other pair of a sample and a class, float64 (M,), in the order of `Scores.pairs`.
        of_classes: Expected number of samples that have each class, pairs that were left out included,
            float64 (C,).
    """

    of_pairs: Floats
    of_classes: Floats


def label_chances(scores: AnyScores, labels: AnyLabels, calibration: Calibration) -> Chances:
    """Probability that labels are there, known or hidden: what precision and recall are estimated from.

    The mean over the pairs above a threshold is the expected precision there. It uses what is known of these
    samples, so it is right where all labels are known, and less biased than the mean of calibrated
    probabilities where one is (`benchmarks/decisions.py`).

    Args:
        scores: Scores of samples that the model was not fitted to, (N, C), or the highest of each.
        labels: Observed labels in {-1, 0, +1}, of shape (N, C).
        calibration: Map from these scores to probabilities.
    """
    scores, observed = as_scores(scores), as_observed(labels)
    pairs, parts, others = scores.pairs, [], []
    for first, part in pairs.parts():
        own = observed.take(np.arange(first, first + part.shape[0]))
        hidden, of_others = hidden_of_pairs(part, own, calibration)
        parts.append(np.where(part.labels(own) == 1, 1.0, hidden))
        others.append(of_others)
    of_pairs, of_others = np.concatenate(parts), np.concatenate(others)
    of_classes = pairs.sum_of_classes(of_pairs)
    if not scores.complete:
        rows, columns = observed.entries(1)
        lost = ~scores.known(rows, columns).in_order
        of_classes += of_others.sum() - pairs.sum_of_classes(pairs.by_sample(of_others))
        of_classes += np.bincount(columns[lost], 1 - of_others[rows[lost]], minlength=scores.shape[1])
    return Chances(of_pairs, of_classes)
