"""Statistics of a comparison: significance tests, mean ranks over tasks, scores of last epochs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.stats import f as f_distribution
from scipy.stats import rankdata, studentized_range
from scipy.stats import t as student_t

from ..rows import TEST, Pick, Row, SeriesKey, column

FloatArray = npt.NDArray[np.float64]

Task = tuple[str, str]
"""Names of a data set and of a way of hiding labels."""

Picks = Mapping[SeriesKey, Mapping[str, Pick]]
"""Run and epoch that each mode picks from each series."""

ALPHA = 0.05
"""Level of significance."""

LEAST_GAP = 0.005
"""Gap of mAP between assuming negatives and full labels, below which a share of it is meaningless."""


# -- significance ----------------------------------------------------------------------------------------


class Friedman(NamedTuple):
    """Result of Friedman's test of the hypothesis that all candidates rank equally.

    Attributes:
        chi2: Friedman's statistic, with M - 1 degrees of freedom.
        f: Iman and Davenport's statistic, with M - 1 and (M - 1)(D - 1) degrees of freedom.
        p: P-value of `f`.
    """

    chi2: float
    f: float
    p: float


def mean_ranks(table: npt.ArrayLike) -> FloatArray:
    """Mean rank of each candidate, 1 = best; equal scores share the mean of their ranks.

    Args:
        table: Scores (D, M) of M candidates on D data sets, higher is better.

    Returns:
        float64 (M,).
    """
    return np.asarray(rankdata(-np.asarray(table, np.float64), axis=1).mean(axis=0))


def friedman(table: npt.ArrayLike) -> Friedman:
    """Friedman's test with Iman and Davenport's correction, from mean ranks R_j:
    chi2 = 12 D / (M (M + 1)) (sum R_j^2 - M (M + 1)^2 / 4), F = (D - 1) chi2 / (D (M - 1) - chi2).

    As in the source, ties are not corrected for, which makes the test slightly conservative where they occur.
    If all data sets order the candidates in the same way, F is infinite and p is exact: M!^(1 - D).

    Args:
        table: Scores (D, M), higher is better.

    Returns:
        The statistics and the p-value; NaN with fewer than two data sets or two candidates.

    Source:
        Demsar, Statistical comparisons of classifiers over multiple data sets, JMLR 7, 2006, section 3.2.2.
    """
    scores = np.asarray(table, np.float64)
    sets, methods = scores.shape
    if sets < 2 or methods < 2:
        return Friedman(np.nan, np.nan, np.nan)
    ranks = mean_ranks(scores)
    chi2 = 12.0 * sets / (methods * (methods + 1)) * float(((ranks - (methods + 1) / 2.0) ** 2).sum())
    maximum = sets * (methods - 1)
    if chi2 > maximum * (1.0 - 1e-12):
        log_orders = float(np.log(np.arange(2, methods + 1)).sum())
        return Friedman(float(maximum), np.inf, float(np.exp((1 - sets) * log_orders)))
    f = (sets - 1) * chi2 / (maximum - chi2)
    return Friedman(chi2, f, float(f_distribution.sf(f, methods - 1, (methods - 1) * (sets - 1))))


def nemenyi_cd(methods: int, data_sets: int, alpha: float = 0.05) -> float:
    """Critical difference of mean ranks (Nemenyi): candidates whose ranks differ by at least this differ
    significantly.

    CD = q sqrt(M (M + 1) / (6 D)), q = quantile 1 - alpha of the studentised range / sqrt(2).

    Source:
        Demsar 2006, section 3.2.2 and table 5(a).
    """
    q = float(studentized_range.ppf(1.0 - alpha, methods, np.inf)) / np.sqrt(2.0)
    return float(q * np.sqrt(methods * (methods + 1) / (6.0 * data_sets)))


def cliques(ranks: Sequence[float] | FloatArray, cd: float) -> list[tuple[int, ...]]:
    """Maximal groups of at least two candidates whose mean ranks differ by less than `cd`.

    Returns:
        Groups of positions in `ranks`, from the best group to the worst, and best first within each.
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
    """P-values with Holm's correction: the i-th smallest of m times m - i + 1, made monotone, at most 1.

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
    The degrees of freedom are Satterthwaite's, (a + b)^2 / (a^2 / (S - 1)): S - 1 if only seeds matter,
    infinitely many if only test samples do. Counting draws instead can't give a p-value below 2 / (B + 1),
    which a correction for forty comparisons makes meaningless, and a bootstrap over S seeds underestimates
    their spread. The interaction of seeds and test samples is in both parts, which makes the test slightly
    conservative. With one seed, a = 0, and the result holds for that seed only.

    Args:
        difference: Differences (S,) of test mAP between two candidates on the same seeds, S >= 1.
        draws: Differences (S, B) on bootstrap draws of the test samples, B >= 2.

    Raises:
        ValueError: The shapes do not agree, or there are fewer than one seed or two draws.

    Source:
        Satterthwaite, An approximate distribution of estimates of variance components, Biometrics 2, 1946.
    """
    values, drawn = np.asarray(difference, np.float64), np.asarray(draws, np.float64)
    seeds = len(values)
    if values.ndim != 1 or drawn.ndim != 2 or seeds != len(drawn) or not seeds or drawn.shape[1] < 2:
        raise ValueError(
            "expected differences (S,) and draws (S, B) with S >= 1 and B >= 2, got "
            f"{values.shape}, {drawn.shape}"
        )
    by_seeds = float(values.var(ddof=1)) / seeds if seeds > 1 else 0.0
    by_samples = float(drawn.mean(axis=0).var(ddof=1))
    mean, variance = float(values.mean()), by_seeds + by_samples
    if variance == 0:
        return float(mean == 0)
    freedom = variance**2 * (seeds - 1) / by_seeds**2 if by_seeds else np.inf
    return float(2 * student_t.sf(abs(mean) / np.sqrt(variance), freedom))


def gap_closed(value: float, an: float, full: float) -> float | None:
    """Share of the gap between assuming negatives (`an`) and full labels (`full`) that `value` closes.

    Returns:
        0 at `an`, 1 at `full`; None if the gap is below 0.005 mAP, so that a share of it is meaningless.
    """
    gap = full - an
    return (value - an) / gap if gap >= LEAST_GAP else None


# -- mean ranks ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Ranking:
    """Mean ranks of candidates over tasks, by one mode.

    Attributes:
        candidates: Candidates from the best mean rank to the worst.
        ranks: Their mean ranks.
        means: Their mean mAP.
        gaps: Shares of the gap between the means of baseline and ceiling that their means close; None where
            the gap is too small.
        tasks: Tasks that the means are taken over: those where all `candidates` have a result.
        test: Result of Friedman's test.
        cd: Critical difference of Nemenyi's test; NaN with fewer than two tasks or candidates.
        groups: Positions in `candidates` of those that do not differ significantly.
        left_out: Candidates without a result on more than half of the tasks.
    """

    candidates: tuple[str, ...]
    ranks: tuple[float, ...]
    means: tuple[float, ...]
    gaps: tuple[float | None, ...]
    tasks: tuple[Task, ...]
    test: Friedman
    cd: float
    groups: tuple[tuple[int, ...], ...]
    left_out: tuple[str, ...]


def rank(
    scores: Mapping[Task, Mapping[str, float]], ends: Mapping[Task, tuple[float, float]] | None = None
) -> Ranking:
    """Rank candidates by their mAP on each task.

    A candidate that is missing on more than half of the tasks is left out, so that the others do not lose
    these tasks; then only tasks count where no candidate is missing.

    Args:
        scores: Mean mAP by task and candidate.
        ends: Mean mAP of baseline and ceiling by task. The share of the gap is that of the means and not a
            mean of shares, because a share can take any value on tasks where the two are close.
    """
    present = {task: by_candidate for task, by_candidate in scores.items() if by_candidate}
    names = sorted({name for by_candidate in present.values() for name in by_candidate})
    ranked = [name for name in names if 2 * sum(name in by for by in present.values()) >= len(present)]
    left_out = tuple(name for name in names if name not in ranked)
    tasks = [task for task, by_candidate in present.items() if by_candidate.keys() >= set(ranked)]
    if not ranked or not tasks:
        no_test = Friedman(math.nan, math.nan, math.nan)
        return Ranking((), (), (), (), (), no_test, math.nan, (), tuple(names))
    table = np.array([[present[task][name] for name in ranked] for task in tasks])
    ranks, means = mean_ranks(table), table.mean(axis=0)
    order = sorted(range(len(ranked)), key=lambda i: (ranks[i], -means[i], ranked[i]))
    testable = len(tasks) > 1 and len(ranked) > 1
    cd = nemenyi_cd(len(ranked), len(tasks), ALPHA) if testable else math.nan
    gaps: list[float | None] = [None] * len(order)
    rows = [row for row, task in enumerate(tasks) if ends and task in ends]
    if ends and rows:
        low, high = np.mean([ends[tasks[row]] for row in rows], axis=0).tolist()
        gaps = [gap_closed(float(table[rows, i].mean()), low, high) for i in order]
    return Ranking(
        candidates=tuple(ranked[i] for i in order),
        ranks=tuple(float(ranks[i]) for i in order),
        means=tuple(float(means[i]) for i in order),
        gaps=tuple(gaps),
        tasks=tuple(tasks),
        test=friedman(table),
        cd=cd,
        groups=tuple(cliques(ranks[order], cd)) if testable else (),
        left_out=left_out,
    )


# -- last epochs -----------------------------------------------------------------------------------------


def last_epochs(rows: Iterable[Row], modes: Sequence[str]) -> dict[tuple[SeriesKey, str], float]:
    """Test mAP of the last epoch of the trial that a mode prefers by its last epoch, for trained series.

    Solved heads have no epochs and are left out. If a run lacks the test mAP of its last epoch, the result is
    empty: the remaining runs may be those in which the last epoch was the best.
    """
    trained: dict[SeriesKey, list[Row]] = {}
    for row in sorted(rows, key=lambda row: row.trial):
        if row.status == "done" and "penalty" not in row.history and len(row.history.get(TEST, [])) > 1:
            if math.isnan(row.history[TEST][-1]):
                return {}
            trained.setdefault(row.series, []).append(row)
    result = {}
    for series, trials in trained.items():
        for mode in modes:
            name = column(mode)
            if all(row.history.get(name) for row in trials):
                best = max(trials, key=lambda row: row.history[name][-1])
                result[series, mode] = best.history[TEST][-1]
    return result
