"""Names of samples that are made when they are asked for: ten million strings would take about 1 GB."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, overload

import numpy as np
import numpy.typing as npt

_BLOCK = 1 << 16  # names made at a time by an iteration


class RowNames(Sequence[str]):
    """Names of samples that are row numbers, counted from 0: equal to a tuple of these strings.

    Args:
        rows: Number of rows, or the row of each sample, int64 (N,).

    Example:
        >>> RowNames(3) == ("0", "1", "2"), RowNames(3).take([2, 0])[0]
        (True, '2')
    """

    def __init__(self, rows: int | npt.NDArray[np.int64]) -> None:
        self._rows: range | npt.NDArray[np.int64] = range(rows) if isinstance(rows, int) else rows

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, key: int) -> str: ...

    @overload
    def __getitem__(self, key: slice) -> tuple[str, ...]: ...

    def __getitem__(self, key: int | slice) -> str | tuple[str, ...]:
        chosen: Any = self._rows[key]
        if not isinstance(key, slice):
            return str(int(chosen))
        return tuple(map(str, chosen if isinstance(chosen, range) else chosen.tolist()))

    def __iter__(self) -> Iterator[str]:
        for start in range(0, len(self), _BLOCK):
            yield from self[start : start + _BLOCK]

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, str) or not name.isdecimal() or name != str(int(name)):
            return False
        return bool(int(name) in self._rows)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, RowNames):
            return len(self) == len(other) and np.array_equal(self._rows, other._rows)
        if not isinstance(other, Sequence) or isinstance(other, str):
            return NotImplemented
        return len(self) == len(other) and all(map(str.__eq__, self, other))

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"RowNames({len(self)} rows)"

    def take(self, rows: Sequence[int] | npt.NDArray[np.int64]) -> RowNames:
        """Names of some samples, in the order of `rows`."""
        return RowNames(np.asarray(self._rows, np.int64)[np.asarray(rows, np.int64)])


def take_names(names: Sequence[str], rows: Sequence[int] | npt.NDArray[np.int64]) -> Sequence[str]:
    """Names of some samples, in the order of `rows`; row numbers stay numbers."""
    return names.take(rows) if isinstance(names, RowNames) else tuple(names[row] for row in rows)
