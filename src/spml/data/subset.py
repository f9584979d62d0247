"""Content of a file as the settings of the data want it: without its split, and with some of its rows and
classes only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from ..config import DataConfig
from ..errors import InputError
from .draws import permutation
from .names import take
from .phrases import counted, first_few
from .records import Objects, Records

NO_LABEL = "no label"
"""Reason why a sample is left out about which the data says nothing."""

Integers = npt.NDArray[np.int64]


def select(records: Records, config: DataConfig) -> Records:
    """Ignore the split if `config.split` says so, and draw rows and classes.

    The draws depend on the numbers of rows and classes, on the labels and on `config.sample_seed` only.

    Raises:
        InputError: The split of a published protocol is to be ignored, or no class would have a label.
    """
    if config.split == "ignore":
        records = _without_split(records, config)
    if 0 < config.sample_classes < len(records.classes):
        records = _draw_classes(records, config.sample_classes, config.sample_seed)
    if 0 < config.sample_rows < len(records.ids):
        records = _draw_rows(records, config.sample_rows, config.sample_seed)
    return records


def take_rows(records: Records, rows: Integers) -> Records:
    """The samples `rows`, ascending, and what is known about them."""
    objects = records.objects
    if objects is not None:
        position = np.full(len(records.ids), -1, np.int64)
        position[rows] = np.arange(len(rows))
        objects = take_objects(objects._replace(row=position[objects.row]), position[objects.row] >= 0)
    inputs, split, chosen = records.inputs, records.split, rows.tolist()
    return replace(
        records,
        ids=take(records.ids, rows),
        inputs=take(inputs, rows) if isinstance(inputs, Sequence) else inputs.take(rows),
        labels=records.labels.take(rows),
        split=None if split is None else tuple(split[row] for row in chosen),
        objects=objects,
        protocol=None if records.protocol is None else records.protocol.take(rows),
    )


def take_classes(records: Records, columns: Sequence[int]) -> Records:
    """All samples over the classes `columns`, ascending."""
    objects = records.objects
    if objects is not None:
        position = np.full(len(records.classes), -1, np.int64)
        position[columns] = np.arange(len(columns))
        objects = take_objects(
            objects._replace(column=position[objects.column]), position[objects.column] >= 0
        )
    return replace(
        records,
        classes=tuple(records.classes[column] for column in columns),
        labels=records.labels.take_classes(columns),
        objects=objects,
        protocol=None if records.protocol is None else records.protocol.take_classes(columns),
    )


def take_objects(objects: Objects, keep: npt.NDArray[np.bool_]) -> Objects:
    """The boxes where `keep`, bool (M,), is true."""
    return Objects(objects.row[keep], objects.column[keep], objects.area[keep], objects.distance[keep])


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


def _without_split(records: Records, config: DataConfig) -> Records:
    if config.observe == "protocol":
        raise InputError(
            f"{records.source}: --data.split ignore contradicts --data.observe protocol, which includes the "
            "split of the publication. Leave one of them out."
        )
    if records.split is None:
        return records
    sizes = ", ".join(f"{name} {records.split.count(name):,}" for name in dict.fromkeys(records.split))
    return replace(records, split=None, notes=(*records.notes, f"The split of the data is ignored: {sizes}."))


def _draw_classes(records: Records, number: int, seed: int) -> Records:
    """Keep some of the classes that occur, and the samples that have one of them or none at all."""
    total = len(records.classes)
    occur = np.flatnonzero(records.labels.positives_per_class())
    columns = np.sort(occur[permutation(len(occur), "sample", "classes", seed)[:number]])
    if not len(columns):
        raise InputError(f"{records.source}: no sample has a known positive label, so no class can be drawn.")
    kept = take_classes(records, columns.tolist())
    emptied = (kept.labels.positives_per_sample() == 0) & (records.labels.positives_per_sample() > 0)
    kept = replace(
        kept,
        classes_given=True,
        notes=(
            *records.notes,
            f"{len(columns):,} of {counted(total, 'class', 'classes')} drawn (seed {seed}), without "
            f"{counted(int(emptied.sum()), 'sample that has none', 'samples that have none')} of them.",
        ),
    )
    return take_rows(kept, np.flatnonzero(~emptied))


def _draw_rows(records: Records, number: int, seed: int) -> Records:
    rows = np.sort(permutation(len(records.ids), "sample", "rows", seed)[:number])
    note = f"{number:,} of {len(records.ids):,} samples drawn (seed {seed})."
    # A class may have lost its training samples by the draw, which is no mistake in the data.
    return replace(take_rows(records, rows), classes_given=True, notes=(*records.notes, note))
