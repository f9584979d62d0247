"""Random draws that are the same on every platform and with every NumPy version.

Only the raw bits of PCG64 are used: NumPy promises that a bit generator's stream never changes, but not that
the methods of `Generator` keep theirs. Many short streams at once are those of SplitMix64, written out here.

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
    """Uniform 64-bit integers without end, `random_raw(count)` at a time.

    Every key, such as ("flip", seed, epoch, row), is a stream of its own.
    """
    return np.random.PCG64(_entropy(16, key))


def raw(count: int, *key: int | str) -> UInt64:
    """The first numbers of a stream, uint64 of shape (count,)."""
    return stream(*key).random_raw(count)


def of_rows(rows: npt.ArrayLike, count: int, *key: int | str) -> UInt64:
    """Uniform 64-bit integers of shape (rows, count): a stream for each row, whatever the others are.

    For many rows, since a stream of its own costs each call of `raw` 25 microseconds before the first number.

    Args:
        rows: numbers of the rows, none below zero.
        count: integers of each.
        key: of the table whose rows these are.
    """
    table = np.asarray(_entropy(8, key), np.uint64)
    return split_mix(_mixed(table + np.asarray(rows, np.int64).astype(np.uint64) * _GAMMA), count)


def split_mix(seeds: UInt64, count: int) -> UInt64:
    """The first numbers of SplitMix64 with each of the seeds (B,), uint64 of shape (B, count)."""
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
