"""Checks of a method: of its loss and gradient, of its state, and of its treatment of labels."""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from ..common.errors import InputError
from ..common.torch_draws import borrowed_generators
from ..labels import IntArray, ObservedLabels
from ..methods.base import Batch, Card, Extra, Facts, Objective, Outputs, Progress
from ..methods.memory import LabelMemory
from ..methods.registry import hyper_parameters

# -- a method with data that it accepts, outputs, losses and their gradients -----------------------------


SAMPLES, CLASSES, ROWS, WIDTH = 24, 7, 10, 5
PROGRESS = Progress(epoch=3, epochs=8)


@dataclass(frozen=True)
class Case:
    """A method with hyper-parameters, and data that it accepts.

    Attributes:
        make: Function that creates an objective.
        facts: Facts with single-positive labels, or with full ones if the method accepts no others.
    """

    make: Callable[[], Objective]
    facts: Facts

    def started(self) -> Objective:
        """Return an objective in the middle of training, in float64."""
        objective = self.before_training()
        objective.on_epoch_start(PROGRESS)
        return objective

    def before_training(self) -> Objective:
        """Return an objective before the first epoch, in float64."""
        objective = self.make()
        with borrowed_generators(0):  # of initial weights
            objective.on_fit_start(self.facts)
        if objective.needs.features and self.facts.width:
            objective.on_features(logits_and_features(SAMPLES).features)
        return objective.double()

    def batch(self) -> Batch:
        """Return a batch of `ROWS` samples, in another order than in the data set."""
        return self.batch_of(np.random.default_rng(1).permutation(SAMPLES)[:ROWS])

    def batch_of(self, rows: IntArray) -> Batch:
        """Return a batch of the samples at int64 `rows`, with its own seed."""
        return Batch(self.facts.observed.target(rows), torch.from_numpy(rows), int(rows.sum()))

    def labelled(self, observed: ObservedLabels) -> Case:
        """Return the same case with other labels of the samples."""
        return replace(self, facts=replace(self.facts, observed=observed))

    def accepts(self) -> bool:
        """Return whether the method accepts these labels."""
        try:
            self.make().on_fit_start(self.facts)
        except InputError:
            return False
        return True

    def with_partial_labels(self) -> list[Case]:
        """Return this case, and one with positive, negative and unknown labels if these are accepted."""
        ternary = np.random.default_rng(5).choice([-1, 0, 1], (SAMPLES, CLASSES), p=[0.2, 0.6, 0.2])
        partial = self.labelled(ObservedLabels.from_ternary(ternary))
        return [self, partial] if partial.accepts() else [self]


def make_case(make: Callable[[], Objective]) -> Case:
    """Return a case with data that the method accepts."""
    generator = np.random.default_rng(0)
    single = ObservedLabels.from_index(generator.integers(0, CLASSES, SAMPLES), CLASSES)
    full = ObservedLabels.from_ternary(np.where(generator.random((SAMPLES, CLASSES)) < 0.4, 1, -1))
    ids = tuple(f"sample {row}" for row in range(SAMPLES))
    classes = tuple(f"class {column}" for column in range(CLASSES))
    facts = Facts(single, ids, classes, mean_labels=2.0)
    cases = [
        Case(make, facts),
        Case(make, replace(facts, width=WIDTH)),
        Case(make, replace(facts, observed=full)),
    ]
    return next((case for case in cases if case.accepts()), cases[-1])


def logits_and_features(rows: int = ROWS, dtype: torch.dtype = torch.float64) -> Outputs:
    """Return random logits and features, which every model outputs."""
    generator = torch.Generator().manual_seed(2)
    logits = 3 * torch.randn(rows, CLASSES, generator=generator, dtype=torch.float64)
    features = torch.randn(rows, WIDTH, generator=generator, dtype=torch.float64)
    return Outputs(logits.to(dtype), features.to(dtype))


def complete(objective: Objective, outputs: Outputs, batch: Batch) -> Outputs:
    """Add all further outputs that the objective needs, as the engine passes them to `forward`.

    They are computed from logits and features element by element, so that a change of those, such as another
    order, changes the further outputs in the same way.
    """
    logits, needs = outputs.logits, objective.needs
    views = tuple(logits + torch.sin((2 + view) * logits) for view in range(len(needs.views)))
    latent = (outputs.features, torch.exp(outputs.features / 2)) if needs.latent else None
    embeddings = tuple(_embeddings(part, needs.embedding) for part in (logits, *views) if needs.embedding)
    p = torch.sigmoid(logits)
    posterior = (1 + p, 2 - p, (0.5 + p) / 2) if needs.posterior else None
    outputs = outputs._replace(views=views, latent=latent, posterior=posterior, embeddings=embeddings)
    extra = further_inputs(objective, outputs, batch)
    if needs.trained_maps:
        outputs = outputs._replace(class_maps=_class_maps(logits))
    if extra is None:
        return outputs
    return outputs._replace(extra=logits - torch.sin(5 * logits), extra_target=extra.target)


def _embeddings(logits: Tensor, elements: int) -> Tensor:
    """Return one vector of length 1 per sample and class, (B, C, elements), that depends on its logit."""
    frequencies = torch.arange(1, elements + 1, dtype=logits.dtype)
    return functional.normalize(torch.cos(logits.tanh()[..., None] * frequencies), dim=-1)


def _class_maps(logits: Tensor) -> Tensor:
    """Return maps of 2 x 2 positions, (B, C, 2, 2), that depend on the logits."""
    return torch.sin(logits[:, :, None, None] * torch.arange(1, 5, dtype=logits.dtype).reshape(2, 2))


def further_inputs(objective: Objective, outputs: Outputs, batch: Batch) -> Extra | None:
    """Call `extra_inputs` on uint8 images if the objective needs class maps, else on features."""
    rows, inputs = len(outputs.logits), outputs.features.float()
    if objective.needs.class_maps:
        generator = torch.Generator().manual_seed(3)
        inputs = torch.randint(0, 256, (rows, 3, 8, 8), generator=generator, dtype=torch.uint8)
        outputs = outputs._replace(class_maps=_class_maps(outputs.logits))
    with torch.no_grad():
        extra = objective.extra_inputs(inputs, outputs.map(Tensor.detach), batch)
    assert extra is None or extra.inputs.shape == inputs.shape, "extra_inputs changed the shape of the inputs"
    return extra


def in_agreement(outputs: Outputs) -> Outputs:
    """Replace all views and the further pass by the logits, and drawn labels by their probabilities, so that
    consistency terms have no effect."""
    views, extra = tuple(outputs.logits for _ in outputs.views), outputs.extra
    posterior = outputs.posterior and (*outputs.posterior[:2], torch.sigmoid(outputs.logits))
    extra = None if extra is None else outputs.logits
    return outputs._replace(views=views, posterior=posterior, extra=extra)


def total(objective: Objective, outputs: Outputs, batch: Batch) -> Tensor:
    """Return the loss: the sum of all terms."""
    return torch.stack(list(objective(outputs, batch).values())).sum()


def parts(outputs: Outputs) -> dict[str, Tensor]:
    """Return all outputs that have a gradient, by name."""
    tensors = {"logits": outputs.logits, "features": outputs.features}
    tensors |= {f"view {number}": view for number, view in enumerate(outputs.views, start=1)}
    if outputs.latent is not None:
        tensors |= {"latent mean": outputs.latent[0], "latent deviation": outputs.latent[1]}
    if outputs.posterior is not None:
        tensors |= dict(zip(("alpha", "beta", "drawn labels"), outputs.posterior, strict=True))
    if outputs.class_maps is not None:
        tensors["class maps"] = outputs.class_maps
    tensors |= {f"embeddings {number}": part for number, part in enumerate(outputs.embeddings)}
    return tensors if outputs.extra is None else tensors | {"extra": outputs.extra}


def loss_and_gradients(
    objective: Objective, outputs: Outputs, batch: Batch
) -> tuple[Tensor, dict[str, Tensor]]:
    """Return the loss, and its gradient with respect to each of `parts`."""
    leaves = outputs._replace(extra_target=None).map(lambda part: part.detach().clone().requires_grad_())
    leaves = leaves._replace(extra_target=outputs.extra_target)
    loss, tensors = total(objective, leaves, batch), parts(leaves)
    gradients = torch.autograd.grad(loss, list(tensors.values()), allow_unused=True, materialize_grads=True)
    return loss.detach(), dict(zip(tensors, gradients, strict=True))


def assert_same(actual: Tensor, expected: Tensor, what: str, tolerance: float = 1e-9) -> None:
    """Fail if two tensors differ by more than `tolerance`, relative to the largest element."""
    assert actual.shape == expected.shape, f"{what}: shape {tuple(actual.shape)}, not {tuple(expected.shape)}"
    if not expected.numel():
        return
    scale = expected.abs().max().clamp(min=1e-12)
    error = float((actual - expected).abs().max() / scale)
    assert error <= tolerance, f"{what}: largest relative difference {error:.3g}, allowed {tolerance:g}"


# -- checks of the loss and its gradient -----------------------------------------------------------------


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


_DIRECTIONS = 16
"""Random directions, in which all elements of an output move, of its numerical gradient."""


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
        before, along, numerical = part.clone(), [], []
        for _ in range(_DIRECTIONS):
            direction = torch.from_numpy(generator.choice([-1.0, 1.0], part.shape))
            sides = []
            for sign in (1, -1):
                part.copy_(before + sign * step * direction)
                with Frozen(tape, replay=True), torch.no_grad():
                    sides.append(total(objective, outputs, batch))
            along.append((gradients[name] * direction).sum())
            numerical.append((sides[0] - sides[1]) / (2 * step))
        part.copy_(before)
        what = f"gradient ({name}) against a numerical one (detached values are held constant)"
        expected = torch.stack(numerical)
        # Rounding of loss differences is visible where a part has hardly any weight.
        rounding = 1e-10 / expected.abs().max().clamp(min=1e-12).item()
        assert_same(torch.stack(along), expected, what, 1e-6 + rounding)


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


# -- checks of the state, and of the treatment of labels -------------------------------------------------


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
    _known_labels_are_never_contradicted_by_memory,
    _labels_and_outputs_are_not_written_to,
    _index_and_matrix_labels_give_the_same_memory,
    _state_survives_a_checkpoint_in_the_middle_of_an_epoch,
)
