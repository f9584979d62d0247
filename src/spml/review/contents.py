"""Content of the page for a sample: its picture, its text, columns of a table, or named features."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from PIL import Image

from ..common.errors import InputError
from ..common.files import write_bytes
from ..common.phrases import counted, shorten
from ..common.safe import quote
from ..data.images.decoding import UnreadableImageError
from ..data.images.image_files import ImageSource, file_state, thumbnail
from ..data.matrix import CHUNK, FeatureMatrix
from ..data.records import Records
from ..data.tables.formats import open_table
from ..data.texts import Texts
from ..data.values import text

CACHE = "thumbnails"
THUMBNAIL, PHOTO = 192, 1280
"""Longest side in pixels of the pictures in the overview, and of the one under review."""
QUALITY = 85
JPEG = "image/jpeg"
MOST_FEATURES = 30
"""Features of a sample that are shown."""
MOST_CHARACTERS = 5_000
"""Length at which the cell of a table is cut."""
_SAMPLED = 1_000  # rows that tell what is usual for a feature

Content = list[tuple[str, str]]
"""Pairs of a name and a value, in the order in which they are shown."""


class Contents:
    """Columns and features of the samples of a data set.

    Args:
        records: The data.
        table: CSV, TSV or Parquet file; its first column holds names of samples, the others are shown.
        samples: Samples that can be asked for. The rest of the table is not kept.

    Raises:
        InputError: The table can't be read, has no column to show, names a sample twice or lacks one of
            `samples`.
    """

    def __init__(self, records: Records, table: Path | None, samples: Collection[int]) -> None:
        self._rows = {} if table is None else _read(table, {records.ids[sample] for sample in samples})
        self._ids = records.ids
        self._texts = records.inputs if isinstance(records.inputs, Texts) else None
        self._matrix = records.inputs if isinstance(records.inputs, FeatureMatrix) else None
        self._names = records.feature_names
        if self._matrix is None or not self._names:
            self._matrix = None
            return
        # What is usual for a feature: its mean and deviation over some samples.
        count = min(len(self._matrix), _SAMPLED, max(2, CHUNK // self._matrix.width))
        rows = np.linspace(0, len(self._matrix) - 1, count).astype(np.int64)
        some = self._matrix.dense(rows).astype(np.float64)
        self._mean, spread = some.mean(0), some.std(0)
        self._spread: npt.NDArray[np.float64] = np.where(spread > 0, spread, 1)

    @property
    def available(self) -> bool:
        """Whether there is anything to show."""
        return bool(self._rows) or self._matrix is not None or self._texts is not None

    def of(self, sample: int) -> Content:
        """Its text, columns of a sample, then its features that differ most from what is usual: of those that
        are not zero, the ones that are most standard deviations from their mean.
        """
        text = [] if self._texts is None else [("text", self._texts[sample][:MOST_CHARACTERS])]
        content = text + self._rows.get(self._ids[sample], [])
        if self._matrix is not None:
            values = self._matrix.dense(np.array([sample]))[0]
            distance = np.abs((values - self._mean) / self._spread)
            held = np.flatnonzero(values)
            chosen = held[np.argsort(-distance[held], kind="stable")[:MOST_FEATURES]]
            content += [(self._names[column], f"{values[column]:.4g}") for column in chosen]
        return content


def _read(path: Path, wanted: set[str]) -> dict[str, Content]:
    """Columns of the wanted samples."""
    if not path.is_file():
        raise InputError(f"{path}: no such file. Pass a CSV, TSV or Parquet file as `rows`.")
    table = open_table(path)
    names = table.names
    if len(names) < 2:
        raise InputError(
            f"{path}: has only the column {shorten(names)}. Expected names of samples in the first column, "
            "and further ones to show."
        )
    found: dict[str, Content] = {}
    first: dict[str, int] = {}
    for number, (name, *cells) in table.rows(range(len(names))):
        sample = text(name)
        if sample not in wanted:
            continue
        if sample in found:
            raise InputError(f"{table.where(first[sample], number)}: both are {quote(sample)}. Remove one.")
        found[sample] = [
            (key, value if len(value) <= MOST_CHARACTERS else value[:MOST_CHARACTERS] + " …")
            for key, value in zip(names[1:], map(text, cells), strict=True)
            if value
        ]
        first[sample] = number
    if lost := sorted(wanted - found.keys()):
        missed = f"{counted(len(lost), 'sample')} of the list, such as {quote(lost[0])}"
        raise InputError(
            f"{path}: has no row for {missed}. The first column, {quote(names[0])}, must hold the names that "
            "the samples have in the data."
        )
    return found


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
            pixels, stream = self._inputs.fetch([sample], None)[0].numpy(), io.BytesIO()
            Image.fromarray(pixels[0] if len(pixels) == 1 else np.moveaxis(pixels, 0, -1)).save(stream, "PNG")
            return Picture(stream.getvalue(), "image/png")
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
        try:
            file = file_state(source)
        except OSError as error:
            raise UnreadableImageError(f"can't be read: {error.strerror or error}") from error
        # Another name once the file has been changed.
        key = f"{source} {file.st_size} {file.st_mtime_ns} {THUMBNAIL} {QUALITY}"
        digest = hashlib.sha256(key.encode(errors="backslashreplace")).hexdigest()
        path = self._folder / f"{digest[:40]}.jpg"
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
