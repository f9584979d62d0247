"""Probabilities of predicted labels, given the known labels of the same samples."""

from __future__ import annotations

import numpy as np
import pytest

from spml.data.matrix import FeatureMatrix
from spml.data.records import Records
from spml.decisions import Calibration, scores_of
from spml.labels import ObservedLabels
from spml.runs.decide.inferred_labels import make_suggestions
from spml.runs.predict.predictions import Predictions

LOGITS = np.array([[1.0, 2.0], [0.5, 0.0], [-1.0, -2.0]])  # of cat and fox
SCORES = scores_of(LOGITS, "sigmoid").astype(np.float32)
CALIBRATION = Calibration(np.array([-2.0, 0.0, 2.0]), np.array([0.1, 0.5, 0.9]), np.array([0.0, 0.2, 0.6]))


def test_given_labels_make_others_less_probable():
    labels = ObservedLabels.from_ternary([[1, 0, 0], [0, 0, 0], [0, 1, -1]])
    features = FeatureMatrix(np.zeros((3, 2), np.float32))
    records = Records("data", "data", ("a", "b", "c"), features, ("fox", "cat", "dog"), True, labels, None)
    predictions = Predictions(("c", "a", "b"), ("cat", "fox"), SCORES, [["cat", "fox"], ["cat"], ["fox"]])
    found = make_suggestions(predictions, records, CALIBRATION, "sigmoid")
    # Cat of c and fox of a are given, nothing of b.
    np.testing.assert_allclose(found.probabilities, [[0, 0.6], [0.3, 0], [0.3, 0.1]], atol=1e-6)
    assert found.number == 3
    expected = 0.6 + 0.3 + 0.1
    assert found.expected == pytest.approx(expected)
    assert found.describe().startswith(
        f"About {expected:.0f} of 3 inferred labels that the data does not give"
    )


def test_a_class_that_only_one_of_both_has():
    labels = ObservedLabels.from_index([0, 1], 2)
    features = FeatureMatrix(np.zeros((2, 2), np.float32))
    records = Records("data", "data", ("a", "b"), features, ("fox", "emu"), True, labels, None)
    predictions = Predictions(("a", "b"), ("cat", "fox"), SCORES[:2], [["cat"], ["cat"]])
    found = make_suggestions(predictions, records, CALIBRATION, "sigmoid")
    np.testing.assert_allclose(found.probabilities, [[0.4, 0], [0.6, 0.5]], atol=1e-6)
