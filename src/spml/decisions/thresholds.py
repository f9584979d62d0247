"""Where to cut scores so that they become labels."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch

from ..errors import InputError
from ..metrics.arrays import as_scores


def global_threshold(scores: npt.ArrayLike | torch.Tensor, labels_per_sample: float) -> float:
    """The threshold t at which predicting `score >= t` gives K labels per sample on average, as near as
    tied scores allow (of two cuts equally near, the one with more labels).

    t lies midway between the two neighbouring scores, so that rounding does not flip labels, and is exact in
    the type of the scores (float32 or float64). Where everything or nothing is nearest, t is finite and lies
    outside the scores by at least 1.

    Args:
        scores: (N, C), finite, comparable between classes.
        labels_per_sample: K, in (0, C].

    Raises:
        InputError: K outside (0, C].
        ValueError: no scores, or one that is NaN (names row and column) or infinite.
    """
    values = as_scores(scores)
    samples, classes = values.shape
    if not 0 < labels_per_sample <= classes:
        raise InputError(
            f"labels per sample must be above 0 and at most {classes} (the number of classes), "
            f"got {labels_per_sample}"
        )
    ascending = np.sort(values, axis=None)
    if not np.isfinite(ascending[[0, -1]]).all():
        raise ValueError("scores must be finite to have a threshold between them")
    # Where the sorted scores can be cut: before the first, between two that differ, after the last.
    between = np.flatnonzero(ascending[1:] != ascending[:-1]) + 1
    cuts = np.concatenate([[0], between, [len(ascending)]])
    cut = int(cuts[np.argmin(np.abs(len(ascending) - cuts - labels_per_sample * samples))])
    if cut == 0:
        return float(ascending[0]) - max(1.0, abs(float(ascending[0])))
    if cut == len(ascending):
        return float(ascending[-1]) + max(1.0, abs(float(ascending[-1])))
    below, above = ascending[cut - 1], ascending[cut]
    middle = below / 2 + above / 2  # in the scores' own type, in which it will be compared
    return float(middle if below < middle <= above else above)
