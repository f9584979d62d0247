"""Probability that a label which was not given is there all the same."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..scores import Pairs, as_scores
from .calibration import AnyLabels, AnyScores, Calibration, as_observed

_NODES = 10
_LARGEST = 1 - 1e-9
_SMALLEST = 1e-12

Floats = npt.NDArray[np.float64]


def shown_probabilities(probabilities: npt.ArrayLike) -> Floats:
    """Probability that each class is the label that is shown of a sample.

    Labels of a sample are independent with the given probabilities, and one of them is drawn uniformly:
    `s_c = p_c * integral over u in (0, 1) of prod over c' != c of (1 - p_c' + p_c' u) du`, divided by
    the probability that the sample has any label. The integral is taken with 10 Gauss nodes.

    Args:
        probabilities: Probabilities p of shape (N, C), in [0, 1].

    Returns:
        float64 (N, C); rows sum to 1.
    """
    p = np.asarray(probabilities, np.float64)
    return _shown(Pairs(p), p.ravel(), 0.0)[0].reshape(p.shape)


def hidden_probabilities(probabilities: npt.ArrayLike, labels: npt.NDArray[np.int8]) -> Floats:
    """Probability that a label which is not known is a positive that was not shown.

    `(p - s) / (1 - s)` with s as in `shown_probabilities`, for a sample with a known positive; p for one
    without.

    Args:
        probabilities: Calibrated probabilities p of shape (N, C).
        labels: Observed labels in {-1, 0, +1}, of shape (N, C).

    Returns:
        float64 (N, C); 0 where a label is known. A sum over a list of pairs is its expected yield.
    """
    p = np.asarray(probabilities, np.float64)
    parts = []
    for first, pairs in Pairs(p).parts():
        own = labels[first : first + pairs.shape[0]]
        hidden, _ = hidden_of_pairs(
            pairs, np.asarray(pairs.scores, np.float64), own.ravel(), 0.0, (own == 1).any(1)
        )
        parts.append(hidden)
    return np.concatenate(parts).reshape(p.shape)


def hidden_of_pairs(
    pairs: Pairs,
    p: Floats,
    labels: npt.NDArray[np.int8],
    of_others: float,
    labelled: npt.NDArray[np.bool_],
) -> tuple[Floats, Floats]:
    """Probabilities as in `hidden_probabilities`, of pairs of which some may be left out.

    Args:
        pairs: Pairs.
        p: Calibrated probability of each, (M,), in [0, 1].
        labels: Observed label of each in {-1, 0, +1}, (M,).
        of_others: Probability of each pair that was left out.
        labelled: Whether a sample has a known positive, bool (N,).

    Returns:
        float64 (M,), 0 where a label is known; and that of each pair of a sample which was left out and whose
        label is not known, float64 (N,).
    """
    shown, other_shown = _shown(pairs, p, of_others)
    shown, other_shown = shown * pairs.by_sample(labelled), other_shown * labelled
    hidden = (p - shown) / np.maximum(1 - shown, _SMALLEST)
    other = (of_others - other_shown) / np.maximum(1 - other_shown, _SMALLEST)
    return np.where(labels == 0, np.clip(hidden, 0, 1), 0.0), np.clip(other, 0, 1)


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
    pairs, lowest = scores.pairs, float(calibration.probabilities[0])
    labelled = observed.positives_per_sample() > 0
    parts = []
    for first, part in pairs.parts():
        rows = np.arange(first, first + part.shape[0])
        own = part.labels(observed.take(rows))
        hidden, _ = hidden_of_pairs(part, calibration(part.scores), own, lowest, labelled[rows])
        parts.append(np.where(own == 1, 1.0, hidden))
    of_pairs = np.concatenate(parts)
    known = scores.known(*observed.entries(1))
    lost = np.bincount(known.columns[~known.in_order], minlength=scores.shape[1])
    left_out = len(scores) - pairs.sum_of_classes(np.ones(len(of_pairs))) - lost
    return Chances(of_pairs, pairs.sum_of_classes(of_pairs) + lost + lowest * left_out)


def _shown(pairs: Pairs, p: Floats, of_others: float) -> tuple[Floats, Floats]:
    """Probability that each pair is the one that is shown, (M,), and each that was left out, (N,)."""
    p, q = np.clip(p, 0, _LARGEST), np.clip(of_others, 0, _LARGEST)
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    shown, other_shown = np.zeros_like(p), np.zeros(pairs.shape[0])
    for node, weight in zip((nodes + 1) / 2, weights / 2, strict=True):
        factors, factor = np.log1p(-p * (1 - node)), np.log1p(-q * (1 - node))
        sums = pairs.sum_of_samples(factors) + pairs.left_out * factor
        shown += weight * np.exp(pairs.by_sample(sums) - factors)
        other_shown += weight * np.exp(sums - factor)
    some = -np.expm1(pairs.sum_of_samples(np.log1p(-p)) + pairs.left_out * np.log1p(-q))
    some = np.maximum(some, _SMALLEST)
    return p * shown / pairs.by_sample(some), q * other_shown / some
