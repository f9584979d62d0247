"""SP-score: ranks models by observed labels alone."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from ..common.label_checks import as_array
from ..scores import Ranks, as_scores, ranks_of
from ..scores.forms import FloatArray
from .arrays import as_known_positives

KAPPA = 5.0  # a class with this many known positives weighs half as much as one with very many
MIN_A = 0.01  # keeps the score positive for a model that ranks worse than random


class SPScore(NamedTuple):
    """SP-score and its two parts. Only differences between models are meaningful: none of them is a mAP.

    Attributes:
        score: `p * max(a, 0.01)`.
        p: Precision around the known positives, each of which stands for its share of hidden positives, in
            [0, 1].
        a: AUC of the known positives against the rest, corrected for the share of hidden positives; 1/2 for a
            constant model.
    """

    score: float
    p: float
    a: float


def sp_score(
    scores: npt.ArrayLike | torch.Tensor,
    observed: npt.ArrayLike | torch.Tensor,
    mean_labels: float = 2.0,
) -> SPScore:
    """SP-score: ranks models when every validation sample has one known positive label.

    For class c, O_c are the samples in which c is a known positive, and n_c is their number. For i in O_c:
    ge_i and gt_i count the samples with a score >= and > that of i (ge_i includes i), a_i counts the other
    members of O_c among ge_i; p_i = min(1, (1 + K a_i) / ge_i), U_i = 1 - (ge_i + gt_i) / (2N). With
    pi_c = min(1/2, n_c K / N): AP_c = mean p_i, A_c = (mean U_i - pi_c / 2) / (1 - pi_c). P and A are their
    means over classes with weights n_c / (n_c + 5); the score is P * max(A, 0.01). O(N C log N).

    With one known positive in every sample, K is `mean_labels`. Otherwise each of the M known positives
    stands for K = max(1, mean_labels * N / M) positives, so that the total stays mean_labels * N; for fully
    labelled data with the true `mean_labels`, K = 1 and AP_c is the average precision. Known negatives count
    fully in ge and gt, like unknown entries.

    Args:
        scores: Scores of shape (N, C), on any scale that is monotone within a class: raw float32 logits, no
            sigmoid, no half precision.
        observed: Integers of shape (N,), the known positive class of each sample, or a signed matrix of shape
            (N, C) in {-1, 0, +1}, 0 = unknown.
        mean_labels: Mean labels per sample; too high is better than too low.

    Raises:
        ValueError: Shapes differ, there are no samples, a score is NaN or a label is not allowed (the message
            gives its position), there is no known positive, or `mean_labels` is not positive and finite.

    Example:
        >>> sp_score([[2.0, 1.0], [1.0, 2.0]], [0, 1], mean_labels=1.0)
        SPScore(score=1.0, p=1.0, a=1.0)
    """
    return sp_of_ranks(observed_ranks(scores, observed), len(as_array(observed)), mean_labels)


def observed_ranks(scores: npt.ArrayLike | torch.Tensor, observed: npt.ArrayLike | torch.Tensor) -> Ranks:
    """Ranks of the known positives, each among all samples, including those with an unknown label.

    Args:
        scores: Scores of shape (N, C), on any scale that is monotone within a class.
        observed: Integers of shape (N,), the one known positive class of each sample, or a signed matrix of
            shape (N, C) in {-1, 0, +1}, 0 = unknown.

    Raises:
        ValueError: Shapes differ, there are no samples, a score is NaN or a label is not allowed (the message
            gives its position), or there is no known positive.
    """
    values = as_scores(scores)
    (ranks,) = ranks_of(values, as_known_positives(observed, values.shape))
    return ranks


def sp_of_ranks(ranks: Ranks, samples: int, mean_labels: float = 2.0) -> SPScore:
    """SP-score from the ranks of the known positives among N = `samples` samples.

    Raises:
        ValueError: `mean_labels` is not positive and finite.
    """
    return SPScore(*sp_scores(ranks, np.ones((1, samples)), mean_labels)[0].tolist())


def sp_scores(ranks: Ranks, multiplicity: npt.NDArray[Any], mean_labels: float = 2.0) -> FloatArray:
    """SP-score and its parts on B resamples of the ranked samples (for a multinomial bootstrap).

    Ranks among all samples (ge, gt) do not change; the number of times a sample was drawn weighs a_i, the
    means and n_c. Further copies of i itself do not count in a_i: they would raise its expectation above a_i.

    Args:
        ranks: Ranks of the known positives, from `observed_ranks`.
        multiplicity: How often each sample was drawn, shape (B, N); a row of ones gives `sp_score`.
        mean_labels: Mean labels per sample, as in `sp_score`.

    Returns:
        Array of shape (B, 3), float64: score, p, a; NaN in a row without a known positive.

    Raises:
        ValueError: `mean_labels` is not positive and finite.
    """
    if not 0 < mean_labels < np.inf:
        raise ValueError(f"mean_labels must be above 0 and finite, got {mean_labels}")
    samples = multiplicity.shape[1]
    stands_for = max(1.0, mean_labels * samples / len(ranks.rows))
    counts = ranks.counts[ranks.counts > 0]
    starts = np.cumsum(counts) - counts
    start = np.repeat(starts, counts)
    u = 1.0 - (ranks.ge + ranks.gt) / (2.0 * samples)
    result = np.full((len(multiplicity), 3), np.nan)
    for draw, drawn in enumerate(multiplicity):
        weight = drawn[ranks.rows].astype(np.float64)
        running = np.concatenate([[0.0], np.cumsum(weight)])
        above = running[start + ranks.positives_ge] - running[start] - weight
        p = np.minimum(1.0, (1.0 + stands_for * above) / ranks.ge)
        known = np.add.reduceat(weight, starts)
        importance = known / (known + KAPPA)
        if not importance.any():
            continue
        importance /= importance.sum()
        known_or_one = np.maximum(known, 1.0)  # a class that was not drawn has importance 0, not 0 / 0
        mean_p = np.add.reduceat(weight * p, starts) / known_or_one
        mean_u = np.add.reduceat(weight * u, starts) / known_or_one
        share = np.minimum(0.5, known * stands_for / samples)
        total_p = importance @ mean_p
        total_a = importance @ ((mean_u - share / 2.0) / (1.0 - share))
        result[draw] = total_p * max(total_a, MIN_A), total_p, total_a
    return result
