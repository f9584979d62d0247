"""From an encoded image to the square of pixels that a network takes.

Pillow opens every image, so that limits, formats and messages are the same whatever decodes the pixels.
"""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image

from . import decoding

INTERPOLATIONS = {
    "nearest": Image.Resampling.NEAREST,
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
    "lanczos": Image.Resampling.LANCZOS,
}
DECODERS = ("pillow", "torchvision")
"""What decodes and resizes images."""

TORCH_INTERPOLATIONS = ("bilinear", "bicubic")
"""Interpolations with which torch resizes; with the others, Pillow does."""

_JPEG = ("JPEG", "MPO")  # the second one holds further images, after one that every decoder takes for a JPEG
_FLIPS = {2: (-1,), 3: (-2, -1), 4: (-2,), 6: (-1,), 7: (-2, -1), 8: (-2,)}
"""Axes that an EXIF orientation mirrors, after rows and columns are exchanged from 5 on."""


def load_pixels(
    data: bytes,
    size: int,
    interpolation: str,
    *,
    max_pixels: int,
    draft: bool = False,
    decoder: str = "pillow",
    limit: str = "data.max_pixels",
) -> torch.Tensor:
    """Decode an image and resize it to a square, as uint8 RGB of shape (3, size, size).

    Args:
        data: The encoded image.
        size: Side in pixels; the aspect ratio is not kept.
        interpolation: `nearest`, `bilinear`, `bicubic` or `lanczos`.
        max_pixels: Number of pixels above which it is refused.
        draft: Whether to decode a JPEG at 1/2, 1/4 or 1/8 of its size, as in `ImageFiles`.
        decoder: `pillow`; or `torchvision`, which is about twice as fast. It leaves to Pillow what it can't
            do: `nearest`, `lanczos`, and the decoding of some files (see `decode_by_torchvision`). When it
            resizes, the weights of the antialiasing filter are rounded to 16 bits instead of 32, so that
            pixels differ from those of Pillow: on photographs by 0.001 to 0.05 of 255 on average, by at most
            2 with `bilinear` and, at sharp edges, by at most 15 with `bicubic`.
        limit: What the user calls `max_pixels`.

    Raises:
        UnreadableImageError: The image can't be used.
    """

    def load(image: Image.Image) -> torch.Tensor:
        whole = image.size
        if draft:
            # Twice the size, so that resizing hides the artefacts of the reduced decoding.
            image.draft(None, (2 * size, 2 * size))
        if decoder == "torchvision" and interpolation in TORCH_INTERPOLATIONS:
            pixels = decode_by_torchvision(image, data if image.size == whole else None)
            return F.interpolate(pixels[None], (size, size), mode=interpolation, antialias=True)[0]
        bands = resized(image, size, interpolation).split()  # twice as fast as to separate them in NumPy
        return torch.from_numpy(np.stack([np.asarray(band) for band in bands]))

    return decoding.decode(data, max_pixels, load, limit=limit)


def decode_by_torchvision(image: Image.Image, data: bytes | None) -> torch.Tensor:
    """Decode an image as upright RGB, uint8 of shape (3, H, W).

    A JPEG has the pixels that Pillow would decode, since both use libjpeg-turbo. What torchvision does not
    decode in the same way is left to Pillow: other formats, grey and CMYK images, and damaged files.

    Args:
        image: The image as opened by Pillow, whose pixels have not been decoded.
        data: The encoded image; None = Pillow decodes it, as for a draft.

    Raises:
        UnreadableImageError: The range of its pixels is not known.
    """
    if data is not None and image.format in _JPEG and image.mode == "RGB":
        from torchvision.io import ImageReadMode, decode_jpeg

        # Pillow accepts some files that torchvision refuses, and names what is wrong with the others.
        with suppress(RuntimeError):
            encoded = torch.frombuffer(bytearray(data), dtype=torch.uint8)
            pixels: torch.Tensor = decode_jpeg(encoded, mode=ImageReadMode.RGB)
            if pixels.shape == (3, image.height, image.width):
                orientation = decoding.orientation(image)
                pixels = pixels.mT if orientation >= 5 else pixels
                return pixels.flip(_FLIPS.get(orientation, ()))
    return torch.from_numpy(np.array(decoding.upright_rgb(image))).permute(2, 0, 1)


def resized(image: Image.Image, size: int, interpolation: str) -> Image.Image:
    """Make an image upright, RGB and square.

    Args:
        image: Any image of Pillow.
        size: Side in pixels; the aspect ratio is not kept.
        interpolation: `nearest`, `bilinear`, `bicubic` or `lanczos`.

    Raises:
        UnreadableImageError: The range of its pixels is not known.
    """
    return decoding.upright_rgb(image).resize((size, size), INTERPOLATIONS[interpolation])
