"""Scores of so many samples and classes that only a block of rows is in memory at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .arrays import IntArray

Block = npt.NDArray[np.float32]


@dataclass(frozen=True)
class ScoreBlocks:
    """Scores of N samples over C classes, computed again, block of rows by block of rows, at every look.

    Attributes:
        samples: Number of samples N.
        classes: Number of classes C.
        compute: Yields the scores of consecutive samples, from the first to the last, float32 (B, C), or
            (B, M) of the ascending columns, int64 (M,), that it is called with. None = all columns.
    """

    samples: int
    classes: int
    compute: Callable[[IntArray | None], Iterator[Block]]

    def __len__(self) -> int:
        return self.samples

    @property
    def shape(self) -> tuple[int, int]:
        """Number of samples and of classes."""
        return self.samples, self.classes

    def blocks(self, columns: IntArray | None = None) -> Iterator[tuple[IntArray, Block]]:
        """Yield the numbers of consecutive samples, int64 (B,), with their scores."""
        first = 0
        for block in self.compute(columns):
            yield np.arange(first, first + len(block)), block
            first += len(block)

    def gather(self, columns: IntArray) -> Block:
        """Scores of some ascending columns, float32 (N, M)."""
        scores = np.empty((self.samples, len(columns)), np.float32)
        for rows, block in self.blocks(columns):
            scores[rows[0] : rows[-1] + 1] = block
        return scores
