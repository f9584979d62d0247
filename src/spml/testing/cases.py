"""What the checks are made of: a method with data that it accepts, outputs, losses with their gradients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from ..errors import InputError
from ..labels import IntArray, ObservedLabels
from ..methods.base import Batch, Extra, Facts, Objective, Outputs, Progress

SAMPLES, CLASSES, ROWS, WIDTH = 24, 7, 10, 5
PROGRESS = Progress(epoch=3, epochs=8)


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
        objective.on_epoch_start(PROGRESS)
        return objective

    def batch(self) -> Batch:
        """The first samples, in an order that is not that of the data set."""
        return self.batch_of(np.random.default_rng(1).permutation(SAMPLES)[:ROWS])

    def batch_of(self, rows: IntArray) -> Batch:
        """The samples at int64 `rows`, with a seed of their own."""
        return Batch(self.facts.observed.target(rows), torch.from_numpy(rows), int(rows.sum()))

    def labelled(self, observed: ObservedLabels) -> Case:
        """The same method on other labels of the samples."""
        return replace(self, facts=replace(self.facts, observed=observed))

    def accepts(self) -> bool:
        """Whether the method takes these labels."""
        try:
            self.make().on_fit_start(self.facts)
        except InputError:
            return False
        return True

    def with_partial_labels(self) -> list[Case]:
        """This case, and one with positives, negatives and unknown labels if the method takes those."""
        partial = np.random.default_rng(5).choice([-1, 0, 1], (SAMPLES, CLASSES), p=[0.2, 0.6, 0.2])
        other = self.labelled(ObservedLabels.from_ternary(partial))
        return [self, other] if other.accepts() else [self]


def make_case(make: Callable[[], Objective]) -> Case:
    """Data that the method accepts."""
    generator = np.random.default_rng(0)
    single = ObservedLabels.from_index(generator.integers(0, CLASSES, SAMPLES), CLASSES)
    full = ObservedLabels.from_ternary(np.where(generator.random((SAMPLES, CLASSES)) < 0.4, 1, -1))
    ids = tuple(f"sample {row}" for row in range(SAMPLES))
    classes = tuple(f"class {column}" for column in range(CLASSES))
    case = Case(make, Facts(single, ids, classes, mean_labels=2.0))
    return case if case.accepts() else case.labelled(full)


def logits_and_features(rows: int = ROWS, dtype: torch.dtype = torch.float64) -> Outputs:
    """What every model gives, at random."""
    generator = torch.Generator().manual_seed(2)
    logits = 3 * torch.randn(rows, CLASSES, generator=generator, dtype=torch.float64)
    features = torch.randn(rows, WIDTH, generator=generator, dtype=torch.float64)
    return Outputs(logits.to(dtype), features.to(dtype))


def complete(objective: Objective, given: Outputs, batch: Batch) -> Outputs:
    """Logits and features with all else that the objective needs, as the engine gives it to `forward`.

    Everything follows from logits and features element by element, so that a change of them, such as another
    order, is also one of the rest.
    """
    logits, needs = given.logits, objective.needs
    views = tuple(logits + torch.sin((2 + view) * logits) for view in range(len(needs.views)))
    latent = (given.features, torch.exp(given.features / 2)) if needs.latent else None
    given = given._replace(views=views, latent=latent)
    extra = further_inputs(objective, given, batch)
    if extra is None:
        return given
    return given._replace(extra=logits - torch.sin(5 * logits), extra_target=extra.target)


def further_inputs(objective: Objective, given: Outputs, batch: Batch) -> Extra | None:
    """What `extra_inputs` makes of uint8 images if it needs class maps, of features if not."""
    rows, inputs = len(given.logits), given.features.float()
    if objective.needs.class_maps:
        generator = torch.Generator().manual_seed(3)
        inputs = torch.randint(0, 256, (rows, 3, 8, 8), generator=generator, dtype=torch.uint8)
        places = torch.arange(1, 5, dtype=given.logits.dtype).reshape(2, 2)
        given = given._replace(class_maps=torch.sin(given.logits[:, :, None, None] * places))
    with torch.no_grad():
        extra = objective.extra_inputs(inputs, given.map(Tensor.detach), batch)
    assert extra is None or extra.inputs.shape == inputs.shape, "extra_inputs changed the shape of the inputs"
    return extra


def in_agreement(outputs: Outputs) -> Outputs:
    """All views and the further pass say what the logits say, so that nothing draws them together."""
    views = tuple(outputs.logits for _ in outputs.views)
    return outputs._replace(views=views, extra=None if outputs.extra is None else outputs.logits)


def total(objective: Objective, outputs: Outputs, batch: Batch) -> Tensor:
    """The loss."""
    return torch.stack(list(objective(outputs, batch).values())).sum()


def parts(outputs: Outputs) -> dict[str, Tensor]:
    """All outputs that have a gradient, by name."""
    found = {"logits": outputs.logits, "features": outputs.features}
    found |= {f"view {number}": view for number, view in enumerate(outputs.views, start=1)}
    if outputs.latent is not None:
        found |= {"latent mean": outputs.latent[0], "latent deviation": outputs.latent[1]}
    return found if outputs.extra is None else found | {"extra": outputs.extra}


def loss_and_gradients(
    objective: Objective, outputs: Outputs, batch: Batch
) -> tuple[Tensor, dict[str, Tensor]]:
    """The loss, and its gradient with respect to each of `parts`."""
    leaves = outputs._replace(extra_target=None).map(lambda part: part.detach().clone().requires_grad_())
    leaves = leaves._replace(extra_target=outputs.extra_target)
    loss, wanted = total(objective, leaves, batch), parts(leaves)
    found = torch.autograd.grad(loss, list(wanted.values()), allow_unused=True, materialize_grads=True)
    return loss.detach(), dict(zip(wanted, found, strict=True))


def same(found: Tensor, expected: Tensor, what: str, tolerance: float = 1e-9) -> None:
    """Fail where two tensors differ by more than `tolerance`, relative to the largest element."""
    assert found.shape == expected.shape, f"{what}: shape {tuple(found.shape)}, not {tuple(expected.shape)}"
    scale = expected.abs().max().clamp(min=1e-12) if expected.numel() else torch.ones(())
    error = float(((found - expected).abs().max() if expected.numel() else torch.zeros(())) / scale)
    assert error <= tolerance, f"{what}: largest relative difference {error:.3g}, allowed {tolerance:g}"
