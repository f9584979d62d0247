"""Average precision: equal to scikit-learn, exact under ties, unknown entries left out."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score

from spml.metrics import average_precision, mean_average_precision, mean_over_classes, naive_map


def reference(scores: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """scikit-learn, class by class, among the known samples of the class."""
    result = np.full(scores.shape[1], np.nan)
    for c in range(scores.shape[1]):
        known = truth[:, c] != 0
        positive = truth[known, c] == 1
        if positive.any():
            result[c] = average_precision_score(positive, scores[known, c])
    return result


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("levels", [1, 2, 5, 1000, None], ids=lambda n: f"{n or 'no'}-levels")
@pytest.mark.parametrize(("samples", "classes", "share"), [(1, 3, 0.5), (200, 7, 0.1), (500, 30, 0.6)])
def test_equals_scikit_learn(samples, classes, share, levels, dtype):
    rng = np.random.default_rng(samples + (levels or 0))
    scores = rng.normal(size=(samples, classes))
    if levels is not None:
        scores = rng.integers(levels, size=scores.shape)
    scores = scores.astype(dtype)
    ternary = np.where(rng.random(scores.shape) < share, 1, -1).astype(np.int8)
    expected = reference(scores, ternary)
    for truth in (ternary, ternary == 1, (ternary == 1).astype(np.uint8), torch.from_numpy(ternary)):
        np.testing.assert_allclose(average_precision(scores, truth), expected, rtol=1e-12)
    np.testing.assert_array_equal(
        average_precision(torch.from_numpy(scores), ternary), average_precision(scores, ternary)
    )


@pytest.mark.parametrize("levels", [1, 4, 10**6])
def test_unknown_entries_are_left_out_of_their_class(levels):
    rng = np.random.default_rng(levels)
    scores = rng.integers(levels, size=(120, 9)).astype(np.float32)
    truth = rng.integers(-1, 2, size=scores.shape)
    truth[:, 4] = np.where(truth[:, 4] == 1, 0, truth[:, 4])
    np.testing.assert_allclose(average_precision(scores, truth), reference(scores, truth), rtol=1e-12)
    assert np.isnan(average_precision(scores, truth)[4])


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_equals_scikit_learn_on_small_cases(data):
    samples, classes = data.draw(st.integers(1, 8)), data.draw(st.integers(1, 3))
    shape = (samples, classes)

    def draw(values):
        return np.array(data.draw(st.lists(values, min_size=samples * classes, max_size=samples * classes)))

    scores = draw(st.integers(-2, 2)).reshape(shape)
    truth = draw(st.sampled_from([-1, 1])).reshape(shape)
    np.testing.assert_allclose(average_precision(scores, truth), reference(scores, truth), rtol=1e-12)


def test_classes_without_positives():
    scores = np.array([[0.2, 0.1], [0.1, 0.3]])
    truth = np.array([[True, False], [False, False]])
    assert average_precision(scores, truth)[0] == 1.0
    assert np.isnan(average_precision(scores, truth)[1])
    assert mean_average_precision(scores, truth) == 1.0
    assert mean_average_precision(scores, truth, empty="zero") == 0.5
    nothing = np.zeros((2, 2), bool)
    assert mean_average_precision(scores, nothing, empty="zero") == 0.0
    with pytest.raises(ValueError, match="no class has a positive"):
        mean_average_precision(scores, nothing)
    with pytest.raises(ValueError, match='"exclude" or "zero"'):
        mean_over_classes(np.array([1.0]), "skip")


def test_the_result_does_not_depend_on_blocks_of_classes(monkeypatch):
    rng = np.random.default_rng(0)
    scores, truth = rng.normal(size=(50, 11)), rng.random((50, 11)) < 0.3
    whole = average_precision(scores, truth)
    monkeypatch.setattr("spml.scores.ranks._BLOCK_BYTES", 50 * 8 * 3)
    np.testing.assert_array_equal(average_precision(scores, truth), whole)


def test_infinite_scores_and_both_zeros_rank_as_numbers_do():
    truth = np.array([[1], [-1], [1], [-1]])
    scores = np.array([[np.inf], [0.0], [-0.0], [-np.inf]])
    np.testing.assert_allclose(average_precision(scores, truth), [(1 + 2 / 3) / 2])


def test_half_precision_integers_and_strides():
    rng = np.random.default_rng(1)
    exact = rng.integers(-50, 50, size=(40, 6))  # small integers: exact in every type
    truth = rng.random(exact.shape) < 0.4
    expected = average_precision(exact.astype(np.float64), truth)
    halves = [torch.tensor(exact, dtype=t, requires_grad=True) for t in (torch.float16, torch.bfloat16)]
    for scores in (*halves, exact, exact.astype(np.float16), exact.tolist(), np.asfortranarray(exact)):
        np.testing.assert_array_equal(average_precision(scores, truth), expected)
    before = exact.copy()
    np.testing.assert_array_equal(
        average_precision(exact[::2, ::-1], truth[::2, ::-1])[::-1],
        average_precision(exact[::2].copy(), truth[::2]),
    )
    np.testing.assert_array_equal(exact, before)


@pytest.mark.parametrize(
    ("scores", "truth", "message"),
    [
        ([[0.0, 1.0], [1.0, np.nan]], [[1, -1], [-1, 1]], "row 1, column 1 is NaN"),
        ([0.0, 1.0], [1, -1], r"shape \(N, C\)"),
        (np.empty((0, 3)), np.empty((0, 3)), r"N, C >= 1"),
        ([["a"]], [[1]], "real numbers"),
        ([[0.0], [1.0]], [[1]], "shape of the scores"),
        ([[0.0], [1.0]], [[1], [2]], "row 1, column 0: labels may hold only -1, 0, 1, got 2"),
        ([[0.0], [1.0]], np.array([[1], [2]], np.uint8), "row 1, column 0: labels may hold only 0, 1, got 2"),
        ([[0.0], [1.0]], [[1.0], [np.nan]], "row 1, column 0: labels may hold only -1, 0, 1, got nan"),
        ([[0.0], [1.0]], [["a"], ["b"]], "must be numbers"),
        ([[0.0], [1.0]], [[1], [0]], "no known negative. If 0 means absent"),
    ],
)
def test_mistakes_are_named(scores, truth, message):
    with pytest.raises(ValueError, match=message):
        average_precision(scores, truth)


@pytest.mark.parametrize("form", ["index", "ternary"])
def test_naive_map_counts_unknown_as_negative(form):
    rng = np.random.default_rng(3)
    scores, index = rng.integers(6, size=(80, 5)), rng.integers(4, size=80)  # class 4 is never observed
    positive = np.eye(5, dtype=np.int8)[index]
    observed = index
    if form == "ternary":
        observed = np.where(positive == 1, 1, rng.choice([-1, 0], positive.shape))
    per_class = [average_precision_score(positive[:, c], scores[:, c]) for c in range(4)]
    assert naive_map(scores, observed) == pytest.approx(np.mean(per_class), rel=1e-12)
    assert naive_map(scores, observed, empty="zero") == pytest.approx(np.sum(per_class) / 5, rel=1e-12)
