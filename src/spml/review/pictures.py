"""Pictures of samples in the sizes that the page shows, made when they are first asked for."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image

from ..common.files import write_bytes
from ..data.dataset import Inputs
from ..data.images.decoding import UnreadableImageError
from ..data.images.image_files import ImageSource, file_state, thumbnail
from ..data.records import Records

CACHE = "thumbnails"
THUMBNAIL, PHOTO = 192, 1280
"""Longest side in pixels of the pictures in the overview, and of the one under review."""
QUALITY = 85
JPEG = "image/jpeg"


class Picture(NamedTuple):
    """An encoded picture."""

    data: bytes
    media_type: str


class Pictures:
    """Pictures of the samples of a data set.

    Args:
        records: The data.
        folder: Folder for small pictures of image files, which is made when it is needed.
        max_pixels: Number of pixels of an image above which it is not opened.
    """

    def __init__(self, records: Records, folder: Path, max_pixels: int) -> None:
        self._inputs, self._folder, self._max_pixels = records.inputs, folder, max_pixels

    @property
    def available(self) -> bool:
        """Whether the samples are images."""
        return isinstance(self._inputs, Sequence) or self._inputs.kind == "image"

    def photo(self, sample: int) -> Picture:
        """Picture of a sample, upright, at most `PHOTO` pixels wide and high.

        Raises:
            UnreadableImageError: The file is gone or damaged; the message is the reason.
        """
        if not isinstance(self._inputs, Sequence):
            return Picture(_array_as_png(self._inputs, sample), "image/png")
        return Picture(self._reduced(self._inputs[sample], PHOTO), JPEG)

    def thumbnail(self, sample: int) -> Picture:
        """Small picture of a sample, as `photo`, but at most `THUMBNAIL` pixels wide and high, and kept.

        Raises:
            UnreadableImageError: The file is gone or damaged; the message is the reason.
            SpmlError: The picture can't be kept in the folder.
        """
        if not isinstance(self._inputs, Sequence):
            return self.photo(sample)
        source = self._inputs[sample]
        path = self._folder / f"{_key(source)}.jpg"
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            data = self._reduced(source, THUMBNAIL)
            self._folder.mkdir(exist_ok=True)
            write_bytes(path, data)
        return Picture(data, JPEG)

    def _reduced(self, source: ImageSource, edge: int) -> bytes:
        stream = io.BytesIO()
        thumbnail(source, edge, self._max_pixels).save(stream, "JPEG", quality=QUALITY)
        return stream.getvalue()


def _key(source: ImageSource) -> str:
    """Name of the small picture, another one once the file has been changed."""
    try:
        file = file_state(source)
    except OSError as error:
        raise UnreadableImageError(f"can't be read: {error.strerror or error}") from error
    text = f"{source} {file.st_size} {file.st_mtime_ns} {THUMBNAIL} {QUALITY}"
    return hashlib.sha256(text.encode(errors="backslashreplace")).hexdigest()[:40]


def _array_as_png(inputs: Inputs, sample: int) -> bytes:
    """Encode pixels that are in memory, (1 or 3, H, W)."""
    pixels = inputs.fetch([sample], None)[0].numpy()
    stream = io.BytesIO()
    Image.fromarray(pixels[0] if len(pixels) == 1 else np.moveaxis(pixels, 0, -1)).save(stream, "PNG")
    return stream.getvalue()
