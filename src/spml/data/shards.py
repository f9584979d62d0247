"""Rows of several arrays as one matrix, such as memory-mapped files that are larger than memory together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

_SCATTERED = 32  # rows per part, below which it is quicker to copy them one by one


class ShardedArray:
    """Arrays (n_i, D) of one type as one array (N, D), whose rows are copied when they are asked for.

    Args:
        parts: The arrays. For speed, give plain arrays: rows of a `numpy.memmap` are slower to gather than
            those of `numpy.asarray(memmap)`, which shares its memory.
        names: Name of each part, for messages.

    Attributes:
        shape: (N, D).
        dtype: Type of the numbers.
    """

    def __init__(self, parts: Sequence[npt.NDArray[Any]], names: Sequence[str] = ()) -> None:
        self._parts, self._names = list(parts), names
        self._starts = np.cumsum([0, *map(len, self._parts)])
        self.shape = int(self._starts[-1]), int(self._parts[0].shape[1])
        self.dtype = self._parts[0].dtype

    def __getitem__(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        """Rows (B, D), in the order of `rows`, int64 (B,)."""
        which = self._which(rows)
        local = rows - self._starts[which]
        if len(rows) and (which == which[0]).all():
            return np.asarray(self._parts[which[0]][local])
        block = np.empty((len(rows), self.shape[1]), self.dtype)
        if len(rows) < _SCATTERED * len(self._parts):
            for row, (number, position) in enumerate(zip(which.tolist(), local.tolist(), strict=True)):
                block[row] = self._parts[number][position]
            return block
        for number in np.unique(which).tolist():
            chosen = np.flatnonzero(which == number)
            block[chosen] = self._parts[number][local[chosen]]
        return block

    def converted(self, convert: Callable[[npt.NDArray[Any]], Any]) -> ShardedArray:
        """The same rows, with each part converted to an array of another kind."""
        return ShardedArray([convert(part) for part in self._parts], self._names)

    def where(self, row: int) -> str:
        """Name of the part that holds a row, and the number of the row in it."""
        number = int(self._which(np.asarray([row]))[0])
        return f"{self._names[number]}, row {row - int(self._starts[number])}"

    def _which(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.intp]:
        """Part of each row."""
        return np.searchsorted(self._starts, rows, side="right") - 1
