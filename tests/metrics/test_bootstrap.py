"""mAP on bootstrap draws: equal to repeated rows, and to values computed by hand."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from sklearn.metrics import average_precision_score

from spml.bench.runner import bootstrap_draws
from spml.metrics import bootstrap_map, mean_average_precision, paired_resamples, resamples


def problem(samples=60, classes=5, levels=7, seed=0):
    rng = np.random.default_rng(seed)
    scores = rng.integers(levels, size=(samples, classes)).astype(np.float32)
    truth = rng.random((samples, classes)) < 0.2
    return scores, truth


@pytest.mark.parametrize("levels", [1, 3, 10_000])
@pytest.mark.parametrize("empty", ["exclude", "zero"])
def test_map_of_a_draw_is_that_of_the_repeated_rows(levels, empty):
    scores, truth = problem(levels=levels)
    truth[:, 3] = False
    truth[:, 4] = np.arange(60) == 7  # drawn in some draws only
    draws = bootstrap_draws(60, 40, seed=1)
    assert 0 < (draws[:, 7] == 0).sum() < 40
    maps = bootstrap_map(scores, truth, draws, empty)
    for value, drawn in zip(maps, draws, strict=True):
        rows = np.repeat(np.arange(60), drawn)
        assert value == pytest.approx(mean_average_precision(scores[rows], truth[rows], empty), rel=1e-12)
        weighted = [average_precision_score(truth[:, c], scores[:, c], sample_weight=drawn) for c in range(3)]
        if empty == "zero" and drawn[7] == 0:
            assert value == pytest.approx(np.sum(weighted) / 5, rel=1e-12)


def test_map_of_a_draw_by_hand():
    scores = np.array([[0.9], [0.8], [0.8], [0.1]])
    truth = np.array([[True], [True], [False], [True]])
    draws = np.array([[1, 1, 1, 1], [0, 2, 1, 1], [1, 0, 3, 0]])
    # Thresholds .9, .8 (a tie), .1. Second draw: 2/3 twice, 3/4 once; third: the one at the top.
    first = Fraction(1, 3) * (1 + Fraction(2, 3) + Fraction(3, 4))
    second = Fraction(1, 3) * (2 * Fraction(2, 3) + Fraction(3, 4))
    assert bootstrap_map(scores, truth, draws).tolist() == pytest.approx([float(first), float(second), 1.0])


def test_unknown_labels_are_left_out_of_a_draw():
    scores, _ = problem(levels=10_000)
    ternary = np.random.default_rng(5).integers(-1, 2, size=scores.shape)
    draws = bootstrap_draws(60, 20, seed=2)
    rows = [np.repeat(np.arange(60), drawn) for drawn in draws]
    expected = [mean_average_precision(scores[r], ternary[r]) for r in rows]
    np.testing.assert_allclose(bootstrap_map(scores, ternary, draws), expected, rtol=1e-12)


def test_the_size_of_blocks_does_not_matter(monkeypatch):
    scores, truth = problem()
    draws = bootstrap_draws(60, 11, seed=2)
    expected = bootstrap_map(scores, truth, draws)
    monkeypatch.setattr("spml.metrics.bootstrap._BLOCK_BYTES", 60 * 4 * 3)
    np.testing.assert_allclose(bootstrap_map(scores, truth, draws), expected, rtol=1e-12)


def test_a_draw_without_positives_is_refused_or_zero():
    scores, truth = np.array([[1.0], [0.0]]), np.array([[True], [False]])
    draws = np.array([[1, 1], [0, 2]])
    with pytest.raises(ValueError, match="draw 1 has no positive"):
        bootstrap_map(scores, truth, draws)
    assert bootstrap_map(scores, truth, draws, "zero").tolist() == [1.0, 0.0]
    with pytest.raises(ValueError, match=r"multiplicity must have shape \(B, 2\), got \(1, 3\)"):
        bootstrap_map(scores, truth, np.ones((1, 3), int))
    with pytest.raises(ValueError, match='"exclude" or "zero"'):
        bootstrap_map(scores, truth, draws, "other")


def test_draws_for_several_models_hold_every_sample_once_first_and_always_a_positive():
    positive = np.zeros((4, 2), bool)
    positive[2, 1] = True
    rows = paired_resamples(positive, 200, 5)
    every = np.concatenate([[np.ones(4, int)], *resamples(4, 200, 5)])
    assert rows.dtype == np.int16
    assert rows.tolist() == [row.tolist() for row in every if row[2]]
    assert len(rows) < 201


def test_groups_are_drawn_as_a_whole():
    groups = np.array([7, 3, 7, 7, 9, 3])
    drawn = np.concatenate([*resamples(6, 200, seed=3, groups=groups)])
    of_groups = np.concatenate([*resamples(3, 200, seed=3)])
    assert (of_groups.sum(axis=1) == 3).all()
    np.testing.assert_array_equal(drawn, of_groups[:, [1, 0, 1, 1, 2, 0]])
    assert len({*drawn.sum(axis=1).tolist()}) > 1, "the number of samples differs"
    with pytest.raises(ValueError, match=r"groups must have shape \(6,\), got \(5,\)"):
        next(resamples(6, 1, 0, groups[:5]))
