"""Report on a data set: counts, hidden labels, oddities and examples, and the files that hold them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ...common.files import write_json, write_rows
from ...labels import IntArray, ObservedLabels
from ..dataset import Dataset, Kind
from .class_names import Finding

RARE = 10  # positives below which a class is called rare


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
        values = {name: _plain(value) for name, value in vars(self).items() if name != "thumbnails"}
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


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(part) for part in value]
    if isinstance(value, Mapping):
        return {str(key): _plain(part) for key, part in value.items()}
    return _plain(asdict(value)) if hasattr(value, "__dataclass_fields__") else value
