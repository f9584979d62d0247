"""The suite that every method passes. Run it on your own: `spml.check_objective(MyMethod)`.

Each check is a function of a `Case` and raises AssertionError with a sentence that says what does not hold.
"""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from .errors import InputError
from .labels import ObservedLabels
from .objective import Batch, Card, Facts, Objective, Outputs, Progress, create, hyper_parameters

_SAMPLES, _CLASSES, _ROWS = 24, 7, 10
_PROGRESS = Progress(epoch=3, epochs=8)


@dataclass(frozen=True)
class Case:
    """A method with hyper-parameters, and data that it accepts.

    Attributes:
        make: a fresh objective.
        facts: single-positive labels, or full ones if the method accepts no others.
    """

    make: Callable[[], Objective]
    facts: Facts

    def started(self) -> Objective:
        """An objective in the middle of training, in float64."""
        objective = self.make()
        objective.on_fit_start(self.facts)
        objective.double()
        objective.on_epoch_start(_PROGRESS)
        return objective

    def batch(self) -> Batch:
        """The first samples, in an order that is not that of the data set."""
        rows = np.random.default_rng(1).permutation(_SAMPLES)[:_ROWS]
        return Batch(self.facts.observed.target(rows), torch.from_numpy(rows))


def check_objective(method: str | type[Objective], **hp: Any) -> None:
    """Check that a method keeps the rules that the engine, checkpoints and several processes rely on.

    Args:
        method: a registered name, or a class.
        hp: hyper-parameters; defaults where not given.

    Raises:
        AssertionError: a rule is broken; the message says which and how.
    """
    for name, check in checks(method, **hp):
        try:
            check()
        except AssertionError as error:
            raise AssertionError(f"{method}: {name}: {error}") from error


def checks(method: str | type[Objective], **hp: Any) -> Iterator[tuple[str, Callable[[], None]]]:
    """The checks of a method by name, for a test runner that reports them one by one."""
    make = (lambda: create(method, hp)) if isinstance(method, str) else (lambda: method(**hp))
    case = _case(make)
    for check in _CHECKS:
        yield check.__name__.removeprefix("_").replace("_", " "), lambda check=check: check(case)  # type: ignore[misc]


def _case(make: Callable[[], Objective]) -> Case:
    generator = np.random.default_rng(0)
    single = ObservedLabels.from_index(generator.integers(0, _CLASSES, _SAMPLES), _CLASSES)
    full = ObservedLabels.from_ternary(np.where(generator.random((_SAMPLES, _CLASSES)) < 0.4, 1, -1))
    ids = tuple(f"sample {row}" for row in range(_SAMPLES))
    classes = tuple(f"class {column}" for column in range(_CLASSES))
    facts = Facts(single, ids, classes, mean_labels=2.0)
    try:
        make().on_fit_start(facts)
    except InputError:
        facts = Facts(full, ids, classes, mean_labels=2.0)
    return Case(make, facts)


def _outputs(rows: int = _ROWS, dtype: torch.dtype = torch.float64) -> Outputs:
    generator = torch.Generator().manual_seed(2)
    logits = 3 * torch.randn(rows, _CLASSES, generator=generator, dtype=torch.float64)
    features = torch.randn(rows, 5, generator=generator, dtype=torch.float64)
    return Outputs(logits.to(dtype), features.to(dtype))


def _loss(objective: Objective, outputs: Outputs, batch: Batch) -> Tensor:
    return torch.stack(list(objective(outputs, batch).values())).sum()


def _loss_and_gradient(objective: Objective, outputs: Outputs, batch: Batch) -> tuple[Tensor, Tensor]:
    logits = outputs.logits.detach().clone().requires_grad_()
    loss = _loss(objective, Outputs(logits, outputs.features), batch)
    (gradient,) = torch.autograd.grad(loss, logits)
    return loss.detach(), gradient


def _same(found: Tensor, expected: Tensor, what: str, tolerance: float = 1e-9) -> None:
    scale = expected.abs().max().clamp(min=1e-12) if expected.numel() else torch.ones(())
    error = float(((found - expected).abs().max() if expected.numel() else torch.zeros(())) / scale)
    assert error <= tolerance, f"{what}: largest relative difference {error:.3g}, allowed {tolerance:g}"


# -- the checks ------------------------------------------------------------------------------------------


def _card_and_hyper_parameters_are_documented(case: Case) -> None:
    cls = type(case.make())
    assert isinstance(getattr(cls, "card", None), Card), "the class has no card"
    assert all((cls.card.title, cls.card.paper, cls.card.equations)), "the card has an empty field"
    assert cls.card.head_bias in ("zero", "prior"), f"head_bias is {cls.card.head_bias!r}"
    known = hyper_parameters(cls)
    text = inspect.getdoc(cls) or ""
    missing = [name for name in known if name not in text]
    assert not missing, f"not in the docstring: {', '.join(missing)}"
    for benchmark, values in cls.card.defaults.items():
        unknown = [name for name in values if name not in known]
        assert not unknown, f"defaults for {benchmark} name unknown hyper-parameters {unknown}"
        cls(**values)


def _unknown_hyper_parameters_are_refused(case: Case) -> None:
    try:
        type(case.make())(no_such_hyper_parameter=1)
    except TypeError:
        return
    raise AssertionError("an unknown hyper-parameter was accepted")


def _forward_gives_named_finite_scalars(case: Case) -> None:
    terms = case.started()(_outputs(), case.batch())
    assert isinstance(terms, dict), f"forward gave a {type(terms).__name__}, not a dict"
    assert terms, "forward gave no term"
    for name, term in terms.items():
        assert isinstance(name, str), f"a term's name is {name!r}"
        assert term.shape == (), f"term {name!r} has shape {tuple(term.shape)}, not ()"
        assert torch.isfinite(term), f"term {name!r} is {term}"


def _forward_has_no_side_effects(case: Case) -> None:
    objective = case.started()
    before = {name: value.clone() for name, value in objective.state_dict().items()}
    states = torch.get_rng_state(), np.random.get_state()[1].copy(), random.getstate()  # type: ignore[index]  # noqa: NPY002
    first = _loss(objective, _outputs(), case.batch()).detach()
    second = _loss(objective, _outputs(), case.batch()).detach()
    assert torch.equal(first, second), "two calls with the same batch gave different losses"
    for name, value in objective.state_dict().items():
        assert torch.equal(value, before[name]), f"forward changed the state {name!r}"
    assert torch.equal(torch.get_rng_state(), states[0]), "forward used torch's global random state"
    assert np.array_equal(np.random.get_state()[1], states[1]), "forward used NumPy's global random state"  # type: ignore[index]  # noqa: NPY002
    assert random.getstate() == states[2], "forward used Python's global random state"


def _index_target_equals_matrix_target(case: Case) -> None:
    batch = case.batch()
    if batch.target.ndim == 2:
        return
    matrix = torch.zeros(_ROWS, _CLASSES, dtype=torch.int8).scatter_(1, batch.target[:, None], 1)
    objective = case.started()
    loss, gradient = _loss_and_gradient(objective, _outputs(), batch)
    loss2, gradient2 = _loss_and_gradient(objective, _outputs(), Batch(matrix, batch.index))
    _same(loss2, loss, "loss of a matrix against indices")
    _same(gradient2, gradient, "gradient of a matrix against indices")


def _known_labels_are_never_pushed_the_wrong_way(case: Case) -> None:
    target = torch.zeros(_ROWS, _CLASSES, dtype=torch.int8)
    target[:, 0], target[:, 1], target[: _ROWS // 2, 2] = 1, -1, 1
    outputs = _outputs()
    _, gradient = _loss_and_gradient(case.started(), outputs, Batch(target, case.batch().index))
    # Not where a right prediction is confident (p beyond .77): label smoothing rightly pulls it back.
    open_ones = outputs.logits * target < 1.2
    assert (gradient[:, 0][open_ones[:, 0]] <= 0).all(), "the gradient lowers the logit of a known positive"
    assert (gradient[:, 1][open_ones[:, 1]] >= 0).all(), "the gradient raises the logit of a known negative"
    assert gradient[:, 0].abs().max() > 0, "known positives have no gradient"


def _rows_without_a_known_label_and_small_batches_are_finite(case: Case) -> None:
    objective, outputs = case.started(), _outputs()
    unknown = Batch(torch.zeros(_ROWS, _CLASSES, dtype=torch.int8), case.batch().index)
    batch = case.batch()
    one = Outputs(outputs.logits[:1], outputs.features[:1])
    none = Outputs(outputs.logits[:0], outputs.features[:0])
    for what, given, labels in (
        ("rows without a known label", outputs, unknown),
        ("a batch of one", one, Batch(batch.target[:1], batch.index[:1])),
    ):
        loss, gradient = _loss_and_gradient(objective, given, labels)
        assert torch.isfinite(loss), f"{what}: the loss is {loss}"
        assert torch.isfinite(gradient).all(), f"{what}: the gradient is not finite"
    loss, _ = _loss_and_gradient(objective, none, Batch(batch.target[:0], batch.index[:0]))
    assert loss == 0, f"an empty batch has the loss {loss}, not 0"


def _extreme_logits_and_half_precision_are_finite(case: Case) -> None:
    objective, batch = case.started().float(), case.batch()
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        for size in (1e4, 100.0, 20.0):
            outputs = _outputs(dtype=dtype)
            signs = Outputs(outputs.logits.sign() * size, outputs.features)
            loss, gradient = _loss_and_gradient(objective, signs, batch)
            assert torch.isfinite(loss), f"{dtype}, logits of +-{size:g}: the loss is {loss}"
            assert torch.isfinite(gradient).all(), f"{dtype}, logits of +-{size:g}: gradient not finite"


def _float32_agrees_with_float64(case: Case) -> None:
    batch = case.batch()
    loss, gradient = _loss_and_gradient(case.started(), _outputs(), batch)
    low = _loss_and_gradient(case.started().float(), _outputs(dtype=torch.float32), batch)
    _same(low[0].double(), loss, "loss in float32", 1e-5)
    _same(low[1].double(), gradient, "gradient in float32", 1e-5)


def _order_of_samples_does_not_matter(case: Case) -> None:
    objective, outputs, batch = case.started(), _outputs(), case.batch()
    order = torch.randperm(_ROWS, generator=torch.Generator().manual_seed(3))
    loss, gradient = _loss_and_gradient(objective, outputs, batch)
    moved = Outputs(outputs.logits[order], outputs.features[order])
    loss2, gradient2 = _loss_and_gradient(objective, moved, Batch(batch.target[order], batch.index[order]))
    _same(loss2, loss, "loss of reordered samples")
    _same(gradient2, gradient[order], "gradient of reordered samples")


def _order_of_classes_does_not_matter(case: Case) -> None:
    outputs, batch = _outputs(), case.batch()
    order = torch.randperm(_CLASSES, generator=torch.Generator().manual_seed(4))
    loss, gradient = _loss_and_gradient(case.started(), outputs, batch)
    matrix = torch.from_numpy(case.facts.observed.to_ternary())[:, order]
    facts = Facts(
        ObservedLabels.from_ternary(matrix),
        case.facts.ids,
        tuple(case.facts.classes[c] for c in order.tolist()),
        case.facts.mean_labels,
    )
    moved = Case(case.make, facts)
    loss2, gradient2 = _loss_and_gradient(
        moved.started(), Outputs(outputs.logits[:, order], outputs.features), moved.batch()
    )
    _same(loss2, loss, "loss of reordered classes")
    _same(gradient2, gradient[:, order], "gradient of reordered classes")


class _Frozen(TorchFunctionMode):
    """Records what `detach()` gives, or gives what was recorded: the surrogate whose gradient is followed."""

    def __init__(self, tape: list[Tensor], replay: bool) -> None:
        super().__init__()
        self.tape, self.replay, self.place = tape, replay, 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func is not Tensor.detach:
            return result
        self.place += 1
        if self.replay:
            return self.tape[self.place - 1]
        self.tape.append(result.clone())
        return result


def _gradient_equals_numerical_one(case: Case) -> None:
    objective, outputs, batch, step = case.started(), _outputs(), case.batch(), 1e-5
    tape: list[Tensor] = []
    with _Frozen(tape, replay=False):
        loss = _loss(objective, outputs, batch)
    _, gradient = _loss_and_gradient(objective, outputs, batch)
    numerical = torch.zeros_like(gradient)
    for row, column in np.ndindex(_ROWS, _CLASSES):
        sides = []
        for sign in (1, -1):
            logits = outputs.logits.clone()
            logits[row, column] += sign * step
            with _Frozen(tape, replay=True), torch.no_grad():
                sides.append(_loss(objective, Outputs(logits, outputs.features), batch))
        numerical[row, column] = (sides[0] - sides[1]) / (2 * step)
    assert torch.isfinite(loss)
    _same(gradient, numerical, "gradient against a numerical one (what is detached is held constant)", 1e-6)


def _state_survives_a_checkpoint_in_mid_epoch(case: Case) -> None:
    objective = case.started()
    batch = case.batch()
    with torch.no_grad():
        objective.after_step(_outputs(), batch)
        for parameter in objective.parameters():
            parameter.add_(0.1)
    restored = case.make()
    restored.on_fit_start(case.facts)
    restored.double()
    restored.load_state_dict(objective.state_dict())
    restored.on_epoch_start(_PROGRESS)
    expected = _loss(objective, _outputs(), batch)
    found = _loss(restored, _outputs(), batch)
    assert torch.equal(found, expected), "a restored objective gives another loss: its state is incomplete"


_CHECKS: tuple[Callable[[Case], None], ...] = (
    _card_and_hyper_parameters_are_documented,
    _unknown_hyper_parameters_are_refused,
    _forward_gives_named_finite_scalars,
    _forward_has_no_side_effects,
    _index_target_equals_matrix_target,
    _known_labels_are_never_pushed_the_wrong_way,
    _rows_without_a_known_label_and_small_batches_are_finite,
    _extreme_logits_and_half_precision_are_finite,
    _float32_agrees_with_float64,
    _order_of_samples_does_not_matter,
    _order_of_classes_does_not_matter,
    _gradient_equals_numerical_one,
    _state_survives_a_checkpoint_in_mid_epoch,
)

__all__ = ["Case", "check_objective", "checks"]
