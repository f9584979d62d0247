"""Decoding and resizing of images by torchvision and torch, about twice as fast as by Pillow.

Pillow opens every image, so that limits, formats and messages are the same whatever decodes the pixels. It
also decodes what torchvision does not decode in the same way: other formats than JPEG, grey and CMYK images,
and damaged files. A JPEG decoded by torchvision has the same pixels, since both use libjpeg-turbo. Resizing
rounds differently, see `resize`.
"""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor

from . import decoding

INTERPOLATIONS = ("bilinear", "bicubic")
"""Interpolations with which `resize` works."""

_JPEG = ("JPEG", "MPO")  # the second one holds further images, after one that every decoder takes for a JPEG
_FLIPS = {2: (-1,), 3: (-2, -1), 4: (-2,), 6: (-1,), 7: (-2, -1), 8: (-2,)}
"""Axes that an EXIF orientation mirrors, after rows and columns are exchanged from 5 on."""


def rgb(image: Image.Image, data: bytes | None) -> Tensor:
    """Decode an image as upright RGB.

    Args:
        image: The image as opened by Pillow, whose pixels have not been decoded.
        data: The encoded image; None = Pillow decodes it, as for a draft.

    Returns:
        uint8 of shape (3, H, W).

    Raises:
        UnreadableImageError: The range of its pixels is not known.
    """
    if data is not None and image.format in _JPEG and image.mode == "RGB":
        from torchvision.io import ImageReadMode, decode_jpeg

        # Pillow accepts some files that torchvision refuses, and names what is wrong with the others.
        with suppress(RuntimeError):
            pixels: Tensor = decode_jpeg(
                torch.frombuffer(bytearray(data), dtype=torch.uint8), mode=ImageReadMode.RGB
            )
            if pixels.shape == (3, image.height, image.width):
                return _turned(pixels, decoding.orientation(image))
    return torch.from_numpy(np.array(decoding.upright_rgb(image))).permute(2, 0, 1)


def resize(pixels: Tensor, size: int, interpolation: str) -> Tensor:
    """Resize an image to a square with an antialiasing filter, in integers.

    The weights of the filter are rounded to 16 bits instead of 32, so that pixels differ from those of
    Pillow: on photographs by 0.001 to 0.05 of 255 on average, by at most 2 with `bilinear` and, at sharp
    edges, by at most 15 with `bicubic`.

    Args:
        pixels: uint8 of shape (3, H, W).
        size: Side in pixels; the aspect ratio is not kept.
        interpolation: One of `INTERPOLATIONS`.

    Returns:
        uint8 of shape (3, size, size).
    """
    return F.interpolate(pixels[None], (size, size), mode=interpolation, antialias=True)[0]


def _turned(pixels: Tensor, orientation: int) -> Tensor:
    """Apply an EXIF orientation to pixels (3, H, W)."""
    if orientation >= 5:
        pixels = pixels.mT
    axes = _FLIPS.get(orientation)
    return pixels.flip(axes) if axes else pixels
