"""From an encoded image to the square of pixels that a network takes."""

from __future__ import annotations

import numpy as np
import torch
from PIL import Image

from . import decoding, torch_decoding

INTERPOLATIONS = {
    "nearest": Image.Resampling.NEAREST,
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
    "lanczos": Image.Resampling.LANCZOS,
}
DECODERS = ("pillow", "torchvision")
"""What decodes and resizes images."""


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
        decoder: `pillow`; or `torchvision`, which is about twice as fast and rounds differently when it
            resizes (see `torch_decoding`). It leaves to Pillow what it can't do: `nearest`, `lanczos`, and
            the decoding of some files.
        limit: What the user calls `max_pixels`.

    Raises:
        UnreadableImageError: The image can't be used.
    """

    def load(image: Image.Image) -> torch.Tensor:
        whole = image.size
        if draft:
            # Twice the size, so that resizing hides the artefacts of the reduced decoding.
            image.draft(None, (2 * size, 2 * size))
        if decoder == "torchvision" and interpolation in torch_decoding.INTERPOLATIONS:
            pixels = torch_decoding.rgb(image, data if image.size == whole else None)
            return torch_decoding.resize(pixels, size, interpolation)
        bands = resized(image, size, interpolation).split()  # twice as fast as to separate them in NumPy
        return torch.from_numpy(np.stack([np.asarray(band) for band in bands]))

    return decoding.decode(data, max_pixels, load, limit=limit)


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
