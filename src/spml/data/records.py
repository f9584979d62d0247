"""Content of a file or folder as its reader understood it, and parts of it: some of its rows or classes."""

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
from ..labels import ObservedLabels
from .dataset import Inputs
from .files.names import take
from .images.image_files import ImageSource

MEMORY = "data in memory"
"""`data.path` of data that is in no file; a folder of that name is `./data in memory`."""

NO_LABEL = "no label"
"""Reason why a sample is left out about which the data says nothing."""

Integers = npt.NDArray[np.int64]


class Objects(NamedTuple):
    """Boxes of M objects; an image may have several of the same class.

    Attributes:
        row: Sample of each box, int64 (M,).
        column: Class of each box, int64 (M,).
        area: Share of the image that each box covers, in [0, 1], float64 (M,).
        distance: Distance between the centres of box and image, in halves of the image's diagonal,
            float64 (M,).
    """

    row: npt.NDArray[np.int64]
    column: npt.NDArray[np.int64]
    area: npt.NDArray[np.float64]
    distance: npt.NDArray[np.float64]


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
        notes: How the data was understood, one line each.
        objects: Boxes, if the data has them.
        protocol: Labels that a published protocol observes, if the data is a benchmark that has one.
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
    notes: tuple[str, ...] = ()
    objects: Objects | None = None
    protocol: ObservedLabels | None = None
    skipped: tuple[tuple[str, str], ...] = ()
    root: Path | None = None
    class_folders: bool = False

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the features, if the data has feature vectors and names them; otherwise empty."""
        return getattr(self.inputs, "names", ())


def select(records: Records, config: DataConfig) -> Records:
    """Ignore the split if `config.split` says so, and draw rows and classes.

    The draws depend on the numbers of rows and classes, on the labels and on `config.sample_seed` only.

    Raises:
        InputError: The split of a published protocol is to be ignored, or no class would have a label.
    """
    if config.split == "ignore":
        if config.observe == "protocol":
            raise InputError(
                f"{records.source}: --data.split ignore contradicts --data.observe protocol, which includes "
                "the split of the publication. Leave one of them out."
            )
        split = records.split or ()
        sizes = ", ".join(f"{name} {split.count(name):,}" for name in dict.fromkeys(split))
        notes = (f"The split of the data is ignored: {sizes}.",) if split else ()
        records = replace(records, split=None, notes=(*records.notes, *notes))
    if 0 < config.sample_classes < len(records.classes):
        records = _draw_classes(records, config.sample_classes, config.sample_seed)
    if 0 < config.sample_rows < len(records.ids):
        order = permutation(len(records.ids), "sample", "rows", config.sample_seed)
        note = f"{config.sample_rows:,} of {len(records.ids):,} samples drawn (seed {config.sample_seed})."
        records = take_rows(records, np.sort(order[: config.sample_rows]))
        # A class may have lost its training samples by the draw, which is no mistake in the data.
        records = replace(records, classes_given=True, notes=(*records.notes, note))
    return records


def take_rows(records: Records, rows: Integers) -> Records:
    """The samples `rows`, ascending, and what is known about them."""
    position = np.full(len(records.ids), -1, np.int64)
    position[rows] = np.arange(len(rows))
    inputs, split = records.inputs, records.split
    return replace(
        records,
        ids=take(records.ids, rows),
        inputs=take(inputs, rows) if isinstance(inputs, Sequence) else inputs.take(rows),
        labels=records.labels.take(rows),
        split=None if split is None else tuple(split[row] for row in rows.tolist()),
        objects=_moved(records.objects, "row", position),
        protocol=None if records.protocol is None else records.protocol.take(rows),
    )


def move_classes(records: Records, columns: Integers, classes: tuple[str, ...]) -> Records:
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


def _moved(objects: Objects | None, field: Literal["row", "column"], position: Integers) -> Objects | None:
    """Boxes with other rows or columns; those whose position is -1 are left out."""
    if objects is None:
        return None
    moved = objects._replace(**{field: position[getattr(objects, field)]})
    keep = getattr(moved, field) >= 0
    return Objects(*(values[keep] for values in moved))


def without_unlabelled(records: Records, rows: Sequence[int], config: DataConfig) -> Records:
    """Leave out samples about which the data says nothing, for readers that can't state so in `labels`.

    Raises:
        InputError: There are some, and `config.unlabelled` is `stop`.
    """
    notes = note_unlabelled(records, rows, config)
    kept = take_rows(records, np.setdiff1d(np.arange(len(records.ids)), rows))
    left_out = tuple((records.ids[row], NO_LABEL) for row in rows)
    return replace(kept, notes=(*records.notes, *notes), skipped=(*records.skipped, *left_out))


def note_unlabelled(records: Records, rows: Sequence[int], config: DataConfig) -> list[str]:
    """Note that samples without a label are left out, in a list that is empty if there are none.

    Raises:
        InputError: There are some, and `config.unlabelled` is `stop`.
    """
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
        f"{records.source}: {text}. Add labels, remove {them}, or pass --data.unlabelled skip to leave "
        f"{them} out. If every true label is listed in this data, so that none applies here, pass "
        "--data.unlisted negative."
    )


def _draw_classes(records: Records, number: int, seed: int) -> Records:
    """Keep some of the classes that occur, and the samples that have one of them or none at all."""
    total = len(records.classes)
    occur = np.flatnonzero(records.labels.positives_per_class())
    columns = np.sort(occur[permutation(len(occur), "sample", "classes", seed)[:number]])
    if not len(columns):
        raise InputError(f"{records.source}: no sample has a known positive label, so no class can be drawn.")
    position = np.full(total, -1, np.int64)
    position[columns] = np.arange(len(columns))
    kept = move_classes(records, position, tuple(records.classes[column] for column in columns.tolist()))
    emptied = (kept.labels.positives_per_sample() == 0) & (records.labels.positives_per_sample() > 0)
    note = (
        f"{len(columns):,} of {counted(total, 'class', 'classes')} drawn (seed {seed}), without "
        f"{counted(int(emptied.sum()), 'sample that has none', 'samples that have none')} of them."
    )
    kept = replace(kept, classes_given=True, notes=(*records.notes, note))
    return take_rows(kept, np.flatnonzero(~emptied))
