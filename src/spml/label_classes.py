"""Sparse labels over other classes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .common.label_checks import IntArray


def merge_entries(
    indptr: IntArray,
    columns: IntArray,
    values: npt.NDArray[np.int8],
    new: IntArray,
    num_classes: int,
    unlisted: int,
) -> tuple[IntArray, IntArray, npt.NDArray[np.int8]]:
    """Move, merge and leave out the columns of sparse labels, as `ObservedLabels.merge_classes` does.

    Args:
        indptr, columns, values: Stored entries of N samples, as in `ObservedLabels`.
        new: New column of each class, int64 (C,); -1 = left out.
        num_classes: Number of new classes.
        unlisted: Value of entries that are not stored, 0 or -1.

    Returns:
        The entries to store, in the same form.

    Example:
        >>> labels = np.array([0, 2, 3]), np.array([0, 1, 1]), np.array([1, -1, -1], np.int8)
        >>> [part.tolist() for part in merge_entries(*labels, np.array([0, 0, -1]), 1, 0)]
        [[0, 1, 2], [0, 0], [1, -1]]
    """
    rows, target = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr)), new[columns]
    keys, values = (part[target >= 0] for part in (rows * num_classes + target, values))
    keys, entry = np.unique(keys, return_inverse=True)
    present, absent, unknown = (np.bincount(entry, values == sign, len(keys)) for sign in (1, -1, 0))
    # Where what is not stored is absent, a class is unknown if all of its columns are.
    together = np.bincount(new[new >= 0], minlength=num_classes)[keys % num_classes]
    known = unlisted + (unknown == together) if unlisted else -(absent > 0).astype(np.int8)
    merged = np.where(present > 0, 1, known).astype(np.int8)
    stored = merged != unlisted
    ends = np.searchsorted(keys[stored], np.arange(len(indptr)) * num_classes)
    return ends, keys[stored] % num_classes, merged[stored]
