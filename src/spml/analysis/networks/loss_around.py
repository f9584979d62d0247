"""Loss of a finished run on its training samples, as a function of the weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

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
from ...data.images.image_files import ImageFiles
from ...data.matrix import FeatureMatrix
from ...engine.distributed import make_fabric
from ...engine.loader import Batches, load_batches
from ...engine.predict import compute
from ...engine.step import TrainingStep
from ...labels import ObservedLabels
from ...methods.base import Batch, Objective, Outputs, Progress
from ...methods.registry import create
from ...runs.fit.build import start_objective
from ...runs.run import Run
from ...runs.settle.init_from import Start
from ...runs.settle.resolve import Resolved
from .opened import open_training_data

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


class LossAround:
    """Loss of a run on training samples, as a function of the weights that were trained.

    Args:
        run: Run; its weights do not change.
        loss: `own` or `full`, as in `landscape`.
        samples: Number of training samples, drawn at random; 0 = all of them.
        seed: Seed of the draw.

    Attributes:
        weights: The trained weights by name.
        samples: Number of samples.
    """

    def __init__(self, run: Run, loss: str, samples: int, seed: int) -> None:
        config, data = run.settings, open_training_data(run)
        if loss == "own":
            objective, l1, l2 = _own_objective(run, data), config.optim.l1, config.optim.l2
            labels = data.splits["train"].observed
            if config.optim.name == LBFGS:  # which chooses the weight itself
                l2 = run.summary["selected"]["l2"]
        else:
            objective, l1, l2, labels = _FullLabels(), 0.0, 0.0, _full_labels(run, data)
        fabric = make_fabric("auto")
        device = fabric.device
        classifier = run.classifier.to(device).eval()
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
            batches, parts = Batches(range(len(rows)), config.batch_size), []
            loading = load_batches(chosen.inputs, batches, device)
            for numbers, loaded in zip(batches, compute(classifier.backbone, loading, device), strict=True):
                if isinstance(chosen.inputs, ImageFiles):
                    chosen.inputs.check_readable(numbers, loaded)
                parts.append(loaded.values)
            chosen = replace(chosen, inputs=FeatureMatrix(torch.cat(parts).cpu().numpy()))
        self._pieces: list[tuple[Tensor, tuple[Tensor, ...], Batch]] = []
        for start in range(0, len(rows), config.batch_size):
            part = range(start, min(start + config.batch_size, len(rows)))
            views = tuple(
                chosen.inputs.fetch(part, Augment(config.seed, 0, number, strength)).to(device)
                for number, strength in enumerate(objective.needs.views, start=1)
            )
            index = torch.from_numpy(rows[part.start : part.stop]).to(device)
            batch = Batch(chosen.observed.target([*part]).to(device), index, config.seed)
            self._pieces.append((chosen.inputs.fetch(part, None).to(device), views, batch))

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


def _own_objective(run: Run, data: Dataset) -> Objective:
    """Method of a run at the end of its schedule, with the state that it had inferred."""
    config, folder = run.settings, run.folder
    if not config.method:
        raise InputError(
            f"{folder}: its head {config.model.head!r} was solved in closed form, without a loss: pass "
            "--loss full, or name a run of a method."
        )
    start = Start(folder, run.classifier, run.card)
    with torch.random.fork_rng():
        objective, outcome = start_objective(
            Resolved(config, run.spec, data, create(config.method, config.hp), start)
        )
    assert objective is not None
    if outcome.startswith("not carried"):
        raise InputError(
            f"{folder}: what its method had inferred of the training samples can't be restored "
            f"({outcome.removeprefix('not carried: ')}). Pass --loss full, restore data and folder, or "
            "train again."
        )
    objective.on_epoch_start(Progress(config.epochs - 1, config.epochs))
    return objective


def _full_labels(run: Run, data: Dataset) -> ObservedLabels:
    """True labels of the training samples."""
    if "train" not in data.truth:
        raise InputError(
            f"{run.settings.data.path}: the true labels of the training samples are not known, so there "
            "is no loss on full labels: pass --loss own."
        )
    if run.scale == "exp":
        raise InputError(
            f"{run.folder}: gives log-probabilities that compare the classes of a sample, which have "
            "no binary cross-entropy: pass --loss own, or leave the run out."
        )
    return data.truth["train"]
