"""Decoding of images: the formats that are supported, and how an image becomes upright 8-bit RGB, and the
square of pixels that a network takes.

Pillow opens every image, so that limits, formats and messages are the same whatever decodes the pixels.
"""

from __future__ import annotations

import io
import math
import re
import warnings
from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec
from typing import TypeAlias, TypeVar

import numpy as np
import torch
import torch.nn.functional as F
from PIL import ExifTags, Image, UnidentifiedImageError, features

# Formats that are opened, whatever the file name. The decoders of other formats are less tested, or run other
# programs (EPS).
FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF", *(["AVIF"] if features.check("avif") else []))
HAS_HEIF = find_spec("pillow_heif") is not None
"""Whether HEIC and HEIF can be read: by pillow-heif, the extra `heif`."""

warnings.filterwarnings("ignore", module=r"PIL\.TiffImagePlugin")  # of damaged EXIF data, which is ignored

_BRANDS = re.compile(rb"hei[cxms]|hev[cxms]|mif1|msf1")  # of HEIF, in the first bytes of a file
LONGEST_SIDE = 65_535
"""Pixels of a side, as in a JPEG. Pillow resizes with up to 48 bytes for each pixel of a side."""
TWELVE_BITS = 4095
"""Largest value of 12 bits."""

Box: TypeAlias = tuple[float, float, float, float]
"""Left, top, right and bottom edge of a part of an image, as shares of its width and height."""

T = TypeVar("T")
_TURN = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}

INTERPOLATIONS = {
    name: Image.Resampling[name.upper()] for name in ("nearest", "bilinear", "bicubic", "lanczos")
}
DECODERS = ("pillow", "torchvision")
"""Library that decodes and resizes images."""

TORCH_INTERPOLATIONS = ("bilinear", "bicubic")
"""Interpolations with which torch resizes; with the others, Pillow does."""

_JPEG = ("JPEG", "MPO")  # the second one holds further images, after one that every decoder takes for a JPEG
_FLIPS = {2: (-1,), 3: (-2, -1), 4: (-2,), 6: (-1,), 7: (-2, -1), 8: (-2,)}
"""Axes that an EXIF orientation mirrors, after rows and columns are exchanged from 5 on."""


class UnreadableImageError(Exception):
    """An image that can't be used; the message is the reason, without the file name."""


def decode(
    data: bytes, max_pixels: int, use: Callable[[Image.Image], T], *, limit: str = "data.max_pixels"
) -> T:
    """Open an encoded image, check the size in its header before decoding pixels, and return `use(image)`.

    The pixels of the image that `use` gets have not been decoded. Messages call `max_pixels` as `limit` does.

    Raises:
        UnreadableImageError: The image is damaged, too large, or not of a known format, or pillow-heif, which
            its format needs, is not installed.
    """
    formats = FORMATS
    if data[4:8] == b"ftyp" and b"avif" not in data[8:64] and _BRANDS.search(data[8:64]):
        if not HAS_HEIF:
            raise UnreadableImageError("a HEIC photo, which pillow-heif reads: pip install pillow-heif")
        from pillow_heif import register_heif_opener

        register_heif_opener()  # which does nothing the second time
        formats = ("HEIF",)
    try:
        with Image.open(io.BytesIO(data), formats=formats) as image:
            if image.width * image.height > max_pixels:
                raise UnreadableImageError(
                    f"{image.width} x {image.height} = {image.width * image.height:,} pixels, more than "
                    f"{limit} = {max_pixels:,}"
                )
            if max(image.size) > LONGEST_SIDE:
                raise UnreadableImageError(
                    f"{image.width} x {image.height} pixels, a side of more than {LONGEST_SIDE:,}"
                )
            return use(image)
    except (UnreadableImageError, MemoryError):  # the latter says nothing about the image
        raise
    except UnidentifiedImageError as error:
        if data[4:8] == b"ftyp":  # the beginning of HEIC, AVIF, and videos
            raise UnreadableImageError("damaged, or not a HEIC or AVIF photo") from error
        known = (*FORMATS, *(["HEIF"] if HAS_HEIF else []))
        raise UnreadableImageError(f"not an image of a known format ({', '.join(known)})") from error
    except Image.DecompressionBombError as error:  # Pillow's own limit, independent of data.max_pixels
        raise UnreadableImageError(str(error)) from error
    except Exception as error:  # decoders raise almost any exception on damaged files, even KeyError
        raise damaged(error) from error


def damaged(error: Exception) -> UnreadableImageError:
    """The reason why an image can't be used, for an exception of a decoder."""
    return UnreadableImageError(f"damaged: {' '.join(str(error).split()) or type(error).__name__}")


def check(image: Image.Image) -> None:
    """Decode an image as fast as possible, to find out whether it can be used."""
    image.draft(None, (1, 1))
    image.load()
    refuse_unknown_range(image)


def orientation(image: Image.Image) -> int:
    """EXIF orientation, 1 (upright) to 8; 1 where EXIF data is missing, damaged or says something else."""
    try:
        stated = image.getexif().get(ExifTags.Base.Orientation)
    except Exception:  # damaged EXIF data raises almost any exception
        return 1
    return stated if stated in _TURN else 1


def refuse_unknown_range(image: Image.Image) -> None:
    """Refuse an image whose largest possible value is not known."""
    if image.mode == "F" or (image.mode == "I" and np.asarray(image).max() > 65535):
        raise UnreadableImageError(
            f"pixels of mode {image.mode}, whose range is not known: save the image with 8 or 16 bits"
        )


def upright_rgb(image: Image.Image) -> Image.Image:
    """Decode an image and make it upright 8-bit RGB; damaged EXIF data is ignored.

    16-bit grey is scaled (Pillow would clip it), by its 12 bits if it has no more;
    transparency is put on white. An image is refused if the range of its pixels is not known.
    """
    image.load()  # for TIFF this already applies the orientation and removes it
    if (turn := _TURN.get(orientation(image))) is not None:
        image = image.transpose(turn)
    refuse_unknown_range(image)
    if image.mode.startswith("I"):
        grey = np.clip(np.asarray(image).astype(np.int64), 0, 65535)
        # Cameras and medical devices store 12 bits in 16. The rule looks at one image only, so that training
        # and prediction agree about it.
        surplus = 4 if 255 < grey.max() <= TWELVE_BITS else 8
        return Image.fromarray((grey >> surplus).astype(np.uint8)).convert("RGB")
    if "a" in image.mode.lower().replace("lab", "") or "transparency" in image.info:
        colours = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", colours.size, "white"), colours).convert("RGB")
    return image if image.mode == "RGB" else image.convert("RGB")  # convert always copies


def load_pixels(
    data: bytes,
    size: int,
    interpolation: str,
    *,
    max_pixels: int,
    draft: bool = False,
    decoder: str = "pillow",
    limit: str = "data.max_pixels",
    box: Box | None = None,
) -> torch.Tensor:
    """Decode an image and resize it, or a part of it, to a square, as uint8 RGB of shape (3, size, size).

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
        box: Edges of a part of the upright image (see `views.regions`), which Pillow cuts out and resizes
            whatever the decoder; None = the whole image.
    """

    def load(image: Image.Image) -> torch.Tensor:
        whole = image.size
        if draft:
            # Twice the size, so that resizing hides the artefacts of the reduced decoding.
            least = 2 * size if box is None else math.ceil(2 * size / min(box[2] - box[0], box[3] - box[1]))
            image.draft(None, (least, least))
        if decoder == "torchvision" and interpolation in TORCH_INTERPOLATIONS and box is None:
            pixels = decode_by_torchvision(image, data if image.size == whole else None)
            return F.interpolate(pixels[None], (size, size), mode=interpolation, antialias=True)[0]
        bands = resized(image, size, interpolation, box).split()  # twice as fast as to separate them in NumPy
        return torch.from_numpy(np.stack([np.asarray(band) for band in bands]))

    return decode(data, max_pixels, load, limit=limit)


def decode_by_torchvision(image: Image.Image, data: bytes | None) -> torch.Tensor:
    """Decode an image as upright RGB, uint8 of shape (3, H, W).

    A JPEG has the pixels that Pillow would decode, since both use libjpeg-turbo. What torchvision does not
    decode in the same way is left to Pillow: other formats, grey and CMYK images, and damaged files; and all
    images of which the encoded `data` is not given, such as drafts.
    """
    if data is not None and image.format in _JPEG and image.mode == "RGB":
        from torchvision.io import ImageReadMode, decode_jpeg

        # Pillow accepts some files that torchvision refuses, and names what is wrong with the others.
        with suppress(RuntimeError):
            encoded = torch.frombuffer(bytearray(data), dtype=torch.uint8)
            pixels: torch.Tensor = decode_jpeg(encoded, mode=ImageReadMode.RGB)
            if pixels.shape == (3, image.height, image.width):
                turn = orientation(image)
                pixels = pixels.mT if turn >= 5 else pixels
                return pixels.flip(_FLIPS[turn]) if turn in _FLIPS else pixels
    return torch.from_numpy(np.array(upright_rgb(image))).permute(2, 0, 1)


def resized(image: Image.Image, size: int, interpolation: str, box: Box | None = None) -> Image.Image:
    """Make an image, or a part of it, upright, RGB and square; the aspect ratio is not kept.

    Rows are resized first, then columns. Pillow by itself begins with the columns of tall images, by rules
    that differ between its versions, and rounds after each pass.
    """
    upright, resample = upright_rgb(image), INTERPOLATIONS[interpolation]
    width, height = upright.size
    left, top, right, bottom = box or (0, 0, 1, 1)
    narrow = upright.resize((size, height), resample, (left * width, 0, right * width, height))
    return narrow.resize((size, size), resample, (0, top * height, size, bottom * height))
