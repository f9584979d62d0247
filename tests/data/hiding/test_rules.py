"""The rule that keeps one positive per sample: uniform, true and pinned."""

from __future__ import annotations

import numpy as np
import pytest

from spml.data.hiding import single_positive
from spml.labels import ObservedLabels


def test_single_positive_is_uniform_over_the_positives():
    full = ObservedLabels.from_multi_hot(np.tile([1, 0, 1, 1, 0], (30_000, 1)), unlisted="negative")
    observed = single_positive(full, 3)
    assert observed.single_positive
    assert observed.positives_per_class() == pytest.approx([10_000, 0, 10_000, 10_000, 0], rel=0.03)


def test_single_positive_keeps_true_labels_only():
    matrix = np.random.default_rng(0).integers(0, 2, (200, 6))
    matrix[5] = 0
    full = ObservedLabels.from_multi_hot(matrix, unlisted="negative")
    observed = single_positive(full, 0).to_ternary()
    assert (observed.sum(axis=1) == (matrix.sum(axis=1) > 0)).all()
    assert (matrix[observed == 1] == 1).all()
    assert set(np.unique(observed)) == {0, 1}
    assert (single_positive(full, 0).to_ternary() == observed).all()
    assert (single_positive(full, 1).to_ternary() != observed).any()


def test_single_positive_of_single_positives_is_the_same():
    labels = ObservedLabels.from_index([2, 0, 1], 3)
    assert single_positive(labels, 0) == labels


def test_single_positive_is_pinned():
    full = ObservedLabels.from_multi_hot(np.ones((8, 4)), unlisted="negative")
    assert single_positive(full, 0).index.tolist() == [0, 0, 2, 1, 1, 3, 1, 0]


def test_single_positive_does_not_depend_on_the_order_of_labels_within_a_sample():
    """The result is that of the dense matrix, in whatever order the labels are stored."""
    indptr, columns = np.array([0, 3, 6, 9]), np.array([3, 0, 2, 2, 3, 0, 1, 3, 0])
    labels = ObservedLabels(indptr, columns, np.ones(9, np.int8), 4, unlisted=-1)
    dense = ObservedLabels.from_multi_hot(labels.to_multi_hot(), unlisted="negative")
    for seed in range(5):
        assert single_positive(labels, seed) == single_positive(dense, seed)
