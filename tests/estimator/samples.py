"""Small data for the classifier."""

from __future__ import annotations

import numpy as np

from spml.sklearn import SinglePositiveClassifier

WORDS = np.array(["beach", "dog", "sea"])


def make_samples(count=90, seed=0):
    """Features (N, 6), all labels (N, 3) in {0, 1}, and one of the labels of each sample, (N,)."""
    draws = np.random.default_rng(seed)
    full = (draws.random((count, 3)) < 0.4).astype(int)
    full[np.arange(count), draws.integers(0, 3, count)] = 1
    centres = np.random.default_rng(5).normal(size=(3, 6)) * 2
    features = full @ centres + draws.normal(size=(count, 6))
    one = np.array([draws.choice(np.flatnonzero(row)) for row in full])
    return features, full, one


def ridge(**settings):
    return SinglePositiveClassifier(head="ridge", **settings)
