"""Checks of the state of an objective, and of its treatment of labels."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ..labels import IntArray, ObservedLabels
from ..methods.base import Batch, Objective, Outputs, Progress
from ..methods.memory import LabelMemory
from .cases import (
    ROWS,
    SAMPLES,
    Case,
    assert_same,
    complete,
    in_agreement,
    logits_and_features,
    loss_and_gradients,
    total,
)

_EPOCHS = 8
_WRONG = 5.0
"""Distance of a logit from 0, on the wrong side of a known label."""

_PARTS = np.array_split(np.random.default_rng(6).permutation(SAMPLES), [ROWS])
"""Rows of two batches that make up the training set, in another order."""


def _known_labels_are_never_contradicted_by_memory(case: Case) -> None:
    for labelled in case.with_partial_labels():
        known = torch.from_numpy(labelled.facts.observed.to_ternary())
        outputs = logits_and_features(SAMPLES)
        outputs = outputs._replace(logits=torch.where(known == 0, outputs.logits, -_WRONG * known.double()))
        objective = labelled.before_training()
        _train(labelled, objective, range(_EPOCHS - 1), outputs)
        for memory in objective.modules():
            if isinstance(memory, LabelMemory):
                empty = (memory.inferred[known != 0] < 0).all()
                assert empty, "a label memory has an inferred label where a label is known"
        objective.on_epoch_start(Progress(_EPOCHS - 1, _EPOCHS))
        batch = labelled.batch_of(np.arange(SAMPLES))
        agreeing = in_agreement(complete(objective, outputs, batch))
        _, gradients = loss_and_gradients(objective, agreeing, batch)
        push = gradients["logits"]
        assert (push[known == 1] <= 0).all(), "after some epochs the gradient lowers a known positive"
        assert (push[known == -1] >= 0).all(), "after some epochs the gradient raises a known negative"


def _labels_and_outputs_are_not_written_to(case: Case) -> None:
    for labelled in case.with_partial_labels():
        matrix = labelled.facts.observed.to_ternary()
        observed, expected = (ObservedLabels.from_ternary(matrix) for _ in range(2))
        copy, outputs = labelled.labelled(observed), logits_and_features(SAMPLES)
        objective = copy.before_training()
        steps = _train(copy, objective, range(_EPOCHS), outputs)
        assert copy.facts.observed is observed, "the observed labels were replaced by others"
        after = observed.to_ternary()
        assert not after[matrix == 0].any(), "an unknown label became a known one in the observed labels"
        assert np.array_equal(after, matrix), "the observed labels were written to"
        for batch, passed in steps:
            total(objective, passed, batch)
            labels = expected.target(batch.index)
            assert torch.equal(batch.target, labels), "the target of a batch was written to"
            assert torch.equal(passed.logits, outputs.logits[batch.index]), "logits were written to"
            assert torch.equal(passed.features, outputs.features[batch.index]), "features were written to"


def _index_and_matrix_labels_give_the_same_memory(case: Case) -> None:
    if not case.facts.observed.single_positive:
        return
    states = []
    for observed in (case.facts.observed, _AsMatrix.of(case.facts.observed)):
        labelled = case.labelled(observed)
        objective = labelled.before_training()
        _train(labelled, objective, range(_EPOCHS), logits_and_features(SAMPLES))
        states.append(objective.state_dict())
    _assert_same_state(states[1], states[0], "labels as a matrix against indices")


def _state_survives_a_checkpoint_in_the_middle_of_an_epoch(case: Case) -> None:
    interrupted, outputs = _EPOCHS - 3, logits_and_features(SAMPLES)
    first, second = (case.batch_of(rows) for rows in _PARTS)
    objective = case.before_training()
    _train(case, objective, range(interrupted), outputs)
    objective.on_epoch_start(Progress(interrupted, _EPOCHS))
    _step(objective, outputs, first)
    with torch.no_grad():
        for parameter in objective.parameters():
            parameter.add_(0.1)
    restored = case.before_training()
    restored.load_state_dict(objective.state_dict())
    restored.on_epoch_start(Progress(interrupted, _EPOCHS))
    for epoch in (interrupted, interrupted + 1):
        losses = []
        for each in (objective, restored):
            losses.append(total(each, _outputs_of(each, outputs, second), second))
            _step(each, outputs, second)
            _end_epoch(each, epoch, outputs)
            each.on_epoch_start(Progress(epoch + 1, _EPOCHS))
        assert torch.equal(*losses), "a restored objective has another loss: its state is incomplete"
        _assert_same_state(restored.state_dict(), objective.state_dict(), "state of a restored objective")


CHECKS: tuple[Callable[[Case], None], ...] = (
    _known_labels_are_never_contradicted_by_memory,
    _labels_and_outputs_are_not_written_to,
    _index_and_matrix_labels_give_the_same_memory,
    _state_survives_a_checkpoint_in_the_middle_of_an_epoch,
)


# -- training without a model ----------------------------------------------------------------------------


def _train(
    case: Case, objective: Objective, epochs: Iterable[int], outputs: Outputs
) -> list[tuple[Batch, Outputs]]:
    """Call the hooks as the engine does, with the same outputs for the training set in all epochs."""
    steps = []
    for epoch in epochs:
        objective.on_epoch_start(Progress(epoch, _EPOCHS))
        for rows in _PARTS:
            batch = case.batch_of(rows)
            steps.append((batch, _step(objective, outputs, batch)))
        _end_epoch(objective, epoch, outputs)
    return steps


def _outputs_of(objective: Objective, outputs: Outputs, batch: Batch) -> Outputs:
    """Select the outputs for a batch from those for the training set."""
    return complete(objective, outputs.map(lambda part: part[batch.index]), batch)


def _step(objective: Objective, outputs: Outputs, batch: Batch) -> Outputs:
    passed = _outputs_of(objective, outputs, batch)
    with torch.no_grad():
        objective.after_step(passed, batch)
    return passed


def _end_epoch(objective: Objective, epoch: int, outputs: Outputs) -> None:
    train_pass = (lambda: outputs.logits.float()) if objective.needs.train_pass else None
    objective.on_epoch_end(Progress(epoch, _EPOCHS), train_pass)


def _assert_same_state(actual: dict[str, Tensor], expected: dict[str, Tensor], what: str) -> None:
    assert actual.keys() == expected.keys(), f"{what}: {sorted(actual)}, not {sorted(expected)}"
    for name, value in expected.items():
        assert_same(actual[name].double(), value.double(), f"{what}: {name!r}")


class _AsMatrix(ObservedLabels):
    """Single-positive labels whose target is a matrix, as it is where any sample has two known positives."""

    __slots__ = ()

    @classmethod
    def of(cls, observed: ObservedLabels) -> _AsMatrix:
        index = observed.index
        assert index is not None
        return cls(np.arange(len(index) + 1), index, np.ones(len(index), np.int8), observed.num_classes)

    @property
    def index(self) -> IntArray | None:
        return None

    @property
    def single_positive(self) -> bool:
        return False

    def target(self, rows: npt.ArrayLike | Tensor) -> Tensor:
        return torch.from_numpy(self.take(rows).to_ternary())
