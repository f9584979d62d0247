"""Choose the samples that a report shows of each class: by held-out scores and known labels alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..folder.held_out import HeldOut

MOST_SHOWN = 120
"""Most samples that a report shows, over all classes; one that is shown for two classes counts twice."""

_GROUPS = 3  # best, worst, uncertain
_PER_GROUP = 3


class ShownSample(NamedTuple):
    """A sample that is shown for a class.

    Attributes:
        row: Its position among the held-out samples.
        score: Its logit for the class.
    """

    row: int
    score: float


class ShownClass(NamedTuple):
    """Samples that are shown for a class.

    Attributes:
        column: Number of the class.
        best: Samples that were given the label, with the highest scores.
        worst: Samples that were given the label, with the lowest scores, the lowest first.
        uncertain: Samples of which the label is not known, with scores nearest to the threshold. Where all
            labels are known, samples without it.
    """

    column: int
    best: tuple[ShownSample, ...]
    worst: tuple[ShownSample, ...]
    uncertain: tuple[ShownSample, ...]

    @property
    def samples(self) -> tuple[ShownSample, ...]:
        """All of them."""
        return (*self.best, *self.worst, *self.uncertain)


def choose_samples(held_out: HeldOut, thresholds: Sequence[float]) -> list[ShownClass]:
    """Choose up to three samples of each kind for each class, and at most `MOST_SHOWN` over all classes.

    With more classes there are fewer of each, and from 41 classes on only those with the most known positives
    are shown.

    Args:
        held_out: Held-out scores of H samples over C classes, with their observed labels.
        thresholds: Logit from which on each class is predicted, (C,); infinite = never.

    Returns:
        Classes with a known positive among the held-out samples, the one with most of them first.
    """
    known = held_out.labels.positives_per_class()
    columns = np.argsort(-known, kind="stable")[: min(int((known > 0).sum()), MOST_SHOWN // _GROUPS)]
    each = min(_PER_GROUP, MOST_SHOWN // (_GROUPS * max(len(columns), 1)))
    return [_choose(held_out, int(column), float(thresholds[column]), each) for column in columns]


def _choose(held_out: HeldOut, column: int, threshold: float, each: int) -> ShownClass:
    everything = np.arange(len(held_out.ids))
    of_class = np.full(len(everything), column)
    scores, labels = held_out.scores.at(everything, of_class), held_out.labels.at(everything, of_class)
    there = np.isfinite(scores)  # of many classes, only the highest scores of a sample are kept
    given = np.flatnonzero((labels == 1) & there)
    given = given[np.argsort(-scores[given], kind="stable")]
    # Where all labels are known, the samples without it.
    unknown = np.flatnonzero((labels == (0 if (labels == 0).any() else -1)) & there)
    nearest = unknown[:0]
    if np.isfinite(threshold):
        nearest = unknown[np.argsort(np.abs(scores[unknown] - threshold), kind="stable")][:each]
    return ShownClass(
        column,
        _shown(given[:each], scores),
        _shown(given[each:][::-1][:each], scores),
        _shown(nearest, scores),
    )


def _shown(rows: npt.NDArray[np.int64], scores: npt.NDArray[np.floating]) -> tuple[ShownSample, ...]:
    return tuple(ShownSample(row, float(scores[row])) for row in rows.tolist())


def count_predicted(held_out: HeldOut, thresholds: Sequence[float]) -> npt.NDArray[np.int64]:
    """Number of held-out samples that each class is predicted for, int64 (C,)."""
    cut = np.asarray(thresholds, np.float64).astype(np.float32)
    pairs = held_out.scores.pairs
    counts = [
        0 if np.isinf(limit) else int((pairs.ascending(column) >= limit).sum())
        for column, limit in enumerate(cut)
    ]
    return np.asarray(counts, np.int64)


def count_recognised(held_out: HeldOut, thresholds: Sequence[float]) -> npt.NDArray[np.int64]:
    """Number of held-out samples that were given each label and for which it is predicted, int64 (C,)."""
    cut = np.asarray(thresholds, np.float64).astype(np.float32)
    rows, columns = held_out.labels.entries(1)
    found = held_out.scores.at(rows, columns) >= cut[columns]
    return np.bincount(columns[found], minlength=len(cut)).astype(np.int64)
