"""Building blocks of the checks: a method with data that it accepts, outputs, losses and their gradients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from ..common.errors import InputError
from ..common.torch_draws import borrowed_generators
from ..labels import IntArray, ObservedLabels
from ..methods.base import Batch, Extra, Facts, Objective, Outputs, Progress

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
