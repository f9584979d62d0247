"""Labels that are probably missing: how probable each one is, a ranked list, and its expected yield."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..decisions import Calibration, Priors, fit_calibration, hidden_probabilities, priors_from_shares
from ..errors import InputError
from ..labels import LabelError, ObservedLabels
from ..metrics.arrays import Scores, as_scores

PROBABLE = 0.5
"""Probability above which a label is called probably missing: then it is more likely there than not."""

POINTS = 15
"""Percentage points by which the expected yield of a list may be off."""

_ENTRIES = 1 << 20  # pairs of sample and class in a block of samples

Floats = npt.NDArray[np.float64]
Labels = npt.ArrayLike | ObservedLabels


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


class Yield(NamedTuple):
    """How many labels of a list are expected to be really missing.

    Attributes:
        listed: Length of the list.
        expected: Expected number of them that are right.
    """

    listed: int
    expected: float

    def __str__(self) -> str:
        if not self.listed:
            return "0 of 0"
        rounded = f"{float(f'{self.expected:.2g}'):,.0f}" if self.expected >= 1 else "fewer than 1"
        about = "" if self.expected < 1 else "about "
        return f"{about}{rounded} of {self.listed:,} (+-{POINTS} points if the shown label is a uniform draw)"


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
        self.labels, self.scores = _checked(labels, scores)
        self.priors = priors
        per_sample = (self.labels == 1).sum(1)
        known = float(per_sample[per_sample > 0].mean())
        if priors.mean_labels <= known:
            raise InputError(
                f"with {priors.mean_labels:g} mean labels per sample no label is missing, since the samples "
                f"with a known positive have {known:.3g} on average: state a larger number"
            )
        self.calibration = calibration or fit_calibration(self.scores, self.labels, priors)

    @classmethod
    def from_mean_labels(cls, labels: Labels, scores: npt.ArrayLike, mean_labels: float) -> HiddenLabels:
        """Take the class priors from K and the known labels, as `spml.decisions.priors_from_shares` does."""
        ternary, values = _checked(labels, scores)
        return cls(ternary, values, priors_from_shares((ternary == 1).sum(0), mean_labels))

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
        best = _Pairs(empty, empty, np.empty(0, self.scores.dtype), np.empty(0))
        for block, hidden in self.blocks():
            candidates = (self.labels[block] == 0) & (self.priors.shares > 0) & (hidden >= min_probability)
            rows, columns = np.nonzero(candidates)
            own = _Pairs(rows + block.start, columns, self.scores[block][candidates], hidden[candidates])
            # Of the pairs so far, those that are not among the best ones now will never be.
            best = best.joined(own).best(top, per_class)
        places = _places(best.columns)
        return MissingLabels(
            best.rows, best.columns, best.probability, np.arange(1, len(best.rows) + 1), places + 1
        )


class _Pairs(NamedTuple):
    rows: npt.NDArray[np.int64]
    columns: npt.NDArray[np.int64]
    scores: Scores
    probability: Floats

    def joined(self, other: _Pairs) -> _Pairs:
        return _Pairs(
            np.concatenate([self.rows, other.rows]),
            np.concatenate([self.columns, other.columns]),
            np.concatenate([self.scores, other.scores]),
            np.concatenate([self.probability, other.probability]),
        )

    def best(self, top: int, per_class: int) -> _Pairs:
        """The pairs with the highest scores, in that order; of equal ones the first."""
        order = np.argsort(-self.scores, kind="stable")
        if per_class:
            order = order[_places(self.columns[order]) < per_class]
        order = order[: top or None]
        return _Pairs(self.rows[order], self.columns[order], self.scores[order], self.probability[order])


def find_missing_labels(
    labels: Labels,
    scores: npt.ArrayLike,
    *,
    mean_labels: float,
    min_probability: float = PROBABLE,
) -> npt.NDArray[np.bool_]:
    """Mark the labels that are probably missing.

    Args:
        labels, scores: As in `HiddenLabels`.
        mean_labels: Mean number of labels per sample K, known ones included. It can't be estimated from
            single positives.
        min_probability: Probability above which a label is marked. At .5, the default, it is there more
            likely than not. Where K is small or the model weak, few labels reach it, though many are missing:
            `rank_missing_labels` lists the best ones all the same.

    Returns:
        bool (N, C).

    Raises:
        InputError: Labels, scores or K do not suit.

    Example:
        >>> labels = [0, 1, 0, 1] * 25
        >>> scores = [[3, 3, -3], [3, 3, -3], [3, -3, -3], [-3, 3, -3]] * 25
        >>> find_missing_labels(labels, scores, mean_labels=1.5)[:3].tolist()
        [[False, True, False], [True, False, False], [False, False, False]]
    """
    return HiddenLabels.from_mean_labels(labels, scores, mean_labels).find(min_probability)


def rank_missing_labels(
    labels: Labels,
    scores: npt.ArrayLike,
    *,
    mean_labels: float,
    top: int = 0,
    per_class: int = 0,
    min_probability: float = 0.0,
) -> MissingLabels:
    """List labels that are probably missing, by the scores of the unknown pairs of all classes together.

    Of all rankings that were tried on ten data sets this found the most missing labels; normalising scores by
    class, entropy or margins made it worse.

    Args:
        labels, scores, mean_labels: As in `find_missing_labels`.
        top: Largest number of pairs; 0 = all of them, which may be N x C.
        per_class: Largest number of pairs of a class; 0 = any.
        min_probability: Least probability of a pair.

    Raises:
        InputError: An argument does not suit.
    """
    hidden = HiddenLabels.from_mean_labels(labels, scores, mean_labels)
    return hidden.rank(top=top, per_class=per_class, min_probability=min_probability)


def expected_yield(probability: npt.ArrayLike) -> Yield:
    """How many labels of a list are expected to be right: the sum of their probabilities.

    Its error is not statistical, so there is no interval: the calibration may be off, by about 15 percentage
    points of the list, and by up to 50 if the known labels are no uniform draw among all labels of a sample.

    Args:
        probability: Probability of each pair, such as `MissingLabels.probability`.

    Example:
        >>> str(expected_yield([0.9, 0.6, 0.5]))
        'about 2 of 3 (+-15 points if the shown label is a uniform draw)'
    """
    p = np.asarray(probability, np.float64)
    return Yield(len(p), float(p.sum()))


def check_limits(top: int, per_class: int, min_probability: float) -> None:
    """Check the limits of a list.

    Raises:
        InputError: One is out of its domain.
    """
    if top < 0 or per_class < 0 or not 0 <= min_probability <= 1:
        raise InputError(
            "top and per_class must be at least 0 and min_probability between 0 and 1, got "
            f"{top}, {per_class} and {min_probability:g}"
        )


def ternary_labels(labels: Labels, shape: tuple[int, int]) -> npt.NDArray[np.int8]:
    """Labels in {-1, 0, +1}, int8 (N, C), from any of the forms that `HiddenLabels` takes.

    Args:
        labels: Observed labels.
        shape: Shape (N, C) of the scores.

    Raises:
        InputError: Another shape, another value, or no label is a known positive.
    """
    try:
        if not isinstance(labels, ObservedLabels):
            array = np.asarray(labels)
            labels = (
                ObservedLabels.from_index(array, shape[1])
                if array.ndim == 1
                else ObservedLabels.from_ternary(array)
            )
    except LabelError as error:
        raise InputError(f"labels: {error}") from error
    ternary = labels.to_ternary()
    if ternary.shape != shape:
        raise InputError(
            f"labels are of {ternary.shape[0]:,} samples and {ternary.shape[1]:,} classes, but scores have "
            f"the shape {shape}"
        )
    if not (ternary == 1).any():
        raise InputError("no label is a known positive, so nothing can be said about the missing ones")
    return ternary


def _checked(labels: Labels, scores: npt.ArrayLike) -> tuple[npt.NDArray[np.int8], Scores]:
    values = finite_scores(scores)
    return ternary_labels(labels, (values.shape[0], values.shape[1])), values


def finite_scores(scores: npt.ArrayLike) -> Scores:
    """Scores as float32 or float64 (N, C).

    Raises:
        InputError: Another shape, or a score is NaN or infinite.
    """
    try:
        values = as_scores(scores)
    except ValueError as error:
        raise InputError(str(error)) from error
    if not np.isfinite([values.min(), values.max()]).all():
        raise InputError("scores must be finite; give logits or log-probabilities without infinite values")
    return values


def _places(columns: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Number of earlier entries of the same class, for each entry."""
    order = np.argsort(columns, kind="stable")
    starts = np.searchsorted(columns[order], columns[order], side="left")
    places = np.empty(len(columns), np.int64)
    places[order] = np.arange(len(columns)) - starts
    return places
