"""Given labels that are probably wrong."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..common.errors import InputError
from ..decisions import AnyScores
from ..scores.arrays import FloatArray
from .hidden import HiddenLabels, Labels, hidden_labels

DOUBTED = 0.5
"""Confidence below which a given label is listed: then another class looks more probable."""

_SMALLEST = 1e-12


class WrongLabels(NamedTuple):
    """Known positives that look wrong, the most doubtful one first.

    Attributes:
        rows: Sample of each label, int64 (M,).
        columns: Class of each label, int64 (M,).
        confidence: Confidence in the label, float64 (M,), below .5.
        rank: 1, 2, ..., int64 (M,).
    """

    rows: npt.NDArray[np.int64]
    columns: npt.NDArray[np.int64]
    confidence: FloatArray
    rank: npt.NDArray[np.int64]


def rank_wrong_labels(
    labels: Labels | HiddenLabels,
    scores: AnyScores | None = None,
    *,
    mean_labels: float | None = None,
    top: int = 0,
) -> WrongLabels:
    """List known positives in which a model has little confidence.

    The confidence in a known positive is `p / (p + q)`: p is its calibrated probability, as if it were not
    known, and q the highest probability of a class that is unknown in the same sample. So it is low where the
    model sees another class instead of the given one. It orders labels and is no probability: how many given
    labels are wrong can't be told from them, because a hard sample looks just like a wrong label.

    Confidence relative to the other samples of the class was tried as well, on six data sets of which 10 %
    of the labels had been replaced. It found fewer of them.

    Args:
        labels, scores, mean_labels: As in `find_missing_labels`.
        top: Largest number of labels; 0 = any.

    Returns:
        Labels with a confidence below .5; of equal ones the one with the lowest score first.

    Raises:
        InputError: An argument does not suit.
    """
    if top < 0:
        raise InputError(f"top must be at least 0, got {top}")
    hidden = hidden_labels(labels, scores, mean_labels)
    rows, columns, own, _ = hidden.known
    other = hidden.highest_unknown()[rows]
    p = np.maximum(hidden.calibration(own), _SMALLEST)
    q = np.where(np.isneginf(other), 0.0, hidden.calibration(other))
    confidence = p / (p + q)
    order = np.lexsort((own, confidence))
    order = order[confidence[order] < DOUBTED][: top or None]
    return WrongLabels(rows[order], columns[order], confidence[order], np.arange(1, len(order) + 1))
