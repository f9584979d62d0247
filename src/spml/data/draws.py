"""Random draws that are the same on every platform and with every NumPy version.

Only the raw bits of PCG64 are used: NumPy promises that a bit generator's stream never changes, but not that
the methods of `Generator` keep theirs.
"""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt


def stream(*key: int | str) -> np.random.PCG64:
    """Uniform 64-bit integers without end, `random_raw(count)` at a time.

    Every key, such as ("flip", seed, epoch, row), is a stream of its own.
    """
    text = repr([part if isinstance(part, str) else int(part) for part in key])
    entropy = int.from_bytes(hashlib.sha256(text.encode()).digest()[:16], "little")
    return np.random.PCG64(entropy)


def raw(count: int, *key: int | str) -> npt.NDArray[np.uint64]:
    """The first numbers of a stream, uint64 of shape (count,)."""
    return stream(*key).random_raw(count)


def uniform(count: int, *key: int | str) -> npt.NDArray[np.float64]:
    """Uniform float64 numbers in [0, 1), of shape (count,)."""
    return np.asarray(raw(count, *key) >> np.uint64(11), np.float64) * 2.0**-53


def permutation(count: int, *key: int | str) -> npt.NDArray[np.int64]:
    """The numbers 0 ... count - 1 in random order, int64 of shape (count,)."""
    return np.argsort(raw(count, *key), kind="stable").astype(np.int64)
