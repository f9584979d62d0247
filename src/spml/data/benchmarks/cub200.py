"""CUB-200-2011: 312 binary attributes of birds, with the official split."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from ...common.errors import InputError
from ...common.safe import quote
from ...labels import ObservedLabels
from .common import Benchmark, Official, Part, existing, find_folder, read_lines

_FOLDERS = ("CUB_200_2011", ".", "CUB_200_2011/CUB_200_2011")
_LABELS = "attributes/image_attribute_labels.txt"
# The list of attributes is next to the folder in the official archive and inside it in others.
_LISTS = (".", "CUB_200_2011", "CUB_200_2011/attributes", "attributes")


def _read(root: Path) -> Official:
    folder = find_folder(root, _FOLDERS, "images.txt")
    base = root / folder
    files = _numbered(base / "images.txt")
    attributes = _numbered(root / find_folder(root, _LISTS, "attributes.txt") / "attributes.txt")
    is_train = _numbered(base / "train_test_split.txt")
    if len(is_train) != len(files) or not {*is_train} <= {"0", "1"}:
        raise InputError(
            f"{base / 'train_test_split.txt'}: must say 1 (training) or 0 (test) of each of the "
            f"{len(files):,} images of images.txt."
        )
    present = _attributes(existing(base / _LABELS), len(files), len(attributes))
    parts = []
    for value in ("1", "0"):
        rows = [row for row, stated in enumerate(is_train) if stated == value]
        labels = ObservedLabels.from_multi_hot(present[rows], unlisted="negative")
        names = tuple(files[row] for row in rows)
        parts.append(Part(Path(folder, "images").as_posix(), names, labels))
    return Official(tuple(attributes), parts[0], parts[1])


def _numbered(path: Path) -> list[str]:
    """Read the texts of lines that are numbered from 1."""
    lines = [line.split(" ", 1) for line in read_lines(path)]
    for row, line in enumerate(lines, start=1):
        if line[0] != str(row) or len(line) == 1:
            raise InputError(
                f"{path}: line {row} is {quote(' '.join(line))}, but must be the number {row} and a text."
            )
    if not lines:
        raise InputError(f"{path}: is empty.")
    return [text.strip() for _, text in lines]


def _attributes(path: Path, images: int, attributes: int) -> npt.NDArray[np.uint8]:
    """Read is_present as a {0, 1} matrix of shape (images, attributes), ignoring the annotators' certainty.

    Lines are `image attribute is_present certainty seconds`; a few lines of the official file have a sixth
    number.
    """
    matrix = np.full((images, attributes), 2, np.uint8)
    try:
        table = np.loadtxt(
            path, np.int64, comments=None, usecols=(0, 1, 2), ndmin=2, max_rows=matrix.size + 1
        )
        if not ((table >= [1, 1, 0]) & (table <= [images, attributes, 1])).all():
            raise ValueError("an image or attribute is in no list, or is_present is neither 0 nor 1")
        matrix[table[:, 0] - 1, table[:, 1] - 1] = table[:, 2]
        if len(table) != matrix.size or (matrix == 2).any():
            raise ValueError(f"expected {matrix.size:,} lines, one for each image and attribute")
    except (OSError, ValueError, IndexError) as error:
        raise InputError(f"{path}: is not the official file, or is damaged ({error}).") from error
    return matrix


CUB200 = Benchmark(
    name="cub200",
    title="CUB-200-2011",
    page="https://www.vision.caltech.edu/datasets/cub_200_2011/",
    obtain=(
        "Download CUB_200_2011.tgz (1.2 GB) and unpack it into the root folder, so that it contains "
        "attributes.txt and CUB_200_2011/images.txt."
    ),
    train=5994,
    test=5794,
    mean_labels=31.4,
    read=_read,
)
