"""Several `Records` as one (the parts of an export), and several equal image files as one."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import accumulate, chain
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..common.errors import InputError
from ..common.files import sha256_file
from ..common.label_checks import rows_of
from ..common.phrases import counted, first_few
from ..common.safe import quote
from ..config import DataConfig
from ..labels import ObservedLabels, Unlisted
from .groups import agreed
from .images.image_files import ImageSource
from .names import FilesBelow, PackedNames
from .records import Objects, Records, move_classes, take_rows
from .texts import Texts


def join_records(parts: Sequence[Records], source: str, name: str, unlisted: Unlisted = "unknown") -> Records:
    """Join parts of a data set: all their samples, over all their classes.

    Classes keep the order of the parts if all have the same ones or list theirs, and are sorted otherwise. A
    sample that several parts name has the labels that any of them knows. Splits of a sample are those of the
    parts; if a part has none, its samples are for training. Groups of the same name are one. That a part does
    not have a class of another one means what `unlisted` says.
    """
    classes = tuple(dict.fromkeys(label for part in parts for label in part.classes))
    if not all(part.classes_given or part.classes == classes for part in parts):
        classes = tuple(sorted(classes))
    records = [_over(part, classes, unlisted) for part in parts]
    starts = [0, *accumulate(len(each.ids) for each in records)]
    boxes = [
        each.objects._replace(row=each.objects.row + start)
        for each, start in zip(records, starts, strict=False)
        if each.objects
    ]
    splits = [part.split or ("train",) * len(part.ids) for part in parts]
    groups = [part.groups or ("",) * len(part.ids) for part in parts]
    inputs: Texts | Sequence[ImageSource]
    texts = [each.inputs for each in records if isinstance(each.inputs, Texts)]
    files = [each.inputs for each in records if isinstance(each.inputs, Sequence)]
    below = [part for part in files if isinstance(part, FilesBelow)]
    if len(texts) == len(parts):
        inputs = Texts.of(text for part in texts for text in part)
    elif len(files) < len(parts):
        raise InputError(f"{source}: only image files, or only texts, can be joined, not features.")
    elif len(below) == len(parts) and len({part.root for part in below}) == 1:
        inputs = FilesBelow(below[0].root, PackedNames.of(name for part in below for name in part.names))
    else:
        inputs = tuple(chain(*files))
    whole = Records(
        source=source,
        name=name,
        ids=PackedNames.of(sample for each in records for sample in each.ids),
        inputs=inputs,
        classes=classes,
        classes_given=any(each.classes_given for each in records),
        labels=ObservedLabels.join([each.labels for each in records]),
        split=tuple(chain(*splits)) if any(part.split for part in parts) else None,
        groups=tuple(chain(*groups)) if any(part.groups for part in parts) else None,
        notes=tuple(dict.fromkeys(note for each in records for note in each.notes)),
        objects=Objects(*map(np.concatenate, zip(*boxes, strict=True))) if boxes else None,
        skipped=tuple(left_out for each in records for left_out in each.skipped),
    )
    return _merge_repeated(whole)


def merge_rows(
    labels: ObservedLabels, groups: npt.NDArray[np.int64]
) -> tuple[ObservedLabels, npt.NDArray[np.int64]]:
    """Labels of groups of samples: what any sample of a group knows; a positive label outweighs a negative.

    `groups` is the group of each of the N samples, 0 ... G - 1, int64 (N,). Returns the labels of the G
    groups, and group and class of each label that samples of a group contradict each other about, int64 (M,
    2).
    """
    from scipy.sparse import csr_matrix

    count = len(groups)
    of = csr_matrix((np.ones(count, np.int32), (groups, np.arange(count))), shape=(groups.max() + 1, count))
    known = labels.to_csr().astype(np.int32)
    positive, negative = (((of @ (known == value)) > 0).astype(np.int8) for value in (1, -1))
    both = positive.multiply(negative).tocsr()
    both.eliminate_zeros()
    merged = positive - negative + both
    unlisted: Unlisted = "negative" if labels.full else "unknown"
    return ObservedLabels.from_csr(merged, unlisted=unlisted), np.stack(both.nonzero(), axis=1)


def _over(records: Records, classes: tuple[str, ...], unlisted: Unlisted) -> Records:
    """Records of a part over the classes of the whole."""
    labels = records.labels
    columns = rows_of(classes, records.classes)
    more = len(columns) < len(classes)
    if more and (unlisted == "unknown" or labels.full):
        records = replace(records, labels=ObservedLabels.from_csr(labels.to_csr(), unlisted=unlisted))
    moved = move_classes(records, columns, classes)
    if more and unlisted == "negative" and not labels.full:
        ternary = moved.labels.to_ternary()
        ternary[:, np.delete(np.arange(len(classes)), columns)] = -1
        moved = replace(moved, labels=ObservedLabels.from_ternary(ternary))
    return moved


def _merge_repeated(records: Records) -> Records:
    first: dict[str, int] = {}
    of_row = np.array([first.setdefault(name, len(first)) for name in records.ids], np.int64)
    if len(first) == len(of_row):
        return records
    rows = np.unique(of_row, return_index=True)[1]

    def both(_: int, row: int) -> str:
        return f"{records.source}: {quote(records.ids[row])} is named several times"

    if isinstance(records.inputs, Texts):
        agreed([*records.inputs], of_row, rows, "text", both)
    if records.split is not None:
        agreed(records.split, of_row, rows, "split", both)
    groups = None if records.groups is None else agreed(records.groups, of_row, rows, "group", both)
    labels, contradictions = merge_rows(records.labels, of_row)
    if len(contradictions):
        sample, column = contradictions[0]
        raise InputError(
            f"{both(0, rows[sample])}, and its entries contradict each other about "
            f"{quote(records.classes[column])}. Correct one of them."
        )
    objects = records.objects
    if objects is not None:
        objects = objects._replace(row=rows[of_row[objects.row]])
    further = counted(len(of_row) - len(rows), "further entry", "further entries")
    note = f"{further} of samples that are named before: labels were merged."
    kept = take_rows(replace(records, objects=objects), rows)
    return replace(kept, labels=labels, groups=groups, notes=(*records.notes, note))


def relative_names(records: Records, path: Path) -> Sequence[str]:
    """Paths of the image files relative to a folder, with slashes; empty for one that lies elsewhere."""
    inputs = records.inputs
    if isinstance(inputs, FilesBelow) and inputs.root == path:
        return inputs.names
    assert isinstance(inputs, Sequence)
    return [
        file.relative_to(path).as_posix() if isinstance(file, Path) and file.is_relative_to(path) else ""
        for file in inputs
    ]


class Checked(NamedTuple):
    """Records of image files that have been read."""

    records: Records  # the records
    digests: list[str]  # SHA-256 of the content of each file; empty for one that can't be used
    skipped: dict[int, str]  # reason for each row that can't be used


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
                "file: data.same_content=keep."
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
