"""Inspection of a data set: read every sample, count, compare, and try what training would do."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ...config import DataConfig
from ...errors import InputError
from ...labels import ObservedLabels
from ..assemble import check_share_skipped, to_dataset
from ..dataset import Inputs
from ..hiding import check_observe
from ..images import ImageFiles, note_twelve_bits
from ..join import Checked, merge_same_content
from ..matrix import CHUNK
from ..phrases import counted
from ..readers import read
from ..records import Records
from ..splits import SPLITS
from .class_names import suspicious_names
from .contents import Features, ImageSizes, scan_files, scan_inputs
from .report import ClassCounts, Duplicate, Inspection
from .statistics import LabelMeans, label_means

ALL = "all"  # name under which samples are counted if the data has no split
_EXAMPLES = 12
_THUMBNAIL = 160  # side of an example in pixels

Counts = npt.NDArray[np.int64]
Progress = Callable[[int, str], AbstractContextManager[Callable[[int], None]]]


def inspect(
    config: DataConfig,
    *,
    report: Callable[[str], None] = lambda line: None,
    progress: Progress = lambda total, label: nullcontext(lambda done: None),
) -> Inspection:
    """Read a data set completely and report on its content.

    A mistake that only keeps the data from being trained on is not raised; it is in `refused`.

    Args:
        config: Settings of the data.
        report: Receives a line before slow work.
        progress: Makes a progress bar from a total and a label, as `Console.progress` does.

    Raises:
        InputError: The data can't be read, or a setting of `observe` is out of its domain or has no effect.
    """
    check_observe(config)
    records, content = _scan(read(config), config, report, progress)
    training = _try_training(records, config, content)
    split = records.split or (ALL,) * len(records.ids)
    by_split = _count_by_split(records.labels, split)
    rows = _choose_examples(records.labels, content.skipped) if content.inputs.kind == "image" else []
    names = records.labels.take(rows).to_names(records.classes) if rows else []
    per_sample = np.bincount(records.labels.positives_per_sample()).tolist()
    return Inspection(
        source=records.source,
        name=records.name,
        kind=content.inputs.kind,
        notes=records.notes,
        samples=len(records.ids),
        splits={name: split.count(name) for name in by_split},
        extent=records.labels.extent,
        classes=_count_classes(records, by_split, training.positives),
        labels_per_sample={count: samples for count, samples in enumerate(per_sample) if samples},
        label_means=training.label_means,
        nothing_known=int((records.labels.known_per_sample() == 0).sum()),
        without_positive={
            name: tuple(records.classes[column] for column in np.flatnonzero(counts == 0))
            for name, counts in by_split.items()
        },
        names=suspicious_names(records.classes),
        duplicates=_find_duplicates(content.digests, records, split),
        unreadable=tuple((records.ids[row], reason) for row, reason in content.skipped.items()),
        images=content.images,
        features=content.features,
        training=training.notes,
        refused=training.refused,
        skipped=training.skipped,
        examples=tuple((records.ids[row], tuple(labels)) for row, labels in zip(rows, names, strict=True)),
        thumbnails=content.inputs.fetch(rows, None).numpy() if rows else None,
    )


class _Content(NamedTuple):
    """All samples after one pass over them.

    Attributes:
        inputs: The samples, images as thumbnails.
        digests: SHA-256 of each sample; empty for one that can't be used.
        skipped: Reason for each row that can't be used.
        images: Sizes, if the samples are images.
        features: Statistics, if the samples are feature vectors.
    """

    inputs: Inputs
    digests: list[str]
    skipped: dict[int, str]
    images: ImageSizes | None
    features: Features | None


class _Training(NamedTuple):
    """Outcome of preparing the data for training.

    Attributes:
        notes: Remarks beyond those of reading.
        refused: Reason why training is refused; empty if it is not.
        positives: Known positives of each class in training, int64 (C,); None if training is refused.
        label_means: Mean numbers of labels per sample and split; empty if training is refused.
        skipped: (sample, reason) of the samples that training leaves out; empty if it is refused.
    """

    notes: tuple[str, ...]
    refused: str
    positives: Counts | None
    label_means: Mapping[str, LabelMeans]
    skipped: tuple[tuple[str, str], ...]


def _scan(
    records: Records, config: DataConfig, report: Callable[[str], None], progress: Progress
) -> tuple[Records, _Content]:
    """Read all samples. Returns the records, in which equal files may have become one sample, too."""
    inputs, ids = records.inputs, records.ids
    if not isinstance(inputs, Sequence):
        with progress(len(ids), "reading samples") as advance:
            digests, images, features = scan_inputs(inputs, ids, advance)
        return records, _Content(inputs, digests, {}, images, features)
    report(f"{records.source}: reading {counted(len(ids), 'image')}")
    with progress(len(ids), "reading images") as advance:
        digests, skipped, images = scan_files(inputs, ids, config, advance)
    records, digests, skipped = merge_same_content(Checked(records, digests, skipped), config)
    assert isinstance(records.inputs, Sequence)
    thumbnails = ImageFiles(records.inputs, digests, size=_THUMBNAIL, max_pixels=config.max_pixels)
    if note := note_twelve_bits(digests):
        records = replace(records, notes=(*records.notes, note))
    return records, _Content(thumbnails, digests, skipped, images, None)


def _try_training(records: Records, config: DataConfig, content: _Content) -> _Training:
    try:
        check_share_skipped(records, content.skipped, config)
        dataset = to_dataset(records, config, content.inputs, content.skipped)
    except InputError as refusal:
        return _Training((), str(refusal), None, {}, ())
    notes = tuple(note for note in dataset.notes if note not in records.notes)
    positives = dataset.splits["train"].observed.positives_per_class()
    return _Training(notes, "", positives, label_means(dataset), dataset.skipped)


def _count_by_split(labels: ObservedLabels, split: Sequence[str]) -> dict[str, Counts]:
    """Known positives of each class, per split."""
    names = np.asarray(split)
    return {
        name: labels.take(np.flatnonzero(names == name)).positives_per_class()
        for name in (*SPLITS, ALL)
        if (names == name).any()
    }


def _count_classes(
    records: Records, by_split: Mapping[str, Counts], training: Counts | None
) -> tuple[ClassCounts, ...]:
    positive = records.labels.positives_per_class().tolist()
    negative = records.labels.negatives_per_class().tolist()
    samples = len(records.ids)
    return tuple(
        ClassCounts(
            name,
            positive[column],
            negative[column],
            samples - positive[column] - negative[column],
            {split: int(counts[column]) for split, counts in by_split.items()},
            None if training is None else int(training[column]),
        )
        for column, name in enumerate(records.classes)
    )


def _find_duplicates(digests: Sequence[str], records: Records, split: Sequence[str]) -> tuple[Duplicate, ...]:
    """Groups of rows with the same digest; a row that can't be read has an empty one."""
    by_digest: dict[str, list[int]] = defaultdict(list)
    for row, digest in enumerate(digests):
        if digest:
            by_digest[digest].append(row)
    duplicates = []
    for rows in by_digest.values():
        if len(rows) > 1:
            ids, splits = tuple(records.ids[row] for row in rows), tuple(split[row] for row in rows)
            labels = records.labels.take(rows)
            duplicates.append(Duplicate(ids, splits, len(set(splits)) > 1, _rows_differ(labels)))
    return tuple(duplicates)


def _rows_differ(labels: ObservedLabels) -> bool:
    """Whether samples have different labels; few of them are dense in memory at a time."""
    first = labels.take([0]).to_ternary()
    step = max(1, CHUNK // labels.num_classes)
    blocks = (range(start, min(start + step, len(labels))) for start in range(0, len(labels), step))
    return any(bool((labels.take(block).to_ternary() != first).any()) for block in blocks)


def _choose_examples(labels: ObservedLabels, skipped: Mapping[int, str]) -> list[int]:
    """Rows to show: the classes take turns with their next sample, beginning with the most frequent one."""
    columns = np.argsort(-labels.positives_per_class(), kind="stable")[:_EXAMPLES].tolist()
    # Enough of each class to find one that is readable and not chosen yet, without listing all.
    limit = _EXAMPLES * _EXAMPLES
    candidates = [
        [row for row in labels.positive_rows(column)[:limit].tolist() if row not in skipped]
        for column in columns
    ]
    chosen: dict[int, None] = {}
    while len(chosen) < _EXAMPLES and any(candidates):
        for rows in candidates:
            while rows and rows[0] in chosen:
                rows.pop(0)
            if rows and len(chosen) < _EXAMPLES:
                chosen[rows.pop(0)] = None
    return sorted(chosen)
