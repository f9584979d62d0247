"""What a reader finds in a file or folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..labels import ObservedLabels
from .dataset import Inputs
from .images import FilePart


class Objects(NamedTuple):
    """Boxes that the data has of M objects; several may be of one class in one image.

    Attributes:
        row, column: int64 (M,), sample and class.
        area: float64 (M,), share of the image that the box covers, in [0, 1].
        distance: float64 (M,), of the box's centre from that of the image, in halves of the diagonal.
    """

    row: npt.NDArray[np.int64]
    column: npt.NDArray[np.int64]
    area: npt.NDArray[np.float64]
    distance: npt.NDArray[np.float64]


@dataclass(frozen=True)
class Records:
    """Everything that a file or folder says, in its order.

    Attributes:
        source: the path as the user gave it, for messages.
        name: name of the data set.
        ids: one name per sample.
        inputs: the samples, or the image files (or parts of files) that hold them.
        classes: class names, in the order of the label columns.
        classes_given: the data lists its classes (otherwise they are the names that occur in it).
        labels: what is known; full if the data is fully labelled.
        split: `train`, `val` or `test` per sample; None if the data has no split.
        notes: what was understood, one line each.
        objects: boxes, if the data has them.
        protocol: what a published protocol observes of the labels, if the data is a benchmark that has one.
    """

    source: str
    name: str
    ids: tuple[str, ...]
    inputs: Inputs | tuple[Path | FilePart, ...]
    classes: tuple[str, ...]
    classes_given: bool
    labels: ObservedLabels
    split: tuple[str, ...] | None
    notes: tuple[str, ...] = ()
    objects: Objects | None = None
    protocol: ObservedLabels | None = None
