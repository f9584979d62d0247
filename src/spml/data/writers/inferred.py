"""Inferred labels of the samples of a data set, next to the known ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ...labels import ObservedLabels
from ..records import Records


class Inferred(NamedTuple):
    """M labels that a model inferred, by ascending sample and class.

    Attributes:
        rows: Sample of each label, int64 (M,).
        columns: Class of each label, int64 (M,).
        values: 1 for positive and -1 for negative, int8 (M,).
        scores: Probability of being positive, float64 (M,): calibrated where the model is, otherwise its
            score; NaN where it is not known.
        all_scores: Score of every class for each of the N samples, whether predicted or not, float32 (N, C),
            NaN where it is not known; None unless it was asked for.
    """

    rows: npt.NDArray[np.int64]
    columns: npt.NDArray[np.int64]
    values: npt.NDArray[np.int8]
    scores: npt.NDArray[np.float64]
    all_scores: npt.NDArray[np.float32] | None = None

    @classmethod
    def none(cls) -> Inferred:
        """No label at all."""
        return cls(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int8), np.empty(0))

    def by_sample(self, count: int) -> Iterator[list[tuple[int, int, float]]]:
        """(class, value, score) of the inferred labels of each of `count` samples."""
        ends = np.searchsorted(self.rows, np.arange(count + 1)).tolist()
        entries = list(zip(self.columns.tolist(), self.values.tolist(), self.scores.tolist(), strict=True))
        for start, end in pairwise(ends):
            yield entries[start:end]


class Sample(NamedTuple):
    """Labels of one sample, which are names of classes.

    Attributes:
        name: Name of its image file.
        split: Its split; None if the data has none.
        positive: Known positives.
        negative: Known negatives.
        inferred: Score of each inferred positive; None where it is not known.
        inferred_negative: Score of each inferred negative, likewise.
    """

    name: str
    split: str | None
    positive: list[str]
    negative: list[str]
    inferred: dict[str, float | None]
    inferred_negative: dict[str, float | None]


def labelled_samples(records: Records, inferred: Inferred, names: Sequence[str]) -> Iterator[Sample]:
    """Known and inferred labels of each sample; `names` are the names of the image files."""
    classes = records.classes
    splits = records.split or [None] * len(names)
    positive, negative = (known_by_sample(records.labels, value) for value in (1, -1))
    guesses = inferred.by_sample(len(names))
    for name, split, present, absent, guessed in zip(names, splits, positive, negative, guesses, strict=True):
        scores: dict[int, dict[str, float | None]] = {1: {}, -1: {}}
        for column, value, score in guessed:
            scores[value][classes[column]] = score if score == score else None
        known, lacking = ([classes[column] for column in columns] for columns in (present, absent))
        yield Sample(name, split, known, lacking, scores[1], scores[-1])


def known_by_sample(labels: ObservedLabels, value: int) -> Iterator[list[int]]:
    """Classes that are known positives (`value` 1) or known negatives (-1) of each sample."""
    rows, columns = labels.entries(value)
    ends = np.searchsorted(rows, np.arange(len(labels) + 1)).tolist()
    classes = columns.tolist()
    for start, end in pairwise(ends):
        yield classes[start:end]


def leave_out_known(inferred: Inferred, labels: ObservedLabels) -> Inferred:
    """The inferred labels whose value `labels` does not know."""
    count = labels.num_classes
    known = np.concatenate([rows * count + columns for rows, columns in map(labels.entries, (1, -1))])
    unknown = ~np.isin(inferred.rows * count + inferred.columns, known)
    return inferred._replace(
        rows=inferred.rows[unknown],
        columns=inferred.columns[unknown],
        values=inferred.values[unknown],
        scores=inferred.scores[unknown],
    )
