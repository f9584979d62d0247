"""Checks of what an objective remembers, and of what it does to labels."""

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
    complete,
    in_agreement,
    logits_and_features,
    loss_and_gradients,
    same,
    total,
)

_EPOCHS = 8
_WRONG = 5.0
"""How far a logit is on the wrong side of a known label."""

_PARTS = np.array_split(np.random.default_rng(6).permutation(SAMPLES), [ROWS])
"""Two batches that make up the training set, neither in its order."""


def _known_labels_are_never_contradicted_by_memory(case: Case) -> None:
    for one in case.with_partial_labels():
        known = torch.from_numpy(one.facts.observed.to_ternary())
        outputs = logits_and_features(SAMPLES)
        outputs = outputs._replace(logits=torch.where(known == 0, outputs.logits, -_WRONG * known.double()))
        objective = _started(one)
        _train(one, objective, range(_EPOCHS - 1), outputs)
        for memory in objective.modules():
            if isinstance(memory, LabelMemory):
                nothing = (memory.inferred[known != 0] < 0).all()
                assert nothing, "a label memory holds something where a label is known"
        objective.on_epoch_start(Progress(_EPOCHS - 1, _EPOCHS))
        batch = one.batch_of(np.arange(SAMPLES))
        given = in_agreement(complete(objective, outputs, batch))
        _, gradients = loss_and_gradients(objective, given, batch)
        push = gradients["logits"]
        assert (push[known == 1] <= 0).all(), "after some epochs the gradient lowers a known positive"
        assert (push[known == -1] >= 0).all(), "after some epochs the gradient raises a known negative"


def _labels_and_outputs_are_not_written_to(case: Case) -> None:
    for labelled in case.with_partial_labels():
        # Copies, so that other checks have what this one loses.
        matrix = labelled.facts.observed.to_ternary()
        observed, expected = (ObservedLabels.from_ternary(matrix) for _ in range(2))
        one, outputs = labelled.labelled(observed), logits_and_features(SAMPLES)
        objective = _started(one)
        given = _train(one, objective, range(_EPOCHS), outputs)
        assert one.facts.observed is observed, "the observed labels were exchanged"
        after = observed.to_ternary()
        assert not after[matrix == 0].any(), "an unknown label became a known one in the observed labels"
        assert np.array_equal(after, matrix), "the observed labels were written to"
        for batch, made in given:
            total(objective, made, batch)
            labels = expected.target(batch.index)
            assert torch.equal(batch.target, labels), "the target of a batch was written to"
            assert torch.equal(made.logits, outputs.logits[batch.index]), "logits were written to"
            assert torch.equal(made.features, outputs.features[batch.index]), "features were written to"


def _index_and_matrix_labels_give_the_same_memory(case: Case) -> None:
    if not case.facts.observed.single_positive:
        return
    found = []
    for observed in (case.facts.observed, _AsMatrix.of(case.facts.observed)):
        one = case.labelled(observed)
        objective = _started(one)
        _train(one, objective, range(_EPOCHS), logits_and_features(SAMPLES))
        found.append(objective.state_dict())
    _same_state(found[1], found[0], "labels as a matrix against indices")


def _state_survives_a_checkpoint_in_mid_epoch(case: Case) -> None:
    at, outputs = _EPOCHS - 3, logits_and_features(SAMPLES)
    first, second = (case.batch_of(rows) for rows in _PARTS)
    objective = _started(case)
    _train(case, objective, range(at), outputs)
    objective.on_epoch_start(Progress(at, _EPOCHS))
    _step(objective, outputs, first)
    with torch.no_grad():
        for parameter in objective.parameters():
            parameter.add_(0.1)
    restored = _started(case)
    restored.load_state_dict(objective.state_dict())
    restored.on_epoch_start(Progress(at, _EPOCHS))
    for epoch in (at, at + 1):
        losses = []
        for one in (objective, restored):
            losses.append(total(one, _of(one, outputs, second), second))
            _step(one, outputs, second)
            _end(one, epoch, outputs)
            one.on_epoch_start(Progress(epoch + 1, _EPOCHS))
        assert torch.equal(*losses), "a restored objective gives another loss: its state is incomplete"
        _same_state(restored.state_dict(), objective.state_dict(), "state of a restored objective")


CHECKS: tuple[Callable[[Case], None], ...] = (
    _known_labels_are_never_contradicted_by_memory,
    _labels_and_outputs_are_not_written_to,
    _index_and_matrix_labels_give_the_same_memory,
    _state_survives_a_checkpoint_in_mid_epoch,
)


# -- training without a model ----------------------------------------------------------------------------


def _started(case: Case) -> Objective:
    """An objective before the first epoch, in float64."""
    objective = case.make()
    objective.on_fit_start(case.facts)
    return objective.double()


def _train(
    case: Case, objective: Objective, epochs: Iterable[int], outputs: Outputs
) -> list[tuple[Batch, Outputs]]:
    """What the engine calls in these epochs. The outputs for the training set are the same in all of them."""
    given = []
    for epoch in epochs:
        objective.on_epoch_start(Progress(epoch, _EPOCHS))
        for rows in _PARTS:
            batch = case.batch_of(rows)
            given.append((batch, _step(objective, outputs, batch)))
        _end(objective, epoch, outputs)
    return given


def _of(objective: Objective, outputs: Outputs, batch: Batch) -> Outputs:
    """The outputs for a batch, of those for the training set."""
    return complete(objective, outputs.map(lambda part: part[batch.index]), batch)


def _step(objective: Objective, outputs: Outputs, batch: Batch) -> Outputs:
    made = _of(objective, outputs, batch)
    with torch.no_grad():
        objective.after_step(made, batch)
    return made


def _end(objective: Objective, epoch: int, outputs: Outputs) -> None:
    train_pass = (lambda: outputs.logits.float()) if objective.needs.train_pass else None
    objective.on_epoch_end(Progress(epoch, _EPOCHS), train_pass)


def _same_state(found: dict[str, Tensor], expected: dict[str, Tensor], what: str) -> None:
    assert found.keys() == expected.keys(), f"{what}: {sorted(found)}, not {sorted(expected)}"
    for name, value in expected.items():
        same(found[name].double(), value.double(), f"{what}: {name!r}")


class _AsMatrix(ObservedLabels):
    """Single-positive labels that come as a matrix, as they do where one sample has two known positives."""

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
