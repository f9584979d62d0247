"""Scores of samples that come in parts: all of them, or the highest of each sample where they do not fit."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from ...common.errors import InputError
from ...labels import ObservedLabels
from ...metrics.top_scores import HIGHEST, TopScores, fits, top_scores

MOST_ENTRIES = 1 << 26
"""Most scores that are kept of all samples together where only the highest of each are."""

_BLOCK = 1 << 26  # scores of which the highest are found at a time

Rows = npt.NDArray[np.int64]
Scores = npt.NDArray[np.float32]


class ScoreTable:
    """Scores of N samples, filled in for some of them at a time.

    Args:
        labels: Observed labels of the samples, whose known positives keep their scores.
        highest: Whether only the highest scores of each sample are kept; None = where not all fit.
    """

    def __init__(self, labels: ObservedLabels, *, highest: bool | None = None) -> None:
        shape = len(labels), labels.num_classes
        self.highest = not fits(*shape) if highest is None else highest
        self._labels, self._k = labels, max(1, min(HIGHEST, MOST_ENTRIES // max(1, shape[0])))
        self._all = np.empty((0, 0) if self.highest else shape, np.float32)
        self._parts: list[TopScores] = []
        self._rows: list[Rows] = []

    def put(self, rows: Rows, scores: Scores | TopScores) -> None:
        """Fill in the scores of some samples.

        Args:
            rows: Their numbers, int64 (B,).
            scores: Their scores (B, C); `TopScores` only where the highest are kept.
        """
        if not self.highest:
            assert not isinstance(scores, TopScores)
            self._all[rows] = scores
        elif isinstance(scores, TopScores):
            self._add(rows, scores)
        else:
            self._add(rows, highest_scores(scores, self._labels.take(rows), self._k))

    def put_blocks(self, rows: Rows, blocks: Iterable[tuple[Rows, Scores]]) -> None:
        """Fill in the scores of some samples, which come in blocks.

        Args:
            rows: Their numbers, int64 (B,).
            blocks: Positions in `rows`, ascending from 0, and the scores of these samples.
        """
        if self.highest:
            self._add(rows, top_scores(blocks, self._k, self._labels.take(rows).entries(1)))
            return
        for positions, scores in blocks:
            self._all[rows[positions]] = scores

    def finish(self) -> Scores | TopScores:
        """Scores of all samples, which have all been filled in."""
        if not self.highest:
            return self._all
        return TopScores.join(self._parts).take(np.argsort(np.concatenate(self._rows)))

    def _add(self, rows: Rows, scores: TopScores) -> None:
        self._parts.append(scores)
        self._rows.append(rows)


def highest_scores(scores: Scores, labels: ObservedLabels, k: int = HIGHEST) -> TopScores:
    """The k highest of the scores (N, C) of each sample, and those of its known positives."""
    size = max(1, _BLOCK // scores.shape[1])
    blocks = (np.arange(first, min(first + size, len(scores))) for first in range(0, len(scores), size))
    return top_scores(((rows, scores[rows[0] : rows[-1] + 1]) for rows in blocks), k, labels.entries(1))


def take_scores(scores: Scores | TopScores, rows: Rows) -> Scores | TopScores:
    """Scores of some samples, in that order."""
    return scores.take(rows) if isinstance(scores, TopScores) else scores[rows]


def all_scores(scores: Scores | TopScores, what: str) -> Scores:
    """Scores (N, C) of all classes; those that were left out are as high as they can be.

    Args:
        scores: Scores.
        what: What needs all scores, for the message.

    Raises:
        InputError: There are too many.
    """
    if not isinstance(scores, TopScores):
        return scores
    if not fits(len(scores), scores.classes):
        raise InputError(
            f"{what} compares the scores of all classes, but those of {len(scores):,} samples and "
            f"{scores.classes:,} classes do not fit into the memory."
        )
    dense = np.repeat(scores.floors[:, None], scores.classes, 1)
    dense[scores.rows, scores.columns] = scores.scores
    return dense
