"""Statistics over the content of samples: digests, sizes of images, values of feature vectors."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ...config import DataConfig
from ..dataset import Inputs
from ..decoding import UnreadableImageError, decode
from ..decoding import orientation as orientation_of
from ..images import ImageSource, check_images
from ..matrix import CHUNK, FeatureMatrix

BLOCK = 256  # images between two steps of a progress bar

Advance = Callable[[int], None]


@dataclass(frozen=True)
class ImageSizes:
    """Sizes in pixels of images that are turned upright.

    Attributes:
        width: Smallest, median and largest width.
        height: Smallest, median and largest height.
        tallest: Image with the smallest width / height, and that ratio.
        widest: Image with the largest width / height, and that ratio.
    """

    width: tuple[int, float, int]
    height: tuple[int, float, int]
    tallest: tuple[str, float]
    widest: tuple[str, float]


@dataclass(frozen=True)
class Features:
    """Statistics of feature vectors.

    Attributes:
        width: Features per sample.
        density: Share of values that are not 0.
        constant: Columns with the same value in all samples.
        non_finite: Number of values that are NaN or infinite, also as float32.
        rows_non_finite: Samples with such values, at most 100.
        smallest: Smallest finite value.
        largest: Largest finite value.
        scales: Smallest and largest range (largest minus smallest value) of a column that is not constant.
    """

    width: int
    density: float
    constant: tuple[int, ...]
    non_finite: int
    rows_non_finite: tuple[str, ...]
    smallest: float
    largest: float
    scales: tuple[float, float]


def scan_files(
    paths: Sequence[ImageSource], ids: Sequence[str], config: DataConfig, advance: Advance
) -> tuple[list[str], dict[int, str], ImageSizes | None]:
    """Read every image file completely.

    Returns:
        SHA-256 of each file (empty if it can't be used), the reason for each row that can't be used, and the
        sizes of the images that can.
    """
    digests: list[str] = []
    skipped: dict[int, str] = {}
    sizes = np.zeros((len(paths), 2), np.int64)
    for start in range(0, len(paths), BLOCK):
        block = paths[start : start + BLOCK]
        block_digests, unusable = check_images(block, max_pixels=config.max_pixels, workers=config.workers)
        digests += block_digests
        skipped |= {start + row: reason for row, reason in unusable.items()}
        for row, path in enumerate(block):
            if row not in unusable:
                sizes[start + row] = _upright_size(path, config.max_pixels)
        advance(len(block))
    return digests, skipped, _summarise(sizes, ids)


def scan_inputs(
    inputs: Inputs, ids: Sequence[str], advance: Advance
) -> tuple[list[str], ImageSizes | None, Features | None]:
    """Read every sample of a file that holds them all.

    Returns:
        SHA-256 of each sample, and either the sizes of images or the statistics of feature vectors.
    """
    if isinstance(inputs, FeatureMatrix):
        digests, features = _scan_features(inputs, ids, advance)
        return digests, None, features
    digests = []
    sizes = np.zeros((len(inputs), 2), np.int64)
    for start in range(0, len(inputs), BLOCK):
        rows = np.arange(start, min(start + BLOCK, len(inputs)))
        images = inputs.fetch(rows, None).numpy()
        digests += [hashlib.sha256(np.ascontiguousarray(image).data).hexdigest() for image in images]
        sizes[rows] = images.shape[3], images.shape[2]
        advance(len(rows))
    return digests, _summarise(sizes, ids), None


def _scan_features(
    features: FeatureMatrix, ids: Sequence[str], advance: Advance
) -> tuple[list[str], Features]:
    width, count = features.width, len(features)
    low, high = np.full(width, np.inf, np.float32), np.full(width, -np.inf, np.float32)
    digests, rows_non_finite, nonzero, non_finite = [], [], 0, 0
    step = max(1, CHUNK // width)
    for start in range(0, count, step):
        rows = np.arange(start, min(start + step, count))
        block = features.dense(rows) + 0  # -0.0 becomes 0.0
        digests += [hashlib.sha256(row.data).hexdigest() for row in block]
        finite = np.isfinite(block)
        nonzero += int(np.count_nonzero(block))
        non_finite += int((~finite).sum())
        rows_non_finite += rows[~finite.all(axis=1)].tolist()
        low = np.minimum(low, np.where(finite, block, np.inf).min(axis=0))
        high = np.maximum(high, np.where(finite, block, -np.inf).max(axis=0))
        advance(len(rows))
    ranges = high.astype(np.float64) - low
    varying = ranges[ranges > 0]
    any_finite = np.isfinite(low)
    return digests, Features(
        width=width,
        density=nonzero / (count * width),
        constant=tuple(np.flatnonzero(ranges == 0).tolist()),
        non_finite=non_finite,
        rows_non_finite=tuple(ids[row] for row in rows_non_finite[:100]),
        smallest=float(low[any_finite].min()) if any_finite.any() else 0.0,
        largest=float(high[any_finite].max()) if any_finite.any() else 0.0,
        scales=(float(varying.min()), float(varying.max())) if len(varying) else (0.0, 0.0),
    )


def _upright_size(path: ImageSource, max_pixels: int) -> tuple[int, int]:
    """Width and height by the header, turned upright; (0, 0) if the file has vanished since it was read."""
    try:
        size, orientation = decode(
            path.read_bytes(), max_pixels, lambda image: (image.size, orientation_of(image))
        )
    except (OSError, UnreadableImageError):
        return 0, 0
    return (size[1], size[0]) if orientation >= 5 else size


def _summarise(sizes: npt.NDArray[np.int64], ids: Sequence[str]) -> ImageSizes | None:
    rows = np.flatnonzero(sizes.all(axis=1))
    if not len(rows):
        return None
    width, height = sizes[rows].T
    ratio = width / height
    tallest, widest = int(ratio.argmin()), int(ratio.argmax())
    return ImageSizes(
        width=(int(width.min()), float(np.median(width)), int(width.max())),
        height=(int(height.min()), float(np.median(height)), int(height.max())),
        tallest=(ids[rows[tallest]], float(ratio[tallest])),
        widest=(ids[rows[widest]], float(ratio[widest])),
    )
