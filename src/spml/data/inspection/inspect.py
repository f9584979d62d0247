"""Inspection of a data set: read every sample, count, compare, and try what training would do."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from ...common.errors import InputError
from ...common.phrases import counted
from ...common.progress import Advance, Progress, no_progress
from ...config import DataConfig
from ...labels import IntArray, ObservedLabels
from ..assemble import check_share_skipped, group_equal, to_dataset
from ..dataset import Dataset, ImageInputs, Inputs
from ..groups import count_groups, group_codes
from ..hiding import check_observe
from ..images.decoding import UnreadableImageError, decode
from ..images.decoding import orientation as orientation_of
from ..images.image_files import ImageFiles, ImageSource, check_images, note_twelve_bits
from ..join import Checked, merge_same_content
from ..matrix import FeatureMatrix, chunks
from ..readers import read
from ..records import Records
from ..splits import SPLITS
from ..texts import Texts
from .class_names import suspicious_names
from .report import ClassCounts, Duplicate, Features, ImageSizes, Inspection, Words, label_means

ALL = "all"  # name under which samples are counted if the data has no split
BLOCK = 256  # images between two steps of a progress bar
_EXAMPLES = 12
_THUMBNAIL = 160  # side of an example in pixels


def inspect(
    config: DataConfig,
    *,
    report: Callable[[str], None] = lambda line: None,
    progress: Progress = no_progress,
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
    (records, digests, skipped), inputs, statistics = _scan(read(config), config, report, progress)
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
    rows = _choose_examples(records.labels, skipped) if inputs.kind == "image" else []
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
        classes=_count_classes(records, by_split, dataset),
        labels_per_sample={count: samples for count, samples in enumerate(per_sample) if samples},
        label_means=label_means(dataset) if dataset else {},
        nothing_known=int((records.labels.known_per_sample() == 0).sum()),
        without_positive={
            name: tuple(records.classes[column] for column in np.flatnonzero(counts == 0))
            for name, counts in by_split.items()
        },
        names=suspicious_names(records.classes),
        duplicates=_find_duplicates(digests, records, split),
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
    records: Records, config: DataConfig, report: Callable[[str], None], progress: Progress
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
    report(f"{records.source}: reading {counted(len(ids), 'image')}")
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
                    sizes[row] = _upright_size(file, config.max_pixels)
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


def _upright_size(path: ImageSource, max_pixels: int) -> tuple[int, int]:
    """Width and height by the header, turned upright; (0, 0) if the file has vanished since it was read."""
    try:
        size, orientation = decode(
            path.read_bytes(), max_pixels, lambda image: (image.size, orientation_of(image))
        )
    except (OSError, UnreadableImageError):
        return 0, 0
    return (size[1], size[0]) if orientation >= 5 else size


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


def _count_classes(
    records: Records, by_split: Mapping[str, IntArray], dataset: Dataset | None
) -> tuple[ClassCounts, ...]:
    positive, negative = records.labels.positives_per_class(), records.labels.negatives_per_class()
    numbers = (positive, negative, len(records.ids) - positive - negative)
    positives = zip(*(counts.tolist() for counts in by_split.values()), strict=True)
    splits = [dict(zip(by_split, each, strict=True)) for each in positives]
    training: list[int | None] = [None] * len(splits)
    if dataset:
        training = dataset.splits["train"].observed.positives_per_class().tolist()
    return tuple(map(ClassCounts, records.classes, *(each.tolist() for each in numbers), splits, training))


def _find_duplicates(digests: Sequence[str], records: Records, split: Sequence[str]) -> tuple[Duplicate, ...]:
    duplicates = []
    for rows in group_equal(digests):
        ids, splits = tuple(records.ids[row] for row in rows), tuple(split[row] for row in rows)
        labels = records.labels.take(rows)
        counts = np.stack([labels.positives_per_class(), labels.negatives_per_class()])
        differ = bool(((counts > 0) & (counts < len(rows))).any())
        duplicates.append(Duplicate(ids, splits, len(set(splits)) > 1, differ))
    return tuple(duplicates)


def _choose_examples(labels: ObservedLabels, skipped: Mapping[int, str]) -> list[int]:
    """Rows to show: the classes take turns with their next sample, beginning with the most frequent one."""
    columns = np.argsort(-labels.positives_per_class(), kind="stable")[:_EXAMPLES].tolist()
    # Enough of each class to find one that is readable and not chosen yet, without listing all.
    limit = _EXAMPLES * _EXAMPLES
    candidates = [
        [row for row in labels.positive_rows(column)[:limit].tolist() if row not in skipped]
        for column in columns
    ]
    chosen: list[int] = []
    for _ in range(_EXAMPLES):
        for rows in candidates:
            chosen += [row for row in rows if row not in chosen][:1]
    return sorted(chosen[:_EXAMPLES])
