"""PASCAL VOC 2012: its `train` set for training and validation, its `val` set for the test."""

from __future__ import annotations

import posixpath
from pathlib import Path

from ...errors import InputError
from .common import Benchmark, Official, Part, Published, find_folder, full_labels, read_lines

CLASSES = (
    "aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow", "diningtable",
    "dog", "horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor",
)  # fmt: skip
_FOLDERS = ("VOCdevkit/VOC2012", "VOC2012", ".")
_LISTS, _IMAGES = "ImageSets/Main", "JPEGImages"


def _missing(root: Path) -> list[Path]:
    base = root / find_folder(root, _FOLDERS, _LISTS)
    lists = [base / _LISTS / f"{name}_{phase}.txt" for phase in ("train", "val") for name in CLASSES]
    missing = [path for path in lists if not path.is_file()]
    if not (base / _IMAGES).is_dir():
        missing.append(base / _IMAGES)
    return missing


def _read(root: Path) -> Official:
    """Read the lists, with lines such as `2008_000008 -1`.

    1 = present, -1 = absent, 0 = present but difficult, which is treated as absent. Images are sorted by
    name; images without a present class are left out.
    """
    folder = find_folder(root, _FOLDERS, _LISTS)
    parts: list[Part] = []
    notes = []
    for phase in ("train", "val"):
        present: dict[str, list[int]] = {}
        for column, name in enumerate(CLASSES):
            path = root / folder / _LISTS / f"{name}_{phase}.txt"
            for number, line in enumerate(read_lines(path), start=1):
                image, _, value = line.partition(" ")
                if value.strip() not in ("1", "0", "-1"):
                    raise InputError(
                        f"{path}: line {number} is {line[:100]!r}, but must be an image and -1, 0 or 1. "
                        "Download it again."
                    )
                columns = present.setdefault(image, [])
                if value.strip() == "1" and column not in columns:
                    columns.append(column)
        images = sorted(image for image, columns in present.items() if columns)
        if count := len(present) - len(images):
            plural = "" if count == 1 else "s"
            third_person = "s" if count == 1 else ""
            notes.append(
                f"{count:,} image{plural} of the official {phase} list show{third_person} no class (or only "
                f"difficult objects) and {'is' if count == 1 else 'are'} left out."
            )
        labels = full_labels([present[image] for image in images], len(CLASSES))
        parts.append(
            Part(posixpath.normpath(f"{folder}/{_IMAGES}"), tuple(f"{image}.jpg" for image in images), labels)
        )
    return Official(CLASSES, parts[0], parts[1], tuple(notes))


VOC2012 = Benchmark(
    name="voc2012",
    title="PASCAL VOC 2012",
    page="http://host.robots.ox.ac.uk/pascal/VOC/voc2012/",
    obtain=(
        "Download VOCtrainval_11-May-2012.tar (2.0 GB) and unpack it into the root folder, so that it "
        "contains VOCdevkit/VOC2012/ImageSets/Main and VOCdevkit/VOC2012/JPEGImages."
    ),
    published=Published(5717, 5823, 1.46),
    missing=_missing,
    read=_read,
)
