"""PASCAL VOC 2012: its `train` set for training and validation, its `val` set for the test."""

from __future__ import annotations

from pathlib import Path

from ...common.errors import InputError
from ...common.phrases import counted
from ...labels import ObservedLabels
from .common import Benchmark, Official, Part, find_folder, read_lines

CLASSES = (
    "aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow", "diningtable",
    "dog", "horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor",
)  # fmt: skip
_FOLDERS = ("VOCdevkit/VOC2012", "VOC2012", ".")
_LISTS, _IMAGES = "ImageSets/Main", "JPEGImages"


def _read(root: Path) -> Official:
    """Read the lists, with lines such as `2008_000008 -1`.

    1 = present, -1 = absent, 0 = present but difficult, which is treated as absent. Images are sorted by
    name; images without a present class are left out.
    """
    folder = find_folder(root, _FOLDERS, _LISTS)
    parts, notes = [], []
    for phase in ("train", "val"):
        present: dict[str, list[str]] = {}
        for name in CLASSES:
            path = root / folder / _LISTS / f"{name}_{phase}.txt"
            for number, line in enumerate(read_lines(path), start=1):
                image, _, value = line.partition(" ")
                if value.strip() not in ("1", "0", "-1"):
                    raise InputError(
                        f"{path}: line {number} is {line[:100]!r}, but must be an image and -1, 0 or 1."
                    )
                names = present.setdefault(image, [])
                if value.strip() == "1":
                    names.append(name)
        images = sorted(image for image, names in present.items() if names)
        if count := len(present) - len(images):
            show = f"of the official {phase} list show"
            notes.append(
                f"{counted(count, f'image {show}s', f'images {show}')} no class (or only difficult objects) "
                f"and {'is' if count == 1 else 'are'} left out."
            )
        labels = ObservedLabels.from_names((present[image] for image in images), CLASSES, unlisted="negative")
        files = tuple(f"{image}.jpg" for image in images)
        parts.append(Part(Path(folder, _IMAGES).as_posix(), files, labels))
    return Official(CLASSES, parts[0], parts[1], tuple(notes))


VOC2012 = Benchmark(
    name="voc2012",
    title="PASCAL VOC 2012",
    page="http://host.robots.ox.ac.uk/pascal/VOC/voc2012/",
    obtain=(
        "Download VOCtrainval_11-May-2012.tar (2.0 GB) and unpack it into the root folder, so that it "
        "contains VOCdevkit/VOC2012/ImageSets/Main and VOCdevkit/VOC2012/JPEGImages."
    ),
    train=5717,
    test=5823,
    mean_labels=1.46,
    read=_read,
)
