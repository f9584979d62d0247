"""Scores of all classes together in bins, whether all are kept or only the highest of each sample."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ..labels import ObservedLabels
from ..metrics.arrays import IntArray, Scores
from ..metrics.top_scores import TopScores
from .by_class import KnownPositives, by_class

_BINS_OF_ALL, _BINS_OF_KNOWN = 2000, 1000

Floats = npt.NDArray[np.float64]


class Pairs(Protocol):
    """Pairs of sample and class in bins of their scores.

    Attributes:
        samples: Number of samples N.
        classes: Number of classes C.
        known: Known positives.
        own: Bin of each known positive, (P,).
        counts: Number of pairs in each bin, int64 (B,).
        centres: Mean score of each bin, NaN where it is empty, float64 (B,).
    """

    samples: int
    classes: int
    known: KnownPositives
    own: npt.NDArray[np.integer[Any]]
    counts: IntArray
    centres: Floats

    def hidden(self, p: Floats) -> Floats:
        """Sum of the probabilities p (B,) of the bins over the unknown labels of each sample, (N,)."""


class AllPairs:
    """All scores (N, C)."""

    def __init__(self, scores: Scores, labels: npt.NDArray[np.int8]) -> None:
        self.samples, self.classes = scores.shape
        self._labels, self.known = labels, by_class(scores, labels).known
        edges = _edges(scores.ravel(), self.known.scores)
        self._bins = np.searchsorted(edges, scores, side="right").astype(np.int32)
        self.own: npt.NDArray[np.integer[Any]] = self._bins[self.known.rows, self.known.columns]
        self.counts = np.bincount(self._bins.ravel(), minlength=len(edges) + 1)
        self.centres = _means(self._bins.ravel(), scores.ravel(), self.counts)

    def hidden(self, p: Floats) -> Floats:
        sums: Floats = np.where(self._labels == 0, p[self._bins], 0).sum(1)
        return sums


class HighestPairs:
    """The highest scores of each sample. All pairs that were left out are in bin 0, and no other."""

    def __init__(self, scores: TopScores, labels: ObservedLabels) -> None:
        self.samples, self.classes = len(scores), scores.classes
        self.known = by_class(scores, labels).known
        kept = np.flatnonzero(scores.in_order)
        values, self._rows = scores.scores[kept], scores.rows[kept]
        edges = _edges(values, self.known.scores[self.known.in_order])
        self._bins = 1 + np.searchsorted(edges, values, side="right").astype(np.int32)
        place = np.searchsorted(edges, self.known.scores, side="right")
        self.own = np.where(self.known.in_order, 1 + place, 0)
        self.counts = np.bincount(self._bins, minlength=len(edges) + 2)
        self.counts[0] = scores.left_out.sum()
        self.centres = _means(self._bins, values, self.counts)
        self.centres[0] = values.min()
        self._unknown = labels.at(self._rows, scores.columns[kept]) == 0
        unknown_kept = np.bincount(self._rows[self._unknown], minlength=self.samples)
        self._unknown_left_out = self.classes - labels.known_per_sample() - unknown_kept

    def hidden(self, p: Floats) -> Floats:
        kept = np.bincount(self._rows, np.where(self._unknown, p[self._bins], 0), minlength=self.samples)
        sums: Floats = kept + p[0] * self._unknown_left_out
        return sums


def _means(bins: npt.NDArray[np.int32], values: Scores, counts: IntArray) -> Floats:
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.bincount(bins, values, minlength=len(counts)) / counts, np.float64)


def _edges(values: Scores, known: Scores) -> Scores:
    """Edges of bins: quantiles of all scores, and of those of known positives, which are rare and high."""
    quantiles = [
        np.quantile(part, np.linspace(0, 1, count + 1)[1:-1], method="inverted_cdf")
        for part, count in ((values, _BINS_OF_ALL), (known, _BINS_OF_KNOWN))
        if len(part)
    ]
    return np.unique(np.concatenate(quantiles))
