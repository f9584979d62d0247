"""How many labels are observed and how many are hidden: per class, and per sample of each split."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ...labels import ObservedLabels
from ..dataset import Dataset

Counts = npt.NDArray[np.int64]


class PositiveCounts(NamedTuple):
    """Number of samples per class, each int64 (C,).

    Attributes:
        observed: Observed positives, true or wrong.
        hidden: True positives that are not observed; None if the true labels are not known.
        wrong: Observed positives that are absent in truth; None if the true labels are not known.
    """

    observed: Counts
    hidden: Counts | None
    wrong: Counts | None


@dataclass(frozen=True)
class LabelMeans:
    """Mean numbers of labels per sample of a split, as training sees it.

    Those that need the true labels are None where these are not known.

    Attributes:
        samples: Number of samples.
        positives: True positives.
        negatives: True negatives.
        observed_positives: Observed positives, true or wrong.
        observed_negatives: Observed negatives.
        hidden_positives: True positives that are not observed.
        wrong_positives: Observed positives that are absent in truth.
    """

    samples: int
    positives: float | None
    negatives: float | None
    observed_positives: float
    observed_negatives: float
    hidden_positives: float | None
    wrong_positives: float | None


def count_positives(observed: ObservedLabels, truth: ObservedLabels | None) -> PositiveCounts:
    """Count observed, hidden and wrong positives of each class.

    Args:
        observed: Observed labels.
        truth: Full labels of the same samples, if they are known.
    """
    if truth is None:
        return PositiveCounts(observed.positives_per_class(), None, None)
    classes = truth.num_classes
    shown, true = (
        np.ravel_multi_index(labels.entries(1), (len(truth), classes)) for labels in (observed, truth)
    )
    hidden, wrong = np.setdiff1d(true, shown), np.setdiff1d(shown, true)
    return PositiveCounts(
        observed.positives_per_class(),
        *(np.bincount(entries % classes, minlength=classes).astype(np.int64) for entries in (hidden, wrong)),
    )


def label_means(data: Dataset) -> dict[str, LabelMeans]:
    """Mean numbers of labels per sample, per split.

    The statistics of Chen et al., "Boosting Single Positive Multi-label Classification with Generalized
    Robust Loss", Table 5, and what is observed and hidden of them.
    """
    means = {}
    for name, split in data.splits.items():
        truth, size = data.truth.get(name), len(split)
        counts = count_positives(split.observed, truth)
        means[name] = LabelMeans(
            samples=size,
            positives=None if truth is None else int(truth.positives_per_class().sum()) / size,
            negatives=None if truth is None else int(truth.negatives_per_class().sum()) / size,
            observed_positives=int(counts.observed.sum()) / size,
            observed_negatives=int(split.observed.negatives_per_class().sum()) / size,
            hidden_positives=None if counts.hidden is None else int(counts.hidden.sum()) / size,
            wrong_positives=None if counts.wrong is None else int(counts.wrong.sum()) / size,
        )
    return means
