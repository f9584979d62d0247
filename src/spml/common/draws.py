"""Random draws that are the same on every platform and with every NumPy version.

They use the raw bits of PCG64, because NumPy guarantees the stream of a bit generator but not the results of
the methods of `Generator`. Where many short streams are needed at once, they are those of SplitMix64,
implemented here.

Source: Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014, with the
constants of Vigna's splitmix64.c.
"""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt

UInt64 = npt.NDArray[np.uint64]
_GAMMA = np.uint64(0x9E3779B97F4A7C15)


def stream(*key: int | str) -> np.random.PCG64:
    """Generator of uniform 64-bit integers; `random_raw(count)` returns the next ones.

    Every key, such as ("flip", seed, epoch, row), has its own stream.
    """
    return np.random.PCG64(_entropy(16, key))


def raw(count: int, *key: int | str) -> UInt64:
    """The first numbers of the stream of a key, uint64 of shape (count,)."""
    return stream(*key).random_raw(count)


def of_rows(rows: npt.ArrayLike, count: int, *key: int | str) -> UInt64:
    """Uniform 64-bit integers of shape (rows, count): one stream per row number, independent of other rows.

    The key is that of a table with many rows: every call of `raw` takes 25 microseconds to create its stream.
    """
    table = np.asarray(_entropy(8, key), np.uint64)
    return split_mix(_mixed(table + np.asarray(rows, np.int64).astype(np.uint64) * _GAMMA), count)


def split_mix(seeds: UInt64, count: int) -> UInt64:
    """The first numbers of SplitMix64 for each of the seeds (B,), uint64 of shape (B, count)."""
    return _mixed(seeds[:, None] + np.arange(1, count + 1, dtype=np.uint64) * _GAMMA)


def uniform(count: int, *key: int | str) -> npt.NDArray[np.float64]:
    """Uniform float64 numbers in [0, 1), of shape (count,)."""
    return np.asarray(raw(count, *key) >> np.uint64(11), np.float64) * 2.0**-53


def permutation(count: int, *key: int | str) -> npt.NDArray[np.int64]:
    """The numbers 0 ... count - 1 in random order, int64 of shape (count,)."""
    return np.argsort(raw(count, *key), kind="stable").astype(np.int64)


def _entropy(size: int, key: tuple[int | str, ...]) -> int:
    text = repr([part if isinstance(part, str) else int(part) for part in key])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:size], "little")


def _mixed(numbers: UInt64) -> UInt64:
    """The output function of SplitMix64, in place; products are modulo 2^64."""
    numbers ^= numbers >> np.uint64(30)
    numbers *= np.uint64(0xBF58476D1CE4E5B9)
    numbers ^= numbers >> np.uint64(27)
    numbers *= np.uint64(0x94D049BB133111EB)
    numbers ^= numbers >> np.uint64(31)
    return numbers
