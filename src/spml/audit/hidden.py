"""Probabilities that labels which are not known are there all the same."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..common.errors import InputError
from ..decisions import (
    AnyScores,
    Calibration,
    Priors,
    fit_probabilities,
    hidden_of_pairs,
    priors_from_shares,
)
from ..labels import LabelError, ObservedLabels
from ..scores import KnownPositives, Pairs, Scores, as_scores, fits
from ..scores.forms import BoolArray, FloatArray, IntArray, ScoreArray

PROBABLE = 0.5
"""Probability above which a label is called probably missing: then it is more likely there than not."""

Labels = npt.ArrayLike | ObservedLabels


class MissingLabels(NamedTuple):
    """Pairs of a sample and a class that is probably missing, from the highest score to the lowest.

    Attributes:
        rows: Sample of each pair, int64 (M,).
        columns: Class of each pair, int64 (M,).
        probability: Probability that the sample has the class, float64 (M,). It does not rise along the list
            while all samples have a known label; without one, the same score means more.
        rank: 1, 2, ..., int64 (M,).
        rank_in_class: Place among the pairs of the same class, from 1, int64 (M,).
    """

    rows: IntArray
    columns: IntArray
    probability: FloatArray
    rank: IntArray
    rank_in_class: IntArray


class NothingMissingError(InputError):
    """K, the mean labels per sample, says that no label is missing."""


class HiddenLabels:
    """Probabilities of the labels that are not known, from scores of a model that was not fitted to them.

    Scores are calibrated (see `spml.decisions.fit_probabilities` and `spml.decisions.hidden_probabilities`).
    Known labels have no such probability, and neither have classes without a known positive, about which a
    model can't say anything.

    Where only the highest scores of each sample are kept, a pair that was left out is never listed or marked.

    Args:
        labels: Class indices of the known positives, integers of shape (N,); a matrix of shape (N, C) in
            {-1, 0, +1} with 0 for unknown; or `ObservedLabels`.
        scores: Logits or log-probabilities of shape (N, C), comparable between classes, by a model that was
            not fitted to these samples; or the highest of each sample.
        priors: Mean labels per sample K, and class priors.
        calibration: Probabilities of scores; None = fitted to these samples, and class priors with them.

    Attributes:
        labels: Observed labels.
        scores: Scores.
        priors: Class priors.
        calibration: Probabilities of scores.

    Raises:
        InputError: Shapes differ, a label is not allowed, a score is not finite, or K says that no label is
            missing.
    """

    def __init__(
        self, labels: Labels, scores: AnyScores, priors: Priors, calibration: Calibration | None = None
    ) -> None:
        self.scores = _finite(scores)
        self.labels = _observed(labels, self.scores.shape)
        self.priors = priors
        known = self.labels.positives_per_sample()
        mean = float(known[known > 0].mean())
        if priors.mean_labels <= mean:
            raise NothingMissingError(
                f"no label is missing at K = {priors.mean_labels:g}, because samples with a known positive "
                f"already have {mean:.3g} on average. If you know that they have more, pass a larger K "
                "(mean_labels=K); if K was measured, there is nothing to look for."
            )
        if calibration is None:
            calibration, self.priors = fit_probabilities(self.scores, self.labels, priors)
        self.calibration = calibration
        self._kept: list[_Block] = []

    @staticmethod
    def from_mean_labels(labels: Labels, scores: AnyScores, mean_labels: float) -> HiddenLabels:
        """Take K as stated, and class priors from the known labels and their weights."""
        scores = _finite(scores)
        observed = _observed(labels, scores.shape)
        return HiddenLabels(observed, scores, priors_from_shares(observed.positives_per_class(), mean_labels))

    @property
    def known(self) -> KnownPositives:
        """Known positives with their scores, sample by sample."""
        return self.scores.known(*self.labels.entries(1))

    @property
    def unknown(self) -> int:
        """Number of pairs of a sample and a class about which nothing is known."""
        samples, classes = self.scores.shape
        return samples * classes - int(self.labels.known_per_sample().sum())

    def blocks(self) -> Iterator[tuple[slice, FloatArray]]:
        """Yield samples, and the probabilities (B, C) that their labels are hidden; 0 for known labels.

        Of pairs that were left out it is 0, too.
        """
        for block in self._blocks():
            hidden = np.zeros(block.pairs.shape)
            hidden[block.pairs.indices(np.arange(len(block.probability)))] = block.probability
            yield slice(block.first, block.first + len(hidden)), hidden

    def _blocks(self) -> Iterator[_Block]:
        """Yield pairs with their probabilities, which are computed again where they are many."""
        if self._kept:
            yield from self._kept
            return
        seen = self.priors.shares > 0
        for first, pairs in self.scores.pairs.parts():
            labels = self.labels.take(np.arange(first, first + pairs.shape[0]))
            probability, _ = hidden_of_pairs(pairs, labels, self.calibration)
            possible = pairs.by_class(seen)
            probability[~possible] = 0
            block = _Block(first, pairs, probability, (pairs.labels(labels) == 0) & possible)
            if pairs.shape[0] == len(self.scores):
                self._kept.append(block)
            yield block

    @property
    def per_class(self) -> FloatArray:
        """Expected number of hidden positives of each class, float64 (C,).

        It is what the share of the class leaves beside the known positives, as in thresholds.json.
        """
        known, samples = self.labels.positives_per_class(), len(self.scores)
        unknown = samples - known - self.labels.negatives_per_class()
        return np.clip(self.priors.shares * samples - known, 0, unknown)

    def count(self, min_probability: float = PROBABLE) -> int:
        """Number of pairs that `find` marks."""
        return sum(int((block.probability > min_probability).sum()) for block in self._blocks())

    def find(self, min_probability: float = PROBABLE) -> BoolArray:
        """Mark the pairs that are hidden with more than this probability, bool (N, C).

        Raises:
            InputError: The mask does not fit into the memory.
        """
        samples, classes = self.scores.shape
        if self.scores.array is None and not fits(samples, classes):
            raise InputError(
                f"a mask of {samples:,} samples and {classes:,} classes would take "
                f"{samples * classes / 1e9:,.1f} GB: list the labels instead (rank_missing_labels(top=...))"
            )
        found = np.zeros((samples, classes), np.bool_)
        for block in self._blocks():
            rows, columns = block.pairs.indices(np.flatnonzero(block.probability > min_probability))
            found[block.first + rows, columns] = True
        return found

    def highest_unknown(self) -> ScoreArray:
        """Highest score of each sample among its unknown classes that can be predicted, (N,); minus infinity
        where there is none."""
        return np.concatenate([block.pairs.highest_of_samples(block.candidates) for block in self._blocks()])

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
        best: list[Any] = []
        for block in self._blocks():
            chosen = np.flatnonzero(block.candidates & (block.probability >= min_probability))
            rows, columns = block.pairs.indices(chosen)
            own: list[Any] = [
                rows + block.first,
                columns,
                block.pairs.scores[chosen],
                block.probability[chosen],
            ]
            # Of the pairs so far, those that are not among the best ones now will never be.
            pairs: list[Any] = (
                [np.concatenate(fields) for fields in zip(best, own, strict=True)] if best else own
            )
            order = np.argsort(-pairs[2], kind="stable")
            if per_class:
                order = order[_places(pairs[1][order]) < per_class]
            best = [field[order[: top or None]] for field in pairs]
        rows, columns, _, probability = best
        rank = np.arange(1, len(rows) + 1)
        return MissingLabels(rows, columns, probability, rank, _places(columns) + 1)


class _Block(NamedTuple):
    """Pairs of consecutive samples.

    Attributes:
        first: First sample.
        pairs: Pairs, whose samples are numbered from 0.
        probability: Probability that each is a hidden label, (M,).
        candidates: Whether each can be one: its label is unknown, and its class can be predicted, bool (M,).
    """

    first: int
    pairs: Pairs
    probability: FloatArray
    candidates: BoolArray


def hidden_labels(
    labels: Labels | HiddenLabels, scores: AnyScores | None, mean_labels: float | None
) -> HiddenLabels:
    """Labels with calibrated scores, unless `labels` are such already.

    Raises:
        InputError: As for `HiddenLabels`, or scores or K are missing.
    """
    if isinstance(labels, HiddenLabels):
        return labels
    if scores is None or mean_labels is None:
        raise InputError("labels need scores, and K (mean_labels), to say which are missing")
    return HiddenLabels.from_mean_labels(labels, scores, mean_labels)


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


def _places(columns: IntArray) -> IntArray:
    """Number of earlier entries of the same class, for each entry."""
    order = np.argsort(columns, kind="stable")
    starts = np.searchsorted(columns[order], columns[order], side="left")
    places = np.empty(len(columns), np.int64)
    places[order] = np.arange(len(columns)) - starts
    return places


def _finite(scores: AnyScores) -> Scores:
    try:
        scores = as_scores(scores)
    except ValueError as error:
        raise InputError(str(error)) from error
    values = scores.pairs.scores
    if len(values) and not np.isfinite([values.min(), values.max()]).all():
        raise InputError("scores must be finite; give logits or log-probabilities without infinite values")
    return scores


def _observed(labels: Labels, shape: tuple[int, int]) -> ObservedLabels:
    """Labels of any form; there must be a known positive."""
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
    if (len(labels), labels.num_classes) != shape:
        raise InputError(
            f"labels are of {len(labels):,} samples and {labels.num_classes:,} classes, but scores have "
            f"the shape {shape}"
        )
    if not labels.positives_per_class().any():
        raise InputError("no label is a known positive, so nothing can be said about the missing ones")
    return labels
