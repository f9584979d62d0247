"""Propensity-scored precision and recall: equal to plain loops."""

from __future__ import annotations

import math

import numpy as np
import pytest

from spml.metrics import LabelledScores, metrics, propensities, propensity_scored_top_k


def slow(scores, truth, k, propensity):
    """PSP@k and PSR@k sample by sample."""
    gained = possible = gained_share = possible_share = 0.0
    for row, labels in zip(scores, truth, strict=True):
        order = sorted(range(len(row)), key=lambda c: (-row[c], c))
        weights = [1 / propensity[c] if labels[c] else 0.0 for c in range(len(row))]
        own = sum(weights[c] for c in order[:k])
        best = sum(sorted(weights, reverse=True)[:k])
        actual = max(sum(map(bool, labels)), 1)
        gained, possible = gained + own, possible + best
        gained_share, possible_share = gained_share + own / actual, possible_share + best / actual
    return gained / possible, gained_share / possible_share


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("k", [1, 3, 5])
def test_equal_to_the_loop(seed, k):
    rng = np.random.default_rng(seed)
    shape = (rng.integers(1, 20), 8)
    scores = rng.integers(0, 4, shape).astype(np.float32)  # with ties
    truth = rng.random(shape) < 0.3
    truth[0, 3] = True
    propensity = propensities(rng.integers(0, 50, 8), 100)
    found = propensity_scored_top_k(scores, truth, k, propensity)
    assert found == pytest.approx(slow(scores, truth, k, propensity), rel=1e-12)


def test_propensities_by_hand():
    c = (math.log(100) - 1) * 2.5**0.55
    expected = [1 / (1 + c * (count + 1.5) ** -0.55) for count in (0, 1, 50)]
    np.testing.assert_allclose(propensities([0, 1, 50], 100), expected, rtol=1e-14)
    wikipedia = 1 / (1 + (math.log(100) - 1) * 1.4**0.5 * 7.4**-0.5)
    assert propensities([7], 100, a=0.5, b=0.4)[0] == pytest.approx(wikipedia)
    assert propensities([1, 2], 2).tolist() == [1, 1]


@pytest.mark.parametrize(
    ("truth", "k", "propensity", "message"),
    [
        ([[1, 0, -1]], 1, [1, 1, 1], "need all labels"),
        ([[-1, -1, -1]], 1, [1, 1, 1], "no label is positive"),
        ([[1, -1, -1]], 4, [1, 1, 1], "k must be in 1 ... 3"),
        ([[1, -1, -1]], 1, [1, 1], "expected 3 propensities"),
    ],
)
def test_wrong_arguments_are_named(truth, k, propensity, message):
    with pytest.raises(ValueError, match=message):
        propensity_scored_top_k([[1.0, 2.0, 3.0]], truth, k, propensity)


def test_the_registered_metric_takes_propensities_from_the_labels():
    rng = np.random.default_rng(0)
    truth = np.where(rng.random((30, 6)) < 0.3, 1, -1).astype(np.int8)
    scores = rng.normal(size=truth.shape).astype(np.float32)
    metric = metrics()["propensity_scored_top_k"]
    assert (metric.blocks, metric.fewest_classes) == (True, 1000)
    found = metric.measure(LabelledScores(scores, truth, tuple("abcdef"), 0.0))
    propensity = propensities((truth == 1).sum(0), 30)
    for k in (1, 3, 5):
        expected = propensity_scored_top_k(scores, truth, k, propensity)
        assert found[str(k)] == expected._asdict()
