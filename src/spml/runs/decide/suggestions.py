"""How probable predicted labels are for samples of which some labels are given."""

from __future__ import annotations

import os
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ...common.phrases import counted
from ...data.records import Records
from ...decisions import hidden_probabilities
from ..compute.predict import Predictions
from .inferred_labels import rows_by_name


class Suggestions(NamedTuple):
    """Predicted labels that the data does not give.

    Attributes:
        probabilities: Probability that each label is there although it is not given, float64 (N, C); 0
            where it is known.
        number: Number of predicted labels that are not known.
        expected: Expected number of these that are right.
    """

    probabilities: npt.NDArray[np.float64]
    number: int
    expected: float

    def describe(self) -> str:
        """How many of the predicted labels are expected to be right."""
        return (
            f"About {self.expected:.0f} of {counted(self.number, 'inferred label')} that the data does not "
            "give are expected to be right; fewer if the model has learned from these samples (spml audit "
            "uses scores by models that have not)."
        )


def make_suggestions(predictions: Predictions, records: Records) -> Suggestions:
    """Probabilities of predicted labels, given the known labels of the same samples.

    A label that was not given is less probable than the same label of a sample of which nothing is known.

    Args:
        predictions: Predictions with probabilities.
        records: Data with the known labels.
    """
    assert predictions.probabilities is not None
    rows, ternary = rows_by_name(records), records.labels.to_ternary()
    common = [name for name in predictions.classes if name in set(records.classes)]
    own = [predictions.columns[name] for name in common]
    theirs = [records.classes.index(name) for name in common]
    known = np.zeros(predictions.scores.shape, np.int8)
    for number, name in enumerate(predictions.ids):
        row = rows.get(name, rows.get(os.path.abspath(name)))
        if row is not None:
            known[number, own] = ternary[row, theirs]
    hidden = hidden_probabilities(predictions.probabilities, known)
    predicted = np.zeros(known.shape, np.bool_)
    for number, labels in enumerate(predictions.labels):
        predicted[number, [predictions.columns[label] for label in labels]] = True
    return Suggestions(hidden, int((predicted & (known == 0)).sum()), float(hidden[predicted].sum()))
