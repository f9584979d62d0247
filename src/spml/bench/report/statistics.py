"""Statistics of a comparison: p-values, ranks over data sets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.stats import f as f_distribution
from scipy.stats import rankdata, studentized_range
from scipy.stats import t as student_t

FloatArray = npt.NDArray[np.float64]

LEAST_GAP = 0.005  # of mAP between AN and full labels, below which a share of it says nothing


class Friedman(NamedTuple):
    """Friedman's test that all candidates rank alike.

    Attributes:
        chi2: Friedman's statistic, with M - 1 degrees of freedom.
        f: Iman and Davenport's statistic, with M - 1 and (M - 1)(D - 1) degrees of freedom.
        p: p-value of `f`.
    """

    chi2: float
    f: float
    p: float


def mean_ranks(table: npt.ArrayLike) -> FloatArray:
    """Mean rank of each candidate, 1 = best; equal scores share the mean of their ranks.

    Args:
        table: (D, M) scores of M candidates on D data sets, higher is better.

    Returns:
        float64 (M,).
    """
    return np.asarray(rankdata(-np.asarray(table, np.float64), axis=1).mean(axis=0))


def friedman(table: npt.ArrayLike) -> Friedman:
    """Friedman's test with Iman and Davenport's correction, from mean ranks R_j:
    chi2 = 12 D / (M (M + 1)) (sum R_j^2 - M (M + 1)^2 / 4), F = (D - 1) chi2 / (D (M - 1) - chi2).

    As in the source nothing is corrected for ties, which makes the test slightly cautious where there are
    some. Where all data sets order the candidates alike F is infinite, and p is exact: M!^(1 - D).

    Args:
        table: (D, M) scores, higher is better.

    Returns:
        The statistics; NaN with fewer than two data sets or two candidates.

    Source:
        Demsar, Statistical comparisons of classifiers over multiple data sets, JMLR 7, 2006, section 3.2.2.
    """
    scores = np.asarray(table, np.float64)
    sets, methods = scores.shape
    if sets < 2 or methods < 2:
        return Friedman(np.nan, np.nan, np.nan)
    ranks = mean_ranks(scores)
    chi2 = 12.0 * sets / (methods * (methods + 1)) * float(((ranks - (methods + 1) / 2.0) ** 2).sum())
    most = sets * (methods - 1)
    if chi2 > most * (1.0 - 1e-12):
        log_orders = float(np.log(np.arange(2, methods + 1)).sum())
        return Friedman(float(most), np.inf, float(np.exp((1 - sets) * log_orders)))
    f = (sets - 1) * chi2 / (most - chi2)
    return Friedman(chi2, f, float(f_distribution.sf(f, methods - 1, (methods - 1) * (sets - 1))))


def nemenyi_cd(methods: int, data_sets: int, alpha: float = 0.05) -> float:
    """Critical difference of mean ranks: candidates that differ by at least this differ significantly.

    CD = q sqrt(M (M + 1) / (6 D)), q = quantile 1 - alpha of the studentised range / sqrt(2).

    Source:
        Demsar 2006, section 3.2.2 and table 5(a).
    """
    q = float(studentized_range.ppf(1.0 - alpha, methods, np.inf)) / np.sqrt(2.0)
    return float(q * np.sqrt(methods * (methods + 1) / (6.0 * data_sets)))


def cliques(ranks: Sequence[float] | FloatArray, cd: float) -> list[tuple[int, ...]]:
    """The largest groups of at least two candidates of which no two differ by `cd` or more.

    Returns:
        Positions in `ranks`, best first; groups from the best to the worst.
    """
    values = np.asarray(ranks, np.float64)
    order = np.argsort(values, kind="stable")
    in_order = values[order]
    ends = np.searchsorted(in_order, in_order + cd, side="left")
    groups, reached = [], 0
    for start, end in enumerate(ends.tolist()):
        if end > reached and end - start > 1:
            groups.append(tuple(order[start:end].tolist()))
        reached = max(reached, end)
    return groups


def holm(p_values: Sequence[float] | FloatArray) -> FloatArray:
    """Holm's adjusted p-values: the i-th smallest of m times m - i + 1, none below one before it, at most 1.

    Source:
        Holm, A simple sequentially rejective multiple test procedure, Scand. J. Statist. 6, 1979.
    """
    values = np.asarray(p_values, np.float64)
    order = np.argsort(values, kind="stable")
    steps = values[order] * np.arange(len(values), 0, -1)
    adjusted = np.empty(len(values))
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0) if len(values) else steps
    return adjusted


def paired_p(difference: npt.ArrayLike, draws: npt.ArrayLike) -> float:
    """Two-sided p-value of a mean difference over seeds, from its spread over seeds and over test samples.

    t = mean / sqrt(a + b), a = variance over seeds / S, b = variance over the draws of the mean over seeds.
    The degrees of freedom are Satterthwaite's, (a + b)^2 / (a^2 / (S - 1)): S - 1 where only seeds matter,
    infinitely many where only test samples do. Counting draws instead could give no p below 2 / (B + 1),
    which a correction for forty comparisons makes meaningless, and drawing S seeds anew takes their spread
    for smaller than it is. What test samples do differently to each seed is in both parts, which makes the
    test slightly cautious. With one seed, a = 0: then it is about that seed alone.

    Args:
        difference: (S,), of test mAP of two candidates on the same seeds.
        draws: (S, B), the same on bootstrap draws of the test samples, B >= 2.

    Raises:
        ValueError: shapes do not agree, or there are fewer than one seed or two draws.

    Source:
        Satterthwaite, An approximate distribution of estimates of variance components, Biometrics 2, 1946.
    """
    found, drawn = np.asarray(difference, np.float64), np.asarray(draws, np.float64)
    if found.ndim != 1 or drawn.ndim != 2 or len(found) != len(drawn) or not len(found) or drawn.shape[1] < 2:
        raise ValueError(
            "expected differences (S,) and draws (S, B) with S >= 1 and B >= 2, got "
            f"{found.shape}, {drawn.shape}"
        )
    seeds = len(found)
    by_seeds = float(found.var(ddof=1)) / seeds if seeds > 1 else 0.0
    by_samples = float(drawn.mean(axis=0).var(ddof=1))
    mean, variance = float(found.mean()), by_seeds + by_samples
    if variance == 0:
        return float(mean == 0)
    freedom = variance**2 * (seeds - 1) / by_seeds**2 if by_seeds else np.inf
    return float(2 * student_t.sf(abs(mean) / np.sqrt(variance), freedom))


def gap_closed(value: float, an: float, full: float) -> float | None:
    """Share of the gap between assuming negatives (`an`) and full labels (`full`) that `value` closes.

    Returns:
        0 at `an`, 1 at `full`; None where the gap is under 0.005 mAP, so that a share of it says nothing.
    """
    gap = full - an
    return (value - an) / gap if gap >= LEAST_GAP else None
