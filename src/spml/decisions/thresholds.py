"""Thresholds that turn scores into labels."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import torch

from ..errors import InputError
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
    ascending, samples, classes = pooled(scores)
    if not 0 < labels_per_sample <= classes:
        raise InputError(
            f"labels per sample must be above 0 and at most {classes}, the number of classes, "
            f"got {labels_per_sample}"
        )
    if labels_per_sample * samples > len(ascending):
        raise InputError(
            f"labels per sample must be at most {len(ascending) / samples:g}, the highest scores that were "
            f"kept of each sample, got {labels_per_sample}"
        )
    if not np.isfinite(ascending[[0, -1]]).all():
        raise ValueError("scores must be finite to place a threshold between them")
    # The sorted scores can be cut before the first, between two that differ, and after the last: next to the
    # number that is wanted, these are the two ends of a run of equal scores.
    wanted = len(ascending) - labels_per_sample * samples
    below, above = max(0, math.floor(wanted)), max(0, math.ceil(wanted))
    cuts = np.asarray([
        np.searchsorted(ascending, ascending[below], side="left") if below < len(ascending) else below,
        np.searchsorted(ascending, ascending[above - 1], side="right") if above else 0,
    ])  # fmt: skip
    cut = int(cuts[np.argmin(np.abs(len(ascending) - cuts - labels_per_sample * samples))])
    return cut_between(ascending, cut)


def pooled(scores: npt.ArrayLike | torch.Tensor | TopScores) -> tuple[Scores, int, int]:
    """Scores of all samples and classes in ascending order, and the numbers of samples and of classes.

    Of `TopScores` the highest of each sample, without those of known positives that are lower.
    """
    if not isinstance(scores, TopScores):
        values = as_scores(scores)
        return np.sort(values, axis=None), *values.shape
    highest = scores.scores >= scores.floors[scores.rows]
    return np.sort(scores.scores[highest]), len(scores), scores.classes


def cut_between(ascending: Scores, cut: int) -> float:
    """Threshold that leaves `cut` of the scores below it, midway between two neighbouring scores.

    Args:
        ascending: Finite scores in ascending order, of shape (M,).
        cut: Number of scores below, from 0 to M, such that the scores on its two sides differ.
    """
    if cut == 0:
        return float(ascending[0]) - max(1.0, abs(float(ascending[0])))
    if cut == len(ascending):
        return float(ascending[-1]) + max(1.0, abs(float(ascending[-1])))
    below, above = ascending[cut - 1], ascending[cut]
    middle = below / 2 + above / 2  # in the type of the scores, in which they are compared
    return float(middle if below < middle <= above else above)
