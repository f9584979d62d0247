"""One training step as a module: model and objective together, compiled or not, on one process or several."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from ..common.errors import SpmlError
from ..losses import weight_penalty_loss
from ..methods.base import Batch, Objective, Outputs
from .distributed import gather_rows


class TrainingStep(nn.Module):
    """Map inputs and labels to the terms of the loss.

    Model and objective form one module, so that DDP sees the parameters of both.

    Args:
        model: Maps inputs to `Outputs`.
        objective: Maps outputs and labels to terms.
        fabric: Lightning Fabric.
        l1: Weight of sum |w| over the weights of the model.
        l2: Weight of sum w^2 over the weights of the model.
    """

    def __init__(
        self, model: nn.Module, objective: Objective, fabric: Any, *, l1: float = 0.0, l2: float = 0.0
    ) -> None:
        super().__init__()
        self.model, self.objective, self.fabric = model, objective, fabric
        self._penalties = {name: value for name, value in (("l1", l1), ("l2", l2)) if value}
        needs = objective.needs
        self._class_maps = {"class_maps": True} if needs.class_maps else {}
        self._class_maps |= {"trained_maps": True} if needs.trained_maps else {}
        self._has_extra = type(objective).extra_inputs is not Objective.extra_inputs

    def forward(
        self,
        inputs: Tensor,
        views: tuple[Tensor, ...],
        target: Tensor,
        index: Tensor,
        rows: int,
        seed: int = 0,
        regions: Tensor | None = None,
    ) -> tuple[dict[str, Tensor], Outputs]:
        """Compute terms whose gradient, averaged over processes, is that of one process with the whole batch.

        Args:
            inputs, views, target, index: This process's part of the batch.
            rows: Number of rows of the batch over all processes.
            seed: Seed of the step.
            regions: As in `Batch`, of this process's part.
        """
        outputs, batch = self.model(inputs, **self._class_maps), Batch(target, index, seed, regions)
        further = [self.model(view) for view in views]
        outputs = outputs._replace(
            views=tuple(view.logits for view in further),
            embeddings=tuple(part for each in (outputs, *further) for part in each.embeddings),
        )
        if self._has_extra:
            outputs = self._with_extra(inputs, outputs, batch, rows)
        if not self.objective.needs.trained_maps:
            outputs = outputs._replace(class_maps=None)
        if self.objective.needs.batch_coupled:
            terms = self.objective(*gather_batch(self.fabric, outputs, batch, rows, True))
        else:
            share = len(target) * self.fabric.world_size / rows
            terms = self.objective(outputs, batch)
            if share != 1:
                terms = {name: term * share for name, term in terms.items()}
        # Penalties are not scaled by the share: every process has the same weights, so that the mean over
        # processes is one whole penalty.
        for name, value in self._penalties.items():
            terms = terms | {name: weight_penalty_loss(self.model.parameters(), **{name: value})}
        return terms, outputs

    def _with_extra(self, inputs: Tensor, outputs: Outputs, batch: Batch, rows: int) -> Outputs:
        with torch.no_grad():
            arguments = inputs, outputs.map(Tensor.detach), batch
            coupled = self.objective.needs.batch_coupled and self.fabric.world_size > 1
            if coupled:
                all_inputs = gather_rows(self.fabric, inputs, rows, differentiable=False)
                arguments = all_inputs, *gather_batch(self.fabric, outputs, batch, rows, False)
            extra = self.objective.extra_inputs(*arguments)
        if extra is None:
            return outputs
        own = slice(self.fabric.global_rank, None, self.fabric.world_size) if coupled else slice(None)
        logits = self.model(extra.inputs[own]).logits
        return outputs._replace(
            extra=logits, extra_target=None if extra.target is None else extra.target[own]
        )


def gather_batch(
    fabric: Any, outputs: Outputs, batch: Batch, rows: int, differentiable: bool
) -> tuple[Outputs, Batch]:
    """Gather outputs and labels of the whole batch, the same on every process."""
    all_outputs = outputs.map(lambda part: gather_rows(fabric, part, rows, differentiable=differentiable))
    target = gather_rows(fabric, batch.target, rows, differentiable=False)
    index = gather_rows(fabric, batch.index, rows, differentiable=False)
    regions = batch.regions
    if regions is not None:
        regions = gather_rows(fabric, regions, rows, differentiable=False)
    return all_outputs, Batch(target, index, batch.seed, regions)


@contextmanager
def compiled(network: nn.Module) -> Iterator[None]:
    """Compile a network when it is called for the first time. Its parameters and their names stay.

    Args:
        network: Module whose `forward` is called. Copies of it are not compiled.

    Raises:
        SpmlError: The network can't be compiled, or there is no compiler.
    """
    from torch._dynamo.exc import TorchDynamoException  # takes seconds to import

    network.compile()
    try:
        yield
    except TorchDynamoException as error:
        said = " ".join(str(error).partition("Set TORCHDYNAMO_VERBOSE")[0].split())
        raise SpmlError(
            f"torch can't compile the network ({said}): leave out compile=yes, or correct the cause. On "
            "CPU it needs a C++ compiler, such as g++."
        ) from error
