"""Registered metrics of full labels. A module in this folder registers its metrics by being imported."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from ..common.plugins import Registry
from .arrays import BoolArray, Empty, FloatArray, IntArray, Scores, as_scores, as_truth
from .highest import highest
from .ranks import Ranks, rank_positives


class Labelled(Protocol):
    """What a metric may ask of scores and full labels, whether all scores were kept or not.

    `LabelledScores` and `LabelledBlocks` answer with the same numbers.
    """

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the C classes."""
        ...

    @property
    def threshold(self) -> float | tuple[float, ...] | None:
        """Logit from which a label is predicted, as in `LabelledScores`."""
        ...

    @property
    def empty(self) -> Empty:
        """Treatment of a class without positives in a mean over classes."""
        ...

    @property
    def ks(self) -> tuple[int, ...]:
        """The k of P@k, R@k and hit@k."""
        ...

    @property
    def ranks(self) -> Ranks:
        """Ranks of the positives of each class."""
        ...

    @property
    def positives(self) -> tuple[IntArray, IntArray]:
        """Rows and columns of the positives, row by row, int64 (P,)."""
        ...

    @property
    def positives_per_sample(self) -> IntArray:
        """Number of positives of each sample, int64 (N,)."""
        ...

    def counts(self, axis: int | None) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Numbers of predicted positives, of predicted labels and of positives, float64.

        Args:
            axis: None = over all samples and classes; 0 = of each class (C,); 1 = of each sample (N,).
        """
        ...

    def hits(self, k: int) -> tuple[IntArray, IntArray]:
        """Rows and columns of the positives among the k highest scores of a sample, row by row."""
        ...


@dataclass(frozen=True)
class LabelledScores:
    """Scores of a model on samples whose labels are all known: the argument of a registered metric.

    Attributes:
        scores: Logits, float32 of shape (N, C).
        truth: Labels, int8 of shape (N, C) in {-1, +1}.
        classes: Names of the C classes.
        threshold: Logit from which a label is predicted, for all classes or for each; None = a number of
            labels per sample is predicted, whatever their scores.
        empty: Treatment of a class without positives in a mean over classes, as in `mean_average_precision`.
        decided: Labels that are predicted, bool of shape (N, C), where that is more than a threshold says;
            None = those from the threshold on.
        never: Columns of classes that are never predicted, whatever their scores.
    """

    scores: npt.NDArray[np.float32]
    truth: npt.NDArray[np.int8]
    classes: tuple[str, ...]
    threshold: float | tuple[float, ...] | None
    empty: Empty = "exclude"
    decided: BoolArray | None = None
    never: tuple[int, ...] = ()

    @cached_property
    def predicted(self) -> BoolArray:
        """Labels that are predicted, bool of shape (N, C)."""
        if self.decided is not None:
            return self.decided
        assert self.threshold is not None
        # A float32 score of 0.7 reaches a threshold of 0.7.
        predicted: BoolArray = self.scores >= np.asarray(self.threshold, self.scores.dtype)
        predicted[:, list(self.never)] = False
        return predicted

    @cached_property
    def eligible(self) -> Scores:
        """Scores, with -infinity for classes that are never predicted, float32 of shape (N, C)."""
        if not self.never:
            return self.scores
        scores: Scores = self.scores.copy()
        scores[:, list(self.never)] = -np.inf
        return scores

    @property
    def ks(self) -> tuple[int, ...]:
        """The k of P@k, R@k and hit@k: those of 1, 3 and 5 that do not exceed the number of classes."""
        return tuple(k for k in (1, 3, 5) if k <= len(self.classes) - len(self.never))

    @cached_property
    def positives(self) -> tuple[IntArray, IntArray]:
        """Rows and columns of the positives, row by row, int64 (P,)."""
        rows, columns = np.nonzero(self.truth == 1)
        return rows, columns

    @cached_property
    def positives_per_sample(self) -> IntArray:
        """Number of positives of each sample, int64 (N,)."""
        return np.bincount(self.positives[0], minlength=len(self.truth))

    def counts(self, axis: int | None) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Numbers of predicted positives, of predicted labels and of positives, float64.

        Args:
            axis: None = over all samples and classes; 0 = of each class (C,); 1 = of each sample (N,).
        """
        positive = self.truth == 1
        hits, guessed, actual = (
            np.asarray(np.count_nonzero(mask, axis=axis), np.float64)
            for mask in (self.predicted & positive, self.predicted, positive)
        )
        return hits, guessed, actual

    def hits(self, k: int) -> tuple[IntArray, IntArray]:
        """Rows and columns of the positives among the k highest scores of a sample, row by row."""
        rows, columns = np.nonzero(highest(self.eligible, k) & (self.truth == 1))
        return rows, columns

    @cached_property
    def ranks(self) -> Ranks:
        """Ranks of the positives of each class, computed once for all metrics that are based on them."""
        values = as_scores(self.scores)
        return rank_positives(values, *as_truth(self.truth, values.shape))


_Measure = TypeVar("_Measure", bound=Callable[..., Any])


class Metric(NamedTuple):
    """A registered metric.

    Attributes:
        name: Unique name, under which its value is reported.
        title: Noun phrase for output, such as "Hamming loss".
        measure: Computes a number, or anything else that can be written as JSON.
        blocks: Whether it asks for no more than `Labelled`, so that it can be computed where the scores of
            all samples and classes do not fit.
        fewest_classes: It is reported from so many classes on.
    """

    name: str
    title: str
    measure: Callable[..., Any]
    blocks: bool = False
    fewest_classes: int = 1


_REGISTRY: Registry[Metric] = Registry("metric", "spml.metrics", "spml.metrics")


def register_metric(
    name: str, title: str, *, blocks: bool = False, fewest_classes: int = 1
) -> Callable[[_Measure], _Measure]:
    """Register the decorated function as a metric, which `spml evaluate` reports on fully labelled data.

    A package of your own registers its metrics by being imported: name the module in the entry-point group
    `spml.metrics`.

    Args:
        name: Unique name, under which the value is reported.
        title: Noun phrase for output, such as "Hamming loss".
        blocks: Whether the function asks for no more than `Labelled`. One that does can be computed of any
            number of samples and classes; another one is left out where scores do not fit (2^28 of them).
        fewest_classes: Report the metric from so many classes on.

    Raises:
        ValueError: Another metric has this name.

    Example::

        @register_metric("hamming_loss", "Hamming loss")
        def hamming_loss(data: LabelledScores) -> float:
            return float((data.predicted != (data.truth == 1)).mean())
    """
    return _REGISTRY.add(name, lambda measure: Metric(name, title, measure, blocks, fewest_classes))


def metrics() -> dict[str, Metric]:
    """All registered metrics by name, including those of installed packages, which come last."""
    return _REGISTRY.all()
