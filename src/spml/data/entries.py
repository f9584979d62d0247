"""Labels from lists of (row, column) entries or of names, and the measures of boxes that hiding uses."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..common.errors import InputError
from ..common.phrases import counted
from ..config import DataConfig
from ..labels import ObservedLabels, Unlisted
from .files.places import find_files
from .records import Objects, Records, without_unlabelled


class Entries(NamedTuple):
    """Entries of a label matrix. They may repeat.

    Attributes:
        rows: Samples, int64 (M,).
        columns: Classes, int64 (M,).
    """

    rows: npt.NDArray[np.int64]
    columns: npt.NDArray[np.int64]

    @classmethod
    def of(cls, rows: Any, columns: Any) -> Entries:
        """Convert sequences to entries."""
        return cls(np.asarray(rows, np.int64), np.asarray(columns, np.int64))


def in_both(first: Entries, second: Entries) -> tuple[int, int] | None:
    """Row and column of the first entry, row by row, that two lists share; None if they share none."""
    shared = np.intersect1d(_keys(first), _keys(second))
    return (int(shared[0]) >> 32, int(shared[0]) & 0xFFFFFFFF) if len(shared) else None


def label_entries(
    positive: Entries,
    shape: tuple[int, int],
    unlisted: Unlisted,
    *,
    negative: Entries | None = None,
    unknown: Entries | None = None,
) -> ObservedLabels:
    """Labels of N samples over C classes, given by entries. The first list that holds a label counts.

    Args:
        positive: Known positives.
        shape: N and C.
        unlisted: Meaning of a label that is in none of the lists.
        negative: Known negatives.
        unknown: Labels that stay unknown whatever `unlisted` is.
    """
    from scipy.sparse import csr_matrix

    none = Entries.of([], [])
    parts = [(positive, 1), (negative or none, -1), (unknown or none, 0)]
    keys = np.concatenate([_keys(part) for part, _ in parts])
    values = np.concatenate([np.full(len(part.rows), value, np.int8) for part, value in parts])
    keys, first = np.unique(keys, return_index=True)
    matrix = csr_matrix((values[first], (keys >> 32, keys & 0xFFFFFFFF)), shape=shape)
    return ObservedLabels.from_csr(matrix, unlisted=unlisted)


class NamedImage(NamedTuple):
    """What a file says of one image, whose labels are names.

    Attributes:
        where: File and field that name the image, for messages.
        files: Possible names of the image file.
        positive: Known positives; None if nobody labelled the image.
        negative: Known negatives, none of which is in `positive`.
        split: Its split; empty if none is stated.
    """

    where: str
    files: Sequence[str]
    positive: Sequence[str] | None
    negative: Sequence[str]
    split: str


def named_records(
    path: Path,
    name: str,
    root: Path,
    images: Sequence[NamedImage],
    stated: Iterable[str],
    config: DataConfig,
    *,
    notes: Sequence[str],
    where: str,
) -> Records:
    """Find the files of images whose labels are names, and make records of them.

    The split is left out unless each image has one. Where `data.unlisted` is negative, `config.unlabelled`
    says what becomes of images that nobody labelled.

    Args:
        path: File or folder that was read.
        name: Name of the data set.
        root: Folder of the images.
        images: What is known of each.
        stated: Classes that the data lists, which may repeat; further ones are sorted.
        config: Settings, of which `missing`, `unlabelled` and `unlisted` are used.
        notes: Remarks on how the data was understood.
        where: What holds the labels, for messages.

    Raises:
        InputError: A file is missing or outside the folder, or no image has a label.
    """
    files = find_files(root, [image.files for image in images], lambda row: images[row].where, config.missing)
    positive = [image.positive or () for image in images]
    negative = [image.negative for image in images]
    if not any(positive):
        raise InputError(f"{where}: no image has a label. At least some must have one.")
    listed = tuple(dict.fromkeys(stated))
    classes = (*listed, *sorted({*chain(*positive, *negative)}.difference(listed)))
    column = {each: position for position, each in enumerate(classes)}

    def entries(lists: Sequence[Sequence[str]]) -> Entries:
        rows = [row for row, labels in enumerate(lists) for _ in labels]
        return Entries.of(rows, [column[each] for each in chain(*lists)])

    shape, split = (len(images), len(classes)), tuple(image.split for image in images)
    records = Records(
        source=str(path),
        name=name,
        ids=tuple(files.names),
        inputs=files,
        classes=classes,
        classes_given=bool(listed),
        labels=label_entries(entries(positive), shape, config.default_label, negative=entries(negative)),
        split=split if all(split) else None,
        notes=tuple(notes),
    )
    unseen = [row for row, image in enumerate(images) if image.positive is None]
    return without_unlabelled(records, unseen if config.default_label == "negative" else [], config)


def objects_of(entries: Entries, boxes: npt.ArrayLike, sizes: npt.ArrayLike) -> Objects | None:
    """Measure boxes, each clipped to its image; None if there are none.

    Args:
        entries: Sample and class of each box.
        boxes: Left, top, right and bottom of each box, float (M, 4).
        sizes: Width and height of the image of each box in the same unit, float (M, 2).
    """
    if not len(entries.rows):
        return None
    corners = np.asarray(boxes, np.float64).reshape(-1, 2, 2)
    size = np.asarray(sizes, np.float64).reshape(-1, 2)
    longest = size.max(axis=1, keepdims=True)  # as the unit of length, so that no product overflows
    clipped = np.clip(corners, 0, size[:, None]) / longest[:, None]
    size = size / longest
    share = (clipped[:, 1] - clipped[:, 0]) / size
    offset = np.hypot(*(clipped.mean(axis=1) - size / 2).T)
    return Objects(entries.rows, entries.columns, share.prod(axis=1), offset / (np.hypot(*size.T) / 2))


def without_box(count: int, noun: str) -> str:
    """Note on the number of annotations or objects that have no usable box."""
    has, labels = ("has", "its label is") if count == 1 else ("have", "their labels are")
    return f"{counted(count, noun)} {has} no usable box; {labels} used."


def _keys(entries: Entries) -> npt.NDArray[np.int64]:
    """One integer per entry, which sorts row by row."""
    return (entries.rows << 32) | entries.columns
