"""OpenImages: a CSV file with one row per image and label, verified as present (1) or absent (0)."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from ...common.documents import class_name
from ...common.errors import InputError
from ...common.label_checks import rows_of
from ...common.phrases import counted
from ...common.safe import inside, is_file, quote
from ...config import DataConfig
from ...labels import IntArray
from ..files.places import images_folder
from ..images.image_files import MISSING
from ..records import Records, in_both, label_entries
from ..tables.delimited import open_delimited, read_header, read_rows
from ..tables.table import text
from . import register_reader

COLUMNS = ("imageid", "labelname", "confidence")
DESCRIPTIONS = "class-descriptions.csv"
_PARTS = ("train", "validation", "test")

Pairs = tuple[IntArray, IntArray]
"""Image and label of each verified row."""


@register_reader(
    "openimages",
    "an OpenImages label file",
    recognises=lambda source: (
        source.suffix in (".csv", ".tsv") and {*COLUMNS} <= {*map(str.lower, read_header(source.path))}
    ),
)
def read_openimages(path: Path, config: DataConfig) -> Records:
    """Read a label file; the image of an ImageID is ImageID.jpg.

    Confidence 1 is a known positive and 0 a known negative. Rows that no person has verified, which have the
    source `machine` or a confidence in between, are ignored. As hardly anyone has all images of OpenImages,
    missing ones are left out whatever `config.missing` says. Notes count both. A file class-descriptions.csv
    next to the labels names the classes.
    """
    images, labels, positive, negative, unverified = _read_labels(path)
    root, present = _find_images(path, images, config)
    classes, columns, origin = _class_names(path, labels)
    ids = tuple(f"{images[row]}.jpg" for row in present.tolist())
    notes = [
        f"{counted(len(ids), 'image')} in {root}, {counted(len(positive[0]), 'label')} verified as present "
        f"and {len(negative[0]):,} as absent, {counted(len(classes), 'class', 'classes')}{origin}."
    ]
    missing = np.delete(np.arange(len(images)), present).tolist()
    if missing:
        notes.append(f"{len(missing):,} of {len(images):,} images are not in that folder and were left out.")
    if unverified:
        rows = counted(unverified, "row was", "rows were")
        notes.append(f"{rows} ignored, because no person has verified the label.")
    row = np.full(len(images), -1)
    row[present] = np.arange(len(ids))

    def usable(entries: Pairs) -> Pairs:
        keep = row[entries[0]] >= 0
        return row[entries[0][keep]], columns[entries[1][keep]]

    shape = len(ids), len(classes)
    return Records(
        source=str(path),
        name=path.stem,
        ids=ids,
        inputs=tuple(root / name for name in ids),
        classes=classes,
        classes_given=False,
        labels=label_entries(usable(positive), shape, config.default_label, negative=usable(negative)),
        notes=tuple(notes),
        skipped=tuple((f"{images[row]}.jpg", MISSING) for row in missing),
    )


def _read_labels(path: Path) -> tuple[list[str], list[str], Pairs, Pairs, int]:
    """Images, labels, what is verified as present and as absent, and the number of rows not verified."""
    images: dict[str, int] = {}
    labels: dict[str, int] = {}
    verified = {1: (array("q"), array("q")), -1: (array("q"), array("q"))}
    unverified = 0
    for _, image, label, value in _rows(path):
        row = images.setdefault(image, len(images))
        if value:
            verified[value][0].append(row)
            verified[value][1].append(labels.setdefault(label, len(labels)))
        else:
            unverified += 1
    if not labels:
        raise InputError(
            f"{path}: no row has a label that a person has verified (confidence 1 or 0, and a source other "
            "than `machine`)."
        )
    positive, negative = (
        (np.array(rows, np.int64), np.array(columns, np.int64)) for rows, columns in verified.values()
    )
    if both := in_both(positive, negative):
        image, label = list(images)[both[0]], list(labels)[both[1]]
        first: dict[int, int] = {}
        for number, *pair, value in _rows(path):
            if value and pair == [image, label]:
                first.setdefault(value, number)
        raise InputError(
            f"{path}: row {first[1]} says that {quote(image)} has the label {quote(label)}, and row "
            f"{first[-1]} that it has not. Remove one of them."
        )
    return list(images), list(labels), positive, negative, unverified


def _rows(path: Path) -> Iterator[tuple[int, str, str, int]]:
    """Number, ImageID and LabelName of each row, and 1 (present), -1 (absent) or 0 (not verified)."""
    table = open_delimited(path)
    header = [*map(str.lower, table.names)]
    columns = [header.index(name) for name in (*COLUMNS, "source") if name in header]
    for number, cells in table.rows(columns):
        image, label, confidence, *source = map(text, cells)
        try:
            value = float(confidence)
        except ValueError:
            value = -1
        if not 0 <= value <= 1:
            raise InputError(
                f"{path}: row {number}: Confidence must be 1 (the label is present), 0 (it is absent), or a "
                f"number in between if no person has verified it, but is {quote(confidence)}."
            )
        verified = value in (0, 1) and not (source and source[0].lower() == "machine")
        yield number, image, label, (1 if value else -1) if verified else 0


def _find_images(path: Path, images: Sequence[str], config: DataConfig) -> tuple[Path, IntArray]:
    """First folder that has some of the images, and the positions of those."""
    stated, folder, words = images_folder(config), path.parent, path.stem.lower().split("-")
    parts = (folder / part for part in _PARTS if part in words)
    folders = [stated] if stated else [folder, folder / "images", *parts]
    for folder in folders:
        exists = [is_file(inside(folder, f"{image}.jpg", f"{path}: ImageID")) for image in images]
        if any(exists):
            return folder, np.flatnonzero(exists)
    tried = " or ".join(str(folder) for folder in folders if folder.is_dir())
    raise InputError(
        f"{path}: none of its images, such as {images[0][:100]}.jpg, is in {tried}. Pass data.images with "
        "the folder that holds them."
    )


def _class_names(path: Path, labels: Sequence[str]) -> tuple[tuple[str, ...], IntArray, str]:
    """Class names, the class of each label, and a phrase on the file that names them."""
    file = path.with_name(DESCRIPTIONS)
    if not file.is_file():
        file = min(path.parent.glob(f"*{DESCRIPTIONS}"), default=file)
    names: dict[str, str] = {}  # in the order of the file, the oldest of which have no header
    occurring = {*labels}
    for _, (label, *description) in read_rows(file) if file.is_file() else ():
        if label.strip() in occurring and description and description[0].strip():
            names.setdefault(label.strip(), description[0].strip())
    order = [*names, *sorted(occurring.difference(names))]
    uses = Counter((*names.values(), *labels))
    classes = []
    for label in order:
        name = names.get(label, label)
        distinct = name if uses[name] == 1 else f"{name} ({label})"
        classes.append(class_name(distinct, f"{path}: LabelName"))
    return tuple(classes), rows_of(order, labels), f" (named by {file.name})" if names else ""
