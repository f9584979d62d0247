"""Comparison of models by full labels: a bootstrap over samples that is the same for all of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .arrays import BoolArray, FloatArray
from .bootstrap import bootstrap_map
from .highest import highest
from .registry import LabelledScores

_BLOCK = 1 << 24  # multiplicities that are converted at a time
_QUANTILE = 1.96


class PairedScore(NamedTuple):
    """A metric of one of several models, with 95 % intervals: value -+ 1.96 bootstrap standard deviations.

    Attributes:
        value: The metric, in [0, 1].
        margin: Half the width of its interval.
        behind: Difference between the best model by this metric and this one.
        behind_margin: Half the width of the interval of that difference; 0 for the best model itself.
    """

    value: float
    margin: float
    behind: float
    behind_margin: float

    @property
    def low(self) -> float:
        """Lower end of the interval, at least 0."""
        return max(self.value - self.margin, 0.0)

    @property
    def high(self) -> float:
        """Upper end of the interval, at most 1."""
        return min(self.value + self.margin, 1.0)

    @property
    def tied(self) -> bool:
        """Whether the interval of the difference includes 0: indistinguishable from the best."""
        return self.behind <= self.behind_margin


def drawn_metrics(data: LabelledScores, multiplicity: npt.NDArray[np.integer]) -> dict[str, FloatArray]:
    """Metrics on B resamples of the samples, equal to those of repeated rows.

    Args:
        data: Scores, predicted labels and full labels.
        multiplicity: How often each sample was drawn, (B, N); a row of ones gives the metrics themselves. A
            draw must have a positive if `data.empty` is `exclude`.

    Returns:
        float64 (B,) by name: `mAP`; `precision`, `recall` and `F1`, each `micro_` and `macro_`, of the
        predicted labels, where a ratio with a zero denominator is 0; and `P@k`, `R@k` and `hit@k`.
    """
    positive: BoolArray = data.truth == 1
    result = {"mAP": bootstrap_map(data.scores, data.truth, multiplicity, data.empty)}
    masks = (data.predicted & positive, data.predicted, positive)
    # Per class and draw; whole numbers up to 2^24 are exact in float32.
    dtype = np.float32 if len(positive) < 1 << 24 else np.float64
    per_class = [_weighted(multiplicity, mask, dtype) for mask in masks]
    of_all = [counts.sum(axis=1, keepdims=True) for counts in per_class]
    for average, (hits, guessed, actual) in (("micro", of_all), ("macro", per_class)):
        result[f"{average}_precision"] = _ratio(hits, guessed)
        result[f"{average}_recall"] = _ratio(hits, actual)
        result[f"{average}_F1"] = _ratio(2.0 * hits, guessed + actual)
    positives = positive.sum(axis=1)
    for k in data.ks:
        found = np.count_nonzero(highest(data.eligible, k) & positive, axis=1)
        of_samples = np.stack([found / k, found / np.maximum(positives, 1), found > 0], axis=1)
        means = _weighted(multiplicity, of_samples, np.float64) / multiplicity.sum(axis=1)[:, None]
        result |= {f"{name}@{k}": column for name, column in zip(("P", "R", "hit"), means.T, strict=True)}
    return result


def compare_paired(drawn: Mapping[str, Mapping[str, FloatArray]]) -> dict[str, dict[str, PairedScore]]:
    """Compare models by metrics on the same resamples.

    The interval is value -+ 1.96 standard deviations rather than quantiles of the draws: copies of a sample
    raise mAP, so the draws do not lie around the value.

    Args:
        drawn: For each model, what `drawn_metrics` returns; the first draw holds every sample once.

    Returns:
        Scores of each model, by metric.
    """
    result: dict[str, dict[str, PairedScore]] = {model: {} for model in drawn}
    for metric in next(iter(drawn.values())):
        draws = np.stack([values[metric] for values in drawn.values()])
        value = draws[:, 0]
        best = int(np.argmax(value))
        margin = _QUANTILE * draws[:, 1:].std(axis=1, ddof=1)
        behind = value[best] - value
        behind_margin = _QUANTILE * (draws[best, 1:] - draws[:, 1:]).std(axis=1, ddof=1)
        columns = (value, margin, behind, behind_margin)
        for model, *numbers in zip(drawn, *(column.tolist() for column in columns), strict=True):
            result[model][metric] = PairedScore(*numbers)
    return result


def _weighted(multiplicity: npt.NDArray[Any], values: npt.NDArray[Any], dtype: Any) -> FloatArray:
    """Sums over samples of values (N, M), each taken as often as it was drawn: float64 (B, M)."""
    columns = values.astype(dtype)
    at_once = max(1, _BLOCK // len(values))
    blocks = [
        multiplicity[first : first + at_once].astype(dtype) @ columns
        for first in range(0, len(multiplicity), at_once)
    ]
    return np.concatenate(blocks).astype(np.float64)


def _ratio(part: FloatArray, whole: FloatArray) -> FloatArray:
    """Mean over columns of part / whole, with 0 in place of a division by zero: (B,)."""
    return np.asarray(np.divide(part, whole, out=np.zeros_like(part), where=whole > 0).mean(axis=1))
