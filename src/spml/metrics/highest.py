"""The k highest scores of each sample."""

from __future__ import annotations

import numpy as np

from .arrays import BoolArray, Scores


def highest(values: Scores, k: int) -> BoolArray:
    """Mask of the k highest entries of each row; of equal entries the earlier ones."""
    position = values.shape[1] - k
    kth = np.partition(values, position, axis=1)[:, position, None]
    above = values > kth
    tied = values == kth
    room = k - np.count_nonzero(above, axis=1)[:, None]
    chosen: BoolArray = above | (tied & (np.cumsum(tied, axis=1) <= room))
    return chosen
