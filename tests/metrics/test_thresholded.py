"""Metrics of decisions: equal to scikit-learn and to the definitions of Cole et al."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import precision_recall_fscore_support

from spml.metrics import cost_sensitive_hamming, precision_recall_f1, top_k

AVERAGES = ["micro", "macro", "samples"]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("average", AVERAGES)
@pytest.mark.parametrize("threshold", [0.0, 2.0, 99.0, "per class"])
@pytest.mark.parametrize(("samples", "classes"), [(1, 4), (150, 12)])
def test_equals_scikit_learn(samples, classes, threshold, average):
    rng = np.random.default_rng(samples)
    scores = rng.integers(-4, 5, size=(samples, classes)).astype(np.float32)  # many lie on the threshold
    truth = np.where(rng.random(scores.shape) < 0.15, 1, -1)  # some classes and samples have no positive
    if threshold == "per class":
        threshold = rng.integers(-4, 5, size=classes)
    expected = precision_recall_fscore_support(
        truth == 1, scores >= threshold, average=average, zero_division=0
    )[:3]
    found = precision_recall_f1(scores, truth, threshold, average)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert all(type(value) is float for value in found)


def test_scores_and_threshold_are_compared_in_the_type_of_the_scores():
    scores = np.array([[0.7], [0.1]], np.float32)  # 0.7 is 0.69999999 in float32
    for threshold in (0.7, [0.7], np.float64(0.7)):
        assert precision_recall_f1(scores, [[1], [-1]], threshold) == (1.0, 1.0, 1.0)


def test_unknown_entries_are_not_counted():
    # Without its unknown entries this is the fully labelled column [1, -1, 1] at scores [1, 1, -1].
    scores = [[1], [1], [-1], [1], [-1]]
    truth = [[1], [-1], [1], [0], [0]]
    for average in ("micro", "macro"):
        assert precision_recall_f1(scores, truth, 0, average) == (0.5, 0.5, 0.5)


@pytest.mark.parametrize(
    ("threshold", "average", "message"),
    [
        ([0.0, 1.0], "micro", "one per class"),
        (np.nan, "micro", "must be a number"),
        (0.0, "weighted", '"micro", "macro" or "samples"'),
    ],
)
def test_mistakes_are_named(threshold, average, message):
    with pytest.raises(ValueError, match=message):
        precision_recall_f1([[0.0, 1.0, 2.0]], [[1, -1, 1]], threshold, average)


def slow_top_k(scores: np.ndarray, truth: np.ndarray, k: int) -> list[float]:
    """Sample by sample; a sample without positives scores 0, lower class numbers first among equals."""
    found = []
    for row, labels in zip(scores.tolist(), truth.tolist(), strict=True):
        known = [c for c, label in enumerate(labels) if label != 0]
        best = sorted(known, key=lambda c: (-row[c], c))[:k]
        hits = sum(labels[c] == 1 for c in best)
        found.append([hits / k, hits / max(1, labels.count(1)), float(hits > 0)])
    return np.mean(found, axis=0).tolist()


@pytest.mark.parametrize("k", [1, 3, 5, 6])
@pytest.mark.parametrize("levels", [1, 3, 10**6])
@pytest.mark.parametrize("values", [(-1, -1, 1), (-1, 0, 1)], ids=["full", "partial"])
def test_top_k_equals_the_definition(values, levels, k):
    rng = np.random.default_rng(levels + k)
    scores = rng.integers(levels, size=(90, 6)).astype(np.float32)
    truth = rng.choice(values, size=scores.shape)
    found = top_k(scores, truth, k)
    assert found == pytest.approx(slow_top_k(scores, truth, k), rel=1e-12)
    assert all(type(value) is float for value in found)


@pytest.mark.parametrize("k", [0, -1, 4])
def test_top_k_refuses_an_impossible_k(k):
    with pytest.raises(ValueError, match=r"k must be in 1 \.\.\. 3 .* got " + str(k)):
        top_k([[0.0, 1.0, 2.0]], [[1, -1, 1]], k)


# -- the cost-sensitive Hamming loss ---------------------------------------------------------------------


def test_the_cost_sensitive_hamming_loss_is_that_of_the_equation():
    """Eq. 12 of LASD by hand: wrong positives divided by their number, plus wrong negatives by theirs."""
    scores = np.array([[2.0, -1.0, 0.5, -3.0, 0.0], [1.0, 1.0, -1.0, -1.0, -1.0]])
    truth = np.array([[1, 1, -1, -1, -1], [-1, -1, -1, -1, 1]])
    expected = [1 / 2 + 2 / 3, 1 / 1 + 2 / 4]  # a score of 0 reaches the threshold 0
    for row in (0, 1):
        found = cost_sensitive_hamming(scores[row : row + 1], truth[row : row + 1], 0.0)
        assert found == pytest.approx(expected[row], rel=1e-12)
    assert cost_sensitive_hamming(scores, truth == 1, 0.0) == pytest.approx(sum(expected) / 2, rel=1e-12)
    thresholds = [0.0, -2.0, 1.0, 0.0, 1.0]
    assert cost_sensitive_hamming(scores[:1], truth[:1], thresholds) == 0
    assert cost_sensitive_hamming(scores[1:], scores[1:] < 0, 0.0) == 2


def test_unknown_labels_and_sides_without_labels_cost_nothing():
    scores = [[1.0, -1.0, 1.0], [1.0, 1.0, 1.0], [1.0, -1.0, 1.0]]
    truth = [[1, 0, -1], [1, 1, 1], [-1, -1, -1]]
    assert cost_sensitive_hamming(scores, truth, 0.0) == pytest.approx((1 + 0 + 2 / 3) / 3, rel=1e-12)
    with pytest.raises(ValueError, match="threshold must be a number or 3 numbers"):
        cost_sensitive_hamming(scores, truth, [0.0, 1.0])
