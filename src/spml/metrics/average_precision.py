"""Average precision, non-interpolated, exact under ties."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch

from ..scores.forms import FloatArray, score_array
from ..scores.ranks import Ranks, rank_positives
from .arrays import Empty, as_truth
from .observed import observed_ranks
from .registry import LabelledScores, register_metric


def average_precision(
    scores: npt.ArrayLike | torch.Tensor, truth: npt.ArrayLike | torch.Tensor
) -> FloatArray:
    """Average precision of each class.

    AP = sum_n (R_n - R_{n-1}) P_n over the distinct scores as thresholds, with precision P_n and recall R_n.
    Equal to `sklearn.metrics.average_precision_score`: tied scores form one threshold.

    Args:
        scores: Scores of shape (N, C), on any scale that is monotone within a class. Pass raw float32 logits:
            a sigmoid in float32, or half precision, creates ties that change the result. Infinite scores are
            allowed.
        truth: Labels of shape (N, C), interpreted by their dtype. bool or unsigned integers: {0, 1}, 0 =
            negative. Signed integers or floats: {-1, 0, +1}, 0 = unknown; the sample is then left out of the
            ranking of that class.

    Returns:
        Array of shape (C,), float64 in [0, 1]; NaN for a class without positives.

    Raises:
        ValueError: Shapes differ, there are no samples, a score is NaN or a label is not allowed (the message
            gives row and column), or a signed `truth` has zeros but no -1, which is ambiguous.

    Example:
        >>> average_precision([[0.9], [0.8], [0.7]], [[1], [-1], [1]]).round(4).tolist()
        [0.8333]
    """
    values = score_array(scores)
    positive, known = as_truth(truth, values.shape)
    return precision_of_ranks(rank_positives(values, positive, known))


def mean_average_precision(
    scores: npt.ArrayLike | torch.Tensor,
    truth: npt.ArrayLike | torch.Tensor,
    empty: Empty = "exclude",
) -> float:
    """Mean over classes of `average_precision` (mAP, class-macro), in [0, 1].

    Args:
        scores: Scores, as in `average_precision`.
        truth: Labels, as in `average_precision`.
        empty: Treatment of a class without positives: `exclude` leaves it out of the mean, `zero` counts it
            as 0, which is the convention of the SPML papers (Cole et al. 2021).

    Raises:
        ValueError: As in `average_precision`, or no class has a positive and `empty="exclude"`.

    Example:
        >>> mean_average_precision([[0.9, 0.2], [0.1, 0.7]], [[1, -1], [-1, -1]], empty="zero")
        0.5
    """
    return mean_over_classes(average_precision(scores, truth), empty)


def naive_map(
    scores: npt.ArrayLike | torch.Tensor,
    observed: npt.ArrayLike | torch.Tensor,
    empty: Empty = "exclude",
) -> float:
    """mAP against observed labels with every unknown label counted as a negative. Never report it as mAP.

    Args:
        scores: Scores, as in `average_precision`.
        observed: Integers of shape (N,), the one known positive class of each sample, or a signed matrix of
            shape (N, C) in {-1, 0, +1}.
        empty: Treatment of a class without positives, as in `mean_average_precision`.

    Raises:
        ValueError: As in `average_precision`, or shape, dtype or a value of `observed` is not allowed, or it
            has no known positive.
    """
    return mean_over_classes(precision_of_ranks(observed_ranks(scores, observed)), empty)


def mean_over_classes(per_class: FloatArray, empty: Empty = "exclude") -> float:
    """Mean of values of shape (C,) in which NaN marks a class without positives.

    Raises:
        ValueError: All values are NaN and `empty="exclude"`, or `empty` is not one of its two values.
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
    """Average precision of each class, float64 of shape (C,); NaN for a class without positives."""
    precision = ranks.positives_ge / ranks.ge
    total = np.bincount(ranks.columns, precision, minlength=len(ranks.counts))
    result = np.full(len(ranks.counts), np.nan)
    np.divide(total, ranks.counts, out=result, where=ranks.counts > 0)
    return result


@register_metric("mAP", "mAP", blocks=True)
def _mean(data: LabelledScores) -> float:
    return mean_over_classes(precision_of_ranks(data.ranks), data.empty)


@register_metric("AP", "Average precision of each class", blocks=True)
def _per_class(data: LabelledScores) -> dict[str, float]:
    values = zip(data.classes, precision_of_ranks(data.ranks).tolist(), data.ranks.counts, strict=True)
    return {name: value for name, value, positives in values if positives}


@register_metric("classes_without_positives", "Classes without positives", blocks=True)
def _without_positives(data: LabelledScores) -> list[str]:
    return [name for name, positives in zip(data.classes, data.ranks.counts, strict=True) if not positives]
