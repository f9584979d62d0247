"""The documents of a run, checked where they are read: model.json, summary.json, metrics.jsonl, and files of
tensors that describe themselves.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import torch
from safetensors import SafetensorError, safe_open

from ... import models
from ...common.documents import parse_json
from ...common.errors import InputError
from ...common.files import check_json_sha256
from ...common.safe import is_special, read_bytes
from ...engine.checkpoint import BLANK, OtherRun, has_checksum, write_checked
from . import layout as run_files
from .layout import check_identity, identity_in

_Positive = Annotated[float, msgspec.Meta(gt=0)]


class _Method(msgspec.Struct):
    name: str


class _Threshold(msgspec.Struct):
    """One threshold for all classes."""

    logit: float
    labels_per_sample: _Positive
    source: str
    curve: Annotated[list[tuple[_Positive, float]], msgspec.Meta(min_length=1)]

    def __post_init__(self) -> None:
        labels = [point[0] for point in self.curve]
        if labels != sorted(labels):
            raise ValueError("the numbers of labels per sample must rise - at `$.threshold.curve`")
        if not all(map(math.isfinite, (self.logit, *(point[1] for point in self.curve)))):
            raise ValueError("its numbers must be finite")


class _Card(msgspec.Struct):
    """Additions of a run to the description of a model in model.json, as others read them."""

    classes: list[str]
    method: _Method
    threshold: _Threshold
    without_positives: list[str]
    feature_names: list[str] = []
    by_name: list[str] = []

    def __post_init__(self) -> None:
        known = set(self.classes)
        for field in ("without_positives", "by_name"):
            for position, name in enumerate(getattr(self, field)):
                if name not in known:
                    raise ValueError(f"there is no class {name!r} - at `$.{field}[{position}]`")


class _Selected(msgspec.Struct):
    metric: str
    mean_labels: float | None = None
    penalty: float | Literal["infinity"] | None = None
    l2: float | None = None


class _Data(msgspec.Struct):
    fingerprint: str


class _Candidate(msgspec.Struct):
    run: str
    kept: bool


class _Summary(msgspec.Struct):
    """The parts of summary.json that others read."""

    selected: _Selected
    validation: dict[str, Any]
    data: _Data
    metrics_sha256: str
    test: dict[str, float] | None = None
    candidates: list[_Candidate] = []

    def __post_init__(self) -> None:
        if not isinstance(self.validation.get(self.selected.metric), (int, float)):
            raise ValueError(f"there is no number of {self.selected.metric!r} - at `$.validation`")


def read_summary(folder: Path) -> dict[str, Any]:
    """Read the summary of a finished run.

    Raises:
        InputError: It is missing, is not JSON, lacks what every summary has, in which case the message names
            the field, or does not have the SHA-256 that it states.
    """
    advice = "Name the folder of a finished run, or train it again."
    return _read(folder / run_files.SUMMARY, advice, lambda summary: msgspec.convert(summary, _Summary))


def read_document(path: Path) -> dict[str, Any]:
    """Read evaluation.json or audited.json in the folder of a run.

    Raises:
        InputError: It can't be read, is damaged or of another run.
    """
    return _read(path, "Make it again, or remove it.")


def _read(path: Path, advice: str, check: Callable[[dict[str, Any]], Any] | None = None) -> dict[str, Any]:
    try:
        content: dict[str, Any] = parse_json(read_bytes(path))
        if check:
            check(content)
        stated = content.get("run", "")
        # Other documents of an earlier version have the digest of a table in the field `sha256`.
        if check or stated:
            check_json_sha256(content)
    except (OSError, ValueError, RecursionError, AttributeError) as error:
        raise InputError(f"{path}: can't be read ({error}). {advice}") from error
    check_identity(path, stated)
    return content


def read_metrics(folder: Path, summary: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    """Read what a run measured: a record per epoch, or per solution of a solved head.

    Args:
        folder: Folder of the run.
        summary: Content of its summary, if it is known; None = it is read, if the run has finished.

    Raises:
        InputError: The file is missing or damaged, or does not have the SHA-256 in the summary of a finished
            run.
    """
    path = folder / run_files.METRICS
    try:
        text = path.read_bytes()
        records = [parse_json(line) for line in text.splitlines()]
        if not all(isinstance(record, dict) for record in records):
            raise ValueError("a line holds no JSON object")
    except OSError as error:
        raise InputError(f"{path}: can't be read ({error.strerror}).") from error
    except ValueError as error:
        raise InputError(f"{path}: damaged ({error}). Train again.") from error
    if summary is None and (folder / run_files.SUMMARY).is_file():
        summary = read_summary(folder)
    if summary and summary["metrics_sha256"] != hashlib.sha256(text).hexdigest():
        raise InputError(
            f"{path}: damaged: it does not have the SHA-256 that {run_files.SUMMARY} states. Train again."
        )
    return records


def load_model(folder: Path) -> tuple[models.Classifier, dict[str, Any]]:
    """Load the model in the folder of a run.

    Returns:
        Classifier in evaluation mode on the CPU, and the content of model.json.

    Raises:
        InputError: The folder holds no finished run, a file is damaged, or it holds a pipe or a device, which
            may never end.
    """
    classifier, card = models.load_classifier(folder)
    _check_card(folder, card, classifier.backbone.num_features)
    return classifier, card


def open_model(folder: Path) -> tuple[models.Outline, dict[str, Any]]:
    """Read what the folder of a run says of its model, as `load_model` checks it, without loading it."""
    outline, card = models.read_outline(folder)
    _check_card(folder, card, card["top"]["num_features"])
    return outline, card


def _check_card(folder: Path, card: dict[str, Any], width: int) -> None:
    """Check the parts of model.json that belong to the run; `width` is the number of its features."""
    for path in folder.iterdir():
        if is_special(path):
            raise InputError(f"{path}: is a device or a pipe, which no run has. Remove it.")
    try:
        names = msgspec.convert(card, _Card).feature_names
        if names and len(names) != width:
            raise ValueError(f"{len(names)} names for {width} features - at `$.feature_names`")
    except ValueError as error:
        raise InputError(f"{folder / run_files.MODEL[1]}: damaged: {error}. Train again.") from error
    check_identity(folder / run_files.MODEL[1], card.get("run", ""))


# -- files of tensors: safetensors with one JSON object as metadata ------------------------------------------

_KEY = "spml scores"
"""Only key of the metadata, so that equal contents are equal files: safetensors keeps no order of keys."""

_VERSION = 2


def write_tensors(path: Path, tensors: dict[str, torch.Tensor], folder: Path, **about: Any) -> None:
    """Write a file of the run in `folder`: tensors, what it says about itself, and a checksum of all of it.

    Raises:
        SpmlError: The file could not be written.
    """
    # The checksum comes before any text of a user.
    text = json.dumps({"checksum": BLANK, "version": _VERSION, "run": identity_in(folder), **about})
    write_checked(path, tensors, {_KEY: text})


@contextmanager
def open_tensors(
    path: Path, advice: str, folder: Path, *, check: bool = True
) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Open a file that `write_tensors` has written.

    Args:
        path: File to read.
        advice: Last sentence of the message if the file is damaged, whether this is found here or by the code
            that reads the open file.
        folder: Folder of the run that it must be of.
        check: Whether the whole file is read to check it against its checksum.

    Yields:
        The open file, and what it says about itself.

    Raises:
        InputError: The file is damaged, of another version or of another run.
    """
    with open_checked(path, advice, check=check) as stored:
        about = parse_json((stored.metadata() or {})[_KEY])
        if about["version"] != _VERSION:
            raise ValueError(f"its version is {about['version']!r}, not {_VERSION}")
        check_identity(path, about.get("run", ""), folder)
        yield stored, about


@contextmanager
def open_checked(path: Path, advice: str, *, check: bool = True) -> Iterator[Any]:
    """Open a file that `write_checked` has written, as `open_tensors` does."""
    try:
        checked = not check or has_checksum(path)
        with safe_open(path, framework="pt") as stored:
            if not checked:
                raise ValueError("its checksum is missing")
            yield stored
    except OtherRun:
        raise
    except (SafetensorError, OSError, ValueError, TypeError, LookupError) as error:
        raise InputError(
            f"{path}: damaged, or not written by this version of spml ({error}). {advice}"
        ) from error
