"""Labels that are probably missing: which ones, a ranked list, and its expected yield."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..decisions import AnyScores
from .hidden import PROBABLE, HiddenLabels, Labels, MissingLabels, hidden_labels

POINTS = 15
"""Percentage points by which the expected yield of a list may be off."""


class Yield(NamedTuple):
    """Number of labels of a list that are expected to be really missing.

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


def find_missing_labels(
    labels: Labels | HiddenLabels,
    scores: AnyScores | None = None,
    *,
    mean_labels: float | None = None,
    min_probability: float = PROBABLE,
) -> npt.NDArray[np.bool_]:
    """Mark the labels that are probably missing.

    Args:
        labels, scores: As in `HiddenLabels`. `HiddenLabels` itself takes the place of labels, scores and
            `mean_labels`.
        mean_labels: Mean number of labels per sample K, known ones included. It can't be estimated from
            single positives.
        min_probability: Probability above which a label is marked. At .5, the default, it is there more
            likely than not. Where K is small or the model weak, few labels reach it, though many are missing:
            `rank_missing_labels` lists the best ones all the same.

    Returns:
        bool (N, C).

    Raises:
        InputError: Labels, scores or K do not suit, or only the highest scores of so many samples and classes
            are kept that the mask does not fit into the memory: see `rank_missing_labels`.

    Example:
        >>> labels = [0, 1, 0, 1] * 25
        >>> scores = [[3, 3, -3], [3, 3, -3], [3, -3, -3], [-3, 3, -3]] * 25
        >>> find_missing_labels(labels, scores, mean_labels=1.5)[:3].tolist()
        [[False, True, False], [True, False, False], [False, False, False]]
    """
    return hidden_labels(labels, scores, mean_labels).find(min_probability)


def rank_missing_labels(
    labels: Labels | HiddenLabels,
    scores: AnyScores | None = None,
    *,
    mean_labels: float | None = None,
    top: int = 0,
    per_class: int = 0,
    min_probability: float = 0.0,
) -> MissingLabels:
    """List labels that are probably missing, by the scores of the unknown pairs of all classes together.

    Of all rankings that were tried on ten data sets this found the most missing labels; normalising scores by
    class, entropy or margins made it worse.

    Args:
        labels, scores, mean_labels: As in `find_missing_labels`.
        top: Largest number of pairs; 0 = all of them, which may be N x C, or all whose scores are kept.
        per_class: Largest number of pairs of a class; 0 = any.
        min_probability: Least probability of a pair.

    Raises:
        InputError: An argument does not suit.
    """
    hidden = hidden_labels(labels, scores, mean_labels)
    return hidden.rank(top=top, per_class=per_class, min_probability=min_probability)


def expected_yields(columns: npt.ArrayLike, probability: npt.ArrayLike, classes: int) -> list[Yield]:
    """Expected number of right labels of each class in a list.

    Args:
        columns: Class of each pair, such as `MissingLabels.columns`.
        probability: Probability of each pair.
        classes: Number of classes C.

    Returns:
        Yields of the C classes; 0 of 0 for a class that is not in the list.
    """
    of_pairs = np.asarray(columns, np.int64)
    listed = np.bincount(of_pairs, minlength=classes)
    expected = np.bincount(of_pairs, np.asarray(probability, np.float64), minlength=classes)
    return [Yield(*pair) for pair in zip(listed.tolist(), expected.tolist(), strict=True)]


def expected_yield(probability: npt.ArrayLike) -> Yield:
    """Expected number of right labels in a list: the sum of their probabilities.

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
