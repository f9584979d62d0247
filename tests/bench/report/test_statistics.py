"""Statistics: equal to SciPy, to values computed by hand, or to published ones."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import friedmanchisquare, norm, ttest_1samp
from scipy.stats import t as student_t

from spml.bench.report.statistics import cliques, friedman, gap_closed, holm, mean_ranks, nemenyi_cd, paired_p

# Demsar 2006, table 6: AUC of C4.5 and its three variants on 14 data sets (voting's 0.975 differ further on).
DEMSAR = """
.763 .768 .771 .798|.599 .591 .590 .569|.954 .971 .968 .967|.628 .661 .654 .657|.882 .888 .886 .898
.936 .931 .916 .931|.661 .668 .609 .685|.583 .583 .563 .625|.775 .838 .866 .875|1 1 1 1
.940 .962 .965 .962|.619 .666 .614 .669|.972 .981 .9751 .975|.957 .978 .946 .970
"""
TABLE_6 = np.array([line.split() for line in DEMSAR.strip().replace("\n", "|").split("|")], float)


def test_mean_ranks_share_ties():
    assert mean_ranks([[3, 2, 2, 1], [1, 2, 3, 4]]).tolist() == [2.5, 2.75, 2.25, 2.5]
    np.testing.assert_allclose(mean_ranks(TABLE_6), [3.143, 2.0, 2.893, 1.964], atol=5e-4)


def test_friedman_as_printed_by_demsar():
    found = friedman(TABLE_6)
    assert found.chi2 == pytest.approx(9.28, abs=0.005)
    assert found.f == pytest.approx(3.69, abs=0.005)
    assert 0.01 < found.p < 0.05  # the paper rejects at F(3, 39) = 2.85


def test_friedman_equals_scipy_without_ties_and_in_extreme_cases():
    table = np.random.default_rng(0).random((9, 5))
    assert friedman(table).chi2 == pytest.approx(friedmanchisquare(*table.T).statistic, rel=1e-12)
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


def test_paired_p_by_hand():
    # One seed: only the deviation of the draws, and a normal distribution.
    draws = np.array([[-1.0, *range(1, 99)]])
    assert paired_p([49.0], draws) == pytest.approx(2 * norm.sf(49 / draws.std(ddof=1)))
    assert paired_p([-49.0], draws) == paired_p([49.0], draws)
    # Only seeds: Student's one-sample test.
    seeds = [0.3, 0.1, 0.25, -0.05]
    assert paired_p(seeds, np.zeros((4, 9))) == pytest.approx(ttest_1samp(seeds, 0).pvalue, rel=1e-12)
    # Both: .01 / 2 from seeds and .02 from draws, so .025^2 / .005^2 = 25 degrees of freedom.
    apart = np.sqrt(0.02)
    found = paired_p([0.1, 0.1 + apart], [[0.1, -0.1], [0.1, -0.1]])
    assert found == pytest.approx(2 * student_t.sf((0.1 + apart / 2) / np.sqrt(0.025), 25), rel=1e-9)
    assert paired_p([0.0, 0.0], np.zeros((2, 9))) == 1.0
    assert paired_p([1.0, 1.0], np.ones((2, 9))) == 0.0


@pytest.mark.parametrize(
    ("seeds", "by_seeds", "by_samples"), [(3, 1.0, 0.0), (3, 1.0, 1.0), (5, 0.3, 1.0), (5, 0.0, 1.0)]
)
def test_paired_p_is_below_5_percent_in_5_percent_of_cases_without_a_difference(seeds, by_seeds, by_samples):
    rng = np.random.default_rng(seeds)
    found = []
    for _ in range(1500):
        difference = rng.normal(0, by_samples) + rng.normal(0, by_seeds, seeds)
        found.append(paired_p(difference, difference[:, None] + rng.normal(0, by_samples, 150)) < 0.05)
    assert 0.035 < np.mean(found) < 0.07


def test_paired_p_refuses_inconsistent_shapes():
    with pytest.raises(ValueError, match=r"got \(2,\), \(3, 4\)"):
        paired_p(np.zeros(2), np.zeros((3, 4)))
    with pytest.raises(ValueError, match="B >= 2"):
        paired_p(np.zeros(2), np.zeros((2, 1)))


def test_gap_closed():
    assert gap_closed(0.45, 0.40, 0.50) == pytest.approx(0.5)
    assert gap_closed(0.35, 0.40, 0.50) == pytest.approx(-0.5)
    assert gap_closed(0.45, 0.40, 0.404) is None
    assert gap_closed(0.45, 0.50, 0.40) is None
    assert gap_closed(0.45, np.nan, 0.40) is None
