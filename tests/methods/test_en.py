"""EN: averages of predictions, and which unknown labels become negatives."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from spml.labels import ObservedLabels
from spml.losses import an_loss, iu_loss
from spml.methods.base import Batch, Facts, Outputs, Progress
from spml.methods.registry import create
from tests.reference.en import expected_negatives

OBSERVED = ObservedLabels.from_ternary(
    np.array([[1, 0, 0], [0, 1, 0], [1, 0, -1], [0, 0, 1], [0, 1, 0], [1, 0, 0]], dtype=np.int8)
)


def start(mean_labels: float | None = 1.5, decay: float = 0.5):
    objective = create("en", {"decay": decay})
    names = tuple("abcdef")
    objective.on_fit_start(Facts(OBSERVED, names, ("x", "y", "z"), mean_labels))
    return objective


def step(objective, p: torch.Tensor) -> None:
    """One epoch in one step; p holds the probabilities of all samples."""
    rows = torch.arange(6)
    objective.after_step(Outputs(torch.logit(p), p), Batch(OBSERVED.target(rows), rows))


def test_in_the_first_epoch_every_unknown_label_is_a_negative():
    z, rows = torch.randn(6, 3), torch.arange(6)
    actual = start()(Outputs(z, z), Batch(OBSERVED.target(rows), rows))["en"]
    assert actual.item() == pytest.approx(an_loss(z, OBSERVED.target(rows)).item(), rel=1e-6)


def test_as_many_negatives_are_taken_as_are_expected_where_the_average_is_lowest():
    # Positives known 3, 2, 1 of 6; K = 1.5 of 6 samples is 9 positives: expected 4.5, 3, 1.5 -> 4, 3, 2.
    # So 2, 3, 4 negatives per class; of class z one is known already.
    objective = start()
    step(
        objective,
        torch.tensor(
            [
                [0.01, 0.10, 0.50],
                [0.30, 0.01, 0.40],
                [0.01, 0.20, 0.01],
                [0.20, 0.30, 0.01],
                [0.10, 0.01, 0.30],
                [0.01, 0.40, 0.20],
            ]
        ),
    )
    objective.on_epoch_end(Progress(0, 3), None)
    expected = [[0, 1, 0], [0, 0, 1], [0, 1, 0], [1, 1, 0], [1, 0, 1], [0, 0, 1]]
    assert objective.memory.negatives.int().tolist() == expected
    z, rows = torch.randn(4, 3), torch.tensor([5, 2, 0, 3])
    actual = objective(Outputs(z, z), Batch(OBSERVED.target(rows), rows))["en"]
    target = torch.tensor([[1, 0, -1], [1, -1, -1], [1, -1, 0], [-1, -1, 1]])
    assert actual.item() == pytest.approx(iu_loss(z, target).item(), rel=1e-6)


def test_a_sample_without_a_prediction_is_ranked_last():
    objective = start()
    rows = torch.tensor([0, 1, 2, 3])
    p = torch.full((4, 3), 0.9)
    objective.after_step(Outputs(torch.logit(p), p), Batch(OBSERVED.target(rows), rows))
    objective.on_epoch_end(Progress(0, 3), None)
    assert objective.memory.negatives[:, 0].int().tolist() == [0, 1, 0, 1, 0, 0]


def test_the_choice_equals_the_slow_reference():
    generator = np.random.default_rng(0)
    labels = ObservedLabels.from_index(generator.integers(0, 5, 40), 5)
    objective = create("en", {"decay": 0.0})
    objective.on_fit_start(Facts(labels, tuple(map(str, range(40))), tuple("abcde"), 2.0))
    p, rows = torch.from_numpy(generator.random((40, 5), dtype=np.float32)), torch.arange(40)
    objective.after_step(Outputs(torch.logit(p), p), Batch(labels.target(rows), rows))
    objective.on_epoch_end(Progress(0, 3), None)
    expected = expected_negatives(labels.to_ternary().tolist(), p.tolist(), 2.0)
    assert objective.memory.negatives.int().tolist() == expected
