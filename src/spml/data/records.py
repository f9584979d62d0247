"""Content of a file or folder as its reader understood it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..labels import ObservedLabels
from .dataset import Inputs
from .images.image_files import ImageSource

MEMORY = "data in memory"
"""`data.path` of data that is in no file; a folder of that name is `./data in memory`."""


class Objects(NamedTuple):
    """Boxes of M objects; an image may have several of the same class.

    Attributes:
        row: Sample of each box, int64 (M,).
        column: Class of each box, int64 (M,).
        area: Share of the image that each box covers, in [0, 1], float64 (M,).
        distance: Distance between the centres of box and image, in halves of the image's diagonal,
            float64 (M,).
    """

    row: npt.NDArray[np.int64]
    column: npt.NDArray[np.int64]
    area: npt.NDArray[np.float64]
    distance: npt.NDArray[np.float64]


@dataclass(frozen=True)
class Records:
    """Everything that a file or folder says, in its order.

    Attributes:
        source: Path as the user gave it, for messages.
        name: Name of the data set.
        ids: One name per sample.
        inputs: The samples themselves, or the image files, parts of files or images in memory that hold them.
        classes: Class names, in the order of the label columns.
        classes_given: Whether the data lists its classes; if not, they are the names that occur in it.
        labels: Known labels; full if the data is fully labelled.
        split: `train`, `val` or `test` for each sample; None if the data has no split.
        notes: How the data was understood, one line each.
        objects: Boxes, if the data has them.
        protocol: Labels that a published protocol observes, if the data is a benchmark that has one.
        skipped: (sample, reason) of every sample that the file names and that is not among `ids`.
        root: Folder that the names of image files are relative to where they are written; None = the folder
            of the output if all files lie below it, otherwise the folder of the data.
        class_folders: Whether the label of an image is the folder that it lies in.
    """

    source: str
    name: str
    ids: Sequence[str]
    inputs: Inputs | Sequence[ImageSource]
    classes: tuple[str, ...]
    classes_given: bool
    labels: ObservedLabels
    split: tuple[str, ...] | None = None
    notes: tuple[str, ...] = ()
    objects: Objects | None = None
    protocol: ObservedLabels | None = None
    skipped: tuple[tuple[str, str], ...] = ()
    root: Path | None = None
    class_folders: bool = False

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the features, if the data has feature vectors and names them; otherwise empty."""
        return getattr(self.inputs, "names", ())
