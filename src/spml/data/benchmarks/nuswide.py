"""NUS-WIDE: 81 concepts in photographs from Flickr, which are available on request only.

Publications on single positives use 150,000 training and 60,260 test images, in two ways: `nuswide` are the
lists that some of them give as files, `nuswide-merged` is a random split of the official sets.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ...common.draws import permutation
from ...common.errors import InputError
from ...common.phrases import counted
from ...labels import LabelError, ObservedLabels
from ..readers.shards import load_array
from .common import Benchmark, Official, Part, existing, find_folder, images_exist, read_lines

_FLICKR = ("Flickr", "images", "Images")
_CONCEPTS = "ConceptsList/Concepts81.txt"

TRAIN, TEST = 150_000, 60_260
MERGED = {"Train": 126_034, "Test": 84_226}
"""Images of the official training and test sets that Cui et al. merged."""


def _formatted(root: Path) -> list[Path]:
    return [
        root / f"formatted_{part}_{kind}.npy" for part in ("train", "val") for kind in ("images", "labels")
    ]


def _concepts(root: Path) -> tuple[str, ...]:
    names = tuple(read_lines(root / _CONCEPTS))
    if len(set(names)) < len(names) or any("/" in name or "\\" in name for name in names):
        raise InputError(f"{root / _CONCEPTS}: must hold distinct names of concepts, one per line.")
    return names


def _read(root: Path) -> Official:
    """Read the formatted lists, which publications used, if they exist; else the official release.

    The release has `ImageList/{Train,Test}Imagelist.txt`, and one file of 0 and 1 per concept and part.
    """
    if any(path.is_file() for path in _formatted(root)):
        return _read_formatted(root)
    train, test = (_read_part(root, phase) for phase in MERGED)
    note = (
        "Images and split are those of the official release, also images with no concept. Publications on "
        "single positives use lists of 150,000 and 60,260 images instead, which they give as "
        "formatted_*.npy: put those into the root folder to use them, or prepare nuswide-merged."
    )
    return Official(_concepts(root), train, test, (note,))


def _read_formatted(root: Path) -> Official:
    """Read `formatted_{train,val}_images.npy` (file names) and `_labels.npy` ((N, C) in {0, 1})."""
    parts: list[Part] = []
    lists = _formatted(root)
    for images_path, path in zip(lists[::2], lists[1::2], strict=True):
        names = load_array(existing(images_path))
        if names.ndim != 1 or names.dtype.kind != "U":
            raise InputError(f"{images_path}: must hold file names, but holds {names.dtype} {names.shape}.")
        try:
            labels = ObservedLabels.from_multi_hot(load_array(existing(path)), unlisted="negative")
        except LabelError as error:
            raise InputError(f"{path}: {error}.") from error
        if len(labels) != len(names):
            raise InputError(f"{path}: has {len(labels):,} rows for {len(names):,} images.")
        parts.append(_part(root, names.tolist(), labels))
    width = parts[0].labels.num_classes
    if parts[1].labels.num_classes != width:
        raise InputError(f"{path}: has {parts[1].labels.num_classes} columns, but that of training {width}.")
    notes = ["Images and labels are those of the formatted lists (formatted_*.npy)."]
    if (root / _CONCEPTS).is_file() and len(_concepts(root)) == width:
        classes = _concepts(root)
        notes.append(f"Classes are named by {_CONCEPTS}; the columns are assumed to be in its order.")
    else:
        classes = tuple(map(str, range(width)))
        notes.append(f"Classes are called 0 to {width - 1}: the lists do not name them ({_CONCEPTS} would).")
    return Official(classes, parts[0], parts[1], tuple(notes))


def _read_part(root: Path, phase: str) -> Part:
    classes, names = _concepts(root), read_lines(root / "ImageList" / f"{phase}Imagelist.txt")
    matrix = np.empty((len(names), len(classes)), np.uint8)
    for column, name in enumerate(classes):
        path = root / "Groundtruth" / "TrainTestLabels" / f"Labels_{name}_{phase}.txt"
        values = read_lines(path)
        if len(values) != len(names) or not set(values) <= {"0", "1"}:
            raise InputError(
                f"{path}: must hold 0 or 1 for each of the {len(names):,} images of "
                f"{phase}Imagelist.txt, but has {len(values):,} lines."
            )
        matrix[:, column] = np.array(values) == "1"
    return _part(root, names, ObservedLabels.from_multi_hot(matrix, unlisted="negative"))


def _read_merged(root: Path) -> Official:
    """Merge the official sets and split them at random, as Cui et al. (LASD), appendix A.2.1.

    They state 126,034 and 84,226 images of the official sets (of 161,789 and 107,859), 150,000 for training
    and 60,260 for testing, and 1.89 labels per training image. Both sets lack the same share, and 1.89 is the
    mean with images that show no concept, so their images are probably those that Flickr still had. Neither
    the images nor the split are published: of more images as many are drawn, fewer are split in proportion.
    """
    parts = {phase: _read_part(root, phase) for phase in MERGED}
    rows: dict[str, npt.NDArray[np.int64]] = {}
    absent = 0
    for phase, part in parts.items():
        present = np.flatnonzero(images_exist(root, part))
        absent += len(part.files) - len(present)
        drawn = permutation(len(present), "nuswide-merged", phase)[: MERGED[phase]]
        rows[phase] = present[np.sort(drawn)]
    files = tuple(parts[phase].files[row] for phase in MERGED for row in rows[phase])
    folder = parts["Train"].folder
    if not files:
        raise InputError(f"{root / folder}: contains none of the images of the lists.")
    labels = ObservedLabels.join([parts[phase].labels.take(rows[phase]) for phase in MERGED])
    order, training = permutation(len(files), "nuswide-merged"), round(len(files) * TRAIN / (TRAIN + TEST))
    split = [np.sort(order[:training]), np.sort(order[training:])]
    train, test = (Part(folder, tuple(files[row] for row in part), labels.take(part)) for part in split)
    sizes = " and ".join(f"{len(rows[phase]):,}" for phase in MERGED)
    notes = [
        f"{sizes} images of the official training and test sets were merged and split at random, as in the "
        "publication of LASD. It does not say which images and which split it used: both are draws of spml."
    ]
    if absent:
        notes.append(f"{counted(absent, 'listed image is', 'listed images are')} not there and left out.")
    return Official(_concepts(root), train, test, tuple(notes))


def _part(root: Path, names: list[str], labels: ObservedLabels) -> Part:
    """Make a part of listed names, which have `\\` between folder and file."""
    files = tuple(name.strip().replace("\\", "/") for name in names)
    return Part(find_folder(root, _FLICKR, ""), files, labels)


_OBTAIN = (
    "Download ImageList.zip, Groundtruth.zip and ConceptsList.zip, ask for the images, which are given on "
    "request only, and unpack all into the root folder, images as Flickr/FOLDER/FILE.jpg."
)

NUSWIDE = Benchmark(
    name="nuswide",
    title="NUS-WIDE",
    page="https://lms.comp.nus.edu.sg/wp-content/uploads/2019/research/nuswide/NUS-WIDE.html",
    obtain=(
        f"{_OBTAIN} To compare with publications, add their formatted_train_images.npy, "
        "formatted_train_labels.npy, formatted_val_images.npy and formatted_val_labels.npy."
    ),
    train=TRAIN,
    test=TEST,
    mean_labels=1.89,
    read=_read,
)

NUSWIDE_MERGED = replace(
    NUSWIDE,
    name="nuswide-merged",
    title="NUS-WIDE, merged and split at random",
    obtain=_OBTAIN,
    read=_read_merged,
)
