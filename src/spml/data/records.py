"""Content of a file or folder as its reader understood it: made of entries or of names, and parts of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from ..common.draws import permutation
from ..common.errors import InputError
from ..common.phrases import counted, first_few
from ..config import DataConfig
from ..labels import IntArray, ObservedLabels, Unlisted
from .dataset import Inputs
from .images.image_files import ImageSource
from .names import take

MEMORY = "data in memory"
"""`data.path` of data that is in no file; a folder of that name is `./data in memory`."""

NO_LABEL = "no label"
"""Reason why a sample is left out about which the data says nothing."""


class Objects(NamedTuple):
    """Boxes of M objects, arrays (M,); an image may have several of the same class."""

    row: IntArray  # sample of each box
    column: IntArray  # class of each box
    area: npt.NDArray[np.float64]  # share of the image that each box covers
    distance: npt.NDArray[np.float64]  # between the centres of box and image, in halves of its diagonal


@dataclass(frozen=True)
class Records:
    """Everything that a file or folder says, in its order.

    Attributes:
        source: Path as the user gave it, for messages.
        name: Name of the data set.
        ids: One name per sample.
        inputs: The samples themselves, or the image files, parts of files or images in memory that hold them.
        classes: Class names, in the order of the label columns.
        classes_given: Whether the data lists its classes; if not, they are the names that occur in it.
        labels: Known labels; full if the data is fully labelled.
        split: `train`, `val` or `test` for each sample; None if the data has no split.
        groups: Name of the group of each sample, empty for one that is alone; None if the data has none.
        notes: How the data was understood, one line each.
        objects: Boxes, if the data has them.
        protocol: Labels that a published protocol observes, or that people gave, next to the full labels.
        empty: How a class without positives enters mAP: `exclude`, or `zero` as published for benchmarks.
        skipped: (sample, reason) of every sample that the file names and that is not among `ids`.
        root: Folder that the names of image files are relative to where they are written; None = the folder
            of the output if all files lie below it, otherwise the folder of the data.
        class_folders: Whether the label of an image is the folder that it lies in.
    """

    source: str
    name: str
    ids: Sequence[str]
    inputs: Inputs | Sequence[ImageSource]
    classes: tuple[str, ...]
    classes_given: bool
    labels: ObservedLabels
    split: tuple[str, ...] | None = None
    groups: tuple[str, ...] | None = None
    notes: tuple[str, ...] = ()
    objects: Objects | None = None
    protocol: ObservedLabels | None = None
    empty: Literal["exclude", "zero"] = "exclude"
    skipped: tuple[tuple[str, str], ...] = ()
    root: Path | None = None
    class_folders: bool = False

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the features, if the data has feature vectors and names them; otherwise empty."""
        return getattr(self.inputs, "names", ())


Entries = tuple[npt.ArrayLike, npt.ArrayLike]
"""Sample and class of entries of a label matrix, as `ObservedLabels.entries` returns; they may repeat."""


def in_both(first: Entries, second: Entries) -> tuple[int, int] | None:
    """Row and column of the first entry, row by row, that two lists share; None if they share none."""
    keys, others = _keys(first), np.unique(_keys(second))
    shared = np.sort(keys[np.isin(keys, others)]) if len(others) else others  # usually there are none
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

    A label that is in none of them has the meaning `unlisted`; those in `unknown` stay unknown in any case.
    """
    parts = {1: _keys(positive), -1: _keys(negative or ([], [])), 0: _keys(unknown or ([], []))}
    keys, first = np.unique(np.concatenate([*parts.values()]), return_index=True)
    values = np.repeat(np.array([*parts], np.int8), [*map(len, parts.values())])[first]
    default = -int(unlisted == "negative")
    stored = values != default
    keys, values = keys[stored], values[stored]
    ends = np.searchsorted(keys >> 32, np.arange(shape[0] + 1)).astype(np.int64)
    return ObservedLabels(ends, keys & 0xFFFFFFFF, values, shape[1], default)


def _keys(entries: Entries) -> IntArray:
    """One integer per entry, which sorts row by row."""
    rows, columns = (np.asarray(each, np.int64) for each in entries)
    return (rows << 32) | columns


def objects_of(entries: Entries, boxes: npt.ArrayLike, sizes: npt.ArrayLike) -> Objects | None:
    """Measure boxes, each clipped to its image; None if there are none.

    `entries` are sample and class of each; a box is left, top, right and bottom, and a size is width and
    height of its image in the same unit.
    """
    rows, columns = (np.asarray(each, np.int64) for each in entries)
    if not len(rows):
        return None
    corners = np.asarray(boxes, np.float64).reshape(-1, 2, 2)
    size = np.asarray(sizes, np.float64).reshape(-1, 2)
    longest = size.max(axis=1, keepdims=True)  # as the unit of length, so that no product overflows
    clipped = np.clip(corners, 0, size[:, None]) / longest[:, None]
    size = size / longest
    share = (clipped[:, 1] - clipped[:, 0]) / size
    offset = np.hypot(*(clipped.mean(axis=1) - size / 2).T)
    return Objects(rows, columns, share.prod(axis=1), offset / (np.hypot(*size.T) / 2))


def without_box(count: int, noun: str) -> str:
    """Note on the number of annotations or objects that have no usable box."""
    return f"{counted(count, noun)} without a usable box: labels are used, boxes are not."


def select(records: Records, config: DataConfig) -> Records:
    """Ignore the split if `config.split` says so, and draw rows.

    The draw depends on the number of rows and on `config.sample_seed` only.

    Raises:
        InputError: `config` names a group that the data does not have, or it ignores a split that it needs.
    """
    if config.group and records.groups is None:
        raise InputError(
            f"{records.source}: data.group={config.group}: groups are read from a column of a table (CSV, "
            "TSV, JSON Lines, Parquet) or of a Hugging Face data set, "
            "from arrays of .npz files and shards, and from data in memory, but not from this format. Name "
            "the images in a table, with labels and groups, or leave data.group out."
        )
    if config.split == "ignore":
        if config.observe == "protocol":
            raise InputError(
                f"{records.source}: data.split=ignore contradicts data.observe=protocol, which includes "
                "the split of the publication. Leave one of them out."
            )
        split = records.split or ()
        sizes = ", ".join(f"{name} {split.count(name):,}" for name in dict.fromkeys(split))
        notes = (f"The split of the data is ignored: {sizes}.",) if split else ()
        records = replace(records, split=None, notes=(*records.notes, *notes))
    if 0 < config.sample_rows < len(records.ids):
        order = permutation(len(records.ids), "sample", "rows", config.sample_seed)
        note = f"{config.sample_rows:,} of {len(records.ids):,} samples drawn (seed {config.sample_seed})."
        records = take_rows(records, np.sort(order[: config.sample_rows]))
        # A class may have lost its training samples by the draw, which is no mistake in the data.
        records = replace(records, classes_given=True, notes=(*records.notes, note))
    return records


def take_rows(records: Records, rows: IntArray) -> Records:
    """The samples `rows`, ascending, and what is known about them."""
    position = np.full(len(records.ids), -1, np.int64)
    position[rows] = np.arange(len(rows))
    inputs, split, groups = records.inputs, records.split, records.groups
    return replace(
        records,
        ids=take(records.ids, rows),
        inputs=take(inputs, rows) if isinstance(inputs, Sequence) else inputs.take(rows),
        labels=records.labels.take(rows),
        split=None if split is None else tuple(split[row] for row in rows.tolist()),
        groups=None if groups is None else tuple(groups[row] for row in rows.tolist()),
        objects=_moved(records.objects, "row", position),
        protocol=None if records.protocol is None else records.protocol.take(rows),
    )


def move_classes(records: Records, columns: IntArray, classes: tuple[str, ...]) -> Records:
    """Records over other classes: class c becomes class `columns[c]`, or is left out where that is -1.

    Classes that become the same one are merged as `ObservedLabels.merge_classes` does.
    """
    protocol = records.protocol
    return replace(
        records,
        classes=classes,
        labels=records.labels.merge_classes(columns, len(classes)),
        objects=_moved(records.objects, "column", columns),
        protocol=None if protocol is None else protocol.merge_classes(columns, len(classes)),
    )


def _moved(objects: Objects | None, field: Literal["row", "column"], position: IntArray) -> Objects | None:
    """Boxes with other rows or columns; those whose position is -1 are left out."""
    if objects is None:
        return None
    moved = objects._replace(**{field: position[getattr(objects, field)]})
    keep = getattr(moved, field) >= 0
    return Objects(*(values[keep] for values in moved))


def without_unlabelled(records: Records, rows: Sequence[int], config: DataConfig) -> Records:
    """Leave out samples about which the data says nothing, for readers that can't state so in `labels`."""
    notes = note_unlabelled(records, rows, config)
    kept = take_rows(records, np.setdiff1d(np.arange(len(records.ids)), rows))
    left_out = tuple((records.ids[row], NO_LABEL) for row in rows)
    return replace(kept, notes=(*records.notes, *notes), skipped=(*records.skipped, *left_out))


def note_unlabelled(records: Records, rows: Sequence[int], config: DataConfig) -> list[str]:
    """Note that samples without a label are left out, in a list that is empty if there are none."""
    if not rows:
        return []
    have, them = ("has", "it") if len(rows) == 1 else ("have", "them")
    text = (
        f"{len(rows):,} of {counted(len(records.ids), 'sample')} {have} no label, so that nothing is known "
        f"about {them}: {first_few([records.ids[row] for row in rows], 3)}"
    )
    if config.unlabelled == "skip":
        return [f"{text}; left out."]
    raise InputError(
        f"{records.source}: {text}. Add labels, remove {them}, or pass data.unlabelled=skip to leave "
        f"{them} out. If every true label is listed in this data, so that none applies here, pass "
        "data.unlisted=negative."
    )
