"""SP-score: equal to its formula in plain loops."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from spml.metrics import (
    SPScore,
    average_precision,
    mean_average_precision,
    observed_ranks,
    sp_score,
    sp_scores,
)
from tests.helpers.slow import one_hot, slow_sp


@pytest.mark.parametrize("mean_labels", [1.0, 2.0, 3.7])
@pytest.mark.parametrize("levels", [1, 2, 6, 10**6], ids=lambda n: f"{n}-levels")
@pytest.mark.parametrize(("samples", "classes"), [(1, 1), (1, 4), (60, 5), (90, 40)])
def test_equals_the_formula(samples, classes, levels, mean_labels):
    rng = np.random.default_rng(samples + levels)
    scores = rng.integers(levels, size=(samples, classes)).astype(np.float32)
    index = rng.integers(classes, size=samples)
    dense = one_hot(index, classes)
    expected = slow_sp(scores.tolist(), dense.tolist(), mean_labels)
    for observed in (index, torch.from_numpy(index), dense, torch.from_numpy(dense)):
        assert sp_score(scores, observed, mean_labels) == pytest.approx(expected, rel=1e-12)
    assert sp_score(torch.from_numpy(scores), index, mean_labels) == sp_score(scores, index, mean_labels)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_equals_the_formula_with_several_positives_and_negatives(data):
    samples, classes = data.draw(st.integers(1, 9)), data.draw(st.integers(1, 3))

    def draw(values):
        return data.draw(
            st.lists(st.lists(values, min_size=classes, max_size=classes), min_size=samples, max_size=samples)
        )

    scores, observed = draw(st.integers(-2, 2)), draw(st.sampled_from([-1, 0, 0, 1]))
    observed[0][0] = 1
    k = data.draw(st.sampled_from([0.5, 1.0, 2.0, 3.0]))
    assert sp_score(scores, observed, k) == pytest.approx(slow_sp(scores, observed, k), rel=1e-9, abs=1e-12)


def test_by_hand():
    # Class 0 is observed on samples 0 and 3: ge 1 and 4, a 0 and 1, p = 1 and (1 + 2) / 4, U = 7/8 and 1/8.
    # Class 1 on samples 1 and 2: ge 3 and 2, a 1 and 0, p = min(1, 3/3) and 1/2, U = 3/8 and 5/8.
    scores = [[4.0, 1.0], [3.0, 2.0], [2.0, 3.0], [1.0, 4.0]]
    found = sp_score(scores, [0, 1, 1, 0], 2.0)
    assert found.p == pytest.approx(((1 + 3 / 4) / 2 + (1 + 1 / 2) / 2) / 2)
    assert found.a == pytest.approx((1 / 2 - 1 / 4) / (1 / 2))  # pi = min(1/2, 2 * 2 / 4)
    assert found.score == pytest.approx(found.p * found.a)


def test_default_is_two_labels_per_sample():
    rng = np.random.default_rng(6)
    scores, index = rng.normal(size=(50, 3)), rng.integers(3, size=50)
    assert sp_score(scores, index) == sp_score(scores, index, 2.0) != sp_score(scores, index, 1.0)
    assert isinstance(sp_score(scores, index), SPScore)


def test_resamples_equal_the_formula_with_multiplicities():
    rng = np.random.default_rng(7)
    scores, index = rng.integers(8, size=(40, 6)), rng.integers(6, size=40)
    drawn = rng.multinomial(40, np.full(40, 1 / 40), size=5)
    found = sp_scores(observed_ranks(scores, index), drawn, 2.0)
    dense = one_hot(index, 6).tolist()
    for row, times in zip(found.tolist(), drawn.tolist(), strict=True):
        assert row == pytest.approx(slow_sp(scores.tolist(), dense, 2.0, times), rel=1e-12)


def test_a_resample_without_known_positives_has_no_score():
    ranks = observed_ranks([[1.0], [2.0]], [[1], [0]])
    found = sp_scores(ranks, np.array([[0, 2], [1, 1]]))
    assert np.isnan(found[0]).all()
    assert not np.isnan(found[1]).any()


@pytest.mark.parametrize(
    ("observed", "mean_labels", "message"),
    [
        ([0, 3], 2.0, r"row 1: observed class 3 is outside 0 \.\.\. 1"),
        ([0, -1], 2.0, "row 1: observed class -1"),
        ([0], 2.0, r"shape \(2,\)"),
        ([0.0, 1.0], 2.0, "integers"),
        ([[1, 0]], 2.0, "shape of the scores"),
        ([[1, 0], [0, 2]], 2.0, "row 1, column 1: labels may hold only -1, 0, 1, got 2"),
        ([[0, 0], [0, -1]], 2.0, "no known positive"),
        (np.array([[1, 0], [0, 1]], bool), 2.0, "must be of a signed type"),
        ([0, 1], 0.0, "above 0"),
        ([0, 1], math.nan, "above 0"),
        ([0, 1], math.inf, "finite"),
    ],
)
def test_mistakes_are_named(observed, mean_labels, message):
    with pytest.raises(ValueError, match=message):
        sp_score([[0.0, 1.0], [1.0, 0.0]], observed, mean_labels)


def test_nan_scores_are_named():
    with pytest.raises(ValueError, match="row 0, column 1 is NaN"):
        sp_score([[0.0, np.nan], [1.0, 0.0]], [0, 1])


def test_on_full_labels_with_the_true_mean_p_is_average_precision():
    rng = np.random.default_rng(4)
    scores = rng.integers(20, size=(200, 1)).astype(float)
    truth = np.where(rng.random((200, 1)) < 0.3, 1, -1)
    found = sp_score(scores, truth, mean_labels=float((truth == 1).mean()))
    assert found.p == pytest.approx(mean_average_precision(scores, truth), rel=1e-12)
    positive, negative = scores[truth == 1], scores[truth == -1]
    wins = (positive[:, None] > negative).mean() + (positive[:, None] == negative).mean() / 2
    assert found.a == pytest.approx(wins, rel=1e-12)
    assert average_precision(scores, truth)[0] == pytest.approx(found.p, rel=1e-12)
