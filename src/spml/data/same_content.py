"""Image files with equal content in class folders: one sample, which has the labels of all of them."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..config import DataConfig
from ..files import sha256_file
from .join import merge_rows
from .phrases import counted, first_few
from .records import Records
from .subset import take_rows


class Checked(NamedTuple):
    """Records of image files that have been read.

    Attributes:
        records: The records.
        digests: SHA-256 of the content of each file; empty for one that can't be used.
        skipped: Reason for each row that can't be used.
    """

    records: Records
    digests: list[str]
    skipped: dict[int, str]


def merge_same_content(checked: Checked, config: DataConfig) -> Checked:
    """Make one sample of the files of one split that are equal byte for byte, as the first of them.

    People put a photograph into the folder of every label that it has. Files in several splits stay apart,
    since a split belongs to the data. Nothing is merged if `config.same_content` is `keep`, or if labels do
    not come from class folders: a table says of each file what it means.
    """
    records, digests, skipped = checked
    if config.same_content == "keep" or not records.class_folders:
        return checked
    first: dict[tuple[str, str], int] = {}
    of_row = np.arange(len(digests))
    for row, digest in enumerate(digests):
        if digest:
            of_row[row] = first.setdefault((digest, records.split[row] if records.split else ""), row)
    copies = np.flatnonzero(of_row != np.arange(len(of_row)))
    if not len(copies):
        return checked
    kept = np.flatnonzero(of_row == np.arange(len(of_row)))
    position = np.searchsorted(kept, of_row)
    # Few samples have copies, and merging takes memory for all that it is given.
    rows = np.unique(np.append(of_row[copies], copies))
    originals, group = np.unique(of_row[rows], return_inverse=True)
    merged, _ = merge_rows(records.labels.take(rows), group.astype(np.int64))
    order = kept.copy()
    order[position[originals]] = len(of_row) + np.arange(len(originals))
    labels = type(merged).join([records.labels, merged]).take(order)
    several = merged.positives_per_sample() > records.labels.take(originals).positives_per_sample()
    equal = {original: [records.ids[original]] for original in originals.tolist()}
    for row in copies.tolist():
        equal[int(of_row[row])].append(records.ids[row])
    notes = []
    for where, result, chosen in (
        ("in several class folders", "one sample each, with all these labels", several),
        ("several times in a class folder", "one sample each", ~several),
    ):
        if groups := [" = ".join(equal[row]) for row in originals[chosen].tolist()]:
            lie = counted(len(groups), "photograph lies", "photographs lie")
            notes.append(
                f"{lie} {where}, byte for byte: {result}: {first_few(groups, 3, '; ')}. To keep a sample per "
                "file: --data.same_content keep."
            )
    reasons = ((records.ids[row], f"equal to {equal[int(of_row[row])][0]}") for row in copies.tolist())
    records = replace(
        take_rows(records, kept),
        labels=labels,
        notes=(*records.notes, *notes),
        skipped=(*records.skipped, *reasons),
    )
    return Checked(
        records,
        [digests[row] for row in kept.tolist()],
        {int(position[row]): reason for row, reason in skipped.items()},
    )


def merge_unread(records: Records, config: DataConfig) -> Records:
    """Merge as `merge_same_content`, where images are not decoded: only files of the same size are read."""
    if config.same_content == "keep" or not records.class_folders:
        return records
    assert isinstance(records.inputs, Sequence)
    files = [file for file in records.inputs if isinstance(file, Path)]
    sizes = [os.path.getsize(file) if os.path.isfile(file) else -1 for file in files]
    often = Counter(sizes)
    digests = [""] * len(files)
    for row, (file, size) in enumerate(zip(files, sizes, strict=True)):
        if size > 0 and often[size] > 1:
            with suppress(OSError):
                digests[row] = sha256_file(file)
    return merge_same_content(Checked(records, digests, {}), config).records
