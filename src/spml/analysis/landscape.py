"""Loss around the trained weights of runs, along random directions that are scaled filter by filter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional

from ..common.draws import permutation
from ..common.errors import InputError
from ..config import LBFGS
from ..data import Augment, Samples
from ..data.images.image_files import ImageFiles
from ..data.matrix import FeatureMatrix
from ..engine.distributed import make_fabric
from ..engine.loader import Batches, load_batches
from ..engine.predict import compute
from ..engine.step import TrainingStep
from ..methods.base import Batch, Objective, Outputs, Progress
from ..methods.registry import create
from ..plots.style import colours_of, label_axes, new_figure, style_axes
from ..runs.fit.build import start_objective
from ..runs.run import Run
from ..runs.settle.init_from import Start
from ..runs.settle.resolve import Resolved
from .pictures import open_runs, open_training_data
from .registry import Analysis, register_figure

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
            if not config.method:
                raise InputError(
                    f"{run.folder}: its head {config.model.head!r} was solved in closed form, without a "
                    "loss: pass loss=full, or name a run of a method."
                )
            # The method at the end of its schedule, with the state that it had inferred.
            trained = Start(run.folder, run.classifier, run.card)
            method = create(config.method, config.hp)
            objective, outcome = start_objective(Resolved(config, run.spec, data, method, trained))
            assert objective is not None
            if outcome.startswith("not carried"):
                raise InputError(
                    f"{run.folder}: what its method had inferred of the training samples can't be restored "
                    f"({outcome.removeprefix('not carried: ')}). Pass loss=full, restore data and folder, or "
                    "train again."
                )
            objective.on_epoch_start(Progress(config.epochs - 1, config.epochs))
            l1, l2 = config.optim.l1, config.optim.l2
            labels = data.splits["train"].observed
            if config.optim.name == LBFGS:  # which chooses the weight itself
                l2 = run.summary["selected"]["l2"]
        else:
            if "train" not in data.truth:
                raise InputError(
                    f"{config.data.path}: the true labels of the training samples are not known, so there is "
                    "no loss on full labels: pass loss=own."
                )
            if run.scale == "exp":
                raise InputError(
                    f"{run.folder}: gives log-probabilities that compare the classes of a sample, which have "
                    "no binary cross-entropy: pass loss=own, or leave the run out."
                )
            objective, l1, l2, labels = _FullLabels(), 0.0, 0.0, data.truth["train"]
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


_POINTS = {1: 41, 2: 15}
_LEVELS = 16
_LOSSES = {"own": "training loss", "full": "binary cross-entropy on full labels"}


@register_figure(
    "landscape",
    "Loss around the trained weights, along filter-normalised random directions",
    needs="folders of runs, and the data that they were trained on",
)
def landscape(
    runs: Sequence[str | Path],
    *,
    dimensions: Literal[1, 2] = 1,
    loss: Literal["own", "full"] = "full",
    points: int | None = None,
    radius: float = 1.0,
    samples: int = 256,
    seed: int = 0,
) -> Analysis:
    """Draw the loss on training samples around the trained weights of each run, runs side by side.

    A direction has a random Gaussian number for each weight that was trained; each filter (row of a weight
    matrix) of it is scaled to the norm of that filter of the weights. Biases and parameters of normalisation
    do not move. Runs with the same architecture have the same random numbers.

    The model is in evaluation mode and images are not augmented; views of a sample that a loss compares are
    drawn once. A schedule is at its end, and labels that a method has inferred are those of the epoch whose
    weights are kept.

    Args:
        runs: Folders of runs.
        dimensions: Number of directions: 1 draws curves, 2 draws contours.
        loss: `full` is the mean binary cross-entropy on full labels, the same for all runs, so that widths
            compare; it needs the true labels of the training samples. `own` is the loss of each run, as in
            the poster, whose axis reaches below 0; its values are not comparable between methods.
        points: Odd number of points along each direction; 41 in one dimension and 15 in two if None.
        radius: Distance from the trained weights to the ends, in multiples of the scaled direction.
        samples: Number of training samples, drawn at random; 0 = all of them.
        seed: Seed of the directions and of the draw of samples.

    Returns:
        The figure; its table has the columns run, x, y (in two dimensions) and loss.

    Raises:
        InputError: An option is out of its domain, the data of a run can't be opened as in its training, the
            state of its method is missing, its head was solved without a loss, or true labels are missing.

    Source: Li, Xu, Taylor, Studer, Goldstein, "Visualizing the Loss Landscape of Neural Nets", NeurIPS 2018,
    section 4; Zhou et al., "Acknowledging the Unknown for Multi-label Learning with Single Positive Labels",
    ECCV 2022, poster.
    """
    points = _POINTS[dimensions] if points is None else points
    if points < 3 or points % 2 == 0:
        raise InputError(f"`points` must be an odd number of at least 3, got {points}")
    if not 0 < radius < np.inf:
        raise InputError(f"`radius` must be greater than 0, got {radius:g}")
    if samples < 0:
        raise InputError(f"`samples` must be at least 0, got {samples}")
    axis = np.linspace(-radius, radius, points)
    opened, surfaces, notes = open_runs(runs), [], []
    for each in opened:
        around = LossAround(each, loss, samples, seed)
        surfaces.append(around.grid(axis, dimensions, seed))
        centre = surfaces[-1][(points // 2,) * dimensions]
        notes.append(
            f"{each.name}: {centre:.6g} at the trained weights, {around.samples:,} training samples."
        )
    names = [each.name for each in opened]
    draw = _curves if dimensions == 1 else _contours
    figure = draw(names, axis, surfaces, _LOSSES[loss], shared=loss == "full")
    rows = [
        (name, *(float(axis[k]) for k in place), float(value))
        for name, surface in zip(names, surfaces, strict=True)
        for place, value in np.ndenumerate(surface)
    ]
    return Analysis.from_rows(figure, ("run", *"xy"[:dimensions], "loss"), rows, notes)


def _curves(
    names: Sequence[str], axis: Values, surfaces: Sequence[Values], quantity: str, *, shared: bool
) -> Any:
    figure = new_figure(max(2.6 * len(names), 4.0) + 0.3, 3.0)
    panels = figure.subplots(1, len(names), squeeze=False, sharey=shared)[0]
    for number, (axes, name, surface) in enumerate(zip(panels, names, surfaces, strict=True)):
        colour = colours_of(names)[number]
        style_axes(axes, whole=False)
        axes.plot(axis, surface, color=colour, linewidth=1.8)
        axes.plot(0, surface[len(axis) // 2], "o", color=colour, markersize=5)
        label_axes(axes, name, "distance along the direction", "" if number else quantity)
    return figure


def _contours(
    names: Sequence[str], axis: Values, surfaces: Sequence[Values], quantity: str, *, shared: bool
) -> Any:
    from matplotlib.colors import BoundaryNorm
    from matplotlib.ticker import MaxNLocator

    figure = new_figure(3.3 * len(names) + 0.5, 2.9)
    panels = figure.subplots(1, len(names), squeeze=False)[0]
    together = np.concatenate([surface.ravel() for surface in surfaces])
    for axes, name, surface in zip(panels, names, surfaces, strict=True):
        values = together if shared else surface
        # Closer together at the bottom of the valley, which is the interesting part.
        levels = values.min() + (np.ptp(values) or 1) * np.linspace(0, 1, _LEVELS) ** 2
        norm = BoundaryNorm(levels, 256)
        filled = axes.contourf(axis, axis, surface.T, levels=levels, cmap="viridis", norm=norm)
        lines = {"colors": "white", "linestyles": "solid", "linewidths": 0.5, "alpha": 0.7}
        axes.contour(axis, axis, surface.T, levels=levels, **lines)
        axes.plot(0, 0, "o", color="white", markeredgecolor="black", markersize=5)
        axes.set_aspect("equal")
        axes.locator_params(nbins=4)
        axes.tick_params(labelsize=8.5, length=0)
        label_axes(axes, name, "first direction", "second direction")
        # Levels are no round numbers, so that ticks are put between them.
        ticks = MaxNLocator(4).tick_values(levels[0], levels[-1])
        bar = figure.colorbar(filled, ax=axes, fraction=0.046, spacing="proportional", format="%g")
        bar.set_ticks(ticks[(ticks >= levels[0]) & (ticks <= levels[-1])])
        bar.minorticks_off()
        bar.ax.tick_params(labelsize=8, length=0)
        bar.set_label(quantity, fontsize=8.5)
    return figure
