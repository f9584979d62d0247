"""NUS-WIDE: 81 concepts in photographs of Flickr, which are given on request only."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from ...errors import InputError
from ...labels import LabelError, ObservedLabels
from .common import Benchmark, Missing, Official, Part, Published, place, read_lines

_FLICKR = ("Flickr", "images", "Images")
_CONCEPTS = "ConceptsList/Concepts81.txt"
_IMAGES = "formatted_{}_images.npy"
_LABELS = "formatted_{}_labels.npy"


def _formatted(root: Path) -> list[Path]:
    return [root / name.format(phase) for phase in ("train", "val") for name in (_IMAGES, _LABELS)]


def _missing(root: Path) -> list[Missing]:
    if any(path.is_file() for path in _formatted(root)):
        return [Missing(path) for path in _formatted(root) if not path.is_file()]
    lists = [root / "ImageList" / f"{phase}Imagelist.txt" for phase in ("Train", "Test")]
    wanted = [*lists, root / _CONCEPTS]
    if wanted[-1].is_file():
        wanted += [_concept(root, name, phase) for phase in ("Train", "Test") for name in _concepts(root)]
    return [Missing(path) for path in wanted if not path.is_file()]


def _concepts(root: Path) -> tuple[str, ...]:
    names = tuple(read_lines(root / _CONCEPTS))
    if len(set(names)) < len(names) or any("/" in name or "\\" in name for name in names):
        raise InputError(
            f"{root / _CONCEPTS}: must hold distinct names of concepts, one per line. Get it again."
        )
    return names


def _concept(root: Path, name: str, phase: str) -> Path:
    return root / "Groundtruth" / "TrainTestLabels" / f"Labels_{name}_{phase}.txt"


def _read(root: Path) -> Official:
    """The formatted lists if they are there, which are what publications used; else the official release."""
    return _read_formatted(root) if _formatted(root)[0].is_file() else _read_release(root)


def _read_formatted(root: Path) -> Official:
    """`formatted_{train,val}_images.npy`: file names; `formatted_{train,val}_labels.npy`: (N, C), {0, 1}."""
    parts: list[Part] = []
    for phase in ("train", "val"):
        listed, path = root / _IMAGES.format(phase), root / _LABELS.format(phase)
        names = _load(listed)
        if names.ndim != 1 or names.dtype.kind != "U":
            raise InputError(f"{listed}: must hold file names, but holds {names.dtype} {names.shape}.")
        try:
            labels = ObservedLabels.from_multi_hot(_load(path), unlisted="negative")
        except LabelError as error:
            raise InputError(f"{path}: {error}.") from error
        if len(labels) != len(names):
            raise InputError(f"{path}: has {len(labels):,} rows for {len(names):,} images.")
        parts.append(_part(root, names.tolist(), labels))
    width = parts[0].labels.num_classes
    if parts[1].labels.num_classes != width:
        raise InputError(f"{path}: has {parts[1].labels.num_classes} columns, but that of training {width}.")
    notes = ["Images and labels are those of the formatted lists (formatted_*.npy)."]
    classes = tuple(str(column) for column in range(width))
    if (root / _CONCEPTS).is_file() and len(_concepts(root)) == width:
        classes = _concepts(root)
        notes.append(f"Classes are named by {_CONCEPTS}; the columns are assumed to be in its order.")
    else:
        notes.append(f"Classes are called 0 to {width - 1}: the lists do not name them ({_CONCEPTS} would).")
    return Official(classes, parts[0], parts[1], tuple(notes))


def _read_release(root: Path) -> Official:
    """`ImageList/{Train,Test}Imagelist.txt`, a file per line; one file of 0 and 1 per concept and part."""
    classes = _concepts(root)
    parts: list[Part] = []
    for phase in ("Train", "Test"):
        names = read_lines(root / "ImageList" / f"{phase}Imagelist.txt")
        matrix = np.empty((len(names), len(classes)), np.uint8)
        for column, name in enumerate(classes):
            path = _concept(root, name, phase)
            values = read_lines(path)
            if len(values) != len(names) or not set(values) <= {"0", "1"}:
                raise InputError(
                    f"{path}: must hold 0 or 1 for each of the {len(names):,} images of "
                    f"{phase}Imagelist.txt, but has {len(values):,} lines. Get it again."
                )
            matrix[:, column] = np.array(values) == "1"
        parts.append(_part(root, names, ObservedLabels.from_multi_hot(matrix, unlisted="negative")))
    note = (
        "Images and split are those of the official release, also images with no concept. Publications on "
        "single positives use lists of 150,000 and 60,260 images instead, which they give as "
        "formatted_*.npy: put those into the root folder to use them."
    )
    return Official(classes, parts[0], parts[1], (note,))


def _load(path: Path) -> npt.NDArray[np.generic]:
    try:
        return np.asarray(np.load(path, allow_pickle=False))
    except Exception as error:  # damaged files raise nearly anything
        raise InputError(
            f"{path}: can't be read: {error}. Arrays of Python objects are not read, since loading them can "
            "run code: save numbers and strings."
        ) from error


def _part(root: Path, names: list[str], labels: ObservedLabels) -> Part:
    """Names in the lists have `\\` between folder and file."""
    files = tuple(name.strip().replace("\\", "/") for name in names)
    return Part(place(root, _FLICKR, ""), files, labels)


NUSWIDE = Benchmark(
    name="nuswide",
    title="NUS-WIDE",
    page="https://lms.comp.nus.edu.sg/wp-content/uploads/2019/research/nuswide/NUS-WIDE.html",
    obtain=(
        "NUS-WIDE can't be downloaded automatically: its page offers ImageList.zip, Groundtruth.zip and "
        "ConceptsList.zip, and images on request. Unpack all into the root folder, images as "
        "Flickr/FOLDER/FILE.jpg. To compare with publications, add their formatted_train_images.npy, "
        "formatted_train_labels.npy, formatted_val_images.npy and formatted_val_labels.npy."
    ),
    published=Published(150_000, 60_260, 1.89),
    missing=_missing,
    read=_read,
)
