"""Metrics of decisions: labels above a threshold, and the k labels with the highest scores."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from .arrays import BoolArray, FloatArray, Scores, as_array, as_scores, as_truth

Average = Literal["micro", "macro", "samples"]


class PrecisionRecallF1(NamedTuple):
    """Precision, recall and F1, each in [0, 1]."""

    precision: float
    recall: float
    f1: float


class TopK(NamedTuple):
    """Means over samples of what the k labels with the highest scores hold, each in [0, 1].

    Attributes:
        precision: P@k, the share of the k that are positives.
        recall: R@k, the share of the sample's positives that are among the k.
        hit: hit@k, whether a positive is among the k.
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
    """Precision, recall and F1 of predicting each label whose score is at least the threshold.

    Equal to `sklearn.metrics.precision_recall_fscore_support(..., zero_division=0)`: a ratio without a
    denominator is 0 and stays in the mean. `macro` F1 is the mean of the F1 of the classes.

    Args:
        scores: (N, C).
        truth: (N, C), read as in `average_precision`; entries that are unknown are not counted.
        threshold: on the scale of the scores; a number, or one per class, (C,).
        average: `micro` over all entries, `macro` = mean over classes, `samples` = mean over samples.

    Raises:
        ValueError: shapes differ, a NaN score or a wrong label (names its place), a NaN threshold, or another
            `average`.
    """
    values = as_scores(scores)
    positive, known = as_truth(truth, values.shape)
    predicted = values >= _thresholds(threshold, values)
    if known is not None:
        predicted &= known
    if average not in ("micro", "macro", "samples"):
        raise ValueError(f'average must be "micro", "macro" or "samples", got {average!r}')
    axis = {"micro": None, "macro": 0, "samples": 1}[average]
    hits, guessed, actual = (
        np.asarray(np.count_nonzero(mask, axis=axis), np.float64)
        for mask in (predicted & positive, predicted, positive)
    )
    return PrecisionRecallF1(
        _ratio(hits, guessed), _ratio(hits, actual), _ratio(2.0 * hits, guessed + actual)
    )


def top_k(scores: npt.ArrayLike | torch.Tensor, truth: npt.ArrayLike | torch.Tensor, k: int) -> TopK:
    """P@k, R@k and hit@k as in Cole et al. 2021: means over all samples, a sample without positives scores 0.

    Of classes with the same score at the k-th place, those with the lower number are taken.

    Args:
        scores: (N, C), comparable between the classes of a sample.
        truth: (N, C), read as in `average_precision`; a sample's unknown entries are left out of its ranking.
            For hit@k of observed labels among all classes, pass `observed == 1`.
        k: number of labels taken per sample, 1 ... C.

    Raises:
        ValueError: shapes differ, a NaN score or a wrong label (names its place), or k outside
            1 ... C.
    """
    values = as_scores(scores)
    positive, known = as_truth(truth, values.shape)
    if known is not None:
        values = np.where(known, values, -np.inf)
    if not 1 <= k <= values.shape[1]:
        raise ValueError(f"k must be in 1 ... {values.shape[1]} (the classes), got {k}")
    hits = np.count_nonzero(_highest(values, k) & positive, axis=1).astype(np.float64)
    actual = np.count_nonzero(positive, axis=1).astype(np.float64)
    return TopK(float(hits.mean() / k), _ratio(hits, actual), float((hits > 0).mean()))


def _highest(values: Scores, k: int) -> BoolArray:
    """Which k entries of each row are highest, the earlier of equal ones."""
    place = values.shape[1] - k
    last = np.partition(values, place, axis=1)[:, place, None]
    above = values > last
    level = values == last
    room = k - np.count_nonzero(above, axis=1)[:, None]
    chosen: BoolArray = above | (level & (np.cumsum(level, axis=1) <= room))
    return chosen


def _thresholds(threshold: float | npt.ArrayLike, values: Scores) -> Scores:
    array: Scores = as_array(threshold).astype(values.dtype)  # a float32 score of 0.7 is at least 0.7
    if array.shape not in ((), values.shape[1:]) or np.isnan(array).any():
        raise ValueError(f"the threshold must be a number or {values.shape[1]} numbers, one per class")
    return array


def _ratio(part: FloatArray, whole: FloatArray) -> float:
    """Mean of part / whole; 0 where there is nothing to divide by."""
    return float(np.divide(part, whole, out=np.zeros_like(part), where=whole > 0).mean())
