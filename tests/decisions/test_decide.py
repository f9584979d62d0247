"""From scores to labels."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from spml.common.errors import InputError
from spml.decisions import Decision, global_threshold, threshold_at, threshold_curve
from spml.scores import InMemory

SCORES = np.asarray([[3.0, 1.0, 2.0], [-1.0, -3.0, -2.0], [0.5, 0.5, 0.5]], np.float32)
CUTS = (0.5, 1.0, np.inf)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"threshold": 1.0}, [[1, 1, 1], [0, 0, 0], [0, 0, 0]]),  # inclusive
        ({"threshold": 0.5}, [[1, 1, 1], [0, 0, 0], [1, 1, 1]]),
        ({"threshold": CUTS}, [[1, 1, 0], [0, 0, 0], [1, 0, 0]]),
        ({"threshold": CUTS, "top_k": 1}, [[1, 0, 0], [0, 0, 0], [1, 0, 0]]),
        ({"threshold": CUTS, "top1_fallback": True}, [[1, 1, 0], [1, 0, 0], [1, 0, 0]]),
        ({"threshold": None, "top_k": 2}, [[1, 0, 1], [1, 0, 1], [1, 1, 0]]),  # the first of equal scores
        ({"threshold": None, "top_k": 5}, [[1, 1, 1]] * 3),
        ({"threshold": 1.0, "top_k": 1}, [[1, 0, 0], [0, 0, 0], [0, 0, 0]]),
        ({"threshold": 1.0, "top1_fallback": True}, [[1, 1, 1], [1, 0, 0], [1, 0, 0]]),
        ({"threshold": 1.0, "top1_fallback": True, "never": (0,)}, [[0, 1, 1], [0, 0, 1], [0, 1, 0]]),
        ({"threshold": None, "top_k": 2, "never": (0,)}, [[0, 1, 1], [0, 1, 1], [0, 1, 1]]),
        ({"threshold": -9.0, "top1_fallback": True, "never": (0, 1, 2)}, [[0, 0, 0]] * 3),
    ],
)
def test_labels_follow_from_thresholds_numbers_and_classes_that_are_never_predicted(settings, expected):
    assert Decision(**settings)(SCORES).astype(int).tolist() == expected


def test_a_float32_score_reaches_its_own_decimal():
    scores = np.asarray([[0.7, 0.7]], np.float32)
    assert Decision(0.7)(scores).tolist() == Decision((0.7, 0.7))(scores).tolist() == [[True, True]]


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


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.lists(st.integers(-3, 3), min_size=3, max_size=3), min_size=1, max_size=8),
    st.floats(0.01, 3.0),
)
def test_no_other_threshold_comes_nearer(scores, k):
    values = np.array(scores, np.float32)
    expected = k * len(values)
    t = global_threshold(values, k)
    possible = [int((values >= cut).sum()) for cut in (*np.unique(values), np.inf)]
    assert abs(int((values >= t).sum()) - expected) == min(abs(count - expected) for count in possible)
    assert t not in values


def test_by_hand():
    scores = [[5.0, 1.0], [4.0, 0.0], [2.0, -3.0]]
    assert global_threshold(scores, 1.0) == 1.5  # 3 of 6: 5, 4, 2
    assert global_threshold(scores, 2 / 3) == 3.0  # 2 of 6
    assert global_threshold(scores, 2.0) == -6.0  # all labels, with some room below
    assert global_threshold(scores, 0.1) == 10.0  # 0.3 labels: nearer to none than to one
    assert global_threshold(torch.tensor(scores), 1.0) == 1.5


def test_ties_are_kept_together():
    scores = [[3.0, 1.0], [1.0, 1.0], [1.0, 0.0]]
    assert global_threshold(scores, 2 / 3) == 2.0  # 2 labels: 1 or 5 are possible
    assert global_threshold(scores, 4 / 3) == 0.5  # 4 labels
    assert global_threshold(scores, 1.0) == 0.5  # 3 labels: both are equally near, so more labels
    constant = np.zeros((4, 3))
    assert global_threshold(constant, 1.0) == 1.0
    assert global_threshold(constant, 2.0) == -1.0


def test_is_exact_in_the_type_of_the_scores():
    low = np.float32(1.0)
    high = np.nextafter(low, np.float32(2))
    scores = np.array([[low, high]], np.float32)
    t = global_threshold(scores, 1.0)
    assert (scores >= t).tolist() == [[False, True]]
    assert (torch.from_numpy(scores) >= t).tolist() == [[False, True]]
    huge = np.array([[2e38, 3e38]], np.float32)
    assert global_threshold(huge, 1.0) == pytest.approx(2.5e38)  # their sum is beyond float32


@pytest.mark.parametrize("k", [0.0, -1.0, 2.5, math.nan, math.inf])
def test_an_impossible_number_of_labels_is_named(k):
    with pytest.raises(InputError, match="above 0 and at most 2"):
        global_threshold([[0.0, 1.0]], k)


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        (np.empty((0, 2)), "N, C >= 1"),
        ([[0.0, np.nan]], "row 0, column 1 is NaN"),
        ([[0.0, np.inf]], "finite"),
        ([[-np.inf, 0.0]], "finite"),
    ],
)
def test_scores_that_cannot_be_cut_are_named(scores, message):
    with pytest.raises(ValueError, match=message):
        global_threshold(scores, 1.0)


def highest_of(scores, k, positives):
    return InMemory(scores).highest(k, positives)


def test_the_highest_scores_alone_give_the_same_threshold():
    scores = np.random.default_rng(0).normal(size=(50, 40)).astype(np.float32)
    # Known positives with the lowest scores, which are kept too, but not among the highest.
    kept = highest_of(scores, 12, (np.arange(50), scores.argmin(axis=1)))
    assert len(kept.scores) == 50 * 13
    for k in (0.05, 0.5, 1.0, 2.0):
        assert global_threshold(kept, k) == global_threshold(scores, k)
    with pytest.raises(InputError, match="must be at most 12, the highest scores that were kept"):
        global_threshold(kept, 12.5)
    with pytest.raises(InputError, match="at most 40, the number of classes"):
        global_threshold(kept, 41)


def test_of_all_scores_of_each_sample_nothing_changes():
    scores = np.random.default_rng(1).normal(size=(9, 4)).astype(np.float32)
    kept = highest_of(scores, 4, (np.arange(2), np.array([1, 3])))
    for k in (0.1, 1.7, 4.0):
        assert global_threshold(kept, k) == global_threshold(scores, k)
    assert threshold_curve(kept) == threshold_curve(scores)


def test_a_curve_of_the_highest_scores_ends_with_them():
    scores = np.random.default_rng(2).normal(size=(200, 30)).astype(np.float32)
    curve = threshold_curve(highest_of(scores, 5, (np.arange(200), scores.argmin(axis=1))))
    ordered = np.sort(np.sort(scores, axis=1)[:, -5:], axis=None)
    assert curve[-1] == (5.0, float(ordered[0]))
    assert curve[0] == (0.05, float(np.sort(scores, axis=None)[-10]))
    assert [threshold for _, threshold in curve] == sorted((t for _, t in curve), reverse=True)
