"""Shared by the writers: inferred labels next to known ones, sample by sample, and names that come back as
they are when a file is read."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from ...common.errors import InputError
from ...common.phrases import counted
from ...common.safe import CONTROL, quote
from ...labels import IntArray, ObservedLabels
from ..names import FilesBelow
from ..records import Records
from ..texts import Texts

T = TypeVar("T")


class Inferred(NamedTuple):
    """M labels that a model inferred, by ascending sample and class.

    Attributes:
        rows: Sample of each label, int64 (M,).
        columns: Class of each label, int64 (M,).
        values: 1 for positive and -1 for negative, int8 (M,).
        scores: Probability of being positive, float64 (M,): calibrated where the model is, otherwise its
            score; NaN where it is not known.
    """

    rows: npt.NDArray[np.int64]
    columns: npt.NDArray[np.int64]
    values: npt.NDArray[np.int8]
    scores: npt.NDArray[np.float64]

    @classmethod
    def none(cls) -> Inferred:
        """No label at all."""
        return cls(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int8), np.empty(0))

    def by_sample(self, count: int) -> Iterator[list[tuple[int, int, float]]]:
        """(class, value, score) of the inferred labels of each of `count` samples."""
        entries = zip(self.columns.tolist(), self.values.tolist(), self.scores.tolist(), strict=True)
        return _by_sample(self.rows, [*entries], count)


class Sample(NamedTuple):
    """Labels of one sample, which are names of classes."""

    name: str  # name of its image file
    split: str | None  # its split; None if the data has none
    group: str | None  # name of its group, perhaps empty; None likewise
    positive: list[str]  # known positives
    negative: list[str]  # known negatives
    inferred: dict[str, float | None]  # score of each inferred positive; None where it is not known
    inferred_negative: dict[str, float | None]  # score of each inferred negative, likewise


def labelled_samples(records: Records, inferred: Inferred, names: Sequence[str]) -> Iterator[Sample]:
    """Known and inferred labels of each sample; `names` are the names of the image files."""
    classes = records.classes
    splits, groups = (values or [None] * len(names) for values in (records.split, records.groups))
    positive, negative = (known_by_sample(records.labels, value) for value in (1, -1))
    guesses = inferred.by_sample(len(names))
    columns_of = zip(names, splits, groups, positive, negative, guesses, strict=True)
    for name, split, group, present, absent, guessed in columns_of:
        scores: dict[int, dict[str, float | None]] = {1: {}, -1: {}}
        for column, value, score in guessed:
            scores[value][classes[column]] = score if score == score else None
        known, lacking = ([classes[column] for column in columns] for columns in (present, absent))
        yield Sample(name, split, group, known, lacking, scores[1], scores[-1])


def known_by_sample(labels: ObservedLabels, value: int) -> Iterator[list[int]]:
    """Classes that are known positives (`value` 1) or known negatives (-1) of each sample."""
    rows, columns = labels.entries(value)
    return _by_sample(rows, columns.tolist(), len(labels))


def _by_sample(rows: IntArray, entries: list[T], count: int) -> Iterator[list[T]]:
    """Entries of each of `count` samples; `rows`, ascending, are the samples that they belong to."""
    ends = np.searchsorted(rows, np.arange(count + 1)).tolist()
    return (entries[start:end] for start, end in pairwise(ends))


def leave_out_known(inferred: Inferred, labels: ObservedLabels) -> Inferred:
    """The inferred labels whose value `labels` does not know."""
    unknown = labels.at(inferred.rows, inferred.columns) == 0
    return Inferred(*(values[unknown] for values in inferred))


def image_files(records: Records) -> Sequence[Path] | None:
    """The files of the samples; None if not every sample has a file of its own."""
    inputs: Any = records.inputs
    if isinstance(inputs, FilesBelow):
        return inputs
    are_files = isinstance(inputs, Sequence) and all(isinstance(path, Path) for path in inputs)
    return inputs if are_files else None


def image_names(records: Records, folder: Path) -> tuple[list[str], tuple[str, ...]]:
    """Relative names of the image files, for a file that lies in `folder`, and notes for the user.

    If `records.root` is not set and all images lie below `folder`, the names are relative to it; otherwise to
    that root, or to the folder of the data, of which a note says how to read them back. A name that would
    change when it is read back is refused.
    """
    paths = _absolute_paths(records)
    own = base = os.path.abspath(folder)
    reason = ""
    if records.root is not None:
        base, reason = os.path.abspath(records.root), f"File names are relative to {records.root}"
    elif _outside(paths, own):
        # The folder that the ids are relative to, or the innermost one that holds all files.
        ends = [os.sep + name.replace("/", os.sep) for name in records.ids]
        base = paths[0].removesuffix(ends[0])
        if not base or paths != [base + end for end in ends]:
            base = _innermost(paths)
        reason = f"The images do not lie below {folder}"
    notes = () if base == own else (f"{reason}: read it with data.images={shlex.quote(base)}",)
    names = [os.path.relpath(path, base).replace(os.sep, "/") for path in paths]
    for name in names:
        if name != name.strip() or "\\" in name or CONTROL.search(name):
            raise InputError(
                f"{records.source}: the file name {quote(name)} would change when it is read back, since it "
                "has a backslash, control characters or spaces around it. Rename the file first."
            )
    return names, notes


def named_from(records: Records, root: Path) -> Records:
    """The same data, with the names of its files relative to `root` wherever they are written."""
    if not root.is_dir():
        raise InputError(f"root={root}: is not a folder. Name a folder that holds all images.")
    paths = _absolute_paths(records)
    if outside := _outside(paths, os.path.abspath(root)):
        raise InputError(
            f"root={root}: {counted(len(outside), 'image lies', 'images lie')} outside this folder, such "
            f"as {quote(outside[0])}. Name a folder that holds all images, such as {_innermost(paths)}."
        )
    return replace(records, root=root)


def _absolute_paths(records: Records) -> list[str]:
    files = image_files(records)
    if files is None:
        raise InputError(
            f"{records.source}: these samples are not image files, which have names to be written. Use "
            f"format={'csv' if isinstance(records.inputs, Texts) else 'nan'}, without `root`."
        )
    return [os.path.abspath(path) for path in files]


def _outside(paths: Sequence[str], folder: str) -> list[str]:
    """The paths that do not lie below a folder; all are absolute."""
    return [path for path in paths if not path.startswith(os.path.join(folder, ""))]


def _innermost(paths: Sequence[str]) -> str:
    return os.path.commonpath([*map(os.path.dirname, paths)])
