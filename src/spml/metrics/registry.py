"""Registered metrics of full labels. A module in this folder registers its metrics by being imported."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np

from ..common.plugins import Registry
from ..scores import Ranks, as_scores, highest, ranks_of
from ..scores.forms import BoolArray, FloatArray, IntArray, ScoreArray
from ..scores.ranks import Entries
from .arrays import Empty

_KS = (1, 3, 5)


@dataclass(frozen=True)
class LabelledScores:
    """Scores of a model on samples whose labels are all known: the argument of a registered metric.

    Where scores are computed block by block, there are only the attributes from `ks` on, which need no more
    than one pass over them, and the ranks, which need up to two.

    Attributes:
        scores: Logits, float32 of shape (N, C), or `ScoreBlocks`.
        truth: Labels, int8 of shape (N, C) in {-1, +1}; rows and columns of the positives, row by row, where
            scores are computed block by block.
        classes: Names of the C classes.
        threshold: Logit from which a label is predicted, for all classes or for each; None = a number of
            labels per sample is predicted, whatever their scores.
        empty: Treatment of a class without positives in a mean over classes, as in `mean_average_precision`.
        decided: Labels that are predicted, bool of shape (N, C), or a function that yields scores (B, C) of
            consecutive samples with these, where that is more than a threshold says; None = those from the
            threshold on.
        never: Columns of classes that are never predicted, whatever their scores.
    """

    scores: Any
    truth: Any
    classes: tuple[str, ...]
    threshold: float | tuple[float, ...] | None
    empty: Empty = "exclude"
    decided: BoolArray | Callable[[], Iterable[tuple[ScoreArray, BoolArray]]] | None = None
    never: tuple[int, ...] = ()

    @property
    def predicted(self) -> BoolArray:
        """Labels that are predicted, bool of shape (N, C)."""
        return np.concatenate(self._counted.predicted)

    @property
    def ks(self) -> tuple[int, ...]:
        """The k of P@k, R@k and hit@k: those of 1, 3 and 5 that do not exceed the number of classes."""
        return tuple(k for k in _KS if k <= len(self.classes) - len(self.never))

    @cached_property
    def positives(self) -> Entries:
        """Rows and columns of the positives, row by row, int64 (P,)."""
        rows, columns = self.truth if isinstance(self.truth, tuple) else np.nonzero(self.truth == 1)
        return rows, columns

    @cached_property
    def positives_per_sample(self) -> IntArray:
        """Number of positives of each sample, int64 (N,)."""
        return np.bincount(self.positives[0], minlength=len(self.scores))

    def counts(self, axis: int | None) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Numbers of predicted positives, of predicted labels and of positives, float64.

        Args:
            axis: None = over all samples and classes; 0 = of each class (C,); 1 = of each sample (N,).
        """
        counted = self._counted
        guessed = counted.per_class if axis == 0 else counted.per_sample
        own = self.positives[1 - axis if axis is not None else 0]
        hits, actual = (np.bincount(of, minlength=len(guessed)) for of in (own[counted.found], own))
        numbers = (hits, guessed, actual)
        first, second, third = (
            np.asarray(number.sum() if axis is None else number, np.float64) for number in numbers
        )
        return first, second, third

    def hits(self, k: int) -> Entries:
        """Rows and columns of the positives among the k highest scores of a sample, row by row."""
        rows, columns = self.positives
        among = (self._counted.highest[rows, :k] == columns[:, None]).any(axis=1)
        return rows[among], columns[among]

    @cached_property
    def ranks(self) -> Ranks:
        """Ranks of the positives of each class, computed once for all metrics that are based on them."""
        (ranks,) = ranks_of(self.scores, self.positives)
        return ranks

    @cached_property
    def _counted(self) -> _Counted:
        rows, columns = self.positives
        never, most = list(self.never), max(self.ks, default=0)
        found, per_sample, best, masks = [], [], [], []
        per_class = np.zeros(len(self.classes), np.int64)
        first = 0
        for block, predicted in self._looks():
            part = slice(*np.searchsorted(rows, [first, first + len(block)]))
            found.append(predicted[rows[part] - first, columns[part]])
            per_sample.append(np.count_nonzero(predicted, axis=1))
            per_class += np.count_nonzero(predicted, axis=0)
            if never:
                block = block.copy()
                block[:, never] = -np.inf
            best.append(highest(block, most))
            if len(block) == len(self.scores):
                masks.append(predicted)
            first += len(block)
        return _Counted(
            np.concatenate(found), per_class, np.concatenate(per_sample), np.concatenate(best), masks
        )

    def _looks(self) -> Iterable[tuple[ScoreArray, BoolArray]]:
        """Scores of consecutive samples with the labels that are predicted."""
        if callable(self.decided):
            yield from self.decided()
            return
        for rows, block in as_scores(self.scores).blocks():
            if self.decided is not None:
                yield block, self.decided[rows]
                continue
            # A float32 score of 0.7 reaches a threshold of 0.7.
            predicted: BoolArray = block >= np.asarray(self.threshold, block.dtype)
            predicted[:, list(self.never)] = False
            yield block, predicted


class _Counted(NamedTuple):
    """Counts from one look at scores and predicted labels.

    Attributes:
        found: Whether each positive was predicted, bool (P,).
        per_class: Number of samples for which each class was predicted, int64 (C,).
        per_sample: Number of labels that were predicted for each sample, int64 (N,).
        highest: Classes of the 5 highest scores of each sample (fewer of fewer eligible classes), the highest
            first, int64 (N, 5).
        predicted: Labels that are predicted, where scores are in memory.
    """

    found: BoolArray
    per_class: IntArray
    per_sample: IntArray
    highest: IntArray
    predicted: list[BoolArray]


_Measure = TypeVar("_Measure", bound=Callable[..., Any])


class Metric(NamedTuple):
    """A registered metric.

    Attributes:
        name: Unique name, under which its value is reported.
        title: Noun phrase for output, such as "Hamming loss".
        measure: Computes a number, or anything else that can be written as JSON.
        blocks: Whether it asks for no more than `LabelledScores` has where scores are computed block by
            block, so that it can be computed where the scores of all samples and classes do not fit.
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
        blocks: Whether the function asks for no more than `LabelledScores` has where scores are computed
            block by block. One that does can be computed of any number of samples and classes; another one
            is left out where scores do not fit (2^28 of them).
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
