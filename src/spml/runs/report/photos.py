"""Small copies of the photos that a report shows, with the window of each that speaks for a class."""

from __future__ import annotations

import io
from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from PIL import Image

from ...data import Inputs, Samples, start_opening
from ...data.images.decoding import UnreadableImageError
from ...data.images.image_files import ImageFiles, thumbnail
from ..compute.predict import Engine
from ..compute.trained_model import TrainedModel

SIDE, QUALITY = 144, 70
"""Longest side of a photo in pixels, and the quality of its JPEG."""

_BATCH = 16


class Photo(NamedTuple):
    """A small copy of a photo.

    Attributes:
        jpeg: Encoded picture.
        width, height: Its size in pixels.
        windows: Left, top, width and height of the window that speaks most for each class, as shares of the
            photo, float32 (C, 4); None of a model that scores photos as a whole.
    """

    jpeg: bytes
    width: int
    height: int
    windows: npt.NDArray[np.float32] | None


def reopened(run: TrainedModel) -> list[Samples]:
    """Open the training data of a run again, without reading an image.

    Raises:
        InputError: The data can't be read.
    """
    config = run.settings.data
    dataset = start_opening(config).finish_unread()
    size, interpolation = run.spec.size, run.spec.interpolation
    return [
        replace(samples, inputs=replace(samples.inputs, size=size, interpolation=interpolation))
        if isinstance(samples.inputs, ImageFiles)
        else samples
        for samples in dataset.splits.values()
    ]


def read_photos(
    run: TrainedModel, parts: Iterable[Samples], wanted: Iterable[str], engine: Engine
) -> dict[str, Photo]:
    """Reduce photos and find their windows.

    Args:
        run: Model whose windows are found.
        parts: Splits of the data.
        wanted: Names of the samples to show.
        engine: Settings of prediction.

    Returns:
        Photos by name, without those that can't be read, and without samples that are no images.
    """
    photos: dict[str, Photo] = {}
    missing = set(wanted)
    for samples in parts:
        rows = {name: row for row, name in enumerate(samples.ids) if name in missing}
        names, missing = list(rows), missing - rows.keys()
        if samples.inputs.kind != "image" or not names:
            continue
        chosen = samples.inputs.take(list(rows.values()))
        windows = _windows(run, chosen, engine)
        for row, name in enumerate(names):
            try:
                picture = _reduced(chosen, row)
            except UnreadableImageError:
                continue
            stream = io.BytesIO()
            picture.save(stream, "JPEG", quality=QUALITY)
            photos[name] = Photo(stream.getvalue(), *picture.size, windows.get(row))
    return photos


def _reduced(inputs: Inputs, row: int) -> Image.Image:
    """A photo of at most `SIDE` pixels, from its file or from an array in memory."""
    if isinstance(inputs, ImageFiles):
        source = inputs.paths[row]
        return thumbnail(source, SIDE, inputs.max_pixels)  # type: ignore[arg-type]
    pixels = inputs.fetch([row], None)[0].numpy()
    picture = Image.fromarray(pixels[0] if len(pixels) == 1 else np.moveaxis(pixels, 0, -1))
    picture.thumbnail((SIDE, SIDE))
    return picture


def _windows(run: TrainedModel, inputs: Inputs, engine: Engine) -> dict[int, npt.NDArray[np.float32]]:
    """Windows (C, 4) by row of the photos that can be read; none of a model that scores photos as a whole."""
    if not run.classifier.top.local:
        return {}
    windows: dict[int, npt.NDArray[np.float32]] = {}
    for batch in run.stream(inputs, engine._replace(batch_size=_BATCH), where=True):
        assert batch.windows is not None
        for row, numbers in zip(batch.rows.tolist(), batch.windows, strict=True):
            windows[row] = run.places[numbers]
    return windows
