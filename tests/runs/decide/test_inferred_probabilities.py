"""Probabilities of predicted labels, given the known labels of the same samples."""

from __future__ import annotations

import numpy as np
import pytest

from spml.data.matrix import FeatureMatrix
from spml.data.records import Records
from spml.decisions import hidden_probabilities
from spml.labels import ObservedLabels
from spml.runs.compute.predictions import Predictions
from spml.runs.decide.inferred_labels import make_suggestions


def test_given_labels_make_others_less_probable():
    labels = ObservedLabels.from_ternary([[1, 0, 0], [0, 0, 0], [0, 1, -1]])
    features = FeatureMatrix(np.zeros((3, 2), np.float32))
    records = Records("data", "data", ("a", "b", "c"), features, ("fox", "cat", "dog"), True, labels, None)
    p = np.array([[0.8, 0.9], [0.6, 0.5], [0.4, 0.3]], np.float32)  # of cat and fox, in another order of rows
    predictions = Predictions(
        ("c", "a", "b"), ("cat", "fox"), p, [["cat", "fox"], ["cat"], ["fox"]], probabilities=p
    )
    found = make_suggestions(predictions, records)
    known = np.array([[1, 0], [0, 1], [0, 0]], np.int8)
    np.testing.assert_allclose(found.probabilities, hidden_probabilities(p, known))
    assert found.number == 3  # cat of c is given
    expected = found.probabilities[0, 1] + found.probabilities[1, 0] + p[2, 1]
    assert found.expected == pytest.approx(expected)
    # By hand: a uniform draw shows fox of c with .9 (1 - .8 / 2), unless neither is there.
    s = 0.9 * (1 - 0.8 / 2) / (1 - 0.2 * 0.1)
    assert found.probabilities[0, 1] == pytest.approx((0.9 - s) / (1 - s))
    assert found.describe().startswith(
        f"About {expected:.0f} of 3 inferred labels that the data does not give"
    )


def test_a_class_that_only_one_of_both_has():
    labels = ObservedLabels.from_index([0, 1], 2)
    features = FeatureMatrix(np.zeros((2, 2), np.float32))
    records = Records("data", "data", ("a", "b"), features, ("fox", "emu"), True, labels, None)
    p = np.array([[0.8, 0.9], [0.6, 0.5]], np.float32)
    predictions = Predictions(("a", "b"), ("cat", "fox"), p, [["cat"], ["cat"]], probabilities=p)
    known = np.array([[0, 1], [0, 0]], np.int8)
    np.testing.assert_allclose(
        make_suggestions(predictions, records).probabilities, hidden_probabilities(p, known)
    )
