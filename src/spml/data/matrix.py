"""Samples that lie in an array: feature vectors (dense, sparse or memory-mapped) and small images."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from ..errors import InputError
from .dataset import Augment, Kind, Rows
from .views import feature_views, image_views, partners

CHUNK = 1 << 22  # numbers looked at in one go


class FeatureMatrix:
    """Feature vectors: rows of a dense array, a memory map or a SciPy CSR matrix of shape (N, D).

    The matrix is kept as it is; the rows of a batch become dense float32.
    """

    kind: Kind = "feature"

    def __init__(self, matrix: Any, rows: npt.NDArray[np.int64] | None = None) -> None:
        self._matrix = matrix
        self._rows = np.arange(matrix.shape[0], dtype=np.int64) if rows is None else rows

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def width(self) -> int:
        """The number of features D."""
        return int(self._matrix.shape[1])

    def dense(self, rows: Rows) -> npt.NDArray[np.float32]:
        """Some rows as a dense float32 array of shape (B, D)."""
        chosen = self._matrix[self._rows[np.asarray(rows, np.int64)]]
        if hasattr(chosen, "toarray"):
            chosen = chosen.toarray()
        if chosen.dtype == np.float16:  # which torch converts twenty times as fast as NumPy
            return torch.from_numpy(np.ascontiguousarray(chosen)).float().numpy()
        # What does not fit into float32 becomes inf, which check_finite names.
        with np.errstate(over="ignore"):
            return np.ascontiguousarray(chosen, np.float32)

    @property
    def sparse(self) -> Any:
        """The SciPy CSR matrix that the rows are taken of; None if it is an array."""
        return self._matrix if hasattr(self._matrix, "indptr") else None

    def fetch(self, rows: Rows, augment: Augment | None = None) -> torch.Tensor:
        """Features of a batch, float32 of shape (B, D); in a further view some are another sample's."""
        features = self.dense(rows)
        if augment and augment.view:
            other = self.dense(partners(rows, len(self), augment))
            features = feature_views(features, other, rows, augment)
        return torch.from_numpy(features)

    def take(self, rows: Rows) -> FeatureMatrix:
        """Some of the samples; the matrix is not copied."""
        return FeatureMatrix(self._matrix, self._rows[np.asarray(rows, np.int64)])

    def fingerprint(self) -> str:
        """SHA-256 over the float32 features, the same for a sparse and a dense matrix of equal content."""
        digest = hashlib.sha256(f"features {len(self)} {self.width}".encode())
        for rows in _chunks(len(self), self.width):
            # + 0 turns -0.0 into 0.0: a sparse matrix does not store zeros of either sign.
            digest.update((self.dense(rows) + 0).tobytes())
        return digest.hexdigest()


class ImageArray:
    """Small images: uint8 of shape (N, channels, H, W). They are never mirrored."""

    kind: Kind = "image"

    def __init__(self, pixels: npt.NDArray[np.uint8], rows: npt.NDArray[np.int64] | None = None) -> None:
        self._pixels = pixels
        self._rows = np.arange(len(pixels), dtype=np.int64) if rows is None else rows

    def __len__(self) -> int:
        return len(self._rows)

    def fetch(self, rows: Rows, augment: Augment | None = None) -> torch.Tensor:
        """Images of a batch, uint8 of shape (B, channels, H, W); only further views are changed."""
        pixels = self._pixels[self._rows[np.asarray(rows, np.int64)]]
        if augment and augment.view:
            pixels = image_views(pixels, rows, augment, flip=False)
        return torch.from_numpy(pixels)

    def take(self, rows: Rows) -> ImageArray:
        """Some of the samples; the pixels are not copied."""
        return ImageArray(self._pixels, self._rows[np.asarray(rows, np.int64)])

    def fingerprint(self) -> str:
        """SHA-256 over the pixels."""
        digest = hashlib.sha256(f"images {len(self)} {self._pixels.shape[1:]}".encode())
        for rows in _chunks(len(self), int(np.prod(self._pixels.shape[1:]))):
            digest.update(self._pixels[self._rows[rows]].tobytes())
        return digest.hexdigest()


def check_finite(features: FeatureMatrix, source: str) -> None:
    """Refuse features that float32 can't hold as finite numbers.

    Raises:
        InputError: a NaN or an infinite value (names row and column).
    """
    matrix = features.sparse
    if matrix is not None:
        # Only what is stored: a small file may stand for a matrix without end.
        with np.errstate(over="ignore"):
            places = np.flatnonzero(~np.isfinite(matrix.data.astype(np.float32)))
        if len(places):
            row = int(np.searchsorted(matrix.indptr, places[0], side="right")) - 1
            raise _not_finite(source, matrix.data[places[0]], row, int(matrix.indices[places[0]]))
        return
    for rows in _chunks(len(features), features.width):
        block = features.dense(rows)
        # The sum is finite unless an entry is not (or the sum overflows, which the exact test then settles).
        with np.errstate(over="ignore", invalid="ignore"):
            suspicious = not np.isfinite(block.sum())
        if suspicious and len(wrong := np.argwhere(~np.isfinite(block))):
            row, column = wrong[0].tolist()
            raise _not_finite(source, block[row, column], int(rows[row]), column)


def _not_finite(source: str, value: Any, row: int, column: int) -> InputError:
    with np.errstate(over="ignore"):
        shown = np.float32(value)
    return InputError(
        f"{source}: X holds {shown} at row {row}, column {column} (counted from 0). Every feature must be a "
        "finite float32 number: fill or remove what is missing, then save again."
    )


def _chunks(count: int, width: int) -> Iterator[npt.NDArray[np.int64]]:
    step = max(1, CHUNK // max(1, width))
    for start in range(0, count, step):
        yield np.arange(start, min(start + step, count))
