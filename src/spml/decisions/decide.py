"""From scores to labels: where to cut, and how many labels a sample may have."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import torch

from ..common.errors import InputError
from ..scores import Scores, as_scores, highest
from ..scores.forms import FloatArray, IntArray, ScoreArray

_POINTS = 64
_FEWEST = 0.05


@dataclass(frozen=True)
class Decision:
    """Rule by which scores become labels.

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
    def _cut(self) -> FloatArray:
        """Threshold as an array: a million of them are not converted again for each block of samples."""
        return np.asarray(self.threshold, np.float64)

    @cached_property
    def _never(self) -> IntArray:
        return np.asarray(self.never, np.int64)

    def __call__(self, scores: npt.NDArray[np.float32]) -> npt.NDArray[np.bool_]:
        """Predict labels.

        Args:
            scores: Scores of shape (N, C), comparable between classes.

        Returns:
            Boolean array of shape (N, C). Of equal scores at the limit of `top_k`, the first columns win.
        """
        chosen = np.zeros(scores.shape, np.bool_)
        chosen[self.choose(scores)] = True
        return chosen

    def choose(self, scores: npt.NDArray[np.float32]) -> tuple[IntArray, IntArray]:
        """Predict labels, as a list.

        Args:
            scores: Scores of shape (N, C), comparable between classes.

        Returns:
            Sample and class of each predicted label, int64 (M,): sample by sample, the highest score first,
            of equal ones the first class.
        """
        samples, classes = scores.shape
        cut = self._cut.astype(scores.dtype)  # so that a float32 score of 0.7 reaches 0.7
        allowed: IntArray | None = None
        if self.never:
            allowed = np.flatnonzero(np.bincount(self._never, minlength=classes) == 0)
            if not len(allowed):
                return np.empty(0, np.int64), np.empty(0, np.int64)
            scores, cut = scores[:, allowed], cut[allowed] if cut.ndim else cut
        if self.top_k:
            best = highest(scores, self.top_k)
            rows, columns = np.repeat(np.arange(samples), best.shape[1]), best.ravel()
            if self.threshold is not None:
                enough = scores[rows, columns] >= (cut[columns] if cut.ndim else cut)
                rows, columns = rows[enough], columns[enough]
        else:
            rows, columns = np.nonzero(scores >= cut)
        if self.top1_fallback:
            without = np.setdiff1d(np.arange(samples), rows)
            rows = np.concatenate([rows, without])
            columns = np.concatenate([columns, scores[without].argmax(1)])
        order = np.lexsort((columns, -scores[rows, columns], rows))
        rows, columns = rows[order], columns[order]
        return rows, columns if allowed is None else allowed[columns]


def threshold_curve(scores: npt.ArrayLike | torch.Tensor | Scores) -> list[tuple[float, float]]:
    """Thresholds at which given numbers of labels per sample are predicted, for `threshold_at`.

    Args:
        scores: Scores of shape (N, C), finite and comparable between classes.

    Returns:
        Up to 128 pairs (labels per sample, threshold), from few labels to all C; the threshold falls. Of
        `TopScores` it ends at the number of highest scores that were kept of a sample, and a sample has at
        most as many labels.
    """
    scores = as_scores(scores)
    samples, ascending = len(scores), np.sort(scores.pairs.scores)
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


def global_threshold(scores: npt.ArrayLike | torch.Tensor | Scores, labels_per_sample: float) -> float:
    """Threshold t at which `score >= t` predicts K labels per sample on average.

    With tied scores, the nearest possible number; of two thresholds that are equally near, the one with more
    labels. t lies midway between the two neighbouring scores, so that rounding does not flip labels, and is
    exact in the type of the scores (float32 or float64). If it is nearest to predict everything or nothing, t
    is finite and lies at least 1 outside the scores.

    Args:
        scores: Scores of shape (N, C), finite and comparable between classes. Of `TopScores`, a sample has
            only as many labels as highest scores of it were kept.
        labels_per_sample: Mean labels per sample K, in (0, C].

    Raises:
        InputError: K lies outside (0, C], or more labels per sample than scores were kept.
        ValueError: There are no scores, or one is NaN (the message gives row and column) or infinite.

    Example:
        >>> global_threshold([[2.0, -1.0], [0.5, 1.0]], labels_per_sample=1.0)
        0.75
    """
    scores = as_scores(scores)
    values, (samples, classes) = scores.pairs.scores, scores.shape
    count = len(values)
    if not 0 < labels_per_sample <= classes:
        raise InputError(
            f"labels per sample must be above 0 and at most {classes}, the number of classes, "
            f"got {labels_per_sample}"
        )
    if labels_per_sample * samples > count:
        raise InputError(
            f"labels per sample must be at most {count / samples:g}, the highest scores that were "
            f"kept of each sample, got {labels_per_sample}"
        )
    if not (np.isfinite(values.min()) and np.isfinite(values.max())):
        raise ValueError("scores must be finite to place a threshold between them")
    # In ascending order, the scores can be cut before the first, between two that differ, and after the last:
    # next to the number that is wanted, these are the two ends of a run of equal scores. Only the places that
    # are looked at are put in order, which takes a fifth of the time of sorting.
    wanted = count - labels_per_sample * samples
    below, above = max(0, math.floor(wanted)), max(0, math.ceil(wanted))
    values = np.partition(values, sorted({min(below, count - 1), max(0, above - 1)}))
    cuts = np.asarray([
        np.count_nonzero(values < values[below]) if below < count else below,
        np.count_nonzero(values <= values[above - 1]) if above else 0,
    ])  # fmt: skip
    cut = int(cuts[np.argmin(np.abs(count - cuts - labels_per_sample * samples))])
    values.partition(sorted({0, max(0, cut - 1), min(cut, count - 1), count - 1}))
    return cut_between(values, cut)


def cut_between(ascending: ScoreArray, cut: int) -> float:
    """Threshold that leaves `cut` of the scores below it, midway between two neighbouring scores.

    Args:
        ascending: Finite scores of shape (M,), of which at least those at 0, `cut` - 1, `cut` and M - 1 are
            where ascending order puts them.
        cut: Number of scores below, from 0 to M, such that the scores on its two sides differ.
    """
    if cut == 0:
        return float(ascending[0]) - max(1.0, abs(float(ascending[0])))
    if cut == len(ascending):
        return float(ascending[-1]) + max(1.0, abs(float(ascending[-1])))
    below, above = ascending[cut - 1], ascending[cut]
    middle = below / 2 + above / 2  # in the type of the scores, in which they are compared
    return float(middle if below < middle <= above else above)
