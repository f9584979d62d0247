"""Statistics: equal to SciPy, scikit-learn or what was computed by hand or printed."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import friedmanchisquare, norm
from sklearn.metrics import average_precision_score

from spml.bench.statistics import (
    bootstrap_draws,
    bootstrap_map,
    cliques,
    compare,
    friedman,
    gap_closed,
    holm,
    mean_ranks,
    nemenyi_cd,
)
from spml.metrics import mean_average_precision

# Demsar 2006, table 6: AUC of C4.5 and its three variants on 14 data sets (voting's 0.975 differ further on).
DEMSAR = """
.763 .768 .771 .798|.599 .591 .590 .569|.954 .971 .968 .967|.628 .661 .654 .657|.882 .888 .886 .898
.936 .931 .916 .931|.661 .668 .609 .685|.583 .583 .563 .625|.775 .838 .866 .875|1 1 1 1
.940 .962 .965 .962|.619 .666 .614 .669|.972 .981 .9751 .975|.957 .978 .946 .970
"""
TABLE_6 = np.array([line.split() for line in DEMSAR.strip().replace("\n", "|").split("|")], float)


def problem(samples=60, classes=5, levels=7, seed=0):
    rng = np.random.default_rng(seed)
    scores = rng.integers(levels, size=(samples, classes)).astype(np.float32)
    truth = rng.random((samples, classes)) < 0.2
    return scores, truth


def test_draws_are_multinomial_and_always_the_same():
    draws = bootstrap_draws(50, 400, seed=3)
    assert draws.shape == (400, 50)
    assert draws.dtype == np.int32
    assert (draws.sum(axis=1) == 50).all()
    # Multinomial(50, 1/50): mean 1, variance 1 - 1/50.
    assert draws.var() == pytest.approx(0.98, abs=0.03)
    assert abs(draws.mean(axis=0) - 1).max() < 0.2
    np.testing.assert_array_equal(bootstrap_draws(50, 2, seed=3), draws[:2])
    assert (bootstrap_draws(50, 2, seed=4) != draws[:2]).any()
    # A value that another platform or version would have to give too.
    golden = [[0, 1, 2, 0, 2, 1], [0, 2, 1, 1, 0, 2], [0, 1, 0, 3, 1, 1]]
    assert bootstrap_draws(6, 3, seed=0).tolist() == golden


@pytest.mark.parametrize("levels", [1, 3, 10_000])
@pytest.mark.parametrize("empty", ["exclude", "zero"])
def test_map_of_a_draw_is_that_of_the_repeated_rows(levels, empty):
    scores, truth = problem(levels=levels)
    truth[:, 3] = False
    truth[:, 4] = np.arange(60) == 7  # drawn in some draws only
    draws = bootstrap_draws(60, 40, seed=1)
    assert 0 < (draws[:, 7] == 0).sum() < 40
    found = bootstrap_map(scores, truth, draws, empty)
    for value, drawn in zip(found, draws, strict=True):
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


def test_blocks_of_draws_change_nothing(monkeypatch):
    scores, truth = problem()
    draws = bootstrap_draws(60, 11, seed=2)
    expected = bootstrap_map(scores, truth, draws)
    monkeypatch.setattr("spml.bench.statistics._BLOCK_BYTES", 60 * 4 * 3)
    np.testing.assert_array_equal(bootstrap_map(scores, truth, draws), expected)


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


def test_mean_ranks_share_ties():
    assert mean_ranks([[3, 2, 2, 1], [1, 2, 3, 4]]).tolist() == [2.5, 2.75, 2.25, 2.5]
    np.testing.assert_allclose(mean_ranks(TABLE_6), [3.143, 2.0, 2.893, 1.964], atol=5e-4)


def test_friedman_as_printed_by_demsar():
    found = friedman(TABLE_6)
    assert found.chi2 == pytest.approx(9.28, abs=0.005)
    assert found.f == pytest.approx(3.69, abs=0.005)
    assert 0.01 < found.p < 0.05  # he rejects at F(3, 39) = 2.85


def test_friedman_equals_scipy_without_ties():
    table = np.random.default_rng(0).random((9, 5))
    assert friedman(table).chi2 == pytest.approx(friedmanchisquare(*table.T).statistic, rel=1e-12)


def test_friedman_at_its_ends():
    alike = friedman([[1, 2, 3]] * 4)
    assert alike.chi2 == 8
    assert alike.f == np.inf
    assert alike.p == pytest.approx(1 / 6**3)
    assert np.isnan(friedman([[1, 2, 3]]).p)
    assert np.isnan(friedman([[1], [2]]).p)
    same = friedman([[1, 1, 1]] * 4)
    assert (same.chi2, same.f, same.p) == (0, 0, 1)


@pytest.mark.parametrize(
    ("methods", "q05", "q10"),
    [(2, 1.960, 1.645), (3, 2.343, 2.052), (4, 2.569, 2.291), (5, 2.728, 2.459), (6, 2.850, 2.589),
     (7, 2.949, 2.693), (8, 3.031, 2.780), (9, 3.102, 2.855), (10, 3.164, 2.920)],
)  # fmt: skip
def test_critical_differences_as_printed_by_demsar(methods, q05, q10):
    scale = np.sqrt(methods * (methods + 1) / 6 / 20)
    assert nemenyi_cd(methods, 20) / scale == pytest.approx(q05, abs=1.1e-3)
    assert nemenyi_cd(methods, 20, alpha=0.1) / scale == pytest.approx(q10, abs=1.1e-3)


def test_critical_difference_of_demsars_example():
    assert nemenyi_cd(4, 14) == pytest.approx(1.25, abs=0.005)
    assert nemenyi_cd(4, 14, alpha=0.1) == pytest.approx(1.12, abs=0.005)


def test_cliques():
    ranks = [3.0, 1.0, 2.0, 3.4, 6.0]
    assert cliques(ranks, 1.5) == [(1, 2), (2, 0, 3)]
    assert cliques(ranks, 10.0) == [(1, 2, 0, 3, 4)]
    assert cliques(ranks, 0.3) == []
    assert cliques([1.0, 2.0], 1.0) == []  # a difference of exactly CD is significant
    assert cliques([2.0, 2.0], 1.0) == [(0, 1)]


def test_holm_by_hand():
    # Sorted .005 .01 .03 .04 times 4 3 2 1: .02 .03 .06 .04 -> .06.
    np.testing.assert_allclose(holm([0.01, 0.04, 0.03, 0.005]), [0.03, 0.06, 0.06, 0.02], rtol=1e-12)
    assert holm([0.6, 0.9]).tolist() == [1.0, 1.0]
    assert holm([]).tolist() == []


def test_compare_by_hand():
    # One seed: the draws are as they are. Differences -1, 1, 2, ..., 98.
    differences = np.array([[-1.0, *range(1, 99)]])
    found = compare(differences + 5, np.full((1, 99), 5.0))
    assert found.difference == pytest.approx((98 * 99 / 2 - 1) / 99)
    assert found.p == pytest.approx(2 * norm.sf(differences.mean() / differences.std()))
    assert (found.low, found.high) == tuple(np.quantile(differences, [0.025, 0.975]))
    turned = compare(np.full((1, 99), 5.0), differences + 5)
    assert turned.p == found.p
    assert (turned.low, turned.high) == pytest.approx((-found.high, -found.low))
    assert compare(np.zeros((2, 9)), np.zeros((2, 9))).p == 1.0
    assert compare(np.ones((2, 99)), np.zeros((2, 99))).p == 0.0
    alternating = np.tile([[1.0, 3.0]], 50)  # mean 2, sd 1
    assert compare(alternating, np.zeros((1, 100))).p == pytest.approx(0.0455003, abs=1e-7)


def test_compare_lets_seeds_vary():
    # No draw matters, seeds do: the mean of 3 of {0, 0, 3} with replacement is Binomial(3, 1/3).
    best = np.tile([[0.0], [0.0], [3.0]], 4000)
    found = compare(best, np.zeros((3, 4000)))
    assert found.difference == 1.0
    assert found.p == pytest.approx(
        2 * norm.sf(1 / np.sqrt(2 / 3)), abs=0.01
    )  # variance of the mean: 9 (2/9) / 3
    assert (found.low, found.high) == (0.0, 3.0)
    assert compare(best, np.zeros((3, 4000))) == found
    assert compare(best, np.zeros((3, 4000)), seed=1) != found


def test_compare_refuses_other_shapes():
    with pytest.raises(ValueError, match=r"got \(2, 3\), \(2, 4\)"):
        compare(np.zeros((2, 3)), np.zeros((2, 4)))


def test_gap_closed():
    assert gap_closed(0.45, 0.40, 0.50) == pytest.approx(0.5)
    assert gap_closed(0.35, 0.40, 0.50) == pytest.approx(-0.5)
    assert gap_closed(0.45, 0.40, 0.404) is None
    assert gap_closed(0.45, 0.50, 0.40) is None
    assert gap_closed(0.45, np.nan, 0.40) is None
