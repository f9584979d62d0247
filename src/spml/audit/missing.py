"""Labels that are probably missing: which ones, a ranked list, and its expected yield."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..decisions import AnyScores
from .checks import Labels
from .hidden import PROBABLE, HiddenLabels, MissingLabels

POINTS = 15
"""Percentage points by which the expected yield of a list may be off."""


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


def find_missing_labels(
    labels: Labels,
    scores: AnyScores,
    *,
    mean_labels: float,
    min_probability: float = PROBABLE,
) -> npt.NDArray[np.bool_]:
    """Mark the labels that are probably missing.

    Args:
        labels, scores: As in `HiddenLabels`, or the highest scores of each sample (`TopScores`).
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
    return HiddenLabels.from_mean_labels(labels, scores, mean_labels).find(min_probability)


def rank_missing_labels(
    labels: Labels,
    scores: AnyScores,
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
        top: Largest number of pairs; 0 = all of them, which may be N x C, or all whose scores are kept.
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
