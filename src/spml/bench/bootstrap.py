"""Bootstrap over test samples: the statistics that are computed together with a run."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from ..data.draws import raw
from ..metrics.arrays import Empty, as_scores, as_truth

FloatArray = npt.NDArray[np.float64]

_BLOCK_BYTES = 1 << 26  # size of the block of multiplicities that is gathered at a time


def bootstrap_draws(count: int, draws: int, seed: int) -> npt.NDArray[np.int32]:
    """Multiplicity of each of `count` samples when `count` samples are drawn with replacement.

    The draws are the same on every platform and with every NumPy version.

    Args:
        count: Number of samples, below 2^32.
        draws: Number of draws of the whole set, B.
        seed: Seed of the draws.

    Returns:
        int32 (B, count); each row sums to `count`.
    """
    result = np.empty((draws, count), np.int32)
    for draw in range(draws):
        high = raw(count, "bootstrap", seed, draw) >> np.uint64(32)  # the upper halves of 64 random bits
        chosen = np.asarray((high * np.uint64(count)) >> np.uint64(32), np.int64)
        result[draw] = np.bincount(chosen, minlength=count)
    return result


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


class _Track(NamedTuple):
    """One class, from the highest score to its last positive, cut at each distinct score of a positive."""

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
    # Number of samples with a score of at least each level, which is where the next piece starts.
    reached = len(rows) - np.searchsorted(in_order, -levels, side="left")
    starts = np.concatenate([[0], reached[:-1]])
    return _Track(ascending[::-1][: reached[-1]].astype(np.int32), starts, positives, first)
