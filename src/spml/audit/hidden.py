"""How probable it is that labels which are not known are there all the same."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..common.errors import InputError
from ..decisions import (
    AnyScores,
    Calibration,
    KnownPositives,
    Priors,
    by_class,
    fit_calibration,
    hidden_of_highest,
    hidden_probabilities,
    priors_from_shares,
)
from ..metrics.arrays import Scores
from ..metrics.ranks import rank_positives
from ..metrics.top_scores import TopScores, fits
from .checks import (
    NOT_FINITE,
    Labels,
    check_limits,
    check_missing,
    checked,
    finite_scores,
    known_pairs,
    observed_labels,
)

PROBABLE = 0.5
"""Probability above which a label is called probably missing: then it is more likely there than not."""

_ENTRIES = 1 << 20  # pairs of sample and class in a block of samples

Floats = npt.NDArray[np.float64]


class MissingLabels(NamedTuple):
    """Pairs of a sample and a class that is probably missing, from the highest score to the lowest.

    Attributes:
        rows: Sample of each pair, int64 (M,).
        columns: Class of each pair, int64 (M,).
        probability: Probability that the sample has the class, float64 (M,). It need not fall along the list:
            a label is less probable in a sample that has other probable ones, one of which is known.
        rank: 1, 2, ..., int64 (M,).
        rank_in_class: Place among the pairs of the same class, from 1, int64 (M,).
    """

    rows: npt.NDArray[np.int64]
    columns: npt.NDArray[np.int64]
    probability: Floats
    rank: npt.NDArray[np.int64]
    rank_in_class: npt.NDArray[np.int64]


class HiddenLabels:
    """Probabilities of the labels that are not known, from scores of a model that was not fitted to them.

    Scores are calibrated (see `spml.decisions.fit_calibration`), and the probability p of a label becomes
    that of a label which is there and was not shown (see `spml.decisions.hidden_probabilities`). Known labels
    have none, and neither have classes without a known positive, about which a model can't say anything.

    Probabilities are computed for a block of samples at a time and not kept.

    Args:
        labels: Class indices of the known positives, integers of shape (N,); a matrix of shape (N, C) in
            {-1, 0, +1} with 0 for unknown; or `ObservedLabels`.
        scores: Logits or log-probabilities of shape (N, C), comparable between classes, by a model that was
            not fitted to these samples.
        priors: Mean labels per sample K, and class priors.
        calibration: Probabilities of scores; None = fitted to these samples.

    Attributes:
        labels: Observed labels, int8 (N, C).
        scores: Scores, float32 or float64 (N, C).
        priors: Class priors.
        calibration: Probabilities of scores.

    Raises:
        InputError: Shapes differ, a label is not allowed, a score is not finite, or K says that no label is
            missing.
    """

    def __init__(
        self, labels: Labels, scores: npt.ArrayLike, priors: Priors, calibration: Calibration | None = None
    ) -> None:
        self.labels, self.scores = checked(labels, scores)
        self.priors = priors
        check_missing(priors.mean_labels, (self.labels == 1).sum(1))
        self.calibration = calibration or fit_calibration(self.scores, self.labels, priors)

    @staticmethod
    def from_mean_labels(labels: Labels, scores: AnyScores, mean_labels: float) -> HiddenLabels:
        """Take the class priors from K and the known labels, as `spml.decisions.priors_from_shares` does.

        Where only the highest scores of each sample are kept, the result is `HiddenOfHighest`.
        """
        if not isinstance(scores, TopScores):
            scores = finite_scores(scores)
        shape = (len(scores), scores.classes) if isinstance(scores, TopScores) else scores.shape
        observed = observed_labels(labels, (shape[0], shape[1]))
        return hidden_labels(
            observed, scores, priors_from_shares(observed.positives_per_class(), mean_labels)
        )

    @property
    def samples(self) -> int:
        """Number of samples N."""
        return len(self.scores)

    @property
    def positives_per_class(self) -> npt.NDArray[np.int64]:
        """Number of known positives of each class, int64 (C,)."""
        return np.asarray((self.labels == 1).sum(0), np.int64)

    @property
    def known(self) -> KnownPositives:
        """Known positives with their scores, sample by sample."""
        return by_class(self.scores, self.labels).known

    @property
    def unknown(self) -> int:
        """Number of pairs of a sample and a class about which nothing is known."""
        return int((self.labels == 0).sum())

    def blocks(self) -> Iterator[tuple[slice, Floats]]:
        """Yield samples, and the probabilities (B, C) that their labels are hidden; 0 for known labels."""
        samples, classes = self.scores.shape
        size = max(1, _ENTRIES // classes)
        unseen = self.priors.shares == 0
        for first in range(0, samples, size):
            block = slice(first, first + size)
            hidden = hidden_probabilities(self.calibration(self.scores[block]), self.labels[block])
            hidden[:, unseen] = 0
            yield block, hidden

    @cached_property
    def per_class(self) -> Floats:
        """Expected number of hidden positives of each class, float64 (C,)."""
        return np.asarray(sum(hidden.sum(0) for _, hidden in self.blocks()), np.float64)

    def count(self, min_probability: float = PROBABLE) -> int:
        """Number of pairs that `find` marks."""
        return sum(int((hidden > min_probability).sum()) for _, hidden in self.blocks())

    def find(self, min_probability: float = PROBABLE) -> npt.NDArray[np.bool_]:
        """Mark the pairs that are hidden with more than this probability, bool (N, C)."""
        found = np.zeros(self.scores.shape, np.bool_)
        for block, hidden in self.blocks():
            found[block] = hidden > min_probability
        return found

    def places(self) -> tuple[npt.NDArray[np.int64], Floats]:
        """Class of each known positive and its place in it from below, 1 = lowest score of all samples.

        Equal scores have the mean of their places, int64 and float64 (P,).
        """
        ranks = rank_positives(self.scores, self.labels == 1)
        return ranks.columns, self.samples + 0.5 - (ranks.ge + ranks.gt) / 2

    def highest_unknown(self) -> Scores:
        """Highest score of each sample among its unknown classes that can be predicted, (N,); minus infinity
        where there is none."""
        highest = np.full(self.samples, -np.inf, self.scores.dtype)
        for column in np.flatnonzero(self.priors.shares > 0):
            unknown = self.labels[:, column] == 0
            np.maximum(highest, self.scores[:, column], out=highest, where=unknown)
        return highest

    def rank(self, *, top: int = 0, per_class: int = 0, min_probability: float = 0.0) -> MissingLabels:
        """List unknown pairs by their scores, over all classes together.

        Args:
            top: Largest number of pairs; 0 = all of them, which may be N x C.
            per_class: Largest number of pairs of a class; 0 = any.
            min_probability: Least probability of a pair.

        Raises:
            InputError: An argument is out of its domain.
        """
        check_limits(top, per_class, min_probability)
        empty = np.empty(0, np.int64)
        best = ListedPairs(empty, empty, np.empty(0, self.scores.dtype), np.empty(0))
        for block, hidden in self.blocks():
            candidates = (self.labels[block] == 0) & (self.priors.shares > 0) & (hidden >= min_probability)
            rows, columns = np.nonzero(candidates)
            own = ListedPairs(rows + block.start, columns, self.scores[block][candidates], hidden[candidates])
            # Of the pairs so far, those that are not among the best ones now will never be.
            best = best.joined(own).best(top, per_class)
        return best.ranked()


class HiddenOfHighest(HiddenLabels):
    """Probabilities as in `HiddenLabels` where only the highest scores of each sample are kept.

    A pair that was left out has the lowest probability of the calibration. It is never listed or marked, but
    counts in the numbers that are expected.

    Args:
        labels: As in `HiddenLabels`; as a matrix only where that fits into the memory.
        scores: The highest scores of N samples, and those of all known positives.
        priors, calibration: As in `HiddenLabels`.

    Attributes:
        observed: Observed labels.
        highest: Scores.
        priors: Class priors.
        calibration: Probabilities of scores.

    Raises:
        InputError: As in `HiddenLabels`.
    """

    def __init__(
        self, labels: Labels, scores: TopScores, priors: Priors, calibration: Calibration | None = None
    ) -> None:
        self.observed = observed_labels(labels, (len(scores), scores.classes))
        self.highest, self.priors = scores, priors
        if not np.isfinite(scores.scores).all():
            raise InputError(NOT_FINITE)
        check_missing(priors.mean_labels, self.observed.positives_per_sample())
        self.calibration = calibration or fit_calibration(scores, self.observed, priors)
        kept = np.flatnonzero(scores.in_order)
        self._rows, self._columns, self._values = scores.rows[kept], scores.columns[kept], scores.scores[kept]
        own = self.observed.at(self._rows, self._columns)
        self._probability, self._of_others = hidden_of_highest(
            self.calibration(self._values),
            own,
            self._rows,
            scores.left_out,
            float(self.calibration.probabilities[0]),
            self.observed.positives_per_sample() > 0,
        )
        self._probability[priors.shares[self._columns] == 0] = 0
        self._candidates = (own == 0) & (priors.shares[self._columns] > 0)

    @property
    def samples(self) -> int:
        """Number of samples N."""
        return len(self.highest)

    @property
    def positives_per_class(self) -> npt.NDArray[np.int64]:
        """Number of known positives of each class, int64 (C,)."""
        return self.observed.positives_per_class()

    @property
    def known(self) -> KnownPositives:
        """Known positives with their scores, sample by sample."""
        return by_class(self.highest, self.observed).known

    @property
    def unknown(self) -> int:
        """Number of pairs of a sample and a class about which nothing is known."""
        return self.samples * self.highest.classes - int(self.observed.known_per_sample().sum())

    @cached_property
    def per_class(self) -> Floats:
        """Expected number of hidden positives of each class, float64 (C,)."""
        classes, others = self.highest.classes, np.where(self.highest.left_out > 0, self._of_others, 0)
        known_rows, known_columns = known_pairs(self.observed)
        stored = self.highest.at(known_rows, known_columns)
        left_out = np.isnan(stored) | (stored < self.highest.floors[known_rows])
        expected = others.sum() - np.bincount(self._columns, others[self._rows], minlength=classes)
        expected -= np.bincount(known_columns[left_out], others[known_rows[left_out]], minlength=classes)
        expected = np.maximum(expected, 0) + np.bincount(self._columns, self._probability, minlength=classes)
        return np.asarray(np.where(self.priors.shares > 0, expected, 0), np.float64)

    def count(self, min_probability: float = PROBABLE) -> int:
        """Number of pairs that `find` marks."""
        return int((self._probability > min_probability).sum())

    def find(self, min_probability: float = PROBABLE) -> npt.NDArray[np.bool_]:
        """Mark the pairs that are hidden with more than this probability, bool (N, C).

        Raises:
            InputError: The mask does not fit into the memory.
        """
        shape = self.samples, self.highest.classes
        if not fits(*shape):
            raise InputError(
                f"a mask of {shape[0]:,} samples and {shape[1]:,} classes would take "
                f"{shape[0] * shape[1] / 1e9:,.1f} GB: list the labels instead (rank_missing_labels(top=...))"
            )
        found = np.zeros(shape, np.bool_)
        marked = self._probability > min_probability
        found[self._rows[marked], self._columns[marked]] = True
        return found

    def places(self) -> tuple[npt.NDArray[np.int64], Floats]:
        """As in `HiddenLabels`; scores of a class that were left out count as equal."""
        scores = by_class(self.highest, self.observed)
        order = np.argsort(scores.known.columns, kind="stable")
        columns, values = scores.known.columns[order], scores.known.scores[order]
        at_least, above = np.empty((2, len(order)))
        present, first = np.unique(columns, return_index=True)
        for column, start, end in zip(present.tolist(), first, [*first[1:], len(order)], strict=True):
            ascending, own = scores.ascending(column), slice(start, end)
            at_least[own] = len(ascending) - np.searchsorted(ascending, values[own], side="left")
            above[own] = len(ascending) - np.searchsorted(ascending, values[own], side="right")
            last = np.flatnonzero(~scores.known.in_order[order[own]]) + start
            at_least[last], above[last] = self.samples, len(ascending)
        return columns, self.samples + 0.5 - (at_least + above) / 2

    def highest_unknown(self) -> Scores:
        """As in `HiddenLabels`, among the scores that are kept."""
        highest = np.full(self.samples, -np.inf, np.float32)
        np.maximum.at(highest, self._rows[self._candidates], self._values[self._candidates])
        return highest

    def rank(self, *, top: int = 0, per_class: int = 0, min_probability: float = 0.0) -> MissingLabels:
        """As in `HiddenLabels`, of the pairs whose scores are kept.

        Raises:
            InputError: An argument is out of its domain.
        """
        check_limits(top, per_class, min_probability)
        chosen = np.flatnonzero(self._candidates & (self._probability >= min_probability))
        pairs = ListedPairs(
            self._rows[chosen], self._columns[chosen], self._values[chosen], self._probability[chosen]
        )
        return pairs.best(top, per_class).ranked()


class ListedPairs(NamedTuple):
    """Pairs of a sample and a class for a list, each field of shape (M,)."""

    rows: npt.NDArray[np.int64]
    columns: npt.NDArray[np.int64]
    scores: Scores
    probability: Floats

    def joined(self, other: ListedPairs) -> ListedPairs:
        """These pairs, followed by others."""
        return ListedPairs(
            np.concatenate([self.rows, other.rows]),
            np.concatenate([self.columns, other.columns]),
            np.concatenate([self.scores, other.scores]),
            np.concatenate([self.probability, other.probability]),
        )

    def best(self, top: int, per_class: int) -> ListedPairs:
        """The pairs with the highest scores, in that order; of equal ones the first."""
        order = np.argsort(-self.scores, kind="stable")
        if per_class:
            order = order[_places(self.columns[order]) < per_class]
        order = order[: top or None]
        return ListedPairs(self.rows[order], self.columns[order], self.scores[order], self.probability[order])

    def ranked(self) -> MissingLabels:
        """The list of these pairs, in their order."""
        rank, in_class = np.arange(1, len(self.rows) + 1), _places(self.columns) + 1
        return MissingLabels(self.rows, self.columns, self.probability, rank, in_class)


def hidden_labels(
    labels: Labels, scores: AnyScores, priors: Priors, calibration: Calibration | None = None
) -> HiddenLabels:
    """`HiddenLabels` for all scores (N, C), `HiddenOfHighest` for the highest of each sample.

    Raises:
        InputError: As in `HiddenLabels`.
    """
    if isinstance(scores, TopScores):
        return HiddenOfHighest(labels, scores, priors, calibration)
    return HiddenLabels(labels, scores, priors, calibration)


def _places(columns: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Number of earlier entries of the same class, for each entry."""
    order = np.argsort(columns, kind="stable")
    starts = np.searchsorted(columns[order], columns[order], side="left")
    places = np.empty(len(columns), np.int64)
    places[order] = np.arange(len(columns)) - starts
    return places
