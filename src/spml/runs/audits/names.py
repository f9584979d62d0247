"""Samples of other data that a run knows: by their files, or by what they hold."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from ...config import Config, DataConfig
from ...data import Inputs
from ...data.files.names import RowNames
from ...data.images.image_files import ImageSource
from ...data.matrix import FeatureMatrix
from ...data.readers import Source, read
from ...data.readers.shards import is_shards


def names_in_training(
    config: Config | None, ids: Sequence[str], inputs: Inputs | Sequence[ImageSource]
) -> Iterator[tuple[str, ...]]:
    """Names that each sample may have in the data that a run was trained on.

    Args:
        config: Settings of the training; None if they are not known.
        ids: Names of all samples of the data.
        inputs: The samples, or their files.
    """
    trained_on = Path(config.data.path) if config and config.data.path else None
    if isinstance(inputs, FeatureMatrix) and ids == RowNames(len(ids)):
        # Row 7 of one file is not row 7 of another one, so that features are compared instead.
        same = _names_by_content(trained_on) if trained_on and _may_hold_features(trained_on) else {}
        for digest in _digests(inputs):
            yield (same[digest],) if digest in same else ()
        return
    if not isinstance(inputs, Sequence) or config is None or trained_on is None:
        yield from ((name,) for name in ids)
        return
    folder = trained_on if trained_on.is_dir() else trained_on.parent
    root = os.path.abspath(config.data.images or folder)
    for name, file in zip(ids, inputs, strict=True):
        if isinstance(file, Path):
            yield name, Path(os.path.relpath(os.path.abspath(file), root)).as_posix()
        else:
            yield (name,)


def _may_hold_features(path: Path) -> bool:
    return path.is_file() or (path.is_dir() and is_shards(Source(path)))


def _names_by_content(path: Path) -> dict[bytes, str]:
    """Names of the rows of a feature file by what they hold; none for other data."""
    records = read(DataConfig(path=str(path), unlabelled="skip"))
    if not isinstance(records.inputs, FeatureMatrix):
        return {}
    return dict(zip(_digests(records.inputs), records.ids, strict=True))


def _digests(features: FeatureMatrix) -> Iterator[bytes]:
    for row in range(len(features)):
        yield hashlib.sha256(features.dense([row]).tobytes()).digest()
