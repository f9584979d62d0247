"""True labels to hide."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from spml.labels import ObservedLabels


def full(matrix: object) -> ObservedLabels:
    """Labels of which all are known."""
    return ObservedLabels.from_multi_hot(np.asarray(matrix), unlisted="negative")


def full_of(columns: Sequence[Sequence[int]], classes: int) -> ObservedLabels:
    """Labels of which all are known, by the columns of the positives of each sample."""
    names = [[str(column) for column in row] for row in columns]
    return ObservedLabels.from_names(names, [*map(str, range(classes))], unlisted="negative")


def random_matrix() -> np.ndarray:
    """Labels of 300 samples and seven classes; one sample has none, another one all."""
    matrix = (np.random.default_rng(0).random((300, 7)) < 0.35).astype(int)
    matrix[4], matrix[9] = 0, 1
    return matrix
