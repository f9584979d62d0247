"""From scores to labels: where to cut, and how many labels a sample may have."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from ..common.errors import InputError
from ..metrics.top_scores import TopScores
from .thresholds import pooled


@dataclass(frozen=True)
class Decision:
    """How scores become labels.

    Attributes:
        threshold: Score at and above which a label is predicted, on the scale of the scores: one number, or
            one per class (infinite = never). None = the `top_k` highest scores of each sample are
            predicted, whatever they are.
        top_k: Largest number of labels of a sample, of which the highest scores are kept; 0 = no limit.
        top1_fallback: Predict the label with the highest score where no other is predicted.
        never: Columns of classes that are never predicted, such as those without a training positive.

    Raises:
        InputError: `top_k` is negative, or there is neither a threshold nor a number of labels.
    """

    threshold: float | tuple[float, ...] | None
    top_k: int = 0
    top1_fallback: bool = False
    never: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.top_k < 0:
            raise InputError(f"top_k must be at least 0, got {self.top_k}")
        if self.threshold is None and not self.top_k:
            raise InputError("a decision needs a threshold, or a number of labels per sample (top_k)")

    @cached_property
    def _cut(self) -> npt.NDArray[np.float64]:
        """Threshold as an array: a million of them are not converted again for each block of samples."""
        return np.asarray(self.threshold, np.float64)

    def __call__(self, scores: npt.NDArray[np.float32]) -> npt.NDArray[np.bool_]:
        """Predict labels.

        Args:
            scores: Scores of shape (N, C), comparable between classes.

        Returns:
            Boolean array of shape (N, C). Of equal scores at the limit of `top_k`, the first columns win.
        """
        allowed = np.ones(scores.shape[1], np.bool_)
        allowed[list(self.never)] = False
        ranked = np.where(allowed, scores, -np.inf)
        chosen: npt.NDArray[np.bool_] = np.broadcast_to(allowed, scores.shape).copy()
        if self.threshold is not None:
            # In the type of the scores, so that a float32 score of 0.7 reaches 0.7.
            chosen &= scores >= self._cut.astype(scores.dtype)
        if self.top_k and self.top_k < scores.shape[1]:
            order = np.argsort(-ranked, axis=1, kind="stable")[:, : self.top_k]
            highest = np.zeros(scores.shape, np.bool_)
            np.put_along_axis(highest, order, True, axis=1)
            chosen &= highest
        if self.top1_fallback and allowed.any():
            rows = np.flatnonzero(~chosen.any(axis=1))
            chosen[rows, ranked[rows].argmax(axis=1)] = True
        return chosen


_POINTS = 64
_FEWEST = 0.05


def threshold_curve(scores: npt.ArrayLike | TopScores) -> list[tuple[float, float]]:
    """Thresholds at which given numbers of labels per sample are predicted, for `threshold_at`.

    Args:
        scores: Scores of shape (N, C), finite and comparable between classes.

    Returns:
        Up to 128 pairs (labels per sample, threshold), from few labels to all C; the threshold falls. Of
        `TopScores` it ends at the number of highest scores that were kept of a sample, and a sample has at
        most as many labels.
    """
    values, samples, _ = pooled(scores)
    ascending = np.sort(values)
    ends = max(1, _FEWEST * samples), len(ascending)
    counts = np.unique(np.rint(np.concatenate([np.geomspace(*ends, _POINTS), np.linspace(*ends, _POINTS)])))
    return [(n / samples, float(ascending[-int(n)])) for n in counts.tolist()]


def threshold_at(curve: list[tuple[float, float]], mean_labels: float) -> float:
    """Threshold at which K labels per sample are predicted, interpolated between points of a curve.

    Args:
        curve: Pairs (labels per sample, threshold), as from `threshold_curve`.
        mean_labels: Labels per sample K. Below the first point and above the last, that point is taken.
    """
    labels, thresholds = np.asarray(curve, np.float64).T
    return float(np.interp(mean_labels, labels, thresholds))
