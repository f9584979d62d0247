"""CUB-200-2011: 312 binary attributes of birds, with the official split."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ...errors import InputError
from ...labels import ObservedLabels
from .common import Benchmark, Official, Part, Published, find_folder, read_lines

_FOLDERS = ("CUB_200_2011", ".", "CUB_200_2011/CUB_200_2011")
_LABELS = "attributes/image_attribute_labels.txt"
_LISTS = ("images.txt", "train_test_split.txt", _LABELS)


def _names(root: Path) -> Path:
    """The list of attributes, which is next to the folder in the official archive and inside it in others."""
    candidates = (".", "CUB_200_2011", "CUB_200_2011/attributes", "attributes")
    return root / find_folder(root, candidates, "attributes.txt") / "attributes.txt"


def _missing(root: Path) -> list[Path]:
    base = root / find_folder(root, _FOLDERS, "images.txt")
    missing = [path for path in (*(base / name for name in _LISTS), _names(root)) if not path.is_file()]
    if not (base / "images").is_dir():
        missing.append(base / "images")
    return missing


def _read(root: Path) -> Official:
    folder = find_folder(root, _FOLDERS, "images.txt")
    base = root / folder
    files, attributes = _numbered(base / "images.txt"), _numbered(_names(root))
    is_train = _numbered(base / "train_test_split.txt")
    for number, value in is_train.items():
        if value not in ("0", "1") or number not in files:
            raise InputError(
                f"{base / 'train_test_split.txt'}: says {value!r} of image {number}; expected 1 (training) "
                "or 0 (test) for every image of images.txt. Download it again."
            )
    if len(is_train) < len(files):
        raise InputError(
            f"{base / 'train_test_split.txt'}: has {len(is_train):,} lines for {len(files):,} images "
            "(images.txt). Download it again."
        )
    present = _attributes(base / _LABELS, list(files), list(attributes))
    parts: list[Part] = []
    for value in ("1", "0"):
        rows = [row for row, number in enumerate(files) if is_train[number] == value]
        names = tuple(file for number, file in files.items() if is_train[number] == value)
        labels = ObservedLabels.from_multi_hot(present[rows], unlisted="negative")
        parts.append(Part(posixpath.normpath(f"{folder}/images"), names, labels))
    return Official(tuple(attributes.values()), parts[0], parts[1])


def _numbered(path: Path) -> dict[int, str]:
    """Read lines of a number and a text, in the order of the file."""
    numbered: dict[int, str] = {}
    for row, line in enumerate(read_lines(path), start=1):
        number, _, text = line.partition(" ")
        if not re.fullmatch("[0-9]{1,9}", number) or not text or int(number) in numbered:
            raise InputError(
                f"{path}: line {row} is {line[:100]!r}, but must be a number that occurs once, and a text. "
                "Download it again."
            )
        numbered[int(number)] = text.strip()
    if not numbered:
        raise InputError(f"{path}: is empty. Download it again.")
    return numbered


def _attributes(path: Path, images: list[int], attributes: list[int]) -> npt.NDArray[np.uint8]:
    """Read is_present as a {0, 1} matrix of shape (images, attributes), ignoring the annotators' certainty.

    Lines are `image attribute is_present certainty seconds`; a few lines of the official file have a sixth
    number.
    """
    shape = (len(images), len(attributes))
    try:
        table = np.loadtxt(
            path, np.int64, comments=None, usecols=(0, 1, 2), ndmin=2, max_rows=shape[0] * shape[1] + 1
        )
        rows, columns = _positions(table[:, 0], images), _positions(table[:, 1], attributes)
        if not np.isin(table[:, 2], (0, 1)).all():
            raise ValueError("is_present is neither 0 nor 1")
        matrix = np.full(shape, 2, np.uint8)
        matrix[rows, columns] = table[:, 2]
        if len(table) != matrix.size or (matrix == 2).any():
            raise ValueError(f"expected {matrix.size:,} lines, one for each image and attribute")
    except (OSError, ValueError, IndexError) as error:
        raise InputError(
            f"{path}: is not the official file, or is damaged ({error}). Download it again."
        ) from error
    return matrix


def _positions(numbers: npt.NDArray[np.int64], known: list[int]) -> npt.NDArray[np.int64]:
    """Position of each number in `known`."""
    order = np.argsort(known)
    ranks = np.searchsorted(np.asarray(known)[order], numbers)
    positions = order[np.minimum(ranks, len(known) - 1)]
    if (np.asarray(known)[positions] != numbers).any():
        raise ValueError("an image or attribute is in no list")
    return positions.astype(np.int64)


CUB200 = Benchmark(
    name="cub200",
    title="CUB-200-2011",
    page="https://www.vision.caltech.edu/datasets/cub_200_2011/",
    obtain=(
        "Download CUB_200_2011.tgz (1.2 GB) and unpack it into the root folder, so that it contains "
        "attributes.txt and CUB_200_2011/images.txt."
    ),
    published=Published(5994, 5794, 31.4),
    missing=_missing,
    read=_read,
)
