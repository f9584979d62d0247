"""Manifest of a benchmark as `spml data prepare` writes it: files, labels, split, observed labels."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np

from ...common.documents import load_json
from ...common.errors import InputError
from ...common.files import json_sha256
from ...common.safe import CONTROL, MAX_NAME, inside, quote
from ...config import DataConfig
from ...labels import ObservedLabels
from ..files import are_listed, images_folder
from ..records import Records, label_entries
from . import Source, register_reader

FORMAT = "spml benchmark 1"
PARTS = ("train", "test")  # of the official data; validation rows are some of `train`
MAX_BYTES = 1 << 28
_HEAD = re.compile(rb'\s*\{\s*"format"\s*:\s*"spml benchmark')

Text = Annotated[str, msgspec.Meta(max_length=1000)]
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_NAME)]
Column = Annotated[int, msgspec.Meta(ge=0, lt=1 << 31)]
Observed = Annotated[int, msgspec.Meta(ge=-1, lt=1 << 31)]  # -1: none


class Part(msgspec.Struct):
    """Official training or test set: image files below a folder, columns of their labels, observed column."""

    folder: str
    files: list[str]
    labels: list[list[Column]]
    observed: list[Observed]


class _Parts(msgspec.Struct):
    train: Part
    test: Part


class Manifest(msgspec.Struct):
    """Fields of a manifest that are read."""

    name: Text
    classes: list[Name]
    parts: _Parts
    val: list[Column]
    notes: list[Text]


def is_manifest(source: Source) -> bool:
    """Whether a source is a JSON file that begins like a manifest."""
    return source.suffix == ".json" and bool(_HEAD.match(source.start))


@register_reader("manifest", "a benchmark", recognises=is_manifest, priority=1)
def read_manifest(path: Path, config: DataConfig) -> Records:
    """Read a benchmark; images are looked up below the folder of the manifest, or below `config.images`.

    Rows are those of the official training set, then those of the official test set, in the protocol's order.
    """
    if (size := path.stat().st_size) > MAX_BYTES:
        raise InputError(f"{path}: has {size:,} bytes, more than the limit of {MAX_BYTES:,} for a manifest.")
    content = load_json(path, dict[str, Any])
    if content.get("format") != FORMAT:
        raise InputError(
            f"{path}: its format is {quote(content.get('format'))}, but this version of spml reads "
            f"{FORMAT!r}. Write it again with spml data prepare."
        )
    try:
        if content.get("sha256") != json_sha256(content):
            raise ValueError("its content does not have the SHA-256 that it states")
        manifest = msgspec.convert(content, Manifest)
        labels, protocol, split = _arrays(manifest)
    except (ValueError, RecursionError, msgspec.ValidationError) as error:
        raise InputError(
            f"{path}: was changed since it was written, or is damaged ({error}). Write it again with spml "
            "data prepare."
        ) from error
    root = images_folder(config) or path.parent
    parts = (manifest.parts.train, manifest.parts.test)
    inputs = [image_paths(root, part.folder, part.files, str(path)) for part in parts]
    return Records(
        source=str(path),
        name=manifest.name,
        ids=tuple(f"{part.folder}/{file}" for part in parts for file in part.files),
        inputs=tuple(chain.from_iterable(inputs)),
        classes=tuple(manifest.classes),
        classes_given=True,
        labels=labels,
        split=split,
        notes=tuple(manifest.notes),
        protocol=protocol,
        empty="zero",
    )


def _arrays(manifest: Manifest) -> tuple[ObservedLabels, ObservedLabels, tuple[str, ...]]:
    """Labels, observed labels and split of each row; a `ValueError` if the fields contradict one another."""
    parts = (manifest.parts.train, manifest.parts.test)
    if any(not len(part.files) == len(part.labels) == len(part.observed) for part in parts):
        raise ValueError("files, labels and observed labels differ in length")
    for text in (manifest.name, *manifest.classes, *manifest.notes):
        if CONTROL.search(text):
            raise ValueError(f"{quote(text)} holds control characters")
    if len(set(manifest.classes)) < len(manifest.classes):
        raise ValueError("class names must be distinct")
    training, val = len(manifest.parts.train.files), np.unique(np.array(manifest.val, np.int64))
    if not 0 < len(val) < training or val[-1] >= training:
        raise ValueError("validation rows must be some of the training rows")
    split = np.repeat(np.array(PARTS, "U5"), [len(part.files) for part in parts])
    split[val] = "val"
    listed = [row for part in parts for row in part.labels]
    columns = np.array([*chain.from_iterable(listed)], np.int64)
    observed = np.array([*chain.from_iterable(part.observed for part in parts)], np.int64)
    shape = (len(listed), len(manifest.classes))
    if np.append(columns, observed).max(initial=-1) >= shape[1]:
        raise ValueError("a label is not the column of a class")
    labels = label_entries((np.repeat(np.arange(shape[0]), [*map(len, listed)]), columns), shape, "negative")
    rows = np.flatnonzero(observed >= 0)
    if (labels.at(rows, observed[rows]) != 1).any():
        raise ValueError("an observed label is not one of the labels of its image")
    return labels, label_entries((rows, observed[rows]), shape, "unknown"), tuple(split.tolist())


def image_paths(root: Path, folder: str, files: Sequence[str], where: str) -> list[Path]:
    """Paths of the images of a part, which need not exist, but must lie below `root`."""
    names = [f"{folder}/{file}" for file in files]
    listed = are_listed(root, names)
    return [
        root / name if known else inside(root, name, where) for name, known in zip(names, listed, strict=True)
    ]
