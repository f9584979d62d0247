"""Columns in which heads are solved: one per class or, of many classes, one for all those without a label."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ...data import Samples
from ...data.dataset import Rows

MANY_CLASSES = 4096
"""Number of classes above which those without a known positive share one column."""

IntArray = npt.NDArray[np.int64]


class Columns:
    """Columns of a head that is solved, and the class or classes that each of them stands for.

    Every class without a known positive has the same solution, so that of many classes only those with a
    known positive have a column of their own, and the last column stands for all others. Memory and time then
    grow with the number of known labels, not with the number of classes.

    Args:
        classes: Number of classes C.
        own: Classes with a column of their own, ascending, int64; None = all.

    Attributes:
        of_class: Column of each class, int64 (C,).
        sizes: Number of classes of each column, int64 (K,).
    """

    def __init__(self, classes: int, own: IntArray | None = None) -> None:
        self.classes, self.own = classes, own
        self.of_class, self.sizes = np.arange(classes), np.ones(classes, np.int64)
        if own is not None:
            self.of_class = np.full(classes, len(own))
            self.of_class[own] = np.arange(len(own))
            self.sizes = np.append(self.sizes[: len(own)], classes - len(own))

    @classmethod
    def of_samples(cls, *parts: Samples) -> Columns:
        """Columns for the observed labels of these samples."""
        classes = parts[0].observed.num_classes
        if classes <= MANY_CLASSES:
            return cls(classes)
        known = sum(part.observed.positives_per_class() for part in parts)
        own = np.flatnonzero(known)
        return cls(classes, own if len(own) < classes else None)

    def __len__(self) -> int:
        return len(self.sizes)

    @property
    def log_sizes(self) -> Tensor | None:
        """Logarithms of `sizes`, float32 (K,); None where each class has its own column."""
        return None if self.own is None else torch.from_numpy(self.sizes).float().log()

    def expand(self, values: npt.NDArray[Any], classes: IntArray | None = None) -> npt.NDArray[Any]:
        """Values (B, K) of columns as values (B, C) of all classes, or (B, J) of some."""
        if classes is None and self.own is None:
            return values
        return values.take(self.of_class if classes is None else self.of_class[classes], axis=1)

    def positives(self, samples: Samples, rows: Rows) -> tuple[IntArray, IntArray]:
        """Known positives of some samples.

        Returns:
            Positions in `rows` and columns of the M known positives, sample by sample, int64 (M,).
        """
        index = samples.observed.index
        if index is not None:
            return np.arange(len(rows)), self.of_class[index[np.asarray(rows, np.int64)]]
        positions, classes = samples.observed.take(np.asarray(rows, np.int64)).entries(1)
        return positions, self.of_class[classes]
