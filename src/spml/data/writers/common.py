"""What writers share: inferred labels, names that can be read back, where images lie."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ...errors import InputError
from ...labels import ObservedLabels
from ..records import Records
from ..safe import CONTROL, shown


class Inferred(NamedTuple):
    """Labels that a model inferred, M entries in all.

    Attributes:
        rows, columns: int64 (M,), sample and class, ascending.
        values: int8 (M,), 1 = positive, -1 = negative.
        scores: float64 (M,), how sure of it being positive; NaN where there is no such number.
    """

    rows: npt.NDArray[np.int64]
    columns: npt.NDArray[np.int64]
    values: npt.NDArray[np.int8]
    scores: npt.NDArray[np.float64]

    @classmethod
    def none(cls) -> Inferred:
        """Nothing inferred."""
        return cls(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int8), np.empty(0))

    def by_sample(self, count: int) -> Iterator[list[tuple[int, int, float]]]:
        """(class, value, score) of what is inferred of each of `count` samples."""
        ends = np.searchsorted(self.rows, np.arange(count + 1)).tolist()
        entries = list(zip(self.columns.tolist(), self.values.tolist(), self.scores.tolist(), strict=True))
        for start, end in pairwise(ends):
            yield entries[start:end]


def known_by_sample(labels: ObservedLabels, value: int) -> Iterator[list[int]]:
    """The classes that are known positives (1) or negatives (-1) of each sample."""
    rows, columns = labels.entries(value)
    ends = np.searchsorted(rows, np.arange(len(labels) + 1)).tolist()
    listed = columns.tolist()
    for start, end in pairwise(ends):
        yield listed[start:end]


def refuse_existing(output: Path, overwrite: bool) -> None:
    """Refuse to replace a file unless that was asked for, and a folder in any case.

    Raises:
        InputError: something is there.
    """
    if output.is_dir():
        raise InputError(f"{output}: is a folder, but this is written to a file; name one.")
    if output.exists() and not overwrite:
        raise InputError(f"{output}: is there already. Name another file, or replace it with --overwrite.")


def check_names(records: Records) -> None:
    """Check that every reader gives class names back as they are.

    Raises:
        InputError: a name is empty, or has spaces around it or control characters.
    """
    for name in records.classes:
        if not name or name != name.strip() or CONTROL.search(name):
            raise InputError(
                f"{records.source}: the class name {shown(name)} would be read back as another one, since it "
                "is empty, or has spaces around it or control characters. Correct it first."
            )


def image_files(records: Records) -> tuple[Path, ...] | None:
    """The files of the samples; None if not every sample is a file of its own."""
    if not isinstance(records.inputs, tuple):
        return None
    files = tuple(path for path in records.inputs if isinstance(path, Path))
    return files if len(files) == len(records.inputs) else None


def image_names(records: Records, folder: Path) -> tuple[list[str], tuple[str, ...]]:
    """The name of each image file in a file that lies in `folder`.

    Args:
        records: data whose samples are image files.
        folder: names are relative to it if all images lie below it, otherwise to the folder of the data.

    Returns:
        The names, and in the second case a note that says how to read them.

    Raises:
        InputError: the samples are no files; a name can't be read back.
    """
    files = image_files(records)
    if files is None:
        raise InputError(
            f"{records.source}: its samples are no image files, which this format lists. Write --format nan."
        )
    paths = [os.path.abspath(path) for path in files]
    base = os.path.abspath(folder)
    notes: tuple[str, ...] = ()
    if not _all_below(base, paths):
        base = _base(paths, records.ids)
        notes = (f"The images do not lie below {folder}: read it with --data.images {base}",)
    names = [os.path.relpath(path, base).replace(os.sep, "/") for path in paths]
    for name in names:
        if name != name.strip() or "\\" in name or CONTROL.search(name):
            raise InputError(
                f"{records.source}: the file name {shown(name)} would be read back as another one, since it "
                "has a backslash, control characters or spaces around it. Rename the file first."
            )
    return names, notes


def _all_below(base: str, paths: Sequence[str]) -> bool:
    start = os.path.join(base, "")
    return all(path.startswith(start) for path in paths)


def _base(paths: Sequence[str], ids: Sequence[str]) -> str:
    """The folder that the ids are relative to, or the smallest one that holds all files."""
    ends = [os.sep + name.replace("/", os.sep) for name in ids]
    base = paths[0].removesuffix(ends[0])
    if base and all(path == base + end for path, end in zip(paths, ends, strict=True)):
        return base
    return os.path.commonpath([os.path.dirname(path) for path in paths])
