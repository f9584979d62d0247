"""Bootstrap over samples or groups: metrics on draws, and models compared by full labels on the same ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from ..scores.forms import BoolArray, FloatArray, IntArray, ScoreArray, score_array
from .arrays import Empty, as_truth
from .registry import LabelledScores

MIN_DRAWS = 50
"""Enough for a rough standard deviation, even with a single known positive."""

_BLOCK = 1 << 20  # multiplicities held in memory at a time
_BLOCK_BYTES = 1 << 26  # size of the block of multiplicities that is gathered at a time
_CONVERTED = 1 << 24  # multiplicities that are converted at a time
_QUANTILE = 1.96


def resamples(samples: int, draws: int, seed: int, groups: npt.ArrayLike | None = None) -> Iterator[IntArray]:
    """Yield how often each sample was drawn with replacement, int64 (some draws, N) at a time.

    With groups, G of the G groups are drawn with replacement, each with all of its samples (the cluster
    bootstrap): samples of a group are alike, so that intervals from single draws would be too narrow. The
    number of samples then differs between draws. Where all samples are in one group, which says nothing about
    others, samples are drawn.

    Only the raw bits of PCG64 are used, which NumPy promises never to change; taking the remainder favours no
    sample by more than N / 2^64.

    Args:
        samples: Number N of samples, N of which are drawn.
        draws: Number of draws of the whole set.
        seed: Seed of the draws, which are the same on every platform.
        groups: Group of each sample, (N,); None = samples are drawn.

    Raises:
        ValueError: `groups` has another length than N.

    Source:
        Field and Welsh, "Bootstrapping clustered data", JRSS B 69, 2007, for draws of groups.
    """
    group = drawn_groups(samples, groups)
    units = samples if group is None else int(group.max()) + 1
    bits = np.random.PCG64(seed)
    at_once = max(1, _BLOCK // samples)
    for first in range(0, draws, at_once):
        count = min(at_once, draws - first)
        rows = (bits.random_raw((count, units)) % np.uint64(units)).astype(np.int64)
        drawn = np.stack([np.bincount(row, minlength=units) for row in rows])
        yield drawn if group is None else drawn[:, group]


def drawn_groups(samples: int, groups: npt.ArrayLike | None) -> IntArray | None:
    """Groups as a bootstrap draws them, numbered from 0, int64 (N,); None where it draws samples."""
    if groups is None:
        return None
    _, group = np.unique(np.asarray(groups), return_inverse=True)
    if group.shape != (samples,):
        raise ValueError(f"groups must have shape ({samples},), got {np.shape(groups)}")
    return group.astype(np.int64) if group.max() else None


def paired_resamples(
    positive: BoolArray, draws: int, seed: int, groups: npt.ArrayLike | None = None
) -> npt.NDArray[np.int16]:
    """All samples once, and then how often each was drawn, for metrics of several models on the same draws.

    A draw without any positive has no mAP and is left out, which depends on the labels alone.

    Args:
        positive: Positive labels, bool of shape (N, C).
        draws: Number of draws.
        seed: Seed of the draws.
        groups: As in `resamples`.

    Returns:
        int16 (1 + draws, N), or fewer rows.
    """
    count = len(positive)
    blocks = [block.astype(np.int16) for block in resamples(count, draws, seed, groups)]
    rows = np.concatenate([np.ones((1, count), np.int16), *blocks])
    return np.asarray(rows[rows[:, positive.any(axis=1)].any(axis=1)])


def bootstrap_map(
    scores: npt.ArrayLike | torch.Tensor,
    truth: npt.ArrayLike | torch.Tensor,
    multiplicity: npt.NDArray[np.integer],
    empty: Empty = "exclude",
) -> FloatArray:
    """mAP of each draw b: `mean_average_precision` with row i repeated `multiplicity[b, i]` times.

    AP_c = sum_i m_i y_i (sum_{j: s_j >= s_i} m_j y_j) / (sum_{j: s_j >= s_i} m_j) / sum_i m_i y_i. Each class
    is sorted once for all draws; O(C N (log N + B)).

    Args:
        scores: Scores (N, C), as in `metrics.average_precision`.
        truth: Labels (N, C), as in `metrics.average_precision`.
        multiplicity: Non-negative integers (B, N).
        empty: How a class without a positive in a draw counts: `exclude` leaves it out of the mean of that
            draw, `zero` counts it as 0.

    Returns:
        float64 (B,), in [0, 1].

    Raises:
        ValueError: Shapes that differ, a NaN score, a wrong label, another value of `empty`, or a draw
            without any positive and `empty="exclude"`.
    """
    if empty not in ("exclude", "zero"):
        raise ValueError(f'empty must be "exclude" or "zero", got {empty!r}')
    values = score_array(scores)
    positive, known = as_truth(truth, values.shape)
    samples, classes = values.shape
    if multiplicity.ndim != 2 or multiplicity.shape[1] != samples:
        raise ValueError(f"multiplicity must have shape (B, {samples}), got {multiplicity.shape}")
    pieces = [
        _pieces(values[:, c], positive[:, c], None if known is None else known[:, c])
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
        for order, starts, of_positives, positive_starts in pieces:
            drawn = np.add.reduceat(weights[order], starts, axis=0).astype(np.float64)
            hits = np.add.reduceat(weights[of_positives], positive_starts, axis=0).astype(np.float64)
            positives = hits.cumsum(axis=0)
            precision = positives / np.maximum(drawn.cumsum(axis=0), 1.0)  # before any sample 0, not 0 / 0
            count = positives[-1]
            total[block] += (hits * precision).sum(axis=0) / np.maximum(count, 1.0)
            defined[block] += count > 0
    if empty == "zero":
        return np.asarray(total / classes)
    if (defined == 0).any():
        raise ValueError(
            f'draw {int(np.argmin(defined))} has no positive, so its mean is undefined; empty="zero" gives 0'
        )
    return np.asarray(total / defined)


def _pieces(value: ScoreArray, mark: BoolArray, known: BoolArray | None) -> tuple[npt.NDArray[Any], ...]:
    """Samples of one class, from the highest score to the last positive, and where each piece starts, cut at
    each distinct score of a positive; then its positives likewise."""
    rows = np.arange(len(value)) if known is None else np.flatnonzero(known)
    ascending = rows[np.argsort(value[rows], kind="stable")]
    in_order = value[ascending]
    positives = np.flatnonzero(mark)
    positives = positives[np.argsort(value[positives], kind="stable")][::-1]
    levels, first = np.unique(-value[positives], return_index=True)
    # Number of samples with a score of at least each level, which is where the next piece starts.
    reached = len(rows) - np.searchsorted(in_order, -levels, side="left")
    starts = np.concatenate([[0], reached[:-1]])
    return ascending[::-1][: reached[-1]].astype(np.int32), starts, positives, first


class PairedScore(NamedTuple):
    """A metric of one of several models, with 95 % intervals: value -+ 1.96 bootstrap standard deviations.

    Attributes:
        value: The metric, in [0, 1].
        margin: Half the width of its interval.
        behind: Difference between the best model by this metric and this one.
        behind_margin: Half the width of the interval of that difference; 0 for the best model itself.
    """

    value: float
    margin: float
    behind: float
    behind_margin: float

    @property
    def low(self) -> float:
        """Lower end of the interval, at least 0."""
        return max(self.value - self.margin, 0.0)

    @property
    def high(self) -> float:
        """Upper end of the interval, at most 1."""
        return min(self.value + self.margin, 1.0)

    @property
    def tied(self) -> bool:
        """Whether the interval of the difference includes 0: indistinguishable from the best."""
        return self.behind <= self.behind_margin


def drawn_metrics(data: LabelledScores, multiplicity: npt.NDArray[np.integer]) -> dict[str, FloatArray]:
    """Metrics on B resamples of the samples, equal to those of repeated rows.

    Args:
        data: Scores, predicted labels and full labels.
        multiplicity: How often each sample was drawn, (B, N); a row of ones gives the metrics themselves. A
            draw must have a positive if `data.empty` is `exclude`.

    Returns:
        float64 (B,) by name: `mAP`; `precision`, `recall` and `F1`, each `micro_` and `macro_`, of the
        predicted labels, where a ratio with a zero denominator is 0; and `P@k`, `R@k` and `hit@k`.
    """
    positive: BoolArray = data.truth == 1
    result = {"mAP": bootstrap_map(data.scores, data.truth, multiplicity, data.empty)}
    masks = (data.predicted & positive, data.predicted, positive)
    # Per class and draw; whole numbers up to 2^24 are exact in float32.
    dtype = np.float32 if len(positive) < 1 << 24 else np.float64
    per_class = [_weighted(multiplicity, mask, dtype) for mask in masks]
    of_all = [counts.sum(axis=1, keepdims=True) for counts in per_class]
    for average, (hits, guessed, actual) in (("micro", of_all), ("macro", per_class)):
        result[f"{average}_precision"] = _ratio(hits, guessed)
        result[f"{average}_recall"] = _ratio(hits, actual)
        result[f"{average}_F1"] = _ratio(2.0 * hits, guessed + actual)
    positives = positive.sum(axis=1)
    for k in data.ks:
        found = np.bincount(data.hits(k)[0], minlength=len(positive))
        of_samples = np.stack([found / k, found / np.maximum(positives, 1), found > 0], axis=1)
        means = _weighted(multiplicity, of_samples, np.float64) / multiplicity.sum(axis=1)[:, None]
        result |= {f"{name}@{k}": column for name, column in zip(("P", "R", "hit"), means.T, strict=True)}
    return result


def compare_paired(drawn: Mapping[str, Mapping[str, FloatArray]]) -> dict[str, dict[str, PairedScore]]:
    """Compare models by metrics on the same resamples.

    The interval is value -+ 1.96 standard deviations rather than quantiles of the draws: copies of a sample
    raise mAP, so the draws do not lie around the value.

    Args:
        drawn: For each model, what `drawn_metrics` returns; the first draw holds every sample once.

    Returns:
        Scores of each model, by metric.
    """
    result: dict[str, dict[str, PairedScore]] = {model: {} for model in drawn}
    for metric in next(iter(drawn.values())):
        draws = np.stack([values[metric] for values in drawn.values()])
        value = draws[:, 0]
        best = int(np.argmax(value))
        margin = _QUANTILE * draws[:, 1:].std(axis=1, ddof=1)
        behind = value[best] - value
        behind_margin = _QUANTILE * (draws[best, 1:] - draws[:, 1:]).std(axis=1, ddof=1)
        columns = (value, margin, behind, behind_margin)
        for model, *numbers in zip(drawn, *(column.tolist() for column in columns), strict=True):
            result[model][metric] = PairedScore(*numbers)
    return result


def _weighted(multiplicity: npt.NDArray[Any], values: npt.NDArray[Any], dtype: Any) -> FloatArray:
    """Sums over samples of values (N, M), each taken as often as it was drawn: float64 (B, M)."""
    columns = values.astype(dtype)
    at_once = max(1, _CONVERTED // len(values))
    blocks = [
        multiplicity[first : first + at_once].astype(dtype) @ columns
        for first in range(0, len(multiplicity), at_once)
    ]
    return np.concatenate(blocks).astype(np.float64)


def _ratio(part: FloatArray, whole: FloatArray) -> FloatArray:
    """Mean over columns of part / whole, with 0 in place of a division by zero: (B,)."""
    return np.asarray(np.divide(part, whole, out=np.zeros_like(part), where=whole > 0).mean(axis=1))
