"""What is kept of scores that do not fit, for metrics against full labels."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from .arrays import BoolArray, Empty, FloatArray, IntArray, Scores
from .blocks import ScoreBlocks
from .counted_ranks import Entries, ranks_of
from .ranks import Ranks

MOST_K = 5
"""Number of highest scores of each sample whose classes are kept."""


@dataclass(frozen=True)
class LabelledBlocks:
    """Counts of scores and predicted labels that were looked at block by block; as `Labelled`.

    Attributes:
        classes, threshold, empty, never: As in `LabelledScores`.
        positives: Rows and columns of the positives, row by row, int64 (P,).
        found: Whether each positive was predicted, bool (P,).
        predicted_per_class: Number of samples for which each class was predicted, int64 (C,).
        predicted_per_sample: Number of labels that were predicted for each sample, int64 (N,).
        highest: Classes of the 5 highest scores of each sample (fewer of fewer eligible classes), the highest
            first, of equal scores the first class, int64 (N, 5).
        ranks: Ranks of the positives.
    """

    classes: tuple[str, ...]
    threshold: float | tuple[float, ...] | None
    empty: Empty
    never: tuple[int, ...]
    positives: Entries
    found: BoolArray
    predicted_per_class: IntArray
    predicted_per_sample: IntArray
    highest: IntArray
    ranks: Ranks

    @property
    def ks(self) -> tuple[int, ...]:
        """The k of P@k, R@k and hit@k, as in `LabelledScores`."""
        return tuple(k for k in (1, 3, 5) if k <= len(self.classes) - len(self.never))

    @property
    def positives_per_sample(self) -> IntArray:
        """Number of positives of each sample, int64 (N,)."""
        return np.bincount(self.positives[0], minlength=len(self.highest))

    def counts(self, axis: int | None) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Numbers of predicted positives, predicted labels and positives, as `LabelledScores.counts`."""
        rows, columns = self.positives
        if axis is None:
            numbers = (self.found.sum(), self.predicted_per_sample.sum(), len(rows))
            of_all = [np.asarray(number, np.float64) for number in numbers]
            return of_all[0], of_all[1], of_all[2]
        own, guesses = (rows, self.predicted_per_sample) if axis == 1 else (columns, self.predicted_per_class)
        hits, actual = (np.bincount(of, minlength=len(guesses)) for of in (own[self.found], own))
        return hits.astype(np.float64), guesses.astype(np.float64), actual.astype(np.float64)

    def hits(self, k: int) -> Entries:
        """Rows and columns of the positives among the k highest scores of a sample, row by row."""
        rows, columns = self.positives
        among = (self.highest[rows, :k] == columns[:, None]).any(axis=1)
        return rows[among], columns[among]


def count_blocks(
    scores: ScoreBlocks,
    decided: Iterable[tuple[Scores, BoolArray]],
    positives: Entries,
    classes: tuple[str, ...],
    threshold: float | tuple[float, ...] | None,
    empty: Empty,
    never: tuple[int, ...],
) -> LabelledBlocks:
    """Look at scores in blocks, twice or three times: once at the predicted labels, and for the ranks.

    Args:
        scores: Scores (N, C), for the ranks.
        decided: Scores (B, C) and predicted labels, bool (B, C), of consecutive samples.
        positives: Rows and columns of the positives, row by row.
        classes, threshold, empty, never: As in `LabelledScores`.
    """
    rows, columns = positives
    allowed = np.ones(len(classes), np.bool_)
    allowed[list(never)] = False
    k = min(MOST_K, int(allowed.sum()))
    found, per_sample, highest = [], [], []
    per_class = np.zeros(len(classes), np.int64)
    first = 0
    for block, predicted in decided:
        part = slice(*np.searchsorted(rows, [first, first + len(block)]))
        found.append(predicted[rows[part] - first, columns[part]])
        per_sample.append(np.count_nonzero(predicted, axis=1))
        per_class += np.count_nonzero(predicted, axis=0)
        highest.append(_first_highest(np.where(allowed, block, -np.inf), k))
        first += len(block)
    (ranks,) = ranks_of(scores, positives)
    return LabelledBlocks(
        classes, threshold, empty, never, positives, np.concatenate(found), per_class,
        np.concatenate(per_sample), np.concatenate(highest), ranks,
    )  # fmt: skip


def _first_highest(values: Scores, k: int) -> IntArray:
    """Columns of the k highest values of each row, the highest first; of equal ones the first column."""
    rows = np.arange(len(values))
    columns = np.empty((len(values), k), np.int64)
    for place in range(k):
        columns[:, place] = values.argmax(axis=1)
        values[rows, columns[:, place]] = -np.inf
    return columns
