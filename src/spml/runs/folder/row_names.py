"""Names of samples that are numbers of rows, as those of feature files are, one bit each."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import numpy as np
import numpy.typing as npt

MANY_NAMES = 100_000
"""Number of names above which they are stored by their numbers, if they are numbers of rows."""


class NumberedNames(Collection[str]):
    """Some of the names `0`, `1`, `2`, ...

    Args:
        bits: Whether each number is among them, eight to a byte, as `np.packbits` stores them, uint8 (B,).
    """

    def __init__(self, bits: npt.NDArray[np.uint8]) -> None:
        self.bits = bits

    def __contains__(self, name: object) -> bool:
        row = _row(name)
        return 0 <= row < 8 * len(self.bits) and bool(self.bits[row // 8] >> (7 - row % 8) & 1)

    def __iter__(self) -> Iterator[str]:
        return map(str, np.flatnonzero(np.unpackbits(self.bits)).tolist())

    def __len__(self) -> int:
        return int(np.unpackbits(self.bits).sum())


def row_names(parts: Sequence[Sequence[str]], without: Sequence[str]) -> NumberedNames | None:
    """Store names of samples as numbers of rows.

    Args:
        parts: Names, in several sequences.
        without: Some of them that are left out.

    Returns:
        None if they are not many, or one of them is not a number of a row.
    """
    if sum(map(len, parts)) <= MANY_NAMES:
        return None
    rows = np.asarray([_row(name) for part in parts for name in part], np.int64)
    if rows.min() < 0 or rows.max() >= 64 * len(rows):
        return None
    marked = np.zeros(int(rows.max()) + 1, np.bool_)
    marked[rows] = True
    marked[[_row(name) for name in without]] = False
    return NumberedNames(np.packbits(marked))


def _row(name: object) -> int:
    """Number of a row that a name states; -1 if it does not."""
    plain = isinstance(name, str) and name.isascii() and name.isdigit() and len(name) < 19
    row = int(name) if plain else -1  # type: ignore[call-overload]
    return row if str(row) == name else -1
