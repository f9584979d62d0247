"""Precision and recall of the highest scores in which rare classes count more: for very many classes."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from ..common.label_checks import as_array
from ..scores.forms import FloatArray, IntArray, highest, score_array
from .arrays import as_truth
from .registry import LabelledScores, register_metric

FEWEST_CLASSES = 1_000
"""`spml evaluate` reports these metrics from so many classes on."""


class PropensityScored(NamedTuple):
    """Propensity-scored precision and recall of the k highest scores, in [0, 1].

    Attributes:
        precision: PSP@k.
        recall: PSR@k.
    """

    precision: float
    recall: float


def propensities(counts: npt.ArrayLike, samples: int, a: float = 0.55, b: float = 1.5) -> FloatArray:
    """Probability of each class that a label of it is observed, estimated from how frequent the class is.

    p_l = 1 / (1 + c (N_l + b)^-a) with c = (log N - 1) (b + 1)^a; 1 for fewer than 3 samples.

    Args:
        counts: Number of samples N_l with each class as a label, best those of the training samples, (C,).
        samples: Number of samples N that were counted.
        a, b: Parameters of the paper: 0.5 and 0.4 for Wikipedia, 0.6 and 2.6 for products of Amazon, and the
            defaults for other data.

    Returns:
        float64 (C,), in (0, 1].

    Source:
        Jain, Prabhu and Varma, Extreme Multi-label Loss Functions for Recommendation, Tagging, Ranking &
        Other Missing Label Applications, KDD 2016.

    Example:
        >>> propensities([0, 1, 50], samples=100).round(4).tolist()
        [0.1732, 0.2171, 0.5942]
    """
    c = max(np.log(samples) - 1.0, 0.0) * (b + 1.0) ** a
    frequent = np.asarray(counts, np.float64)
    return np.asarray(1.0 / (1.0 + c * (frequent + b) ** -a))


def propensity_scored_top_k(
    scores: npt.ArrayLike | torch.Tensor,
    truth: npt.ArrayLike | torch.Tensor,
    k: int,
    propensity: npt.ArrayLike,
) -> PropensityScored:
    """PSP@k and PSR@k as in the extreme classification repository.

    A positive among the k highest scores of a sample counts 1 / p_l. PSP@k is the mean over samples of the
    sum over k, PSR@k that of the sum over the number of positives; both are divided by the value of the best
    possible choice of k labels per sample. A sample without positives counts as 0 in both.

    Args:
        scores: Scores of shape (N, C), comparable between the classes of a sample. Of classes that tie for
            the k-th place, those with the lower index are taken.
        truth: Labels of shape (N, C), as in `average_precision`, but without unknown ones.
        k: Number of labels per sample, in 1 ... C.
        propensity: Propensity of each class, from `propensities`, (C,).

    Raises:
        ValueError: Shapes differ, a score is NaN, a label is not allowed or unknown, there is no positive, or
            k lies outside 1 ... C.

    Example:
        >>> propensity_scored_top_k([[2.0, 1.0, 0.0]], [[True, False, True]], k=1, propensity=[1, 1, 0.5])
        PropensityScored(precision=0.5, recall=0.5)
    """
    values = score_array(scores)
    positive, known = as_truth(truth, values.shape)
    if known is not None:
        raise ValueError("propensity-scored metrics need all labels, but some are unknown")
    if not positive.any():
        raise ValueError("no label is positive, so nothing can be measured")
    if not 1 <= k <= values.shape[1]:
        raise ValueError(f"k must be in 1 ... {values.shape[1]} (the classes), got {k}")
    weights = 1.0 / as_array(propensity).astype(np.float64)
    if weights.shape != values.shape[1:]:
        raise ValueError(f"expected {values.shape[1]} propensities, one per class, got {weights.shape}")
    among = np.zeros_like(positive)
    np.put_along_axis(among, highest(values, k), True, axis=1)
    rows, columns = np.nonzero(among & positive)
    return _scored((rows, columns), np.nonzero(positive), weights, len(values), k)


def _scored(
    found: tuple[IntArray, ...], positives: tuple[IntArray, ...], weights: FloatArray, samples: int, k: int
) -> PropensityScored:
    """PSP@k and PSR@k from rows and columns of the positives among the k highest, and of all positives."""
    rows, columns = positives
    # The best choice takes the heaviest positives of each sample.
    order = np.lexsort((-weights[columns], rows))
    place = np.arange(len(rows)) - np.searchsorted(rows, rows)
    best = order[place < k]
    gained, possible = (
        np.bincount(own_rows, weights[own_columns], minlength=samples)
        for own_rows, own_columns in (found, (rows[best], columns[best]))
    )
    actual = np.maximum(np.bincount(rows, minlength=samples), 1)
    return PropensityScored(
        float(gained.mean() / possible.mean()), float((gained / actual).mean() / (possible / actual).mean())
    )


@register_metric("propensity_scored_top_k", "PSP@k and PSR@k", blocks=True, fewest_classes=FEWEST_CLASSES)
def _propensity_scored(data: LabelledScores) -> dict[str, dict[str, Any]]:
    """Propensities from the labels at hand: a model does not keep the counts of its training labels."""
    counts, samples = data.ranks.counts, len(data.positives_per_sample)
    weights = 1.0 / propensities(counts, samples)
    return {str(k): _scored(data.hits(k), data.positives, weights, samples, k)._asdict() for k in data.ks}
