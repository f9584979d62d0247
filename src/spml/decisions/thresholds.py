"""Thresholds that turn scores into labels."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import torch

from ..common.errors import InputError
from ..metrics.arrays import Scores, as_scores
from ..metrics.top_scores import TopScores


def global_threshold(scores: npt.ArrayLike | torch.Tensor | TopScores, labels_per_sample: float) -> float:
    """Threshold t at which `score >= t` predicts K labels per sample on average.

    With tied scores, the nearest possible number; of two thresholds that are equally near, the one with more
    labels. t lies midway between the two neighbouring scores, so that rounding does not flip labels, and is
    exact in the type of the scores (float32 or float64). If it is nearest to predict everything or nothing, t
    is finite and lies at least 1 outside the scores.

    Args:
        scores: Scores of shape (N, C), finite and comparable between classes. Of `TopScores`, a sample has
            only as many labels as highest scores of it were kept.
        labels_per_sample: Mean labels per sample K, in (0, C].

    Raises:
        InputError: K lies outside (0, C], or more labels per sample than scores were kept.
        ValueError: There are no scores, or one is NaN (the message gives row and column) or infinite.

    Example:
        >>> global_threshold([[2.0, -1.0], [0.5, 1.0]], labels_per_sample=1.0)
        0.75
    """
    values, samples, classes = pooled(scores)
    count = len(values)
    if not 0 < labels_per_sample <= classes:
        raise InputError(
            f"labels per sample must be above 0 and at most {classes}, the number of classes, "
            f"got {labels_per_sample}"
        )
    if labels_per_sample * samples > count:
        raise InputError(
            f"labels per sample must be at most {count / samples:g}, the highest scores that were "
            f"kept of each sample, got {labels_per_sample}"
        )
    if not (np.isfinite(values.min()) and np.isfinite(values.max())):
        raise ValueError("scores must be finite to place a threshold between them")
    # In ascending order, the scores can be cut before the first, between two that differ, and after the last:
    # next to the number that is wanted, these are the two ends of a run of equal scores. Only the places that
    # are looked at are put in order, which takes a fifth of the time of sorting.
    wanted = count - labels_per_sample * samples
    below, above = max(0, math.floor(wanted)), max(0, math.ceil(wanted))
    values = np.partition(values, sorted({min(below, count - 1), max(0, above - 1)}))
    cuts = np.asarray([
        np.count_nonzero(values < values[below]) if below < count else below,
        np.count_nonzero(values <= values[above - 1]) if above else 0,
    ])  # fmt: skip
    cut = int(cuts[np.argmin(np.abs(count - cuts - labels_per_sample * samples))])
    values.partition(sorted({0, max(0, cut - 1), min(cut, count - 1), count - 1}))
    return cut_between(values, cut)


def pooled(scores: npt.ArrayLike | torch.Tensor | TopScores) -> tuple[Scores, int, int]:
    """Scores of all samples and classes (M,), in no order, and the numbers of samples and of classes.

    Of `TopScores` the highest of each sample, without those of known positives that are lower.
    """
    if not isinstance(scores, TopScores):
        values = as_scores(scores)
        return values.ravel(), *values.shape
    return scores.scores[scores.in_order], len(scores), scores.classes


def cut_between(ascending: Scores, cut: int) -> float:
    """Threshold that leaves `cut` of the scores below it, midway between two neighbouring scores.

    Args:
        ascending: Finite scores of shape (M,), of which at least those at 0, `cut` - 1, `cut` and M - 1 are
            where ascending order puts them.
        cut: Number of scores below, from 0 to M, such that the scores on its two sides differ.
    """
    if cut == 0:
        return float(ascending[0]) - max(1.0, abs(float(ascending[0])))
    if cut == len(ascending):
        return float(ascending[-1]) + max(1.0, abs(float(ascending[-1])))
    below, above = ascending[cut - 1], ascending[cut]
    middle = below / 2 + above / 2  # in the type of the scores, in which they are compared
    return float(middle if below < middle <= above else above)
