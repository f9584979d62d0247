"""Statistics of a comparison: bootstrap over test samples, ranks over data sets, corrected p-values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from scipy.stats import f as f_distribution
from scipy.stats import norm, rankdata, studentized_range

from ..data.draws import raw
from ..metrics.arrays import as_scores, as_truth
from ..metrics.average_precision import Empty

FloatArray = npt.NDArray[np.float64]

LEAST_GAP = 0.005  # of mAP between AN and full labels, below which a share of it says nothing
_BLOCK_BYTES = 1 << 26  # of multiplicities that are gathered at a time


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


class Comparison(NamedTuple):
    """Paired difference of two candidates.

    Attributes:
        difference: mean over seeds and draws.
        low: lower end of the 95 % percentile interval.
        high: upper end.
        p: two-sided, of a normal distribution with the standard deviation of the draws.
    """

    difference: float
    low: float
    high: float
    p: float


def bootstrap_draws(count: int, draws: int, seed: int) -> npt.NDArray[np.int32]:
    """How often each of `count` samples is drawn when as many are drawn with replacement.

    The same on every platform and with every NumPy version.

    Args:
        count: samples, below 2^32.
        draws: B, how often the whole set is drawn.
        seed: of the draws.

    Returns:
        int32 (B, count); each row sums to `count`.
    """
    result = np.empty((draws, count), np.int32)
    for draw in range(draws):
        result[draw] = np.bincount(_integers(count, count, "bootstrap", seed, draw), minlength=count)
    return result


def bootstrap_map(
    scores: npt.ArrayLike | torch.Tensor,
    truth: npt.ArrayLike | torch.Tensor,
    multiplicity: npt.NDArray[np.integer],
    empty: Empty = "exclude",
) -> FloatArray:
    """mAP of each draw: that of `mean_average_precision` with row i repeated `multiplicity[b, i]` times.

    AP_c = sum_i m_i y_i (sum_{j: s_j >= s_i} m_j y_j) / (sum_{j: s_j >= s_i} m_j) / sum_i m_i y_i. Each class
    is sorted once for all draws; O(C N (log N + B)).

    Args:
        scores: (N, C), as in `metrics.average_precision`.
        truth: (N, C), as in `metrics.average_precision`.
        multiplicity: non-negative integers (B, N).
        empty: what a class without a positive in a draw does: `exclude` leaves it out of the mean of that
            draw, `zero` counts it as 0.

    Returns:
        float64 (B,), in [0, 1].

    Raises:
        ValueError: shapes differ, a NaN score, a wrong label, another value of `empty`, or a draw without any
            positive and `empty="exclude"`.
    """
    if empty not in ("exclude", "zero"):
        raise ValueError(f'empty must be "exclude" or "zero", got {empty!r}')
    values = as_scores(scores)
    positive, known = as_truth(truth, values.shape)
    samples, classes = values.shape
    if multiplicity.ndim != 2 or multiplicity.shape[1] != samples:
        raise ValueError(f"multiplicity must have shape (B, {samples}), got {multiplicity.shape}")
    tracks = [
        _thresholds(values[:, c], positive[:, c], None if known is None else known[:, c])
        for c in range(classes)
        if positive[:, c].any()
    ]
    # Sums of whole numbers up to 2^24 are exact in float32, which adds several times faster.
    dtype = np.float32 if multiplicity.sum(axis=1, dtype=np.int64).max(initial=0) < 1 << 24 else np.float64
    draws = len(multiplicity)
    total, defined = np.zeros(draws), np.zeros(draws, np.int64)
    width = max(1, _BLOCK_BYTES // (samples * np.dtype(dtype).itemsize))
    for first in range(0, draws, width):
        block = slice(first, first + width)
        weights = np.ascontiguousarray(multiplicity[block].T.astype(dtype))
        for track in tracks:
            drawn = np.add.reduceat(weights[track.order], track.starts, axis=0).astype(np.float64)
            hits = np.add.reduceat(weights[track.positives], track.positive_starts, axis=0).astype(np.float64)
            found = hits.cumsum(axis=0)
            precision = found / np.maximum(drawn.cumsum(axis=0), 1.0)  # nothing drawn so far: 0, not 0 / 0
            count = found[-1]
            total[block] += (hits * precision).sum(axis=0) / np.maximum(count, 1.0)
            defined[block] += count > 0
    if empty == "zero":
        return np.asarray(total / classes)
    if (defined == 0).any():
        raise ValueError(
            f'draw {int(np.argmin(defined))} has no positive, so its mean is undefined; empty="zero" gives 0'
        )
    return np.asarray(total / defined)


class _Track(NamedTuple):
    """One class from the highest score to its last positive, cut at each distinct score of a positive."""

    order: npt.NDArray[np.int32]
    starts: npt.NDArray[np.int64]
    positives: npt.NDArray[np.int64]
    positive_starts: npt.NDArray[np.int64]


def _thresholds(
    value: npt.NDArray[np.floating], mark: npt.NDArray[np.bool_], known: npt.NDArray[np.bool_] | None
) -> _Track:
    rows = np.arange(len(value)) if known is None else np.flatnonzero(known)
    ascending = rows[np.argsort(value[rows], kind="stable")]
    in_order = value[ascending]
    positives = np.flatnonzero(mark)
    positives = positives[np.argsort(value[positives], kind="stable")][::-1]
    levels, first = np.unique(-value[positives], return_index=True)
    # Samples with a score of at least each level: where the next piece starts.
    ge = len(rows) - np.searchsorted(in_order, -levels, side="left")
    starts = np.concatenate([[0], ge[:-1]])
    return _Track(ascending[::-1][: ge[-1]].astype(np.int32), starts, positives, first)


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


def compare(best: npt.ArrayLike, other: npt.ArrayLike, seed: int = 0) -> Comparison:
    """Paired bootstrap of the difference best - other over test samples and seeds.

    Draw b takes the S seeds with replacement and averages their differences on draw b of the test samples.
    p is that of mean / sd under a normal distribution: counting draws could give nothing below 2 / (B + 1),
    which a correction for forty comparisons makes meaningless unless B is in the thousands.

    Args:
        best: (S, B), test mAP of each seed on each draw.
        other: (S, B), the same seeds and draws.
        seed: of the draws of seeds.

    Raises:
        ValueError: shapes differ, or there is nothing in them.
    """
    one, two = np.asarray(best, np.float64), np.asarray(other, np.float64)
    if one.ndim != 2 or one.shape != two.shape or one.size == 0:
        raise ValueError(f"both must have the same shape (S, B) with S, B >= 1, got {one.shape}, {two.shape}")
    difference = one - two
    seeds, draws = difference.shape
    taken = _integers(seeds, seeds * draws, "seeds of a comparison", seed).reshape(seeds, draws)
    drawn = np.take_along_axis(difference, taken, axis=0).mean(axis=0)
    low, high = np.quantile(drawn, [0.025, 0.975]).tolist()
    mean, deviation = float(difference.mean()), float(drawn.std())
    if deviation == 0:
        return Comparison(mean, low, high, float(mean == 0))
    return Comparison(mean, low, high, float(2 * norm.sf(abs(mean) / deviation)))


def gap_closed(value: float, an: float, full: float) -> float | None:
    """Share of the gap between assuming negatives (`an`) and full labels (`full`) that `value` closes.

    Returns:
        0 at `an`, 1 at `full`; None where the gap is under 0.005 mAP, so that a share of it says nothing.
    """
    gap = full - an
    return (value - an) / gap if gap >= LEAST_GAP else None


def _integers(below: int, count: int, *key: int | str) -> npt.NDArray[np.int64]:
    """`count` integers in [0, below), from the upper halves of 64 random bits."""
    high = raw(count, *key) >> np.uint64(32)
    return np.asarray((high * np.uint64(below)) >> np.uint64(32), np.int64)
