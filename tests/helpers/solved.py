"""Samples with one known positive each, and auto heads fitted to them."""

from __future__ import annotations

import numpy as np

from spml.data import Samples
from spml.data.matrix import FeatureMatrix
from spml.labels import ObservedLabels
from spml.metrics import sp_score
from spml.models import fit_auto


def samples_of(features, index, classes):
    """Samples of features, of which row i shows class `index[i]`."""
    observed = ObservedLabels.from_index(np.asarray(index, np.int64), classes)
    return Samples(
        tuple(map(str, range(len(index)))), FeatureMatrix(np.asarray(features, np.float32)), observed
    )


def by_sp(parts, mean_labels):
    """Judge of scores of the samples of all parts: their SP-score."""
    observed = np.concatenate([part.observed.to_ternary() for part in parts])
    return lambda scores, rows, classes: sp_score(scores, observed[rows][:, classes], mean_labels).score


def fit_by_sp(*parts, mean_labels, score=None, cross_validate=False, **settings):
    """Fit an auto head to training and validation samples; without another score, the SP-score selects."""
    score = score or by_sp(parts, mean_labels)
    return fit_auto(*parts, score, mean_labels=mean_labels, cross_validate=cross_validate, **settings)
