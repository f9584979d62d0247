"""Labels from lists of (row, column) entries, and the measures of boxes that biased hiding uses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ...labels import ObservedLabels, Unlisted
from ..records import Objects


class Entries(NamedTuple):
    """Some labels: int64 (M,) each; repetitions do not matter."""

    rows: npt.NDArray[np.int64]
    columns: npt.NDArray[np.int64]

    @classmethod
    def of(cls, rows: Any, columns: Any) -> Entries:
        """From anything that NumPy makes an array of."""
        return cls(np.asarray(rows, np.int64), np.asarray(columns, np.int64))


def joined(parts: Sequence[Entries], starts: Sequence[int]) -> Entries:
    """Entries of several parts, whose rows begin at `starts`."""
    rows = [part.rows + start for part, start in zip(parts, starts, strict=True)]
    return Entries(np.concatenate(rows), np.concatenate([part.columns for part in parts]))


def in_both(one: Entries, other: Entries) -> tuple[int, int] | None:
    """Row and column of the first label, row by row, that is in both."""
    both = np.intersect1d(_keys(one), _keys(other))
    return (int(both[0]) >> 32, int(both[0]) & 0xFFFFFFFF) if len(both) else None


def label_entries(
    positive: Entries,
    shape: tuple[int, int],
    unlisted: Unlisted,
    *,
    negative: Entries | None = None,
    unknown: Entries | None = None,
) -> ObservedLabels:
    """Labels of N samples over C classes, given by entries.

    Args:
        positive, negative: known positives and negatives; none is both.
        shape: N, C.
        unlisted: what an entry that is in none of the three is.
        unknown: entries that stay unknown whatever `unlisted` says, unless they are known.
    """
    from scipy.sparse import csr_matrix

    none = Entries.of([], [])
    parts = [(positive, 1), (negative or none, -1), (unknown or none, 0)]
    keys = np.concatenate([_keys(part) for part, _ in parts])
    values = np.concatenate([np.full(len(part.rows), value, np.int8) for part, value in parts])
    keys, first = np.unique(keys, return_index=True)
    matrix = csr_matrix((values[first], (keys >> 32, keys & 0xFFFFFFFF)), shape=shape)
    return ObservedLabels.from_csr(matrix, unlisted=unlisted)


def objects_of(entries: Entries, boxes: npt.ArrayLike, sizes: npt.ArrayLike) -> Objects | None:
    """Objects of boxes, each clipped to its image; None if there is no box.

    Args:
        entries: sample and class of each box.
        boxes: float (M, 4): left, top, right, bottom.
        sizes: float (M, 2): width and height of the image of each box, in the same unit.
    """
    if not len(entries.rows):
        return None
    corners = np.asarray(boxes, np.float64).reshape(-1, 2, 2)
    size = np.asarray(sizes, np.float64).reshape(-1, 2)
    longest = size.max(axis=1, keepdims=True)  # in which lengths are measured: none can then overflow
    clipped = np.clip(corners, 0, size[:, None]) / longest[:, None]
    size = size / longest
    share = (clipped[:, 1] - clipped[:, 0]) / size
    away = np.hypot(*(clipped.mean(axis=1) - size / 2).T)
    return Objects(entries.rows, entries.columns, share.prod(axis=1), away / (np.hypot(*size.T) / 2))


def _keys(entries: Entries) -> npt.NDArray[np.int64]:
    return (entries.rows << 32) | entries.columns
