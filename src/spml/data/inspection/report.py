"""Inspection of a data set: read every sample, count, compare, and try what training would do."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from ...common.errors import InputError
from ...common.files import write_json, write_rows
from ...common.messages import Advance, log, progress
from ...common.phrases import counted
from ...config import DataConfig
from ...labels import IntArray, ObservedLabels
from ..assemble import check_share_skipped, group_equal, to_dataset
from ..dataset import Dataset, ImageInputs, Inputs, Kind
from ..groups import count_groups, group_codes
from ..hiding import check_observe
from ..images.decoding import UnreadableImageError, decode, orientation
from ..images.image_files import ImageFiles, check_images, note_twelve_bits
from ..join import Checked, merge_same_content
from ..matrix import FeatureMatrix, chunks
from ..readers import read
from ..records import Records
from ..splits import SPLITS
from ..texts import Texts
from .class_names import Finding, suspicious_names

RARE = 10  # positives below which a class is called rare
ALL = "all"  # name under which samples are counted if the data has no split
BLOCK = 256  # images between two steps of a progress bar
_EXAMPLES = 12
_THUMBNAIL = 160  # side of an example in pixels


@dataclass(frozen=True)
class ClassCounts:
    """Known labels of one class."""

    name: str  # name of the class
    positive: int  # samples in which it is known to be present
    negative: int  # samples in which it is known to be absent
    unknown: int  # samples in which it is not known
    by_split: Mapping[str, int]  # known positives per split
    training: int | None  # known positives that training would see; None if it is refused


@dataclass(frozen=True)
class Duplicate:
    """Samples with the same content."""

    ids: tuple[str, ...]  # names of the samples
    splits: tuple[str, ...]  # split of each
    across: bool  # whether they are in several splits
    labels_differ: bool  # whether they have different known labels


@dataclass(frozen=True)
class ImageSizes:
    """Sizes in pixels of images that are turned upright."""

    width: tuple[int, float, int]  # smallest, median and largest width
    height: tuple[int, float, int]  # smallest, median and largest height
    tallest: tuple[str, float]  # image with the smallest width / height, and that ratio
    widest: tuple[str, float]  # image with the largest width / height, and that ratio


class Words(NamedTuple):
    """Numbers of words of texts."""

    fewest: int
    median: float
    most: int


@dataclass(frozen=True)
class Features:
    """Statistics of feature vectors."""

    width: int  # features per sample
    parts: int  # parts of each sample, whose mean the other numbers describe; 0 = none
    density: float  # share of values that are not 0
    constant: tuple[int, ...]  # columns with the same value in all samples
    non_finite: int  # number of values that are NaN or infinite, also as float32
    rows_non_finite: tuple[str, ...]  # samples with such values, at most 100
    smallest: float  # smallest finite value
    largest: float  # largest finite value
    scales: tuple[float, float]  # smallest and largest range of a column that is not constant


class PositiveCounts(NamedTuple):
    """Number of samples per class, each int64 (C,)."""

    observed: IntArray  # observed positives, true or wrong
    hidden: IntArray | None  # true positives that are not observed; None if the true labels are not known
    wrong: IntArray | None  # observed positives that are absent in truth; None likewise


@dataclass(frozen=True)
class LabelMeans:
    """Mean numbers of labels per sample of a split, as training sees it.

    Those that need the true labels are None where these are not known.
    """

    samples: int  # number of samples
    positives: float | None  # true positives
    negatives: float | None  # true negatives
    observed_positives: float  # observed positives, true or wrong
    observed_negatives: float  # observed negatives
    hidden_positives: float | None  # true positives that are not observed
    wrong_positives: float | None  # observed positives that are absent in truth


@dataclass(frozen=True)
class Inspection:
    """Report on a data set, which `spml.data.inspect` returns.

    Attributes:
        source: Path as the user gave it.
        name: Name of the data set.
        kind: `image`, `feature` or `text`.
        notes: How the file or folder was understood, one line each.
        samples: Number of samples.
        splits: Samples per split; all are under `all` if the data has no split.
        groups: Number of groups; 0 without groups.
        extent: `single-positive`, `full` or `partial`, of the labels as they are given.
        classes: One entry per class, in the order of the data.
        labels_per_sample: Number of samples for each number of known positive labels that occurs.
        label_means: Mean numbers of true, observed and hidden labels per sample of each split, after hiding
            and holding out; empty if the data can't be trained on.
        nothing_known: Samples without any known label.
        without_positive: Names of classes without a known positive, per split.
        names: Class names that are probably mistakes.
        duplicates: Groups of samples with the same content.
        unreadable: (file, reason) of images that can't be used.
        images: Sizes, if the samples are images.
        features: Statistics, if the samples are feature vectors.
        words: Numbers of words, if the samples are texts.
        training: Remarks that training with these settings would make, one line each.
        refused: Reason why training with these settings is refused; empty if it is not.
        skipped: (sample, reason) of the samples that training would leave out; empty if it is refused.
        examples: (sample, its known positive labels) of the pictures in `thumbnails`.
        thumbnails: uint8 (n, channels, H, W), images for a figure; not part of `to_dict`.
    """

    source: str
    name: str
    kind: Kind
    notes: tuple[str, ...]
    samples: int
    splits: Mapping[str, int]
    groups: int
    extent: str
    classes: tuple[ClassCounts, ...]
    labels_per_sample: Mapping[int, int]
    label_means: Mapping[str, LabelMeans]
    nothing_known: int
    without_positive: Mapping[str, tuple[str, ...]]
    names: tuple[Finding, ...]
    duplicates: tuple[Duplicate, ...]
    unreadable: tuple[tuple[str, str], ...]
    images: ImageSizes | None
    features: Features | None
    words: Words | None
    training: tuple[str, ...]
    refused: str
    skipped: tuple[tuple[str, str], ...] = ()
    examples: tuple[tuple[str, tuple[str, ...]], ...] = ()
    thumbnails: npt.NDArray[np.uint8] | None = field(default=None, repr=False, compare=False)

    @property
    def mean_labels(self) -> float:
        """Mean number of known positive labels per sample."""
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
            "rare": [c.name for c in ranked if c.positive < RARE],
        }

    def to_dict(self) -> dict[str, Any]:
        """All values except the pictures, as types that JSON has."""
        values = msgspec.json.decode(msgspec.json.encode(replace(self, thumbnails=None)))
        del values["thumbnails"]
        return {**values, "mean_labels": self.mean_labels, "imbalance": self.imbalance}

    def write(self, folder: Path) -> None:
        """Write inspect.json, classes.csv, duplicates.csv, unreadable.csv and skipped.csv."""
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
        write_rows(folder / "skipped.csv", ("file", "reason"), self.skipped)


def count_positives(observed: ObservedLabels, truth: ObservedLabels | None) -> PositiveCounts:
    """Count observed, hidden and wrong positives of each class, given full labels if they are known."""
    if truth is None:
        return PositiveCounts(observed.positives_per_class(), None, None)
    classes = truth.num_classes
    shown, true = (
        np.ravel_multi_index(labels.entries(1), (len(truth), classes)) for labels in (observed, truth)
    )
    hidden, wrong = np.setdiff1d(true, shown), np.setdiff1d(shown, true)
    return PositiveCounts(
        observed.positives_per_class(),
        *(np.bincount(entries % classes, minlength=classes).astype(np.int64) for entries in (hidden, wrong)),
    )


def label_means(data: Dataset) -> dict[str, LabelMeans]:
    """Mean numbers of labels per sample, per split.

    The statistics of Chen et al., "Boosting Single Positive Multi-label Classification with Generalized
    Robust Loss", Table 5, and what is observed and hidden of them.
    """
    means = {}
    for name, split in data.splits.items():
        truth, size = data.truth.get(name), len(split)
        counts = count_positives(split.observed, truth)
        means[name] = LabelMeans(
            samples=size,
            positives=None if truth is None else int(truth.positives_per_class().sum()) / size,
            negatives=None if truth is None else int(truth.negatives_per_class().sum()) / size,
            observed_positives=int(counts.observed.sum()) / size,
            observed_negatives=int(split.observed.negatives_per_class().sum()) / size,
            hidden_positives=None if counts.hidden is None else int(counts.hidden.sum()) / size,
            wrong_positives=None if counts.wrong is None else int(counts.wrong.sum()) / size,
        )
    return means


def inspect(config: DataConfig) -> Inspection:
    """Read a data set completely and report on its content.

    A mistake that only keeps the data from being trained on is not raised; it is in `refused`.

    Args:
        config: Settings of the data.

    Raises:
        InputError: The data can't be read, or a setting of `observe` is out of its domain or has no effect.
    """
    check_observe(config)
    (records, digests, skipped), inputs, statistics = _scan(read(config), config)
    dataset, refused = None, ""
    try:
        check_share_skipped(records, skipped, config)
        dataset = to_dataset(records, config, inputs, skipped)
    except InputError as refusal:
        refused = str(refusal)
    split = records.split or (ALL,) * len(records.ids)
    split_names = np.asarray(split)
    of_split = {name: np.flatnonzero(split_names == name) for name in (*SPLITS, ALL)}
    by_split = {
        name: records.labels.take(rows).positives_per_class() for name, rows in of_split.items() if len(rows)
    }
    labels, positive = records.labels, records.labels.positives_per_class()
    # Examples: the classes take turns with their next sample, beginning with the most frequent one. That many
    # of each class are enough to find one that is readable and not chosen yet.
    candidates = [
        [row for row in labels.positive_rows(column)[: _EXAMPLES * _EXAMPLES].tolist() if row not in skipped]
        for column in np.argsort(-positive, kind="stable")[:_EXAMPLES].tolist()
        if inputs.kind == "image"
    ]
    rows: list[int] = []
    for _ in range(_EXAMPLES):
        for own in candidates:
            rows += [row for row in own if row not in rows][:1]
    rows = sorted(rows[:_EXAMPLES])
    duplicates = []
    for equal in group_equal(digests):
        known = labels.take(equal)
        counts = np.stack([known.positives_per_class(), known.negatives_per_class()])
        differ = bool(((counts > 0) & (counts < len(equal))).any())
        ids, splits = tuple(records.ids[row] for row in equal), tuple(split[row] for row in equal)
        duplicates.append(Duplicate(ids, splits, len({*splits}) > 1, differ))
    negative = labels.negatives_per_class()
    columns = {
        "positive": positive.tolist(),
        "negative": negative.tolist(),
        "unknown": (len(records.ids) - positive - negative).tolist(),
        "by_split": [
            dict(zip(by_split, each, strict=True))
            for each in zip(*(counts.tolist() for counts in by_split.values()), strict=True)
        ],
        "training": dataset.splits["train"].observed.positives_per_class().tolist()
        if dataset
        else [None] * len(positive),
    }
    names = records.labels.take(rows).to_names(records.classes) if rows else []
    per_sample = np.bincount(records.labels.positives_per_sample()).tolist()
    return Inspection(
        source=records.source,
        name=records.name,
        kind=inputs.kind,
        notes=records.notes,
        samples=len(records.ids),
        splits={name: len(of_split[name]) for name in by_split},
        groups=count_groups(group_codes(records.groups)) if records.groups else 0,
        extent=records.labels.extent,
        classes=tuple(map(ClassCounts, records.classes, *columns.values())),
        labels_per_sample={count: samples for count, samples in enumerate(per_sample) if samples},
        label_means=label_means(dataset) if dataset else {},
        nothing_known=int((records.labels.known_per_sample() == 0).sum()),
        without_positive={
            name: tuple(records.classes[column] for column in np.flatnonzero(counts == 0))
            for name, counts in by_split.items()
        },
        names=suspicious_names(records.classes),
        duplicates=tuple(duplicates),
        unreadable=tuple((records.ids[row], reason) for row, reason in skipped.items()),
        images=statistics if isinstance(statistics, ImageSizes) else None,
        features=statistics if isinstance(statistics, Features) else None,
        words=statistics if isinstance(statistics, Words) else None,
        training=tuple(note for note in dataset.notes if note not in records.notes) if dataset else (),
        refused=refused,
        skipped=dataset.skipped if dataset else (),
        examples=tuple((records.ids[row], tuple(labels)) for row, labels in zip(rows, names, strict=True)),
        thumbnails=inputs.fetch(rows, None).numpy() if rows else None,
    )


def _scan(
    records: Records, config: DataConfig
) -> tuple[Checked, Inputs, ImageSizes | Features | Words | None]:
    """Read every sample completely: the records, in which equal files may be one sample now, with a digest of
    each; the samples, images in files as thumbnails; and their statistics, None if no image can be used.
    """
    inputs, ids = records.inputs, records.ids
    if isinstance(inputs, FeatureMatrix):
        with progress(len(ids), "reading samples") as advance:
            digests, features = _scan_features(inputs, ids, advance)
        return Checked(records, digests, {}), inputs, features
    if isinstance(inputs, ImageInputs):
        digests = [identity.tobytes().hex() for identity in inputs.identities()]
        if isinstance(inputs, Texts):
            lengths = np.array([len(text.split()) for text in inputs])
            words = Words(int(lengths.min()), float(np.median(lengths)), int(lengths.max()))
            return Checked(records, digests, {}), inputs, words
        *_, height, width = inputs.fetch([0], None).shape
        return Checked(records, digests, {}), inputs, _summarise(np.tile([width, height], (len(ids), 1)), ids)
    assert isinstance(inputs, Sequence)
    log.info(f"{records.source}: reading {counted(len(ids), 'image')}")
    skipped: dict[int, str] = {}
    digests, sizes = [], np.zeros((len(ids), 2), np.int64)
    with progress(len(ids), "reading images") as advance:
        for start in range(0, len(ids), BLOCK):
            files = inputs[start : start + BLOCK]
            some, unusable = check_images(files, max_pixels=config.max_pixels, workers=config.workers)
            digests += some
            skipped |= {start + row: reason for row, reason in unusable.items()}
            for row, (file, digest) in enumerate(zip(files, some, strict=True), start):
                if digest:
                    with suppress(OSError, UnreadableImageError):  # it has vanished since it was read
                        data = file.read_bytes()
                        size, turn = decode(data, config.max_pixels, lambda i: (i.size, orientation(i)))
                        sizes[row] = size[::-1] if turn >= 5 else size
            advance(len(files))
    checked = merge_same_content(Checked(records, digests, skipped), config)
    records, digests, _ = checked
    assert isinstance(records.inputs, Sequence)
    thumbnails = ImageFiles(records.inputs, digests, size=_THUMBNAIL, max_pixels=config.max_pixels)
    if note := note_twelve_bits(digests):
        checked = checked._replace(records=replace(records, notes=(*records.notes, note)))
    return checked, thumbnails, _summarise(sizes, ids)


def _scan_features(
    features: FeatureMatrix, ids: Sequence[str], advance: Advance
) -> tuple[list[str], Features]:
    width, count = features.width, len(features)
    low, high = np.full(width, np.inf, np.float32), np.full(width, -np.inf, np.float32)
    digests, rows_non_finite, nonzero, non_finite = [], [], 0, 0
    for rows in chunks(count, width):
        block = features.dense(rows) + 0  # -0.0 becomes 0.0
        digests += [hashlib.sha256(row.data).hexdigest() for row in block]
        finite = np.isfinite(block)
        nonzero += int(np.count_nonzero(block))
        non_finite += int((~finite).sum())
        rows_non_finite += rows[~finite.all(axis=1)].tolist()
        low = np.minimum(low, np.where(finite, block, np.inf).min(axis=0))
        high = np.maximum(high, np.where(finite, block, -np.inf).max(axis=0))
        advance(len(rows))
    ranges = high.astype(np.float64) - low
    varying = ranges[ranges > 0]
    any_finite = np.isfinite(low)
    return digests, Features(
        width=width,
        parts=features.num_parts,
        density=nonzero / (count * width),
        constant=tuple(np.flatnonzero(ranges == 0).tolist()),
        non_finite=non_finite,
        rows_non_finite=tuple(ids[row] for row in rows_non_finite[:100]),
        smallest=float(low[any_finite].min()) if any_finite.any() else 0.0,
        largest=float(high[any_finite].max()) if any_finite.any() else 0.0,
        scales=(float(varying.min()), float(varying.max())) if len(varying) else (0.0, 0.0),
    )


def _summarise(sizes: npt.NDArray[np.int64], ids: Sequence[str]) -> ImageSizes | None:
    rows = np.flatnonzero(sizes.all(axis=1))
    if not len(rows):
        return None
    width, height = sizes[rows].T
    ratio = width / height
    tallest, widest = int(ratio.argmin()), int(ratio.argmax())
    return ImageSizes(
        width=(int(width.min()), float(np.median(width)), int(width.max())),
        height=(int(height.min()), float(np.median(height)), int(height.max())),
        tallest=(ids[rows[tallest]], float(ratio[tallest])),
        widest=(ids[rows[widest]], float(ratio[widest])),
    )
