"""Which samples to label in full, and what their labels are expected to tell."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..common.draws import permutation, uniform
from ..common.errors import InputError
from ..decisions.priors import FEWEST_AUDITED
from ..metrics import bootstrap_map

CORRELATION = 0.9
"""Correlation of the errors of mAP of two models on the same few samples, assumed where there is only one
model: the median over pairs of ridge heads on eleven feature sets, where it was .75 to .98
(`benchmarks/audit_sample.py`)."""

_LEVEL, _POWER = 1.96, 0.84  # quantiles of the normal distribution at 97.5 and 80 %
_MOST_SCORES = 1_000_000  # of the simulation
_SUBSETS = 25  # of each simulated labelling, as the ranking of the scores is the slow part

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


class Forecast(NamedTuple):
    """Expected precision of estimates from a number of random, fully labelled samples.

    Attributes:
        rows: Number of these samples.
        mean_labels: Mean labels per sample K that the probabilities imply.
        mean_labels_margin: Expected half width of the 95 % t-interval of K.
        map_shift: Mean difference between mAP on these samples and on all: a class with few positives scores
            higher on few samples.
        map_margin: Half width of the interval around `map_shift` that holds the difference with probability
            95 %.
        smallest_difference: Difference in mAP between two models that is significant at 5 % with probability
            80 %.
        simulated: Whether the difference was simulated with several models; otherwise it follows from
            `map_margin` and `CORRELATION`.
    """

    rows: int
    mean_labels: float
    mean_labels_margin: float
    map_shift: float
    map_margin: float
    smallest_difference: float
    simulated: bool


def draw_sample(samples: int, rows: int, seed: int = 0) -> Integers:
    """Draw samples to label in full: every set of `rows` samples is equally likely.

    Their order is random, so that the first ones of them are a random sample, too.

    Args:
        samples: Number N of samples to draw from.
        rows: Number of samples to draw, at least 20.
        seed: Seed of the draw, which is the same on every platform.

    Returns:
        int64 (rows,), distinct numbers below N.

    Raises:
        InputError: There are not so many samples, or K could not be estimated from so few.
    """
    if rows < FEWEST_AUDITED:
        raise InputError(
            f"{rows} samples are too few to estimate anything: draw at least {FEWEST_AUDITED}, better 50 or "
            "more (`rows`)"
        )
    if rows > samples:
        raise InputError(f"{rows:,} samples can't be drawn from {samples:,}: draw fewer (`rows`)")
    return permutation(samples, "audit", seed)[:rows]


def forecast_audit(
    scores: Sequence[npt.ArrayLike],
    labels: npt.NDArray[np.int8],
    hidden: npt.ArrayLike,
    rows: int,
    *,
    draws: int = 500,
    seed: int = 0,
) -> Forecast:
    """Compute what `rows` random, fully labelled samples are expected to tell.

    Labels of all samples are simulated: known ones stay, and each unknown one is there with the probability h
    that it is hidden, independently. The variance of the number of labels per sample is the mean of
    `sum h (1 - h)` plus the variance of the expected number. mAP is measured on random subsets and compared
    with mAP on all samples (on a random part of them where there are more than a million scores). A
    difference between two models is found with probability 80 % if it is (1.96 + .84) standard deviations of
    its error, which are the root mean square over all pairs of models; with one model,
    `sqrt(2 (1 - CORRELATION))` times the standard deviation of its mAP.

    On eleven feature sets whose K was known, margins of mAP were .7 to 1.5 times the true ones where the
    known label was a uniform draw, and .8 to 2.2 times where frequent classes were preferred
    (`benchmarks/audit_sample.py`).

    Args:
        scores: Scores (N, C) of each model for the same samples; the first one is that whose mAP is forecast.
        labels: Observed labels in {-1, 0, +1}, of shape (N, C).
        hidden: Probability that each label is there although it is not known, (N, C); 0 where it is known
            (see `spml.decisions.hidden_probabilities`).
        rows: Number of samples to label in full, at least 20 and at most N.
        draws: Number of simulated subsets.
        seed: Seed of the simulation, which is the same on every platform.
    """
    from scipy.stats import t

    hidden = np.asarray(hidden, np.float64)
    known = labels == 1
    expected = known.sum(1) + hidden.sum(1)
    deviation = math.sqrt(float((hidden * (1 - hidden)).sum(1).mean() + expected.var()))
    most = max(4 * rows, _MOST_SCORES // labels.shape[1])
    part = np.sort(permutation(len(labels), "forecast", "part", seed)[:most])
    models = [np.asarray(of_model)[part] for of_model in scores]
    errors = _simulated_errors(models, known[part], hidden[part], rows, draws, seed)
    first = errors[0]
    shift = float(first.mean())
    if len(models) > 1:
        variances = [float((a - b).var()) for a, b in combinations(errors, 2)]
        error = math.sqrt(sum(variances) / len(variances))
    else:
        error = math.sqrt(2 * (1 - CORRELATION)) * float(first.std())
    return Forecast(
        rows=rows,
        mean_labels=float(expected.mean()),
        mean_labels_margin=float(t.ppf(0.975, rows - 1)) * deviation / math.sqrt(rows),
        map_shift=shift,
        map_margin=float(np.quantile(np.abs(first - shift), 0.95)),
        smallest_difference=(_LEVEL + _POWER) * error,
        simulated=len(models) > 1,
    )


def _simulated_errors(
    models: Sequence[npt.NDArray[np.floating]],
    known: npt.NDArray[np.bool_],
    hidden: Floats,
    rows: int,
    draws: int,
    seed: int,
) -> Floats:
    """Differences between mAP on random subsets and on all samples, float64 (models, about `draws`)."""
    samples = len(known)
    errors = []
    for number in range(math.ceil(draws / _SUBSETS)):
        chances = uniform(hidden.size, "forecast", "labels", seed, number).reshape(hidden.shape)
        truth = known | (chances < hidden)
        chosen = np.zeros((1 + _SUBSETS, samples), np.int16)
        chosen[0] = 1
        for subset in range(_SUBSETS):
            chosen[1 + subset, permutation(samples, "forecast", "rows", seed, number, subset)[:rows]] = 1
        # mAP of a subset without any positive is not defined.
        chosen = chosen[chosen[:, truth.any(1)].any(1)]
        values = np.stack([bootstrap_map(scores, truth, chosen) for scores in models])
        errors.append(values[:, 1:] - values[:, :1])
    return np.concatenate(errors, axis=1)
