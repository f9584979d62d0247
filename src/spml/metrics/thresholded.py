"""Metrics of decisions: labels from a threshold on, and the k labels with the highest scores."""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt
import torch

from ..common.label_checks import as_array
from ..scores.forms import (
    BoolArray,
    FloatArray,
    IntArray,
    ScoreArray,
    highest,
    score_array,
)
from .arrays import as_truth
from .registry import LabelledScores, register_metric

Average = Literal["micro", "macro", "samples"]

_AXES: dict[str, int | None] = {"micro": None, "macro": 0, "samples": 1}


class PrecisionRecallF1(NamedTuple):
    """Precision, recall and F1, each in [0, 1]."""

    precision: float
    recall: float
    f1: float


class TopK(NamedTuple):
    """Precision, recall and hit rate of the k labels with the highest scores: means over samples, in [0, 1].

    Attributes:
        precision: P@k, share of the k labels that are positives.
        recall: R@k, share of the positives of a sample that are among the k labels.
        hit: hit@k, whether a positive is among the k labels.
    """

    precision: float
    recall: float
    hit: float


def precision_recall_f1(
    scores: npt.ArrayLike | torch.Tensor,
    truth: npt.ArrayLike | torch.Tensor,
    threshold: float | npt.ArrayLike,
    average: Average = "macro",
) -> PrecisionRecallF1:
    """Precision, recall and F1 if each label with a score of at least the threshold is predicted.

    Equal to `sklearn.metrics.precision_recall_fscore_support(..., zero_division=0)`: a ratio with a zero
    denominator is 0 and stays in the mean. Macro F1 is the mean of the F1 of the classes.

    Args:
        scores: Scores of shape (N, C).
        truth: Labels of shape (N, C), as in `average_precision`; unknown entries are not counted.
        threshold: Number on the scale of the scores, or one number per class, shape (C,).
        average: `micro` over all entries, `macro` = mean over classes, `samples` = mean over samples.

    Raises:
        ValueError: Shapes differ, a score is NaN or a label is not allowed (the message gives row and
            column), the threshold is NaN, or `average` is not one of its three values.

    Example:
        >>> precision_recall_f1([[2.0, -1.0], [1.0, 3.0]], [[1, -1], [-1, 1]], threshold=0.0, average="micro")
        PrecisionRecallF1(precision=0.6666666666666666, recall=1.0, f1=0.8)
    """
    values = score_array(scores)
    positive, known = as_truth(truth, values.shape)
    predicted: BoolArray = values >= _thresholds(threshold, values)
    if average not in _AXES:
        raise ValueError(f'average must be "micro", "macro" or "samples", got {average!r}')
    if known is not None:
        predicted = predicted & known
    hits, guessed, actual = (
        np.asarray(np.count_nonzero(mask, axis=_AXES[average]), np.float64)
        for mask in (predicted & positive, predicted, positive)
    )
    return _of_counts(hits, guessed, actual)


def _of_counts(hits: FloatArray, guessed: FloatArray, actual: FloatArray) -> PrecisionRecallF1:
    return PrecisionRecallF1(
        _ratio(hits, guessed), _ratio(hits, actual), _ratio(2.0 * hits, guessed + actual)
    )


def cost_sensitive_hamming(
    scores: npt.ArrayLike | torch.Tensor,
    truth: npt.ArrayLike | torch.Tensor,
    threshold: float | npt.ArrayLike,
) -> float:
    """Cost-sensitive Hamming loss if each label with a score of at least the threshold is predicted.

    Mean over samples of the share of their positives that are missed plus the share of their negatives that
    are predicted: 0 at best, 2 at worst. For a sample with both it is 2 (1 - balanced accuracy). A side on
    which a sample has no known label costs nothing.

    Args:
        scores: Scores of shape (N, C).
        truth: Labels of shape (N, C), as in `average_precision`; unknown entries are not counted.
        threshold: Number on the scale of the scores, or one number per class, shape (C,).

    Raises:
        ValueError: As in `precision_recall_f1`.

    Example:
        >>> cost_sensitive_hamming([[1.0, -1.0, 1.0, -1.0]], [[1, 1, -1, -1]], threshold=0.0)
        1.0

    Source: Cui et al., OpenReview JFf-bPQu5RB, Eq. 12, which prints the indicators of right predictions; the
    cost is that of wrong ones, as in Eq. 24.
    """
    values = score_array(scores)
    positive, known = as_truth(truth, values.shape)
    predicted = values >= _thresholds(threshold, values)
    negative: BoolArray = ~positive if known is None else known & ~positive
    cost = 0.0
    for side, wrong in ((positive, positive & ~predicted), (negative, negative & predicted)):
        cost += _ratio(wrong.sum(1, dtype=np.float64), side.sum(1, dtype=np.float64))
    return cost


def top_k(scores: npt.ArrayLike | torch.Tensor, truth: npt.ArrayLike | torch.Tensor, k: int) -> TopK:
    """P@k, R@k and hit@k as in Cole et al. 2021: means over all samples; a sample without positives scores 0.

    Of classes that tie for the k-th place, those with the lower index are taken.

    Args:
        scores: Scores of shape (N, C), comparable between the classes of a sample.
        truth: Labels of shape (N, C), as in `average_precision`; unknown entries of a sample are left out of
            its ranking. For hit@k of observed labels among all classes, pass `observed == 1`.
        k: Number of labels taken per sample, in 1 ... C.

    Raises:
        ValueError: Shapes differ, a score is NaN or a label is not allowed (the message gives row and
            column), or k lies outside 1 ... C.

    Example:
        >>> top_k([[2.0, 1.0, 0.0]], [[1, -1, 1]], k=2)
        TopK(precision=0.5, recall=0.5, hit=1.0)
    """
    values = score_array(scores)
    positive, known = as_truth(truth, values.shape)
    if known is not None:
        values = np.where(known, values, -np.inf)
    if not 1 <= k <= values.shape[1]:
        raise ValueError(f"k must be in 1 ... {values.shape[1]} (the classes), got {k}")
    hits = np.count_nonzero(np.take_along_axis(positive, highest(values, k), axis=1), axis=1)
    return _of_hits(hits, np.count_nonzero(positive, axis=1), k)


def _of_hits(hits: IntArray, actual: IntArray, k: int) -> TopK:
    found = hits.astype(np.float64)
    return TopK(float(found.mean() / k), _ratio(found, actual.astype(np.float64)), float((found > 0).mean()))


def _thresholds(threshold: float | npt.ArrayLike, values: ScoreArray) -> ScoreArray:
    array: ScoreArray = as_array(threshold).astype(values.dtype)  # so that a float32 score of 0.7 reaches 0.7
    if array.shape not in ((), values.shape[1:]) or np.isnan(array).any():
        raise ValueError(f"the threshold must be a number or {values.shape[1]} numbers, one per class")
    return array


def _ratio(part: FloatArray, whole: FloatArray) -> float:
    """Mean of part / whole, with 0 in place of a division by zero."""
    return float(np.divide(part, whole, out=np.zeros_like(part), where=whole > 0).mean())


@register_metric("threshold", "Logit from which a label is predicted", blocks=True)
def _threshold(data: LabelledScores) -> float | dict[str, float | None] | None:
    if not isinstance(data.threshold, tuple):
        return data.threshold
    # JSON has no infinity, which means never.
    cuts = (cut if math.isfinite(cut) else None for cut in data.threshold)
    return dict(zip(data.classes, cuts, strict=True))


@register_metric("thresholded", "Precision, recall and F1 of the predicted labels", blocks=True)
def _at_threshold(data: LabelledScores) -> dict[str, dict[str, Any]]:
    return {average: _of_counts(*data.counts(_AXES[average]))._asdict() for average in get_args(Average)}


@register_metric("top_k", "P@k, R@k and hit@k", blocks=True)
def _top_k(data: LabelledScores) -> dict[str, dict[str, Any]]:
    actual = data.positives_per_sample
    hits = {k: np.bincount(data.hits(k)[0], minlength=len(actual)) for k in data.ks}
    return {str(k): _of_hits(hits[k], actual, k)._asdict() for k in data.ks}


@register_metric("cost_sensitive_hamming", "Cost-sensitive Hamming loss", blocks=True)
def _cost_sensitive_hamming(data: LabelledScores) -> float:
    hits, guessed, actual = data.counts(1)
    return _ratio(actual - hits, actual) + _ratio(guessed - hits, len(data.classes) - actual)
