"""Samples stored in an array: feature vectors (dense, sparse or memory-mapped) and small images."""

from __future__ import annotations

import hashlib
import math
import mmap
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from ..common.errors import InputError
from .dataset import Augment, Kind, Rows
from .images.views import feature_views, image_views, partners

CHUNK = 1 << 22  # numbers processed at a time
_SCATTERED = 32  # rows per part, below which it is quicker to copy them one by one


class ShardedArray:
    """Arrays (n_i, ...) of one type as one array (N, ...), whose rows are copied when they are asked for.

    For speed, give plain arrays: rows of a `numpy.memmap` are slower to gather than those of
    `numpy.asarray(memmap)`, which shares its memory. Messages name the parts by `names`.
    """

    def __init__(self, parts: Sequence[npt.NDArray[Any]], names: Sequence[str] = ()) -> None:
        self._parts, self._names = list(parts), names
        self._starts = np.cumsum([0, *map(len, self._parts)])
        self.shape = (int(self._starts[-1]), *map(int, self._parts[0].shape[1:]))
        self.dtype = self._parts[0].dtype

    def __getitem__(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        """Rows (B, ...), in the order of `rows`, int64 (B,)."""
        which = self._which(rows)
        local = rows - self._starts[which]
        if len(rows) and (which == which[0]).all():
            return np.asarray(self._parts[which[0]][local])
        block = np.empty((len(rows), *self.shape[1:]), self.dtype)
        if len(rows) < _SCATTERED * len(self._parts):
            for row, (number, position) in enumerate(zip(which.tolist(), local.tolist(), strict=True)):
                block[row] = self._parts[number][position]
            return block
        for number in np.unique(which).tolist():
            chosen = np.flatnonzero(which == number)
            block[chosen] = self._parts[number][local[chosen]]
        return block

    def where(self, row: int) -> str:
        """Name of the part that holds a row, and the number of the row in it."""
        number = int(self._which(np.asarray([row]))[0])
        return f"{self._names[number]}, row {row - int(self._starts[number])}"

    def _which(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.intp]:
        return np.searchsorted(self._starts, rows, side="right") - 1


class FeatureMatrix:
    """Feature vectors: rows of a dense array, a memory map, shards or a SciPy CSR matrix of shape (N, D).

    The matrix is stored as it is; the rows of a batch are converted to dense float32. The samples are the
    rows `rows`, or all of them; `names` are those of the D features, empty if they have none.

    Where samples have parts, such as the positions of a feature map or the frames of a film, the matrix holds
    the mean of the parts of each sample, and `parts` an array of the same kinds, (N, P, D). `by_part` gives
    the same samples as a matrix of that shape, of which a batch is (B, P, D).
    """

    kind: Kind = "feature"

    def __init__(
        self,
        matrix: Any,
        rows: npt.NDArray[np.int64] | None = None,
        names: tuple[str, ...] = (),
        parts: Any = None,
    ) -> None:
        self._matrix, self.names, self._parts = matrix, names, parts
        self._rows = np.arange(matrix.shape[0], dtype=np.int64) if rows is None else rows

    @classmethod
    def of(cls, array: Any, names: tuple[str, ...] = ()) -> FeatureMatrix:
        """Features in an array, shards or a SciPy matrix: (N, D), or (N, P, D) if samples have parts."""
        if len(array.shape) == 2:
            return cls(array, names=names)
        return cls(mean_of_parts(array), names=names, parts=array)

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def width(self) -> int:
        """Number of features D."""
        return int(self._matrix.shape[-1])

    @property
    def num_parts(self) -> int:
        """Number of parts P of each sample; 0 if they have none."""
        return 0 if self._parts is None else int(self._parts.shape[1])

    def dense(self, rows: Rows) -> npt.NDArray[np.float32]:
        """Features of some samples as a dense float32 array of shape (B, D)."""
        block = self._matrix[self._rows[np.asarray(rows, np.int64)]]
        block = _as_float32(block.toarray() if hasattr(block, "toarray") else block)
        if block.ndim == 3:
            _release(self._matrix)
        return block

    def csr(self, rows: Rows) -> Any:
        """Features of some samples as a SciPy CSR matrix of shape (B, D), of features that are one."""
        return self._matrix[self._rows[np.asarray(rows, np.int64)]]

    def in_parts(self, width: int) -> FeatureMatrix:
        """Rows of an array in memory or mapped, (N, P width), as samples with P parts, the first of which
        takes the place of their mean."""
        parts = _converted(self._matrix, lambda part: part.reshape(len(part), -1, width))
        first = _converted(self._matrix, lambda part: part[:, :width])
        return FeatureMatrix(first, self._rows, parts=parts)

    def by_part(self) -> FeatureMatrix:
        """The same samples with all of their parts, which are not augmented."""
        return FeatureMatrix(self._parts, self._rows)

    def where(self, row: int) -> str:
        """Place of a sample, for messages: its row, and its file if there are several."""
        matrix = self._matrix if self._parts is None else self._parts
        place = matrix.where(int(self._rows[row])) if isinstance(matrix, ShardedArray) else f"row {row}"
        return f"{place}, in one of its {self.num_parts} parts" if self.num_parts else place

    @property
    def sparse(self) -> Any:
        """The SciPy CSR matrix that the rows are taken from; None if the features are stored in an array."""
        return self._matrix if hasattr(self._matrix, "indptr") else None

    def fetch(self, rows: Rows, augment: Augment | None = None) -> torch.Tensor:
        """Features of a batch, float32 of shape (B, D); further views mix in features of other samples."""
        features = self.dense(rows)
        if augment and augment.view and features.ndim == 2:
            other = self.dense(partners(rows, len(self), augment))
            features = feature_views(features, other, rows, augment)
        return torch.from_numpy(features)

    def take(self, rows: Rows) -> FeatureMatrix:
        """A subset of the samples; the matrix is not copied."""
        return FeatureMatrix(self._matrix, self._rows[np.asarray(rows, np.int64)], self.names, self._parts)

    def fingerprint(self) -> str:
        """SHA-256 of the float32 features; equal for a sparse and a dense matrix with the same content."""
        shape = self._matrix.shape[1:]
        what = f"features {len(self)} {self.width}" if len(shape) == 1 else f"parts {len(self)} {shape}"
        digest = hashlib.sha256(what.encode())
        for rows in chunks(len(self), math.prod(shape)):
            # + 0 turns -0.0 into 0.0, because a sparse matrix does not store zeros of either sign.
            digest.update((self.dense(rows) + 0).tobytes())
        if self.num_parts:
            digest.update(self.by_part().fingerprint().encode())
        return digest.hexdigest()


def mean_of_parts(parts: Any) -> npt.NDArray[np.float32]:
    """Mean of the parts of each sample, float32 (N, D), of an array or shards (N, P, D)."""
    count, number, width = parts.shape
    means = np.empty((count, width), np.float32)
    for rows in chunks(count, number * width):
        # Values outside the range of float32 become inf, and infinite ones NaN: `check_finite` reports both.
        with np.errstate(over="ignore", invalid="ignore"):
            means[rows] = _as_float32(parts[rows]).mean(1)
    return means


def _release(array: Any) -> None:
    """Let go of the pages of memory maps that were read: of parts, they would add up to many times the memory
    that anything else takes. The next batch finds them in the cache of the system."""
    for part in array._parts if isinstance(array, ShardedArray) else [array]:
        while isinstance(part, np.ndarray):
            part = part.base
        if isinstance(part, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):  # not on every system
            part.madvise(mmap.MADV_DONTNEED)


def _as_float32(block: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    if block.dtype == np.float16:  # torch converts it twenty times as fast as NumPy
        return torch.from_numpy(np.ascontiguousarray(block)).float().numpy()
    # Values outside the range of float32 become inf, which `check_finite` reports.
    with np.errstate(over="ignore"):
        return np.ascontiguousarray(block, np.float32)


def _converted(matrix: Any, convert: Callable[[npt.NDArray[Any]], Any]) -> Any:
    if isinstance(matrix, ShardedArray):
        return ShardedArray([convert(part) for part in matrix._parts], matrix._names)
    return convert(matrix) if isinstance(matrix, np.ndarray) else matrix


class ImageArray:
    """Small images, uint8 (N, channels, H, W). None is mirrored."""

    kind: Kind = "image"

    def __init__(self, pixels: npt.NDArray[np.uint8]) -> None:
        self._pixels = pixels

    def __len__(self) -> int:
        return len(self._pixels)

    def fetch(self, rows: Rows, augment: Augment | None = None) -> torch.Tensor:
        """Images of a batch, uint8 of shape (B, channels, H, W); only further views are augmented."""
        pixels = self._pixels[np.asarray(rows, np.int64)]
        if augment and augment.view:
            pixels = image_views(pixels, rows, augment, flip=False)
        return torch.from_numpy(pixels)

    def take(self, rows: Rows) -> ImageArray:
        """A subset of the samples."""
        return ImageArray(self._pixels[np.asarray(rows, np.int64)])

    def identities(self) -> npt.NDArray[np.uint8]:
        """SHA-256 of each image, uint8 of shape (N, 32)."""
        shape = f"image {self._pixels.shape[1:]}".encode()
        digests = [hashlib.sha256(shape + image.tobytes()).digest() for image in self._pixels]
        return np.frombuffer(b"".join(digests), np.uint8).reshape(len(digests), -1)

    def fingerprint(self) -> str:
        """SHA-256 of the pixels."""
        shape = f"images {len(self)} {self._pixels.shape[1:]}".encode()
        return hashlib.sha256(shape + self._pixels.tobytes()).hexdigest()


def check_finite(features: FeatureMatrix, source: str) -> None:
    """Refuse features that are not finite float32 numbers; the message names the source, row and column."""
    matrix = features.sparse
    # Of a sparse matrix only the stored entries: a small file may represent a huge dense matrix.
    shape = (len(features), features.width) if matrix is None else (matrix.nnz, 1)
    for rows in chunks(*shape):
        with np.errstate(over="ignore", invalid="ignore"):
            if matrix is None:
                block = features.dense(rows)
            else:
                block = matrix.data[rows[0] : rows[-1] + 1, None].astype(np.float32)
            # The sum is a fast test: it is finite unless an entry is not, or the sum itself overflows.
            suspicious = not np.isfinite(block.sum())
        if suspicious and len(wrong := np.argwhere(~np.isfinite(block))):
            number, (at, column) = block[tuple(wrong[0])], wrong[0].tolist()
            row = int(rows[at])
            if matrix is not None:
                row, column = int(np.searchsorted(matrix.indptr, row, "right")) - 1, matrix.indices[row]
            raise InputError(
                f"{source}: X holds {number} at {features.where(row)}, column {column} (counted from 0). "
                "Every feature must be a finite float32 number: fill in or remove missing values."
            )


def chunks(count: int, width: int) -> Iterator[npt.NDArray[np.int64]]:
    """Rows of an array of shape (count, width), in parts of about `CHUNK` numbers."""
    step = max(1, CHUNK // max(1, width))
    for start in range(0, count, step):
        yield np.arange(start, min(start + step, count))
