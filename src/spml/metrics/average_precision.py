"""Average precision, non-interpolated, exact under ties."""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt
import torch

from .arrays import FloatArray, as_scores, as_truth
from .ranks import Ranks, observed_ranks, rank_positives

Empty = Literal["exclude", "zero"]


def average_precision(
    scores: npt.ArrayLike | torch.Tensor, truth: npt.ArrayLike | torch.Tensor
) -> FloatArray:
    """Average precision of each class: sum over thresholds of (R_n - R_{n-1}) P_n, tied scores as one
    threshold, as in `sklearn.metrics.average_precision_score`.

    Args:
        scores: (N, C), on any scale that is monotone within a class. Pass raw float32 logits: a sigmoid in
            float32, or half precision, makes ties that change the result. Infinite scores are fine.
        truth: (N, C), read by its type. bool or unsigned integers: {0, 1}, 0 = negative. Signed integers or
            floats: {-1, 0, +1}, 0 = unknown, which leaves that sample out of the ranking of that class.

    Returns:
        float64 of shape (C,) in [0, 1]; NaN for a class without positives.

    Raises:
        ValueError: shapes differ, no samples, a NaN score or a wrong label (names row and column), or a
            signed `truth` with zeros but without any -1, which could be meant either way.

    Example:
        >>> average_precision([[0.9], [0.8], [0.7]], [[1], [-1], [1]]).round(4).tolist()
        [0.8333]
    """
    values = as_scores(scores)
    positive, known = as_truth(truth, values.shape)
    return precision_of_ranks(rank_positives(values, positive, known))


def mean_average_precision(
    scores: npt.ArrayLike | torch.Tensor,
    truth: npt.ArrayLike | torch.Tensor,
    empty: Empty = "exclude",
) -> float:
    """Mean over classes of `average_precision` (mAP, class-macro), in [0, 1].

    Args:
        scores: as in `average_precision`.
        truth: as in `average_precision`.
        empty: what a class without positives does: `exclude` leaves it out of the mean, `zero` counts it as
            0, which is the convention of the SPML papers (Cole et al. 2021).

    Raises:
        ValueError: as `average_precision`; no class has a positive and `empty="exclude"`.
    """
    return mean_over_classes(average_precision(scores, truth), empty)


def naive_map(
    scores: npt.ArrayLike | torch.Tensor,
    observed: npt.ArrayLike | torch.Tensor,
    empty: Empty = "exclude",
) -> float:
    """mAP against observed labels with every unknown counted as negative. Never report it as mAP.

    Args:
        scores: as in `average_precision`.
        observed: integers of shape (N,), the one known positive class of each sample; or a signed matrix of
            shape (N, C) in {-1, 0, +1}.
        empty: as in `mean_average_precision`.

    Raises:
        ValueError: as `average_precision`; `observed` of another shape, type or value, or without positives.
    """
    return mean_over_classes(precision_of_ranks(observed_ranks(scores, observed)), empty)


def mean_over_classes(per_class: FloatArray, empty: Empty = "exclude") -> float:
    """Mean of values of shape (C,) in which NaN marks a class without positives.

    Raises:
        ValueError: all are NaN and `empty="exclude"`, or another value of `empty`.
    """
    if empty == "zero":
        return float(np.nan_to_num(per_class, nan=0.0).mean())
    if empty != "exclude":
        raise ValueError(f'empty must be "exclude" or "zero", got {empty!r}')
    defined = per_class[~np.isnan(per_class)]
    if defined.size == 0:
        raise ValueError('no class has a positive, so the mean is undefined; empty="zero" gives 0')
    return float(defined.mean())


def precision_of_ranks(ranks: Ranks) -> FloatArray:
    """Average precision of each class, float64 (C,); NaN for a class without positives."""
    precision = ranks.positives_ge / ranks.ge
    total = np.bincount(ranks.columns, precision, minlength=len(ranks.counts))
    result = np.full(len(ranks.counts), np.nan)
    np.divide(total, ranks.counts, out=result, where=ranks.counts > 0)
    return result
