"""Decoding of images: the formats that are supported, and how an image becomes upright 8-bit RGB."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import TypeVar

import numpy as np
from PIL import Image, UnidentifiedImageError

# Formats that are opened, whatever the file name. The decoders of other formats are less tested, or run other
# programs (EPS).
FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF")
T = TypeVar("T")
_EXIF_ORIENTATION = 0x0112
UPRIGHT = 1
"""EXIF orientation of an image that needs no turning."""

_TURN = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


class UnreadableImageError(Exception):
    """An image that can't be used; the message is the reason, without the file name."""


def decode(
    data: bytes, max_pixels: int, use: Callable[[Image.Image], T], *, limit: str = "data.max_pixels"
) -> T:
    """Open an encoded image, check the size in its header before decoding pixels, and return `use(image)`.

    Args:
        data: The encoded image.
        max_pixels: Number of pixels above which it is refused.
        use: Function of the opened image, whose pixels have not been decoded.
        limit: What the user calls `max_pixels`.

    Raises:
        UnreadableImageError: The image is damaged, too large, or not of a known format.
    """
    try:
        with Image.open(io.BytesIO(data), formats=FORMATS) as image:
            if image.width * image.height > max_pixels:
                raise UnreadableImageError(
                    f"{image.width} x {image.height} = {image.width * image.height:,} pixels, more than "
                    f"{limit} = {max_pixels:,}"
                )
            return use(image)
    except UnreadableImageError:
        raise
    except UnidentifiedImageError as error:
        raise UnreadableImageError(f"not an image of a known format ({', '.join(FORMATS)})") from error
    except Image.DecompressionBombError as error:  # Pillow's own limit, independent of data.max_pixels
        raise UnreadableImageError(str(error)) from error
    except Exception as error:  # decoders raise almost any exception on damaged files, even KeyError
        reason = " ".join(str(error).split()) or type(error).__name__
        raise UnreadableImageError(f"damaged: {reason}") from error


def check(image: Image.Image) -> None:
    """Decode an image as fast as possible, to find out whether it can be used."""
    image.draft(None, (1, 1))
    image.load()
    refuse_unknown_range(image)


def upright(image: Image.Image) -> Image.Image:
    """Apply the EXIF orientation; damaged EXIF data is ignored."""
    image.load()  # for TIFF this already applies the orientation and removes it
    turn = _TURN.get(orientation(image))
    return image if turn is None else image.transpose(turn)


def orientation(image: Image.Image) -> int:
    """EXIF orientation, 1 (upright) to 8; 1 where EXIF data is missing, damaged or says something else."""
    try:
        stated = image.getexif().get(_EXIF_ORIENTATION, UPRIGHT)
    except Exception:  # damaged EXIF data raises almost any exception
        return UPRIGHT
    return stated if stated in _TURN else UPRIGHT


def refuse_unknown_range(image: Image.Image) -> None:
    """Refuse an image whose largest possible value is not known.

    Raises:
        UnreadableImageError: It is such an image.
    """
    if image.mode == "F" or (image.mode == "I" and np.asarray(image).max() > 65535):
        raise UnreadableImageError(
            f"pixels of mode {image.mode}, whose range is not known: save the image with 8 or 16 bits"
        )


def upright_rgb(image: Image.Image) -> Image.Image:
    """Decode an image and make it upright 8-bit RGB.

    Raises:
        UnreadableImageError: The range of its pixels is not known.
    """
    turned = upright(image)
    refuse_unknown_range(turned)
    return to_rgb(turned)


def to_rgb(image: Image.Image) -> Image.Image:
    """Convert to 8-bit RGB: 16-bit grey is scaled (Pillow would clip it), transparency is put on white."""
    if image.mode.startswith("I"):
        grey = np.clip(np.asarray(image).astype(np.int64), 0, 65535) >> 8
        return Image.fromarray(grey.astype(np.uint8)).convert("RGB")
    if "a" in image.mode.lower().replace("lab", "") or "transparency" in image.info:
        colours = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", colours.size, "white"), colours).convert("RGB")
    return image if image.mode == "RGB" else image.convert("RGB")  # convert always copies
