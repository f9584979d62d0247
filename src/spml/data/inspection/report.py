"""What data holds, and what is odd about it, before anything is trained on it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ...config import DataConfig
from ...errors import InputError
from ...files import write_json, write_rows
from ...labels import ObservedLabels
from ..assemble import check_inputs, name_some, to_dataset
from ..dataset import Inputs, Kind
from ..hiding import check_observe
from ..images import ImageFiles
from ..matrix import CHUNK
from ..readers import read
from ..records import Records
from ..splits import SPLITS
from .class_names import Finding, suspicious_names
from .contents import Features, ImageSizes, look_at_files, look_at_inputs

FEW = 10  # positives below which a class is called rare
EXAMPLES = 12
THUMBNAIL = 160  # side of an example in pixels
ALL = "all"  # what the samples of data without a split are counted under

Progress = Callable[[int, str], AbstractContextManager[Callable[[int], None]]]


@dataclass(frozen=True)
class ClassCounts:
    """How much is known of one class.

    Attributes:
        name: of the class.
        positive, negative, unknown: samples in which it is so.
        by_split: known positives per split.
        training: known positives that training would see, after hiding and holding out; None if the data
            can't be trained on.
    """

    name: str
    positive: int
    negative: int
    unknown: int
    by_split: Mapping[str, int]
    training: int | None


@dataclass(frozen=True)
class Duplicate:
    """Samples with the same content.

    Attributes:
        ids: the samples.
        splits: the split of each.
        across: whether they are in several splits.
        labels_differ: whether they have different known labels.
    """

    ids: tuple[str, ...]
    splits: tuple[str, ...]
    across: bool
    labels_differ: bool


@dataclass(frozen=True)
class Inspection:
    """What was understood of a data set. `to_dict` is JSON-able; `write` makes files of it.

    Attributes:
        source, name: the path as given; the name of the data set.
        kind: `image` or `feature`.
        notes: how the file or folder was understood, one line each.
        samples: number of samples.
        splits: samples per split; all are under `all` if the data has no split.
        extent: `single-positive`, `full` or `partial`, of the labels as they are given.
        classes: one entry per class, in the order of the data.
        labels_per_sample: how many samples have so many known positive labels.
        nothing_known: samples without any known label.
        without_positive: names of classes without a known positive, per split.
        names: class names that are probably mistakes.
        duplicates: groups of samples with the same content.
        unreadable: (file, reason) of images that can't be used.
        images: sizes, if the samples are images.
        features: statistics, if the samples are feature vectors.
        training: what training on it as set says, one line each.
        refused: why training on it as set is refused; empty if it is not.
        examples: (sample, its known positive labels) of the pictures in `thumbnails`.
        thumbnails: uint8 (n, channels, H, W), images for a figure; not part of `to_dict`.
    """

    source: str
    name: str
    kind: Kind
    notes: tuple[str, ...]
    samples: int
    splits: Mapping[str, int]
    extent: str
    classes: tuple[ClassCounts, ...]
    labels_per_sample: Mapping[int, int]
    nothing_known: int
    without_positive: Mapping[str, tuple[str, ...]]
    names: tuple[Finding, ...]
    duplicates: tuple[Duplicate, ...]
    unreadable: tuple[tuple[str, str], ...]
    images: ImageSizes | None
    features: Features | None
    training: tuple[str, ...]
    refused: str
    examples: tuple[tuple[str, tuple[str, ...]], ...] = ()
    thumbnails: npt.NDArray[np.uint8] | None = field(default=None, repr=False, compare=False)

    @property
    def mean_labels(self) -> float:
        """Known positive labels per sample, on average."""
        return sum(count * samples for count, samples in self.labels_per_sample.items()) / self.samples

    @property
    def imbalance(self) -> dict[str, Any]:
        """Positives of the most and the least frequent class that occur, their ratio, and rare classes."""
        ranked = sorted((c for c in self.classes if c.positive), key=lambda c: -c.positive)
        if not ranked:
            return {}
        most, least = ranked[0], ranked[-1]
        return {
            "most": [most.name, most.positive],
            "least": [least.name, least.positive],
            "ratio": most.positive / least.positive,
            "rare": [c.name for c in ranked if c.positive < FEW],
        }

    def to_dict(self) -> dict[str, Any]:
        """Everything but the pictures, of types that JSON has."""
        values = {name: value for name, value in vars(self).items() if name != "thumbnails"}
        found = {name: _plain(value) for name, value in values.items()}
        return {**found, "mean_labels": self.mean_labels, "imbalance": self.imbalance}

    def write(self, folder: Path) -> None:
        """Write inspect.json, classes.csv, duplicates.csv and unreadable.csv.

        Raises:
            SpmlError: a file could not be written.
        """
        write_json(folder / "inspect.json", self.to_dict())
        header = ["class", "positive", "negative", "unknown", *self.splits, "training"]
        counts = (
            [c.name, c.positive, c.negative, c.unknown, *c.by_split.values(), c.training]
            for c in self.classes
        )
        write_rows(folder / "classes.csv", header, counts)
        groups = (
            [number, name, split, int(group.across), int(group.labels_differ)]
            for number, group in enumerate(self.duplicates, start=1)
            for name, split in zip(group.ids, group.splits, strict=True)
        )
        write_rows(
            folder / "duplicates.csv", ("group", "file", "split", "across_splits", "labels_differ"), groups
        )
        write_rows(folder / "unreadable.csv", ("file", "reason"), self.unreadable)


def inspect(
    config: DataConfig,
    *,
    report: Callable[[str], None] = lambda line: None,
    progress: Progress = lambda total, label: nullcontext(lambda done: None),
) -> Inspection:
    """Read data and say what it holds, as far as it can be read; nothing is written.

    What would keep it from being trained on is not an error here but `refused` says it.

    Args:
        config: what to read, and how.
        report: told what takes long.
        progress: makes a progress bar of a total and a label, as `Console.progress` does.

    Raises:
        InputError: the data can't be read; a setting of `observe` is out of its domain, or of no use.
    """
    check_observe(config)
    records = read(config)
    images, features = None, None
    skipped: dict[int, str] = {}
    inputs: Inputs
    if isinstance(records.inputs, tuple):
        report(f"{records.source}: reading {len(records.ids):,} images")
        with progress(len(records.ids), "reading images") as advance:
            digests, skipped, images = look_at_files(records.inputs, records.ids, config, advance)
        inputs = ImageFiles(records.inputs, digests, size=THUMBNAIL, max_pixels=config.max_pixels)
    else:
        inputs = records.inputs
        with progress(len(inputs), "reading samples") as advance:
            digests, images, features = look_at_inputs(inputs, records.ids, advance)
    split = records.split or (ALL,) * len(records.ids)
    training, refused, seen = _training(records, config, inputs, skipped)
    by_split = _by_split(records.labels, split)
    chosen = _examples(records.labels, skipped) if inputs.kind == "image" else []
    names = records.labels.take(chosen).to_names(records.classes) if chosen else []
    per_sample = np.bincount(records.labels.positives_per_sample()).tolist()
    return Inspection(
        source=records.source,
        name=records.name,
        kind=inputs.kind,
        notes=records.notes,
        samples=len(records.ids),
        splits={name: split.count(name) for name in by_split},
        extent=records.labels.extent,
        classes=_class_counts(records, by_split, seen),
        labels_per_sample={count: samples for count, samples in enumerate(per_sample) if samples},
        nothing_known=_nothing_known(records.labels),
        without_positive={
            name: tuple(records.classes[column] for column in np.flatnonzero(counts == 0).tolist())
            for name, counts in by_split.items()
        },
        names=suspicious_names(records.classes),
        duplicates=_duplicates(digests, records, split),
        unreadable=tuple((records.ids[row], reason) for row, reason in skipped.items()),
        images=images,
        features=features,
        training=training,
        refused=refused,
        examples=tuple((records.ids[row], tuple(found)) for row, found in zip(chosen, names, strict=True)),
        thumbnails=inputs.fetch(chosen, None).numpy() if chosen else None,
    )


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(part) for part in value]
    if isinstance(value, Mapping):
        return {str(key): _plain(part) for key, part in value.items()}
    return _plain(asdict(value)) if hasattr(value, "__dataclass_fields__") else value


def _training(
    records: Records, config: DataConfig, inputs: Inputs, skipped: Mapping[int, str]
) -> tuple[tuple[str, ...], str, npt.NDArray[np.int64] | None]:
    """What training says of the data beyond what reading says, why it refuses it, positives per class."""
    if len(skipped) > config.max_unreadable * len(inputs):
        return (), f"{len(skipped):,} unreadable images: {name_some(records.ids, skipped)}.", None
    try:
        check_inputs(records)
        dataset = to_dataset(records, config, inputs, skipped)
    except InputError as refusal:
        return (), str(refusal), None
    notes = tuple(note for note in dataset.notes if note not in records.notes)
    return notes, "", dataset.splits["train"].observed.positives_per_class()


def _by_split(labels: ObservedLabels, split: Sequence[str]) -> dict[str, npt.NDArray[np.int64]]:
    """Known positives of each class, per split."""
    of = np.asarray(split)
    return {
        name: labels.take(np.flatnonzero(of == name)).positives_per_class()
        for name in (*SPLITS, ALL)
        if (of == name).any()
    }


def _class_counts(
    records: Records, by_split: Mapping[str, npt.NDArray[np.int64]], seen: npt.NDArray[np.int64] | None
) -> tuple[ClassCounts, ...]:
    positive = records.labels.positives_per_class().tolist()
    negative = records.labels.negatives_per_class().tolist()
    count = len(records.ids)
    return tuple(
        ClassCounts(
            name,
            positive[column],
            negative[column],
            count - positive[column] - negative[column],
            {split: int(counts[column]) for split, counts in by_split.items()},
            None if seen is None else int(seen[column]),
        )
        for column, name in enumerate(records.classes)
    )


def _nothing_known(labels: ObservedLabels) -> int:
    known = labels.positives_per_sample() + labels.negatives_per_sample()
    return int((known == 0).sum())


def _duplicates(digests: Sequence[str], records: Records, split: Sequence[str]) -> tuple[Duplicate, ...]:
    """Groups of rows with the same digest; a row that can't be read has an empty one."""
    rows: dict[str, list[int]] = defaultdict(list)
    for row, digest in enumerate(digests):
        if digest:
            rows[digest].append(row)
    found = []
    for group in rows.values():
        if len(group) > 1:
            labels, step = records.labels.take(group), max(1, CHUNK // records.labels.num_classes)
            first = labels.take([0]).to_ternary()
            blocks = (range(start, min(start + step, len(group))) for start in range(0, len(group), step))
            differ = any(bool((labels.take(block).to_ternary() != first).any()) for block in blocks)
            of = tuple(split[row] for row in group)
            found.append(Duplicate(tuple(records.ids[row] for row in group), of, len(set(of)) > 1, differ))
    return tuple(found)


def _examples(labels: ObservedLabels, skipped: Mapping[int, str]) -> list[int]:
    """Rows to show: class after class gives its next sample, the most frequent class first."""
    columns = np.argsort(-labels.positives_per_class(), kind="stable")[:EXAMPLES].tolist()
    # Enough of each class to find one that is readable and not chosen yet, without listing all.
    most = EXAMPLES * EXAMPLES
    listed = [labels.positive_rows(column)[:most].tolist() for column in columns]
    waiting = [[row for row in rows if row not in skipped] for rows in listed]
    chosen: dict[int, None] = {}
    while len(chosen) < EXAMPLES and any(waiting):
        for rows in waiting:
            while rows and rows[0] in chosen:
                rows.pop(0)
            if rows and len(chosen) < EXAMPLES:
                chosen[rows.pop(0)] = None
    return sorted(chosen)
