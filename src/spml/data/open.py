"""The one way into data: `open_dataset` for training and evaluation, `open_inputs` for prediction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from ..config import DataConfig
from ..errors import InputError
from .assemble import Purpose, check_inputs, name_some, to_dataset
from .dataset import Dataset, Inputs
from .hiding import check_observe
from .images import SUFFIXES, FilePart, ImageFiles, check_images
from .inspection.remarks import remarks
from .readers import existing, read
from .readers.features import read_unlabelled
from .readers.folder import list_images
from .records import Records

Report = Callable[[str], None]

_LABEL_FILES = (".arff", ".csv", ".tsv", ".json", ".jsonl", ".parquet", ".xml", ".txt")
"""What holds labels: to be trained on and evaluated on, not predicted."""


def _silent(line: str) -> None:
    """Tell nobody."""


def open_dataset(
    config: DataConfig,
    *,
    size: int = 224,
    interpolation: str = "bilinear",
    purpose: Purpose = "train",
    report: Report = _silent,
) -> Dataset:
    """Read a data set, check every image, hide labels and split as `config` says.

    Args:
        config: what to read, and how.
        size: side to which image files are resized where `config.size` is 0, in pixels.
        interpolation: `nearest`, `bilinear`, `bicubic` or `lanczos`.
        purpose: `evaluate` takes the data as it is: without a split everything is `test`, nothing is held
            out, and nothing is asked of the training samples.
        report: told what takes long.

    Raises:
        InputError: anything wrong with the data; the message names file and row. A setting of `observe` is
            out of its domain, or of no use.
    """
    check_observe(config)
    records = read(config)
    if not isinstance(records.inputs, tuple):
        check_inputs(records)
        return _with_remarks(to_dataset(records, config, records.inputs, {}, purpose), records)
    inputs, skipped = _open_images(
        records.inputs,
        records.ids,
        records.source,
        config,
        config.size or size,
        interpolation,
        config.flip,
        report,
    )
    if len(skipped) > config.max_unreadable * len(inputs):
        raise InputError(
            f"{records.source}: {len(skipped):,} of {len(inputs):,} images can't be used, more than "
            f"data.max_unreadable = {config.max_unreadable:g} allows: {name_some(records.ids, skipped)}. "
            "Repair or remove them, or raise data.max_unreadable."
        )
    return _with_remarks(to_dataset(records, config, inputs, skipped, purpose), records)


def open_inputs(
    paths: Sequence[str],
    config: DataConfig | None = None,
    *,
    size: int = 224,
    interpolation: str = "bilinear",
    report: Report = _silent,
) -> tuple[tuple[str, ...], Inputs, tuple[str, ...]]:
    """Unlabelled samples for prediction: images, folders of images (searched through), or one .npz file.

    Args:
        paths: what to read. Hidden files in folders are ignored; a file that is named twice counts once.
        config: limits on images; `max_unreadable` does not apply.
        size, interpolation: as for `open_dataset`.
        report: told what takes long.

    Returns:
        Names of the samples, the samples, and notes on what was left out.

    Raises:
        InputError: a path is missing, nothing can be read, or images and feature files are mixed.
    """
    config = config or DataConfig()
    given = [existing(path) for path in paths]
    if not given:
        raise InputError("Nothing to predict: give images, folders of images or a .npz file.")
    for path in given:
        if path.is_file() and path.suffix.lower() in _LABEL_FILES:
            raise InputError(
                f"{path}: images, folders of images or one .npz file can be predicted, not {path.suffix} "
                "files."
            )
    features = [path for path in given if path.suffix.lower() == ".npz"]
    if features:
        if len(given) > 1:
            raise InputError(
                f"{features[0]}: a .npz file must be given alone, but there are {len(given)} paths."
            )
        return *read_unlabelled(features[0]), ()
    files: dict[Path, None] = {}
    for path in given:
        files.update(dict.fromkeys(list_images(path)[0] if path.is_dir() else [path]))
    if not files:
        raise InputError(f"{given[0]}: holds no image ({', '.join(sorted(SUFFIXES))}).")
    ids = tuple(path.as_posix() for path in files)
    inputs, skipped = _open_images(
        tuple(files), ids, str(given[0]), config, size, interpolation, False, report
    )
    if len(skipped) == len(ids):
        raise InputError(f"None of {len(ids):,} images can be used: {name_some(ids, skipped)}.")
    kept = np.setdiff1d(np.arange(len(ids)), list(skipped))
    notes = (f"{len(skipped):,} images were skipped: {name_some(ids, skipped)}.",) if skipped else ()
    return tuple(ids[row] for row in kept), inputs.take(kept), notes


def _with_remarks(data: Dataset, records: Records) -> Dataset:
    return replace(data, notes=(*data.notes, *remarks(data, records.labels, records.split is not None)))


def _open_images(
    files: tuple[Path | FilePart, ...],
    ids: tuple[str, ...],
    source: str,
    config: DataConfig,
    size: int,
    interpolation: str,
    flip: bool,
    report: Report,
) -> tuple[ImageFiles, dict[int, str]]:
    report(f"{source}: checking {len(ids):,} images")
    digests, skipped = check_images(files, max_pixels=config.max_pixels, workers=config.workers)
    inputs = ImageFiles(
        files,
        digests,
        size=size,
        interpolation=interpolation,
        flip=flip,
        max_pixels=config.max_pixels,
        draft=config.draft,
    )
    return inputs, skipped
