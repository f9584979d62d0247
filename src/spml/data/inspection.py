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

from ..common.errors import InputError
from ..common.files import write_json, write_rows
from ..common.messages import Advance, log, progress
from ..common.phrases import counted
from ..config import DataConfig
from ..labels import IntArray, ObservedLabels
from .assemble import check_share_skipped, group_equal, note_alike, to_dataset
from .dataset import Dataset, ImageInputs, Inputs, Kind
from .groups import count_groups, group_codes
from .hiding import check_observe
from .images.decoding import UnreadableImageError, decode, orientation
from .images.image_files import ImageFiles, check_images
from .join import Checked, merge_same_content
from .matrix import FeatureMatrix, chunks
from .readers import read
from .records import Records
from .splits import SPLITS
from .texts import Texts

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


class Range(NamedTuple):
    """Smallest, median and largest of some numbers."""

    smallest: int
    median: float
    largest: int


@dataclass(frozen=True)
class Features:
    """Statistics of feature vectors. Smallest and largest value do not count NaN."""

    width: int  # features per sample
    parts: int  # parts of each sample, whose mean the other numbers describe; 0 = none
    density: float  # share of values that are not 0
    constant: tuple[int, ...]  # columns with the same value in all samples
    smallest: float
    largest: float


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
        duplicates: Groups of samples with the same content.
        unreadable: (file, reason) of images that can't be used.
        training: Remarks that training with these settings would make, one line each.
        refused: Reason why training with these settings is refused; empty if it is not.
        width, height: Sizes in pixels of images that are turned upright; None for other samples.
        features: Statistics, if the samples are feature vectors.
        words: Numbers of words, if the samples are texts.
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
    duplicates: tuple[Duplicate, ...]
    unreadable: tuple[tuple[str, str], ...]
    training: tuple[str, ...]
    refused: str
    width: Range | None = None
    height: Range | None = None
    features: Features | None = None
    words: Range | None = None
    skipped: tuple[tuple[str, str], ...] = ()
    examples: tuple[tuple[str, tuple[str, ...]], ...] = ()
    thumbnails: npt.NDArray[np.uint8] | None = field(default=None, repr=False, compare=False)

    @property
    def mean_labels(self) -> float:
        """Mean number of known positive labels per sample."""
        return sum(count * samples for count, samples in self.labels_per_sample.items()) / self.samples

    @property
    def rare(self) -> tuple[str, ...]:
        """Classes with fewer than `RARE` known positives but at least one, the most frequent first."""
        ranked = sorted(self.classes, key=lambda each: -each.positive)
        return tuple(each.name for each in ranked if 0 < each.positive < RARE)

    @property
    def without_positive(self) -> dict[str, tuple[str, ...]]:
        """Names of classes without a known positive, per split."""
        return {
            split: tuple(each.name for each in self.classes if not each.by_split[split])
            for split in self.splits
        }

    def to_dict(self) -> dict[str, Any]:
        """All values except the pictures, as types that JSON has."""
        values = msgspec.json.decode(msgspec.json.encode(replace(self, thumbnails=None)))
        del values["thumbnails"]
        derived = {name: getattr(self, name) for name in ("mean_labels", "rare", "without_positive")}
        return {**values, **derived}

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
    split = np.asarray(records.split or (ALL,) * len(records.ids))
    labels, positive = records.labels, records.labels.positives_per_class().tolist()
    of_split = {name: np.flatnonzero(split == name) for name in (*SPLITS, ALL) if (split == name).any()}
    by_split = {name: labels.take(rows).positives_per_class() for name, rows in of_split.items()}
    training = dataset.splits["train"].observed.positives_per_class().tolist() if dataset else None
    duplicates = []
    for equal in group_equal(digests):
        known = labels.take(equal)
        counts = np.stack([known.positives_per_class(), known.negatives_per_class()])
        differ = bool(((counts > 0) & (counts < len(equal))).any())
        splits = tuple(split[equal].tolist())
        duplicates.append(
            Duplicate(tuple(records.ids[row] for row in equal), splits, len({*splits}) > 1, differ)
        )
    # The most frequent classes take turns with their next readable sample. So many of each are enough to find
    # one that is not chosen yet.
    rows: list[int] = []
    if inputs.kind == "image":
        frequent = np.argsort(-np.array(positive), kind="stable")[:_EXAMPLES].tolist()
        own = [labels.positive_rows(column)[: _EXAMPLES * _EXAMPLES].tolist() for column in frequent]
        for _ in range(_EXAMPLES):
            for some in own:
                rows += [row for row in some if row not in rows and row not in skipped][:1]
        rows = sorted(rows[:_EXAMPLES])
    names = labels.take(rows).to_names(records.classes) if rows else []
    per_sample = np.bincount(labels.positives_per_sample()).tolist()
    return Inspection(
        source=records.source,
        name=records.name,
        kind=inputs.kind,
        notes=(*records.notes, *filter(None, [note_alike(records.classes, labels)])),
        samples=len(records.ids),
        splits={name: len(rows) for name, rows in of_split.items()},
        groups=count_groups(group_codes(records.groups)) if records.groups else 0,
        extent=records.labels.extent,
        classes=tuple(
            ClassCounts(
                name,
                positive[column],
                negative,
                len(records.ids) - positive[column] - negative,
                {part: int(counts[column]) for part, counts in by_split.items()},
                None if training is None else training[column],
            )
            for column, (name, negative) in enumerate(
                zip(records.classes, labels.negatives_per_class().tolist(), strict=True)
            )
        ),
        labels_per_sample={count: samples for count, samples in enumerate(per_sample) if samples},
        label_means=label_means(dataset) if dataset else {},
        nothing_known=int((records.labels.known_per_sample() == 0).sum()),
        duplicates=tuple(duplicates),
        unreadable=tuple((records.ids[row], reason) for row, reason in skipped.items()),
        **statistics,
        training=tuple(note for note in dataset.notes if note not in records.notes) if dataset else (),
        refused=refused,
        skipped=dataset.skipped if dataset else (),
        examples=tuple((records.ids[row], tuple(labels)) for row, labels in zip(rows, names, strict=True)),
        thumbnails=inputs.fetch(rows, None).numpy() if rows else None,
    )


def _scan(records: Records, config: DataConfig) -> tuple[Checked, Inputs, dict[str, Any]]:
    """Read every sample completely: the records, in which equal files may be one sample now, with a digest of
    each; the samples, images in files as thumbnails; and statistics as `Inspection` names them.
    """
    inputs, ids = records.inputs, records.ids
    if isinstance(inputs, FeatureMatrix):
        with progress(len(ids), "reading samples") as advance:
            digests, features = _scan_features(inputs, advance)
        return Checked(records, digests, {}), inputs, {"features": features}
    if isinstance(inputs, ImageInputs):
        digests = [identity.tobytes().hex() for identity in inputs.identities()]
        checked = Checked(records, digests, {})
        if isinstance(inputs, Texts):
            return checked, inputs, {"words": _range([len(text.split()) for text in inputs])}
        *_, height, width = inputs.fetch([0], None).shape
        return checked, inputs, {"width": _range([width]), "height": _range([height])}
    assert isinstance(inputs, Sequence)
    log.info(f"{records.source}: reading {counted(len(ids), 'image')}")
    skipped: dict[int, str] = {}
    digests, sizes = [], []
    with progress(len(ids), "reading images") as advance:
        for start in range(0, len(ids), BLOCK):
            files = inputs[start : start + BLOCK]
            some, unusable = check_images(files, max_pixels=config.max_pixels, workers=config.workers)
            digests += some
            skipped |= {start + row: reason for row, reason in unusable.items()}
            for file, digest in zip(files, some, strict=True):
                with suppress(OSError, UnreadableImageError):  # it may have vanished since it was read
                    data = file.read_bytes() if digest else b""
                    size, turn = decode(data, config.max_pixels, lambda i: (i.size, orientation(i)))
                    sizes.append(size[::-1] if turn >= 5 else size)
            advance(len(files))
    checked = merge_same_content(Checked(records, digests, skipped), config)
    records, digests, _ = checked
    assert isinstance(records.inputs, Sequence)
    thumbnails = ImageFiles(records.inputs, digests, size=_THUMBNAIL, max_pixels=config.max_pixels)
    sides = dict(zip(("width", "height"), map(_range, zip(*sizes, strict=True)), strict=False))
    return checked, thumbnails, sides


def _scan_features(features: FeatureMatrix, advance: Advance) -> tuple[list[str], Features]:
    width, count = features.width, len(features)
    low, high = np.full(width, np.inf, np.float32), np.full(width, -np.inf, np.float32)
    digests, nonzero = [], 0
    for rows in chunks(count, width):
        block = features.dense(rows) + 0  # -0.0 becomes 0.0
        digests += [hashlib.sha256(row.data).hexdigest() for row in block]
        nonzero += int(np.count_nonzero(block))
        low = np.fmin(low, np.fmin.reduce(block))
        high = np.fmax(high, np.fmax.reduce(block))
        advance(len(rows))
    return digests, Features(
        width=width,
        parts=features.num_parts,
        density=nonzero / (count * width),
        constant=tuple(np.flatnonzero(low == high).tolist()),
        smallest=float(low.min()),
        largest=float(high.max()),
    )


def _range(numbers: Sequence[int]) -> Range:
    return Range(min(numbers), float(np.median(numbers)), max(numbers))
