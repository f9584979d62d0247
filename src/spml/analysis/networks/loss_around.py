"""Loss of a finished run on its training samples, as a function of the weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional

from ...common.draws import permutation
from ...common.errors import InputError
from ...config import LBFGS
from ...data import Augment, Dataset, Samples
from ...data.matrix import FeatureMatrix
from ...engine.distributed import make_fabric
from ...engine.step import TrainingStep
from ...methods.base import Batch, Objective, Outputs, Progress
from ...methods.registry import create
from ...models import LOG_SOFTMAX
from ...models.spec import read_json
from ...runs.fit.build import start_objective
from ...runs.folder import layout as run_files
from ...runs.settle.init_from import Start
from ...runs.settle.resolve import Resolved
from .opened import OpenedRun, open_training_data

Weights = Mapping[str, Tensor]
Values = npt.NDArray[np.float64]

_MODEL = "model."  # name of the model in a training step


def filter_normalised(weights: Weights, generator: torch.Generator) -> dict[str, Tensor]:
    """Draw a random direction whose filters have the norms of those of the weights.

    Args:
        weights: Weights by name. A filter is an entry of the first dimension of a weight of at least two; the
            direction is 0 for vectors, which are biases and parameters of normalisation.
        generator: Random state on the CPU.
    """
    direction = {}
    for name, weight in weights.items():
        drawn = torch.randn(weight.shape, generator=generator).to(weight)
        if weight.ndim < 2:
            direction[name] = torch.zeros_like(weight)
            continue
        norms = [tensor.flatten(1).norm(dim=1) for tensor in (weight, drawn)]
        scale = norms[0] / norms[1].clamp(min=torch.finfo(weight.dtype).tiny)
        direction[name] = drawn * scale.reshape(-1, *[1] * (weight.ndim - 1))
    return direction


class _FullLabels(Objective):
    """Mean binary cross-entropy on full labels."""

    def forward(self, outputs: Outputs, batch: Batch) -> dict[str, Tensor]:
        truth = (batch.target == 1).to(outputs.logits.dtype)
        return {"loss": functional.binary_cross_entropy_with_logits(outputs.logits, truth)}


class _Selected(msgspec.Struct):
    l2: float


class _Summary(msgspec.Struct):
    """The part of summary.json that says how a path was penalised."""

    selected: _Selected


class _Piece(NamedTuple):
    """Inputs of one training step."""

    inputs: Tensor
    views: tuple[Tensor, ...]
    batch: Batch


class LossAround:
    """Loss of a run on training samples, as a function of the weights that were trained.

    Args:
        opened: Run; its weights do not change.
        loss: `own` or `full`, as in `landscape`.
        samples: Number of training samples, drawn at random; 0 = all of them.
        seed: Seed of the draw.

    Attributes:
        weights: The trained weights by name.
        samples: Number of samples.

    Raises:
        InputError: As in `landscape`.
    """

    def __init__(self, opened: OpenedRun, loss: str, samples: int, seed: int) -> None:
        config, data = opened.config, open_training_data(opened)
        if loss == "own":
            objective = _own_objective(opened, data)
            l1, l2 = config.optim.l1, _l2(opened)
            labels = data.splits["train"].observed
        else:
            truth = data.truth.get("train")
            _check_full(opened, truth)
            assert truth is not None
            objective, l1, l2, labels = _FullLabels(), 0.0, 0.0, truth
        fabric = make_fabric("auto")
        device = fabric.device
        classifier = opened.classifier.to(device).eval()
        frozen = config.model.frozen == "yes"
        model: nn.Module = classifier.top if frozen else classifier
        self._step = TrainingStep(model, objective.to(device), fabric, l1=l1, l2=l2).eval()
        self.weights = {
            name: parameter.detach()
            for name, parameter in self._step.named_parameters()
            if name.startswith(_MODEL)
        }
        train = data.splits["train"]
        rows = permutation(len(train), "landscape", seed)
        rows = np.sort(rows[:samples] if samples else rows)
        self.samples = len(rows)
        chosen = Samples(tuple(train.ids[row] for row in rows), train.inputs.take(rows), labels.take(rows))
        if frozen:
            chosen = replace(chosen, inputs=_features(opened, chosen, config.batch_size, device))
        self._pieces = [
            _piece(
                chosen, rows, start, min(start + config.batch_size, len(rows)), objective, config.seed, device
            )
            for start in range(0, len(rows), config.batch_size)
        ]

    @torch.no_grad()
    def at(self, weights: Weights) -> float:
        """Loss at some weights, which have the names of `self.weights`: the mean over the samples."""
        # Penalties count what can be trained.
        weights = {name: weight.detach().requires_grad_() for name, weight in weights.items()}
        total = 0.0
        for number, (inputs, views, batch) in enumerate(self._pieces):
            arguments = (inputs, views, batch.target, batch.index, len(inputs), batch.seed + number)
            terms, _ = functional_call(self._step, weights, arguments)
            total += len(inputs) * float(torch.stack(list(terms.values())).sum())
        return total / self.samples

    def grid(self, axis: Values, dimensions: int, seed: int) -> Values:
        """Losses at the points of an axis along one direction, or of a grid of two; first index = x."""
        generator = torch.Generator().manual_seed(seed)
        directions = [filter_normalised(self.weights, generator) for _ in range(dimensions)]
        losses = np.empty((len(axis),) * dimensions)
        for position in np.ndindex(losses.shape):
            moved = {
                name: weight
                + sum(float(axis[i]) * d[name] for i, d in zip(position, directions, strict=True))
                for name, weight in self.weights.items()
            }
            losses[position] = self.at(moved)
        return losses


def _own_objective(opened: OpenedRun, data: Dataset) -> Objective:
    """Method of a run at the end of its schedule, with the state that it had inferred."""
    config, folder = opened.config, opened.run.folder
    if not config.method:
        raise InputError(
            f"{folder}: its head {config.model.head!r} was solved in closed form, without a loss: pass "
            "--loss full, or name a run of a method."
        )
    resolved = Resolved(config, opened.run.spec, data, create(config.method, config.hp), None)
    with torch.random.fork_rng():
        objective = start_objective(resolved, data)
    assert objective is not None
    outcome = Start(folder, opened.classifier, opened.run.card).carry(
        objective, config.method, data.splits["train"]
    )
    if outcome.startswith("not carried"):
        raise InputError(
            f"{folder}: what its method had inferred of the training samples can't be restored "
            f"({outcome.removeprefix('not carried: ')}). Pass --loss full, restore data and folder, or "
            "train again."
        )
    objective.on_epoch_start(Progress(config.epochs - 1, config.epochs))
    return objective


def _l2(opened: OpenedRun) -> float:
    """Weight of the squared weights in the loss, which L-BFGS chooses itself."""
    if opened.config.optim.name != LBFGS:
        return opened.config.optim.l2
    return read_json(opened.run.folder / run_files.SUMMARY, _Summary, "Train again.").selected.l2


def _check_full(opened: OpenedRun, truth: object) -> None:
    if truth is None:
        raise InputError(
            f"{opened.config.data.path}: the true labels of the training samples are not known, so there "
            "is no loss on full labels: pass --loss own."
        )
    if opened.classifier.top.scores == LOG_SOFTMAX:
        raise InputError(
            f"{opened.run.folder}: gives log-probabilities that compare the classes of a sample, which have "
            "no binary cross-entropy: pass --loss own, or leave the run out."
        )


@torch.inference_mode()
def _features(opened: OpenedRun, samples: Samples, batch_size: int, device: torch.device) -> FeatureMatrix:
    """Features of a frozen backbone."""
    backbone = opened.classifier.backbone
    parts = [
        backbone(samples.inputs.fetch(range(start, min(start + batch_size, len(samples))), None).to(device))
        for start in range(0, len(samples), batch_size)
    ]
    return FeatureMatrix(torch.cat(parts).float().cpu().numpy())


def _piece(
    samples: Samples,
    rows: npt.NDArray[np.int64],
    start: int,
    stop: int,
    objective: Objective,
    seed: int,
    device: torch.device,
) -> _Piece:
    """Inputs and labels of one step; `rows` are the positions of all samples in the training set."""
    chosen = range(start, stop)
    views = [
        samples.inputs.fetch(chosen, Augment(seed, 0, number, strength)).to(device)
        for number, strength in enumerate(objective.needs.views, start=1)
    ]
    target, index = samples.observed.target(list(chosen)), torch.from_numpy(rows[start:stop])
    inputs = samples.inputs.fetch(chosen, None)
    return _Piece(inputs.to(device), tuple(views), Batch(target.to(device), index.to(device), seed))
