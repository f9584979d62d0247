"""Bootstrap draws of test samples, which are stored with a run."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..common.draws import raw


def bootstrap_draws(count: int, draws: int, seed: int) -> npt.NDArray[np.int32]:
    """Multiplicity of each of `count` samples when `count` samples are drawn with replacement.

    The draws are the same on every platform and with every NumPy version.

    Args:
        count: Number of samples, below 2^32.
        draws: Number of draws of the whole set, B.
        seed: Seed of the draws.

    Returns:
        int32 (B, count); each row sums to `count`.
    """
    result = np.empty((draws, count), np.int32)
    for draw in range(draws):
        high = raw(count, "bootstrap", seed, draw) >> np.uint64(32)  # the upper halves of 64 random bits
        chosen = np.asarray((high * np.uint64(count)) >> np.uint64(32), np.int64)
        result[draw] = np.bincount(chosen, minlength=count)
    return result
