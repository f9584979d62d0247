"""Manifest of a benchmark as `spml data prepare` writes it: files, labels, split, observed labels."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ...config import DataConfig
from ...errors import InputError
from ...labels import ObservedLabels
from ..hiding.protocol import observed_labels
from ..records import Records
from ..safe import inside, shown
from .documents import load_json
from .places import images_folder
from .registry import register_reader

FORMAT = "spml benchmark 1"
PARTS = ("train", "test")  # of the official data; validation rows are some of `train`
MAX_BYTES = 1 << 28
_HEAD = re.compile(rb'\s*\{\s*"format"\s*:\s*"spml benchmark')
_USUAL = re.compile(r"(\w[\w.-]*/)*\w[\w.-]*", re.ASCII)


def is_manifest(path: Path) -> bool:
    """Whether a file begins as a manifest does."""
    try:
        with open(path, "rb") as stream:
            return _HEAD.match(stream.read(200)) is not None
    except OSError:
        return False


def digest(content: dict[str, Any]) -> str:
    """SHA-256 over a manifest without its own `sha256`, however its JSON is laid out."""
    rest = {key: value for key, value in content.items() if key != "sha256"}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


@register_reader(
    "manifest",
    "a benchmark",
    recognises=lambda source: source.suffix == ".json" and is_manifest(source.path),
    priority=1,
)
def read_manifest(path: Path, config: DataConfig) -> Records:
    """Read a benchmark; images are looked up below the folder of the manifest, or below `config.images`.

    Rows are those of the official training set, then those of the official test set, in the protocol's order.

    Raises:
        InputError: damaged or changed, of another version, or an image outside that folder.
    """
    if (size := path.stat().st_size) > MAX_BYTES:
        raise InputError(f"{path}: {size:,} bytes are more than a manifest may have ({MAX_BYTES:,}).")
    content = load_json(path)
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        found = shown(content.get("format") if isinstance(content, dict) else content)
        raise InputError(
            f"{path}: its format is {found}, but this version of spml reads {FORMAT!r}. Write it anew: spml "
            "data prepare."
        )
    if content.get("sha256") != digest(content):
        raise _damaged(path, "its content does not have the SHA-256 that it states")
    try:
        return _records(path, images_folder(config) or path.parent, content)
    except InputError:
        raise
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise _damaged(path, f"{type(error).__name__}: {error}") from error


def _damaged(path: Path, reason: str) -> InputError:
    return InputError(
        f"{path}: was changed since it was written, or is damaged ({reason}). Write it anew: spml data "
        "prepare."
    )


def _records(path: Path, root: Path, content: dict[str, Any]) -> Records:
    classes, parts = _strings(content["classes"], "classes"), [content["parts"][name] for name in PARTS]
    files = [_strings(part["files"], "files") for part in parts]
    for part, named in zip(parts, files, strict=True):
        if not len(named) == len(part["labels"]) == len(part["observed"]):
            raise ValueError("files, labels and observed labels are not of one length")
    if len(set(classes)) < len(classes):
        raise ValueError("class names must be distinct")
    labels = _labels([row for part in parts for row in part["labels"]], len(classes))
    observed = _observed([column for part in parts for column in part["observed"]], labels)
    split = np.repeat(np.array(PARTS, "U5"), [len(named) for named in files])
    val = _integers(content["val"], 0, len(files[0]))
    if not 0 < len(val) < len(files[0]) or (np.diff(val) <= 0).any():
        raise ValueError("validation rows must be ascending and some of the training rows")
    split[val] = "val"
    name, *folders = _strings([content["name"], *(part["folder"] for part in parts)], "names")
    return Records(
        source=str(path),
        name=name,
        ids=tuple(f"{folder}/{file}" for folder, named in zip(folders, files, strict=True) for file in named),
        inputs=tuple(
            chain.from_iterable(
                image_paths(root, folder, named, str(path))
                for folder, named in zip(folders, files, strict=True)
            )
        ),
        classes=classes,
        classes_given=True,
        labels=labels,
        split=tuple(split.tolist()),
        notes=_strings(content["notes"], "notes"),
        protocol=observed_labels(observed, len(classes)),
    )


def image_paths(root: Path, folder: str, files: Sequence[str], where: str) -> list[Path]:
    """Where the images of a part are; they need not be there.

    Names are many: closely looked at are folders, links and names that are unusual.

    Args:
        root: what no image may lie outside of.
        folder: of the part, relative to the root.
        files: relative to that folder.
        where: what names them, for messages.

    Raises:
        InputError: an image outside the root.
    """
    base = inside(root, folder, where)
    links: set[str] = set()
    for below, file in {file.rpartition("/")[0]: file for file in files}.items():
        inside(root, f"{folder}/{file}", where)
        links |= _links(base, below)
    return [
        base / file
        if _USUAL.fullmatch(file) and file not in links
        else inside(root, f"{folder}/{file}", where)
        for file in files
    ]


def _links(base: Path, below: str) -> set[str]:
    """Files of a folder that are links, relative to `base`: one look at the folder, not one at each file."""
    try:
        with os.scandir(base / below) as entries:
            return {f"{below}/{entry.name}".lstrip("/") for entry in entries if entry.is_symlink()}
    except OSError:
        return set()  # the folder is not there, so no file in it can be read


def _strings(values: Any, what: str) -> tuple[str, ...]:
    if not isinstance(values, list) or not all(type(value) is str for value in values):
        raise ValueError(f"{what} must be a list of strings")
    return tuple(values)


def _integers(values: Any, low: int, high: int) -> npt.NDArray[np.int64]:
    """Integers in [low, high), given as a list of them."""
    array = np.asarray(values)
    if array.ndim != 1 or (array.size and array.dtype.kind != "i"):
        raise ValueError("expected a list of integers")
    if array.size and not low <= array.min() <= array.max() < high:
        raise ValueError(f"an integer lies outside {low} ... {high - 1}")
    return array.astype(np.int64)


def _labels(rows: list[Any], num_classes: int) -> ObservedLabels:
    if not all(type(row) is list for row in rows):
        raise ValueError("labels must be lists of columns")
    columns = _integers(list(chain.from_iterable(rows)), 0, num_classes)
    indptr = np.cumsum([0, *map(len, rows)])
    if (np.diff(np.repeat(np.arange(len(rows)), np.diff(indptr)) * num_classes + columns) <= 0).any():
        raise ValueError("the columns of each row must be ascending")
    return ObservedLabels(indptr, columns, np.ones(len(columns), np.int8), num_classes, -1)


def _observed(values: list[Any], labels: ObservedLabels) -> npt.NDArray[np.int64]:
    """The column that is observed of each row, one of its positives; -1 for none."""
    columns = _integers(values, -1, labels.num_classes)
    rows = np.flatnonzero(columns >= 0)
    known, positives = labels.entries(1)
    keys, truth = rows * labels.num_classes + columns[rows], known * labels.num_classes + positives
    places = np.searchsorted(truth, keys)
    if (places == len(truth)).any() or (truth[places] != keys).any():
        raise ValueError("an observed label is no label of its image")
    return columns
