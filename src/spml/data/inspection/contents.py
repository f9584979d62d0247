"""The content of samples: what is equal, how large images are, what feature vectors hold."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image

from ...config import DataConfig
from ..dataset import Inputs
from ..images import FORMATS, FilePart, check_images
from ..matrix import CHUNK, FeatureMatrix

BLOCK = 256  # images looked at between two steps of a progress bar
_EXIF_ORIENTATION = 0x0112

Advance = Callable[[int], None]


@dataclass(frozen=True)
class ImageSizes:
    """Sizes of images in pixels, turned upright.

    Attributes:
        width, height: smallest, median and largest.
        tallest, widest: the image with the least and the greatest width / height, and that ratio.
    """

    width: tuple[int, float, int]
    height: tuple[int, float, int]
    tallest: tuple[str, float]
    widest: tuple[str, float]


@dataclass(frozen=True)
class Features:
    """What feature vectors hold.

    Attributes:
        width: features per sample.
        density: share of entries that are not 0.
        constant: columns with the same value in all samples.
        non_finite: entries that are NaN or infinite, also as float32.
        rows_non_finite: the samples that hold them, at most 100.
        smallest, largest: of the finite values.
        scales: smallest and largest range (largest minus smallest value) of a column that is not constant.
    """

    width: int
    density: float
    constant: tuple[int, ...]
    non_finite: int
    rows_non_finite: tuple[str, ...]
    smallest: float
    largest: float
    scales: tuple[float, float]


def look_at_files(
    paths: Sequence[Path | FilePart], ids: Sequence[str], config: DataConfig, advance: Advance
) -> tuple[list[str], dict[int, str], ImageSizes | None]:
    """Read all of every image file.

    Returns:
        SHA-256 of each file (empty if it can't be used), the reason for each row that can't be used, and the
        sizes of those that can.
    """
    digests: list[str] = []
    skipped: dict[int, str] = {}
    sizes = np.zeros((len(paths), 2), np.int64)
    for start in range(0, len(paths), BLOCK):
        block = paths[start : start + BLOCK]
        found, wrong = check_images(block, max_pixels=config.max_pixels, workers=config.workers)
        digests += found
        skipped |= {start + row: reason for row, reason in wrong.items()}
        for row, path in enumerate(block):
            if row not in wrong:
                sizes[start + row] = _upright_size(path)
        advance(len(block))
    return digests, skipped, _summarise(sizes, ids)


def look_at_inputs(
    inputs: Inputs, ids: Sequence[str], advance: Advance
) -> tuple[list[str], ImageSizes | None, Features | None]:
    """Read all of every sample that is no file of its own.

    Returns:
        SHA-256 of each sample, and the sizes of images or what feature vectors hold.
    """
    if isinstance(inputs, FeatureMatrix):
        digests, features = _look_at_features(inputs, ids, advance)
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


def _look_at_features(
    features: FeatureMatrix, ids: Sequence[str], advance: Advance
) -> tuple[list[str], Features]:
    width, count = features.width, len(features)
    low, high = np.full(width, np.inf, np.float32), np.full(width, -np.inf, np.float32)
    digests, wrong, stored, non_finite = [], [], 0, 0
    step = max(1, CHUNK // width)
    for start in range(0, count, step):
        rows = np.arange(start, min(start + step, count))
        block = features.dense(rows) + 0  # -0.0 becomes 0.0
        digests += [hashlib.sha256(row.data).hexdigest() for row in block]
        finite = np.isfinite(block)
        stored += int(np.count_nonzero(block))
        non_finite += int((~finite).sum())
        wrong += rows[~finite.all(axis=1)].tolist()
        low = np.minimum(low, np.where(finite, block, np.inf).min(axis=0))
        high = np.maximum(high, np.where(finite, block, -np.inf).max(axis=0))
        advance(len(rows))
    ranges = high.astype(np.float64) - low
    some = ranges[ranges > 0]
    known = np.isfinite(low)
    return digests, Features(
        width=width,
        density=stored / (count * width),
        constant=tuple(np.flatnonzero(ranges == 0).tolist()),
        non_finite=non_finite,
        rows_non_finite=tuple(ids[row] for row in wrong[:100]),
        smallest=float(low[known].min()) if known.any() else 0.0,
        largest=float(high[known].max()) if known.any() else 0.0,
        scales=(float(some.min()), float(some.max())) if len(some) else (0.0, 0.0),
    )


def _upright_size(path: Path | FilePart) -> tuple[int, int]:
    """Width and height as the header states them, turned; (0, 0) if the file vanished since it was read."""
    try:
        source = io.BytesIO(path.read_bytes()) if isinstance(path, FilePart) else path
        with Image.open(source, formats=FORMATS) as image:
            size = image.size
            try:
                turned = image.getexif().get(_EXIF_ORIENTATION, 1) >= 5
            except Exception:  # damaged EXIF data is no reason to lose an image
                turned = False
    except Exception:
        return 0, 0
    return (size[1], size[0]) if turned else size


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
