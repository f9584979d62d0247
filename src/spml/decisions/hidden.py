"""Probability that a label which was not given is there all the same."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..labels import ObservedLabels
from ..scores import Pairs, as_scores
from .calibration import AnyLabels, AnyScores, Calibration, as_observed

Floats = npt.NDArray[np.float64]


def hidden_probabilities(scores: AnyScores, labels: AnyLabels, calibration: Calibration) -> Floats:
    """Probability that a label which is not known is a positive that was not shown.

    It rises with the score. With a known label in the sample it is `Calibration.of_hidden`: the label is less
    probable than the same label of a sample of which nothing is known. To condition on the probabilities of
    the other labels of the sample, too, made it worse (`benchmarks/results/stated.md`).

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
