"""Samples for which everything that the decisions assume is true."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit


class World(NamedTuple):
    """Scores (N, C) that are log-odds of independent labels, these labels, and one known label of each."""

    scores: np.ndarray
    truth: np.ndarray
    observed: np.ndarray
    mean_labels: float


def make_world(seed: int, samples: int = 2500, classes: int = 25, mean_labels: float = 2.5, power=0.0):
    """Draw a world. The known label is a uniform draw among the labels of its sample, or one with weights
    (share of the class) ^ power."""
    rng = np.random.default_rng(seed)
    odds = rng.normal(-2.6, 1.2, classes) + rng.normal(0, 1.5, (samples, classes))
    odds += brentq(lambda shift: expit(odds + shift).sum(1).mean() - mean_labels, -20, 20)
    truth = rng.random(odds.shape) < expit(odds)
    some = truth.any(1)
    odds, truth = odds[some], truth[some]
    weights = rng.exponential(size=truth.shape) / truth.mean(0) ** power
    observed = np.zeros(truth.shape, np.int8)
    observed[np.arange(len(truth)), np.where(truth, weights, np.inf).argmin(1)] = 1
    return World(odds, truth, observed, float(truth.sum(1).mean()))


def some_labels(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """Labels of which some are known: none, one or several positives and negatives in a sample."""
    labels = rng.choice([-1, 0, 1], shape, p=[0.1, 0.65, 0.25]).astype(np.int8)
    labels[0] = 0
    labels[1] = 1
    return labels
