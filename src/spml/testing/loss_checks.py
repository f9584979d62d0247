"""Checks of the loss and its gradient."""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from ..labels import ObservedLabels
from ..methods.base import Batch, Card
from ..methods.registry import hyper_parameters
from .cases import (
    CLASSES,
    ROWS,
    Case,
    assert_same,
    complete,
    further_inputs,
    in_agreement,
    logits_and_features,
    loss_and_gradients,
    parts,
    total,
)


def _card_and_hyper_parameters_are_documented(case: Case) -> None:
    cls = type(case.make())
    assert isinstance(getattr(cls, "card", None), Card), "the class has no card"
    for name in ("title", "paper", "equations", "formula"):
        assert getattr(cls.card, name), f"the card has no {name}"
    assert cls.card.head_bias in ("zero", "prior"), f"head_bias is {cls.card.head_bias!r}"
    assert cls.card.scores in ("logits", "log_softmax"), f"scores is {cls.card.scores!r}"
    known = hyper_parameters(cls)
    text = inspect.getdoc(cls) or ""
    missing = [name for name in known if name not in text]
    assert not missing, f"not in the docstring: {', '.join(missing)}"
    assert bool(cls.card.defaults) == bool(cls.card.source), "`source` says where `defaults` stand"
    for place, values in {**cls.card.defaults, "the paper": cls.card.printed}.items():
        unknown = [name for name in values if name not in known]
        assert not unknown, f"values of {place} name unknown hyper-parameters {unknown}"
        cls(**values)


def _unknown_hyper_parameters_are_refused(case: Case) -> None:
    try:
        type(case.make())(no_such_hyper_parameter=1)
    except TypeError:
        return
    raise AssertionError("an unknown hyper-parameter was accepted")


def _forward_returns_named_finite_scalars(case: Case) -> None:
    objective, batch = case.started(), case.batch()
    terms = objective(complete(objective, logits_and_features(), batch), batch)
    assert isinstance(terms, dict), f"forward returned a {type(terms).__name__}, not a dict"
    assert terms, "forward returned no term"
    for name, term in terms.items():
        assert isinstance(name, str), f"the name of a term is {name!r}, not a string"
        assert term.shape == (), f"term {name!r} has shape {tuple(term.shape)}, not ()"
        assert torch.isfinite(term), f"term {name!r} is {term}"


def _forward_has_no_side_effects(case: Case) -> None:
    objective, batch = case.started(), case.batch()
    outputs = complete(objective, logits_and_features(), batch)
    before = {name: value.clone() for name, value in objective.state_dict().items()}
    states = torch.get_rng_state(), np.random.get_state()[1].copy(), random.getstate()  # type: ignore[index]  # noqa: NPY002
    extras = [further_inputs(objective, outputs, batch) for _ in range(2)]
    for tensor, again in zip(*(extra or () for extra in extras), strict=True):
        same = tensor is again is None or torch.equal(tensor, again)
        assert same, "two calls of extra_inputs with the same batch returned different inputs"
    first = total(objective, outputs, batch).detach()
    second = total(objective, outputs, batch).detach()
    assert torch.equal(first, second), "two calls with the same batch returned different losses"
    for name, value in objective.state_dict().items():
        assert torch.equal(value, before[name]), f"forward changed the state {name!r}"
    assert torch.equal(torch.get_rng_state(), states[0]), "forward used torch's global random state"
    assert np.array_equal(np.random.get_state()[1], states[1]), "forward used NumPy's global random state"  # type: ignore[index]  # noqa: NPY002
    assert random.getstate() == states[2], "forward used Python's global random state"


def _index_target_equals_matrix_target(case: Case) -> None:
    batch = case.batch()
    if batch.target.ndim == 2:
        return
    matrix = torch.zeros(ROWS, CLASSES, dtype=torch.int8).scatter_(1, batch.target[:, None], 1)
    objective, results = case.started(), []
    for labels in (batch, Batch(matrix, batch.index, batch.seed)):
        outputs = complete(objective, logits_and_features(), labels)
        results.append(loss_and_gradients(objective, outputs, labels))
    _assert_same_results(results[0], results[1], "labels as a matrix against indices")


def _known_labels_are_never_pushed_the_wrong_way(case: Case) -> None:
    target = torch.zeros(ROWS, CLASSES, dtype=torch.int8)
    target[:, 0], target[:, 1], target[: ROWS // 2, 2] = 1, -1, 1
    objective, batch = case.started(), Batch(target, case.batch().index)
    # Views that differ are pulled together, whatever the labels.
    outputs = in_agreement(complete(objective, logits_and_features(), batch))
    _, gradients = loss_and_gradients(objective, outputs, batch)
    # Confident correct predictions (p beyond .77) are left out: label smoothing rightly pulls them back.
    unsure = outputs.logits * target < 1.2
    for name in ("logits", *(name for name in gradients if name.startswith("view"))):
        positive, negative = (gradients[name][:, c][unsure[:, c]] for c in (0, 1))
        assert (positive <= 0).all(), f"the gradient ({name}) lowers the logit of a known positive"
        assert (negative >= 0).all(), f"the gradient ({name}) raises the logit of a known negative"
    assert gradients["logits"][:, 0].abs().max() > 0, "known positives have no gradient"


def _rows_without_a_known_label_and_small_batches_are_finite(case: Case) -> None:
    objective, outputs, batch = case.started(), logits_and_features(), case.batch()
    unknown = torch.zeros(ROWS, CLASSES, dtype=torch.int8)
    for what, rows, target in (
        ("rows without a known label", ROWS, unknown),
        ("a batch of one", 1, batch.target),
        ("an empty batch", 0, batch.target),
    ):
        labels = Batch(target[:rows], batch.index[:rows])
        first = complete(objective, outputs.map(lambda part, rows=rows: part[:rows]), labels)  # type: ignore[misc]
        loss, gradients = loss_and_gradients(objective, first, labels)
        assert torch.isfinite(loss), f"{what}: the loss is {loss}"
        for name, gradient in gradients.items():
            assert torch.isfinite(gradient).all(), f"{what}: the gradient ({name}) is not finite"
        assert rows or loss == 0, f"an empty batch has the loss {loss}, not 0"


def _extreme_logits_and_half_precision_are_finite(case: Case) -> None:
    objective, batch = case.started().float(), case.batch()
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        for size in (1e4, 100.0, 20.0):
            outputs = logits_and_features(dtype=dtype)
            signs = complete(objective, outputs._replace(logits=outputs.logits.sign() * size), batch)
            loss, gradients = loss_and_gradients(objective, signs, batch)
            assert torch.isfinite(loss), f"{dtype}, logits of +-{size:g}: the loss is {loss}"
            for name, gradient in gradients.items():
                finite = torch.isfinite(gradient).all()
                assert finite, f"{dtype}, logits of +-{size:g}: the gradient ({name}) is not finite"


def _float32_agrees_with_float64(case: Case) -> None:
    batch, results = case.batch(), []
    for dtype in (torch.float64, torch.float32):
        objective = case.started().to(dtype)
        outputs = complete(objective, logits_and_features(dtype=dtype), batch)
        results.append(loss_and_gradients(objective, outputs, batch))
    _assert_same_results(results[0], results[1], "float32 against float64", 1e-5)


def _order_of_samples_does_not_matter(case: Case) -> None:
    objective, batch = case.started(), case.batch()
    outputs = complete(objective, logits_and_features(), batch)
    order = torch.randperm(ROWS, generator=torch.Generator().manual_seed(3))
    loss, gradients = loss_and_gradients(objective, outputs, batch)
    moved = outputs.map(lambda part: part[order])
    labels = Batch(batch.target[order], batch.index[order], batch.seed)
    expected = {name: gradient[order] for name, gradient in gradients.items()}
    _assert_same_results((loss, expected), loss_and_gradients(objective, moved, labels), "reordered samples")


def _order_of_classes_does_not_matter(case: Case) -> None:
    order = torch.randperm(CLASSES, generator=torch.Generator().manual_seed(4))
    matrix = torch.from_numpy(case.facts.observed.to_ternary())[:, order]
    names = tuple(case.facts.classes[column] for column in order.tolist())
    facts = replace(case.facts, observed=ObservedLabels.from_ternary(matrix), classes=names)
    results = []
    for variant, columns in ((case, torch.arange(CLASSES)), (Case(case.make, facts), order)):
        objective, batch, outputs = variant.started(), variant.batch(), logits_and_features()
        outputs = complete(objective, outputs._replace(logits=outputs.logits[:, columns]), batch)
        results.append(loss_and_gradients(objective, outputs, batch))
    (loss, gradients), reordered = results
    expected = {
        name: gradient if name == "features" or name.startswith("latent") else gradient[:, order]
        for name, gradient in gradients.items()
    }
    _assert_same_results((loss, expected), reordered, "reordered classes")


_POSITIONS = 150
"""Elements of an output of which the gradient is compared with a numerical one; the others are left out."""


class Frozen(TorchFunctionMode):
    """Record the results of `detach()`, or replay them, so that a numerical gradient holds them constant."""

    def __init__(self, tape: list[Tensor], replay: bool) -> None:
        super().__init__()
        self.tape, self.replay, self.calls = tape, replay, 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func is not Tensor.detach:
            return result
        self.calls += 1
        if self.replay:
            return self.tape[self.calls - 1]
        self.tape.append(result.clone())
        return result


def _gradient_equals_numerical_gradient(case: Case) -> None:
    objective, batch, step = case.started(), case.batch(), 1e-5
    # Copies, because the parts may share storage.
    outputs = complete(objective, logits_and_features(), batch).map(Tensor.clone)
    tape: list[Tensor] = []
    with Frozen(tape, replay=False):
        loss = total(objective, outputs, batch)
    assert torch.isfinite(loss)
    _, gradients = loss_and_gradients(objective, outputs, batch)
    generator = np.random.default_rng(7)
    for name, part in parts(outputs).items():
        some = generator.permutation(part.numel())[:_POSITIONS]
        numerical = gradients[name].clone()
        for position in zip(*np.unravel_index(some, part.shape), strict=True):
            before, sides = part[position].clone(), []
            for sign in (1, -1):
                part[position] = before + sign * step
                with Frozen(tape, replay=True), torch.no_grad():
                    sides.append(total(objective, outputs, batch))
            part[position] = before
            numerical[position] = (sides[0] - sides[1]) / (2 * step)
        what = f"gradient ({name}) against a numerical one (detached values are held constant)"
        # Rounding of loss differences is visible where a part has hardly any weight.
        rounding = 1e-10 / numerical.abs().max().clamp(min=1e-12).item()
        assert_same(gradients[name], numerical, what, 1e-6 + rounding)


def _assert_same_results(
    expected: tuple[Tensor, dict[str, Tensor]],
    actual: tuple[Tensor, dict[str, Tensor]],
    what: str,
    tolerance: float = 1e-9,
) -> None:
    """Compare two results of `loss_and_gradients` in float64."""
    assert_same(actual[0].double(), expected[0].double(), f"loss, {what}", tolerance)
    for name, gradient in expected[1].items():
        assert_same(actual[1][name].double(), gradient.double(), f"gradient ({name}), {what}", tolerance)


CHECKS: tuple[Callable[[Case], None], ...] = (
    _card_and_hyper_parameters_are_documented,
    _unknown_hyper_parameters_are_refused,
    _forward_returns_named_finite_scalars,
    _forward_has_no_side_effects,
    _index_target_equals_matrix_target,
    _known_labels_are_never_pushed_the_wrong_way,
    _rows_without_a_known_label_and_small_batches_are_finite,
    _extreme_logits_and_half_precision_are_finite,
    _float32_agrees_with_float64,
    _order_of_samples_does_not_matter,
    _order_of_classes_does_not_matter,
    _gradient_equals_numerical_gradient,
)
