"""Samples that a report shows of each class, chosen by held-out scores and known labels, and their photos."""

from __future__ import annotations

import base64
import io
import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import numpy as np
import numpy.typing as npt
from PIL import Image

from ...data import Inputs, Samples, start_opening
from ...data.images.decoding import UnreadableImageError
from ...data.images.image_files import ImageFiles, thumbnail
from ..folder.held_out import HeldOut
from ..predict.batches import Engine
from ..run import Run

MOST_SHOWN = 120
"""Most samples that a report shows, over all classes; one that is shown for two classes counts twice."""

SIDE, QUALITY = 144, 70
"""Longest side of a photo in pixels, and the quality of its JPEG."""

_PER_GROUP = 3
_BATCH = 16


class ShownClass(NamedTuple):
    """Samples that are shown for a class, as rows of the held-out samples.

    Attributes:
        column: Number of the class.
        best: Samples that were given the label, with the highest scores.
        worst: Samples that were given the label, with the lowest scores, the lowest first.
        uncertain: Samples of which the label is not known, with scores nearest to the threshold. Where all
            labels are known, samples without it.
    """

    column: int
    best: list[int]
    worst: list[int]
    uncertain: list[int]


def choose_samples(held_out: HeldOut, thresholds: Sequence[float]) -> list[ShownClass]:
    """Choose up to three samples of each kind for each class, and at most `MOST_SHOWN` over all classes.

    With more classes there are fewer of each, and from 41 classes on only those with the most known positives
    are shown.

    Args:
        held_out: Held-out scores of H samples over C classes, with their observed labels.
        thresholds: Logit from which on each class is predicted, (C,); infinite = never.

    Returns:
        Classes with a known positive among the held-out samples, the one with most of them first.
    """
    known = held_out.labels.positives_per_class()
    columns = np.argsort(-known, kind="stable")[: min(int((known > 0).sum()), MOST_SHOWN // 3)]
    each = min(_PER_GROUP, MOST_SHOWN // (3 * max(len(columns), 1)))
    everything, shown = np.arange(len(held_out.ids)), []
    for column in columns.tolist():
        of_class = np.full(len(everything), column)
        scores, labels = held_out.scores.at(everything, of_class), held_out.labels.at(everything, of_class)
        there = np.isfinite(scores)  # of many classes, only the highest scores of a sample are kept
        given = np.flatnonzero((labels == 1) & there)
        given = given[np.argsort(-scores[given], kind="stable")]
        unknown = np.flatnonzero((labels == (0 if (labels == 0).any() else -1)) & there)
        if np.isinf(thresholds[column]):
            unknown = unknown[:0]
        nearest = unknown[np.argsort(np.abs(scores[unknown] - thresholds[column]), kind="stable")]
        worst = given[each:][::-1]
        shown.append(ShownClass(column, *(some[:each].tolist() for some in (given, worst, nearest))))
    return shown


class Photo(NamedTuple):
    """A small copy of a photo.

    Attributes:
        address: Address that holds the JPEG itself.
        width, height: Its size in pixels.
        original: Address of the photo itself, relative to the folder of the run; empty if it is in no file.
        windows: Left, top, width and height of the window that speaks most for each class, as shares of the
            photo, float32 (C, 4); None of a model that scores photos as a whole.
    """

    address: str
    width: int
    height: int
    original: str
    windows: npt.NDArray[np.float32] | None


def reopened(run: Run) -> list[Samples]:
    """Open the training data of a run again, without reading an image.

    Raises:
        InputError: The data can't be read.
    """
    dataset = start_opening(run.settings.data).finish_unread()
    size, interpolation = run.spec.size, run.spec.interpolation
    return [
        replace(samples, inputs=replace(samples.inputs, size=size, interpolation=interpolation))
        if isinstance(samples.inputs, ImageFiles)
        else samples
        for samples in dataset.splits.values()
    ]


def read_photos(
    run: Run, parts: Iterable[Samples], held_out: HeldOut, wanted: Iterable[int], engine: Engine
) -> dict[str, Photo]:
    """Reduce photos to at most `SIDE` pixels, and find their windows.

    Args:
        run: Model whose windows are found.
        parts: Splits of the data.
        held_out: Held-out scores, with which windows may have been kept.
        wanted: Samples to show, as rows of these.
        engine: Settings of prediction, by which windows are found otherwise.

    Returns:
        Photos by name, without those that can't be read, and without samples that are no images.
    """
    photos: dict[str, Photo] = {}
    row_of = {held_out.ids[row]: row for row in wanted}
    missing = set(row_of)
    for samples in parts:
        rows = {name: row for row, name in enumerate(samples.ids) if name in missing}
        names, missing = list(rows), missing - rows.keys()
        if samples.inputs.kind != "image" or not names:
            continue
        chosen = samples.inputs.take(list(rows.values()))
        windows: dict[int, npt.NDArray[np.float32]] = {}
        if run.locates and held_out.windows is not None:
            numbers = np.minimum(held_out.windows[[row_of[name] for name in names]], len(run.places) - 1)
            windows = dict(enumerate(run.places[numbers]))
        elif run.locates:
            for batch in run.stream(chosen, engine._replace(batch_size=_BATCH), where=True):
                assert batch.windows is not None
                windows |= zip(batch.rows.tolist(), run.places[batch.windows], strict=True)
        for row, name in enumerate(names):
            if picture := small_photo(chosen, row):
                original = _link(chosen.paths[row], run.folder) if isinstance(chosen, ImageFiles) else ""
                photos[name] = Photo(address_of(picture), *picture.size, original, windows.get(row))
    return photos


def _link(photo: object, folder: Path) -> str:
    """Address of a photo relative to a folder; empty if it is in no file, or on another drive."""
    try:
        return quote(os.path.relpath(photo, folder)) if isinstance(photo, (str, Path)) else ""
    except ValueError:
        return ""


def small_photo(inputs: Inputs, row: int) -> Image.Image | None:
    """Reduce a photo to at most `SIDE` pixels; None if it can't be read."""
    if not isinstance(inputs, ImageFiles):
        pixels = inputs.fetch([row], None)[0].numpy()
        picture = Image.fromarray(pixels[0] if len(pixels) == 1 else np.moveaxis(pixels, 0, -1))
        picture.thumbnail((SIDE, SIDE))
        return picture
    try:
        return thumbnail(inputs.paths[row], SIDE, inputs.max_pixels)  # type: ignore[arg-type]
    except UnreadableImageError:
        return None


def address_of(picture: Image.Image) -> str:
    """Address that holds a picture itself, as JPEG."""
    stream = io.BytesIO()
    picture.save(stream, "JPEG", quality=QUALITY)
    return data_address(stream.getvalue(), "image/jpeg")


def data_address(content: bytes, media_type: str) -> str:
    """Address that holds a picture itself."""
    return f"data:{media_type};base64,{base64.b64encode(content).decode()}"
