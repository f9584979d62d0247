"""Images in files, in parts of files or in memory: how they are checked, loaded and resized."""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image

from ...common.errors import InputError, SpmlError
from ...common.messages import Advance
from ...common.safe import open_file, read_bytes
from ..dataset import Augment, Inputs, Kind, Loaded, Rows
from ..names import FilesBelow, take
from . import decoding
from .decoding import DECODERS, INTERPOLATIONS, UnreadableImageError, load_pixels
from .views import Float32, image_views, regions

SUFFIXES = frozenset(
    (".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff")
    + ((".avif",) if "AVIF" in decoding.FORMATS else ())
    + ((".heic", ".heif") if decoding.HAS_HEIF else ())
)
"""Suffixes of image files in a folder, in lower case."""

MISSING = "can't be read: No such file or directory"
"""Reason why a file can't be used if it does not exist."""

NO_KEYS = np.empty(0, np.uint64)


class FilePart(NamedTuple):
    """An encoded image inside a larger file."""

    file: str  # path of the larger file
    start: int  # offset of the image in bytes
    size: int  # size of the image in bytes

    def __str__(self) -> str:
        return f"{self.file}, bytes {self.start} to {self.start + self.size}"

    def read_bytes(self) -> bytes:
        """Read the encoded image; the result is shorter if the file has been truncated."""
        with open_file(self.file) as stream:
            stream.seek(self.start)
            return stream.read(self.size)


class MemoryImage(NamedTuple):
    """An image in memory, which is read like a file."""

    name: str  # for messages, such as `X[3]`
    load: Callable[[], Image.Image]  # returns the image

    def __str__(self) -> str:
        return self.name

    def read_bytes(self) -> bytes:
        """The upright RGB image as BMP, which is quick to write and to read and keeps every pixel."""
        stream = io.BytesIO()
        try:
            decoding.upright_rgb(self.load()).save(stream, "BMP")
        except (UnreadableImageError, MemoryError):
            raise
        except Exception as error:  # decoders raise almost any exception on damaged files
            raise decoding.damaged(error) from error
        return stream.getvalue()


ImageSource = Path | FilePart | MemoryImage


def file_state(source: ImageSource | str) -> os.stat_result:
    """Size and times of the file that holds an image."""
    assert not isinstance(source, MemoryImage), "an image in memory has no file"
    return os.stat(source.file if isinstance(source, FilePart) else source)


@dataclass(eq=False, repr=False)
class ImageFiles:
    """Images that are read, decoded and resized when a batch is fetched.

    Attributes:
        paths: Files, parts of files, or images in memory.
        digests: SHA-256 of the content of each file, as returned by `check_images`; empty where a file has
            not been checked.
        size: Side in pixels of the square that images are resized to; the aspect ratio is not kept.
        interpolation: `nearest`, `bilinear`, `bicubic` or `lanczos`.
        flip: Whether to mirror half of the images at random in training, independently in each view.
        crop: Least share of the area of a random part of each image that is shown in training instead of the
            image; 1 = all of it.
        max_pixels: Maximum number of pixels of an image that is decoded.
        draft: Whether to decode JPEG files at 1/2, 1/4 or 1/8 of their size, as long as both sides keep at
            least twice `size`.
        decoder: `pillow`, or `torchvision` (see `decoding.load_pixels`).
    """

    paths: Sequence[ImageSource | str]
    digests: Sequence[str]
    _: KW_ONLY
    size: int
    interpolation: str = "bilinear"
    flip: bool = False
    crop: float = 1.0
    max_pixels: int = 100_000_000
    draft: bool = False
    decoder: str = "pillow"
    kind: ClassVar[Kind] = "image"

    def __post_init__(self) -> None:
        if self.interpolation not in INTERPOLATIONS:
            raise InputError(f"interpolation {self.interpolation!r} is none of {', '.join(INTERPOLATIONS)}.")
        if self.decoder not in DECODERS:
            raise InputError(f"decoder {self.decoder!r} is none of {', '.join(DECODERS)}.")
        if not isinstance(self.paths, FilesBelow):  # a string takes less memory than a path
            self.paths = [str(path) if isinstance(path, Path) else path for path in self.paths]
        self.digests = tuple(self.digests)

    def __len__(self) -> int:
        return len(self.paths)

    def fetch(self, rows: Rows, augment: Augment | None = None) -> torch.Tensor:
        """Images of a batch, uint8 RGB of shape (B, 3, size, size).

        In training, the ordinary view is changed as `regions` says; for further views see `image_views`.

        Raises:
            SpmlError: A file was changed or removed since it was checked.
        """
        if augment and augment.view:
            return self.fetch_views(rows, augment._replace(view=0), [augment])[1]
        return self.fetch_views(rows, augment, [])[0]

    def regions(self, rows: Rows, augment: Augment) -> Float32:
        """Parts of the images that are shown in training, and which are mirrored (see `views.regions`)."""
        return regions(rows, augment, crop=self.crop, flip=self.flip)

    def load(
        self, rows: Rows, known: npt.NDArray[np.uint64] = NO_KEYS, boxes: Float32 | None = None
    ) -> Loaded:
        """Images of a batch that need not have been checked; those that can't be used are left out.

        Args:
            rows: Images to load.
            known: Sorted first 8 bytes of the identities of images whose pixels are not needed.
            boxes: Part of each image to load (see `views.regions`); None = the whole images.
        """
        batch = torch.empty((len(rows), 3, self.size, self.size), dtype=torch.uint8)
        loaded: list[int] = []
        unreadable: dict[int, str] = {}
        identities = np.zeros((len(rows), 32), np.uint8)
        for i, row in enumerate(rows):
            try:
                data, digest = b"", self.digests[row]
                if not digest:
                    data = _read(self.paths[row])
                    digest = hashlib.sha256(data).hexdigest()
                identities[i] = np.frombuffer(self._identity(digest), np.uint8)
                key = identities[i, :8].view("<u8")[0]
                place = int(np.searchsorted(known, key))
                if place == len(known) or known[place] != key:
                    batch[len(loaded)] = load_pixels(
                        data or _read(self.paths[row]),
                        self.size,
                        self.interpolation,
                        max_pixels=self.max_pixels,
                        draft=self.draft,
                        decoder=self.decoder,
                        box=None if boxes is None else tuple(boxes[i, :4].tolist()),
                    )
                    loaded.append(i)
            except UnreadableImageError as error:
                unreadable[i] = str(error)
        return Loaded(batch[: len(loaded)], loaded, identities, unreadable)

    def fetch_views(
        self, rows: Rows, augment: Augment | None, further: Sequence[Augment]
    ) -> tuple[torch.Tensor, ...]:
        """The ordinary view of a batch and further ones, as returned by `fetch`; files are decoded once.

        Without `augment`, all views are those of whole images.
        """
        shown = self.regions(rows, augment) if augment else None
        loaded = self.load(rows, boxes=shown if self.crop < 1 else None)
        self.check_readable(rows, loaded)
        batch = loaded.values.numpy()
        views = [image_views(batch, rows, each, flip=self.flip) for each in further]
        if shown is not None:
            for i in np.flatnonzero(shown[:, 4]):
                batch[i] = batch[i, :, :, ::-1].copy()
        return tuple(map(torch.from_numpy, (batch, *views)))

    def check_readable(self, rows: Rows, batch: Loaded) -> None:
        """Check that all images of a batch could be loaded, as when the data was opened."""
        for position, reason in batch.unreadable.items():
            raise changed_since(self.paths[rows[position]], reason)

    def take(self, rows: Rows) -> ImageFiles:
        """A subset of the images, in the order of `rows`."""
        return replace(self, paths=take(self.paths, rows), digests=take(self.digests, rows))

    def identities(self) -> npt.NDArray[np.uint8]:
        """SHA-256 of each file's content and of all settings that the pixels depend on, (N, 32)."""
        return np.frombuffer(b"".join(map(self._identity, self.digests)), np.uint8).reshape(-1, 32)

    def stamp(self) -> str:
        """SHA-256 of the names, sizes and times of the files and of the settings of the pixels."""
        digest = hashlib.sha256(f"{self._pixel_settings} {self.max_pixels}".encode())
        for path in self.paths:
            file = file_state(path)
            digest.update(f"{path} {file.st_size} {file.st_mtime_ns}\n".encode(errors="backslashreplace"))
        return digest.hexdigest()

    def fingerprint(self) -> str:
        """SHA-256 of the content of the files and of all settings that the pixels depend on."""
        lines = ["files", self._pixel_settings, *self.digests]
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()

    @property
    def _pixel_settings(self) -> str:
        draft = " draft" if self.draft else ""
        decoder = "" if self.decoder == "pillow" else f" {self.decoder}"
        return f"{self.size} {self.interpolation}{draft}{decoder}"

    def _identity(self, digest: str) -> bytes:
        return hashlib.sha256(f"file {self._pixel_settings} {digest}".encode()).digest()


def changed_since(sample: object, reason: str) -> SpmlError:
    """Error for a sample that can't be read any more, since it was when the data was opened."""
    return SpmlError(
        f"{sample}: {reason}. It could be read when the data was opened; do not change the data during a run."
    )


def check_images(
    paths: Sequence[ImageSource | str],
    *,
    max_pixels: int,
    workers: int = -1,
    advance: Advance = lambda done: None,
) -> tuple[list[str], dict[int, str]]:
    """Decode every image once to find those that can't be used.

    JPEG files are decoded at an eighth of their size, which is fast and still reads the entire file, so that
    truncation is detected.

    Args:
        paths: The images.
        max_pixels: Pixels above which an image is not decoded.
        workers: Number of threads; -1 = one per CPU, at most 8.
        advance: Called with 1 after each image.

    Returns:
        The SHA-256 of the content of each file, and the reason for each row that can't be used.
    """

    def check(path: ImageSource | str) -> tuple[str, str]:
        try:
            data = _read(path)
            decoding.decode(data, max_pixels, decoding.check)
            return hashlib.sha256(data).hexdigest(), ""
        except UnreadableImageError as error:
            return "", str(error)

    threads = min(8, os.cpu_count() or 1) if workers < 0 else max(1, workers)
    pool = ThreadPoolExecutor(threads)
    try:
        results = []
        for result in pool.map(check, paths):
            results.append(result)
            advance(1)
    finally:
        pool.shutdown(cancel_futures=True)  # so that Ctrl-C does not wait for the remaining images
    digests = [digest for digest, _ in results]
    return digests, {row: reason for row, (_, reason) in enumerate(results) if reason}


def thumbnail(source: ImageSource, edge: int, max_pixels: int) -> Image.Image:
    """Decode an image as upright RGB, reduced such that it is at most `edge` pixels wide and high.

    A smaller image keeps its size; one of more than `max_pixels` pixels is refused.
    """

    def reduce(image: Image.Image) -> Image.Image:
        image.draft(None, (2 * edge, 2 * edge))
        upright = decoding.upright_rgb(image)
        upright.thumbnail((edge, edge))
        return upright

    return decoding.decode(_read(source), max_pixels, reduce)


def small_photo(inputs: Inputs, row: int, edge: int) -> Image.Image | None:
    """Reduce a photo of a data set to at most `edge` pixels; None if it can't be read."""
    if not isinstance(inputs, ImageFiles):
        pixels = inputs.fetch([row], None)[0].numpy()
        picture = Image.fromarray(pixels[0] if len(pixels) == 1 else np.moveaxis(pixels, 0, -1))
        picture.thumbnail((edge, edge))
        return picture
    try:
        return thumbnail(inputs.paths[row], edge, inputs.max_pixels)  # type: ignore[arg-type]
    except UnreadableImageError:
        return None


def image_sides(sources: Sequence[ImageSource], max_pixels: int) -> list[tuple[int, int]]:
    """Width and height of images, from their headers; those that can't be read are left out."""
    sides = []
    for source in sources:
        with suppress(UnreadableImageError):
            sides.append(decoding.decode(_read(source), max_pixels, lambda image: image.size))
    return sides


def _read(path: ImageSource | str) -> bytes:
    try:
        data = read_bytes(path) if isinstance(path, (str, Path)) else path.read_bytes()
    except FileNotFoundError as error:
        raise UnreadableImageError(MISSING) from error
    except OSError as error:
        raise UnreadableImageError(f"can't be read: {error.strerror or error}") from error
    if not data:
        raise UnreadableImageError("the file is empty")
    return data
