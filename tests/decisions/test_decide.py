"""From scores to labels."""

from __future__ import annotations

import numpy as np
import pytest

from spml.common.errors import InputError
from spml.decisions import Decision, global_threshold, threshold_at, threshold_curve

SCORES = np.asarray([[3.0, 1.0, 2.0], [-1.0, -3.0, -2.0], [0.5, 0.5, 0.5]], np.float32)


def chosen(**settings):
    return Decision(**settings)(SCORES).astype(int).tolist()


def test_a_threshold_is_inclusive():
    assert chosen(threshold=1.0) == [[1, 1, 1], [0, 0, 0], [0, 0, 0]]
    assert chosen(threshold=0.5) == [[1, 1, 1], [0, 0, 0], [1, 1, 1]]


def test_each_class_may_have_its_own_threshold():
    cuts = (0.5, 1.0, np.inf)
    assert chosen(threshold=cuts) == [[1, 1, 0], [0, 0, 0], [1, 0, 0]]
    assert chosen(threshold=cuts, top_k=1) == [[1, 0, 0], [0, 0, 0], [1, 0, 0]]
    assert chosen(threshold=cuts, top1_fallback=True) == [[1, 1, 0], [1, 0, 0], [1, 0, 0]]


def test_a_float32_score_reaches_its_own_decimal():
    scores = np.asarray([[0.7, 0.7]], np.float32)
    assert Decision(0.7)(scores).tolist() == Decision((0.7, 0.7))(scores).tolist() == [[True, True]]


def test_top_k_alone_predicts_exactly_k_and_the_first_of_equal_scores():
    assert chosen(threshold=None, top_k=2) == [[1, 0, 1], [1, 0, 1], [1, 1, 0]]
    assert chosen(threshold=None, top_k=5) == [[1, 1, 1]] * 3


def test_top_k_limits_a_threshold():
    assert chosen(threshold=1.0, top_k=1) == [[1, 0, 0], [0, 0, 0], [0, 0, 0]]


def test_the_fallback_gives_a_sample_without_labels_its_highest_one():
    assert chosen(threshold=1.0, top1_fallback=True) == [[1, 1, 1], [1, 0, 0], [1, 0, 0]]


def test_a_class_without_training_positives_is_never_predicted():
    assert chosen(threshold=1.0, top1_fallback=True, never=(0,)) == [[0, 1, 1], [0, 0, 1], [0, 1, 0]]
    assert chosen(threshold=None, top_k=2, never=(0,)) == [[0, 1, 1], [0, 1, 1], [0, 1, 1]]
    assert chosen(threshold=-9.0, top1_fallback=True, never=(0, 1, 2)) == [[0, 0, 0]] * 3


def test_a_decision_needs_a_threshold_or_a_number():
    with pytest.raises(InputError, match="top_k"):
        Decision(None)
    with pytest.raises(InputError, match="at least 0"):
        Decision(0.0, top_k=-1)


def test_a_curve_gives_the_threshold_of_any_number_of_labels():
    scores = np.random.default_rng(0).normal(size=(400, 20)).astype(np.float32)
    curve = threshold_curve(scores)
    assert len(curve) <= 128
    assert curve[-1] == (20.0, float(scores.min()))
    for k in (0.1, 1.0, 2.7, 9.0, 19.0):
        predicted = (scores >= threshold_at(curve, k)).sum() / 400
        assert abs(predicted - k) <= 0.02 * k
        assert threshold_at(curve, k) == pytest.approx(global_threshold(scores, k), abs=0.02)


def test_a_curve_of_few_scores_ends_with_all_labels():
    assert threshold_curve([[2.0, 1.0]]) == [(1.0, 2.0), (2.0, 1.0)]
    assert threshold_at([(1.0, 2.0), (2.0, 1.0)], 5.0) == 1.0
