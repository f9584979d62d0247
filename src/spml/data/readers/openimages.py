"""OpenImages: a CSV file with one row per image and label, verified as there (1) or not there (0)."""

from __future__ import annotations

import csv
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ...config import DataConfig
from ...errors import InputError
from ..records import Records
from ..safe import inside, is_file, shown
from .delimited import QUOTES, read_lines, shorten
from .documents import class_name
from .entries import Entries, in_both, label_entries
from .places import images_folder
from .registry import register_reader

COLUMNS = ("imageid", "labelname", "confidence")
DESCRIPTIONS = "class-descriptions.csv"
_PARTS = ("train", "validation", "test")
_CONFIDENCES = {"1": 1.0, "0": 0.0, "1.0": 1.0, "0.0": 0.0}


def is_openimages(path: Path) -> bool:
    """Whether the header of a CSV file has ImageID, LabelName and Confidence.

    Raises:
        InputError: the first line can't be read.
    """
    try:
        header = next(csv.reader([next(read_lines(path), "")]), [])
    except csv.Error:
        return False
    return {*COLUMNS} <= {cell.strip().lower() for cell in header}


@register_reader(
    "openimages",
    "an OpenImages label file",
    recognises=lambda source: source.suffix in (".csv", ".tsv") and is_openimages(source.path),
)
def read_openimages(path: Path, config: DataConfig) -> Records:
    """Read a label file; the image of ImageID is ImageID.jpg.

    Confidence 1 is a known positive and 0 a known negative. Rows of the source `machine`, and others with a
    confidence between, are no person's judgement: they are ignored. Images that are not there are left out,
    since hardly anybody has all of them. Both are noted. Classes have the names that a file
    class-descriptions.csv beside the labels gives them.

    Raises:
        InputError: a row that can't be understood, a label that is there in one row and not in another, no
            image at all; names the rows.
    """
    images: dict[str, int] = {}
    labels: dict[str, int] = {}
    known = {1: (array("q"), array("q")), -1: (array("q"), array("q"))}
    unverified = 0
    for _, image, label, value in _rows(path):
        row = images.setdefault(image, len(images))
        if value:
            known[value][0].append(row)
            known[value][1].append(labels.setdefault(label, len(labels)))
        else:
            unverified += 1
    if not labels:
        raise InputError(
            f"{path}: no row has a label that a person has verified (confidence 1 or 0, a source other than "
            "`machine`)."
        )
    positive, negative = Entries.of(*known[1]), Entries.of(*known[-1])
    if found := in_both(positive, negative):
        _refuse_contradiction(path, list(images)[found[0]], list(labels)[found[1]])
    root, there = _find(path, list(images), config)
    classes, columns, named = _classes(path, list(labels))
    row_of = np.cumsum(there) - 1

    def kept(entries: Entries) -> Entries:
        usable = there[entries.rows]
        return Entries(row_of[entries.rows[usable]], columns[entries.columns[usable]])

    ids = tuple(f"{image}.jpg" for image, usable in zip(images, there.tolist(), strict=True) if usable)
    notes = [
        f"{len(ids):,} images in {root}, {len(positive.rows):,} labels verified as there and "
        f"{len(negative.rows):,} as not there, {len(classes):,} classes{named}."
    ]
    if missing := len(images) - len(ids):
        notes.append(f"{missing:,} of {len(images):,} images are not in that folder and were left out.")
    if unverified:
        notes.append(f"{unverified:,} rows were ignored, since no person has verified their labels.")
    return Records(
        source=str(path),
        name=path.stem,
        ids=ids,
        inputs=tuple(root / name for name in ids),
        classes=classes,
        classes_given=False,
        labels=label_entries(
            kept(positive), (len(ids), len(classes)), config.unlisted, negative=kept(negative)
        ),
        split=None,
        notes=tuple(notes),
    )


def _rows(path: Path) -> Iterator[tuple[int, str, str, int]]:
    """Number (the header is row 1), ImageID, LabelName, and 1, -1, or 0 for what is not verified."""
    reader = csv.reader(read_lines(path), strict=True)
    try:
        header = [cell.strip().lower() for cell in next(reader, [])]
        if len({*header}) < len(header):
            raise InputError(f"{path}: the header names a column twice: {shorten(header)}.")
        image, label, confidence = (header.index(name) for name in COLUMNS)
        source = header.index("source") if "source" in header else None
        for number, row in enumerate(reader, start=2):
            if not any(row):
                continue
            where = f"{path}: row {number}"
            if len(row) != len(header):
                raise InputError(f"{where} has {len(row):,} cells, but the header has {len(header):,}.")
            texts = row[image].strip(), row[label].strip()
            if not all(texts):
                raise InputError(f"{where}: {'LabelName' if texts[0] else 'ImageID'} is empty.")
            value = _CONFIDENCES.get(row[confidence])
            if value is None:
                value = _confidence(row[confidence], where)
            machine = source is not None and row[source].strip().lower() == "machine"
            yield number, *texts, 0 if machine or 0 < value < 1 else 1 if value else -1
    except csv.Error as error:
        raise InputError(f"{path}: is no valid CSV near line {reader.line_num}: {error}. {QUOTES}") from error


def _confidence(text: str, where: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise InputError(
            f"{where}: Confidence must be 1 (the label is there), 0 (it is not), or between if no person has "
            f"verified it, but is {shown(text)}."
        )
    return value


def _refuse_contradiction(path: Path, image: str, label: str) -> None:
    """Name the rows of a label that is there in one and not in another."""
    first: dict[int, int] = {}
    for number, found, name, value in _rows(path):
        if value and (found, name) == (image, label):
            first.setdefault(value, number)
    raise InputError(
        f"{path}: row {first[1]} says that {shown(image)} has the label {shown(label)}, and row {first[-1]} "
        "that it has not. Remove one of them."
    )


def _find(path: Path, images: Sequence[str], config: DataConfig) -> tuple[Path, npt.NDArray[np.bool_]]:
    """The first folder that has some of the images, and which ones it has."""
    here = path.parent
    parts = [part for part in _PARTS if part in path.stem.lower().split("-")]
    stated = images_folder(config)
    folders = [stated] if stated else [here, here / "images", *(here / part for part in parts)]
    for folder in folders:
        where = f"{path}: ImageID"
        there = [is_file(inside(folder, f"{image}.jpg", where)) for image in images]
        if any(there):
            return folder, np.array(there, np.bool_)
    tried = " or ".join(str(folder) for folder in folders if folder.is_dir())
    raise InputError(
        f"{path}: none of its {len(images):,} images, such as {images[0][:100]}.jpg, is in {tried}. Say "
        "--data.images with the folder that holds them."
    )


def _classes(path: Path, labels: Sequence[str]) -> tuple[tuple[str, ...], npt.NDArray[np.int64], str]:
    """Class names, the column of each label, and where the names are from."""
    file = path.with_name(DESCRIPTIONS)
    if not file.is_file():
        files = sorted(path.parent.glob(f"*{DESCRIPTIONS}"))
        file = files[0] if files else file
    names = _descriptions(file, set(labels)) if file.is_file() else {}
    uses = Counter(names.values())
    ranks = {label: rank for rank, label in enumerate(names)}
    order = sorted(
        range(len(labels)), key=lambda place: (ranks.get(labels[place], len(ranks)), labels[place])
    )
    columns = np.empty(len(labels), np.int64)
    columns[order] = np.arange(len(labels))
    classes = []
    for place in order:
        label = labels[place]
        name = names.get(label, label)
        unique = f"{name} ({label})" if uses[name] > 1 else name
        classes.append(class_name(unique, f"{path}: LabelName"))
    if repeated := [name for name, count in Counter(classes).items() if count > 1]:
        raise InputError(f"{file}: several labels are called {shown(repeated[0])}. Names must be distinct.")
    return tuple(classes), columns, f", named by {file.name}" if names else ""


def _descriptions(path: Path, labels: set[str]) -> dict[str, str]:
    """The names of some labels, in the order of the file; the oldest of these files have no header."""
    names: dict[str, str] = {}
    reader = csv.reader(read_lines(path), strict=True)
    try:
        for number, row in enumerate(reader, start=1):
            if not any(row):
                continue
            if len(row) < 2:
                raise InputError(
                    f"{path}: row {number} has no second cell, which is to name {shown(row[0])}."
                )
            label = row[0].strip()
            if label in labels and row[1].strip():
                names.setdefault(label, row[1].strip())
    except csv.Error as error:
        raise InputError(f"{path}: is no valid CSV near line {reader.line_num}: {error}. {QUOTES}") from error
    return names
