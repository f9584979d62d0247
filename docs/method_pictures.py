"""Effect of a method on one unknown label: loss and gradient as functions of its probability, and a picture.

Everything is computed by calling the method as in training, so that no picture can differ from the code.
"""

from __future__ import annotations

import functools
import io
import re
from typing import Any, NamedTuple

import numpy as np
import torch

from spml.errors import InputError
from spml.labels import ObservedLabels
from spml.methods.base import Batch, Facts, Objective, Outputs, Progress
from spml.methods.registry import methods
from spml.plots.style import COLOURS

METHODS = methods()
SIZE, EPOCHS, MEAN_LABELS = 20, 10, 2.0
PROBABILITIES = tuple(np.linspace(0.001, 0.999, 101).tolist())
COMPARED = "an"
_ROW, _COLUMN = 0, 2


class Curve(NamedTuple):
    """Scaled loss and gradient on one label at several probabilities, in one epoch."""

    loss: np.ndarray
    gradient: np.ndarray


class Setting(NamedTuple):
    """Data that a method accepts.

    Attributes:
        kind: `single`, `negatives` (some negatives are known) or `full`.
        needs_mean_labels: Whether the method needs the mean labels per sample.
        facts: Facts about the training set.
    """

    kind: str
    needs_mean_labels: bool
    facts: Facts


@functools.cache
def setting(name: str) -> Setting:
    """Return the first kind of data that a method with default hyper-parameters accepts."""
    single = np.eye(SIZE, dtype=np.int8)
    negatives = single - np.roll(single, 1, 1)
    names = tuple(str(number) for number in range(SIZE))
    for kind, labels in (("single", single), ("negatives", negatives), ("full", 2 * single - 1)):
        for mean_labels in (None, MEAN_LABELS):
            facts = Facts(ObservedLabels.from_ternary(labels), names, names, mean_labels)
            try:
                METHODS[name]().on_fit_start(facts)
            except InputError:
                continue
            return Setting(kind, mean_labels is not None, facts)
    raise ValueError(f"method {name!r} accepts no data of this script")


def start() -> torch.Tensor:
    """Return the logits (SIZE, SIZE) of the batch: 0.5 for known positives (diagonal), else from -5 to -1."""
    spread = np.arange(1, SIZE**2 + 1) * (np.sqrt(5) - 1) / 2 % 1
    return torch.from_numpy(4 * spread - 5).reshape(SIZE, SIZE).fill_diagonal_(0.5)


@functools.cache
def curves(name: str, probabilities: tuple[float, ...] = PROBABILITIES) -> tuple[Curve, Curve]:
    """Compute loss and gradient of one label at these probabilities, in the first and the last epoch.

    For each probability the method is trained for `EPOCHS` epochs on one batch with constant logits, so that
    schedules advance and memories fill. The curves are scaled so that the gradient on the known positive of
    the same row is -1/2 where that has p = 1/2; the lowest loss is 0.
    """
    facts = setting(name).facts
    known = start()
    known[_ROW, _ROW] = 0
    # In the first epoch, where memories have no influence.
    strength = abs(_epochs(name, facts, known, (_ROW, _ROW))[0][1])
    epochs = []
    for p in probabilities:
        logits = start()
        logits[_ROW, _COLUMN] = float(np.log(p / (1 - p)))
        epochs.append(_epochs(name, facts, logits, (_ROW, _COLUMN)))
    first, last = np.array(epochs).transpose(1, 2, 0) / (2 * strength)
    return Curve(first[0] - first[0].min(), first[1]), Curve(last[0] - last[0].min(), last[1])


def change(first: Curve, last: Curve) -> bool:
    """Return whether the gradient changes between the epochs."""
    return not np.allclose(first.gradient, last.gradient, atol=1e-3 * np.abs(last.gradient).max())


def gradient_is_slope(name: str, step: float = 1e-4) -> bool:
    """Return whether a method's gradient is the derivative of its loss, in both epochs."""
    for p in (0.3, 0.7):
        z = np.log(p / (1 - p)) + np.array([-step, 0, step])
        for curve in curves(name, tuple((1 / (1 + np.exp(-z))).tolist())):
            slope = (curve.loss[2] - curve.loss[0]) / (2 * step)
            if abs(slope - curve.gradient[1]) > 1e-3 * max(abs(slope), 1e-3):
                return False
    return True


@functools.cache
def makes_inputs(name: str) -> bool:
    """Return whether a method with default hyper-parameters needs a further forward pass."""
    objective, facts = METHODS[name](), setting(name).facts
    objective.on_fit_start(facts)
    batch = Batch(facts.observed.target(range(SIZE)), torch.arange(SIZE))
    return _outputs(objective, start(), batch).extra is not None


def _epochs(
    name: str, facts: Facts, logits: torch.Tensor, position: tuple[int, int]
) -> list[tuple[float, float]]:
    """Return the loss and its derivative at `position`, in the first and in the last epoch."""
    torch.manual_seed(0)
    objective = METHODS[name]()
    objective.on_fit_start(facts)
    objective.double()
    batch = Batch(facts.observed.target(range(SIZE)), torch.arange(SIZE))
    z = logits.clone().requires_grad_()
    outputs = _outputs(objective, z, batch)
    results = []
    # Without a memory, an epoch depends on its number alone.
    for epoch in range(EPOCHS) if objective.remembers else (0, EPOCHS - 1):
        progress = Progress(epoch, EPOCHS)
        objective.on_epoch_start(progress)
        if epoch in (0, EPOCHS - 1):
            loss = torch.stack(list(objective(outputs, batch).values())).sum()
            (gradient,) = torch.autograd.grad(loss, z)
            results.append((float(loss.detach()), float(gradient[position])))
        with torch.no_grad():
            objective.after_step(outputs.map(torch.Tensor.detach), batch)
        objective.on_epoch_end(progress, (lambda: logits) if objective.needs.train_pass else None)
    return results


def _outputs(objective: Objective, z: torch.Tensor, batch: Batch) -> Outputs:
    """Complete the outputs: all views have the same logits, a further forward pass those of `start`."""
    needs = objective.needs
    code = torch.zeros(SIZE, 4, dtype=z.dtype)
    outputs = Outputs(
        z,
        torch.zeros(SIZE, 4, dtype=z.dtype),
        views=(z,) * len(needs.views),
        latent=(code, code + 1) if needs.latent else None,
        class_maps=torch.zeros(SIZE, SIZE, 2, 2) if needs.class_maps else None,
    )
    images = torch.zeros(SIZE, 3, 8, 8, dtype=torch.uint8)
    with torch.no_grad():
        extra = objective.extra_inputs(images, outputs._replace(logits=start()), batch)
    if extra is None:
        return outputs
    return outputs._replace(extra=start(), extra_target=extra.target)


# -- pictures --------------------------------------------------------------------------------------------


def picture(name: str) -> str:
    """Draw loss and gradient on one unknown label in the first and the last epoch, next to AN, as SVG."""
    from matplotlib import rc_context

    style = {"svg.hashsalt": name, "svg.fonttype": "none", "font.sans-serif": ["DejaVu Sans", "Arial"]}
    stream = io.StringIO()
    with rc_context(style):
        figure(name).savefig(stream, format="svg", metadata={"Date": None, "Creator": None})
    return _short(stream.getvalue())


def _short(svg: str) -> str:
    """Shorten an SVG: paths in hundredths of a point, no rotations by zero, no indentation."""

    def short_path(path: re.Match[str]) -> str:
        return re.sub(r"\s+L ", " ", re.sub(r"(\.\d\d)\d+", r"\1", path[0]))

    svg = re.sub(r' transform="rotate\(-0 [^"]*"', "", svg)
    return re.sub(r"\n +", "\n", re.sub(r' d="[^"]*"', short_path, svg))


def figure(name: str) -> Any:
    """Draw the picture as a matplotlib figure."""
    from matplotlib.figure import Figure

    first, last = curves(name)
    lines = [(last, COLOURS[0], "-", f"epoch {EPOCHS} of {EPOCHS}")]
    if change(first, last):
        lines.insert(0, (first, COLOURS[1], (0, (4, 2)), "epoch 1"))
    else:
        lines[0] = (*lines[0][:3], "this method")
    result = Figure((7.2, 2.7), layout="constrained", facecolor="white")
    for part, (title, axes) in enumerate(zip(("loss", "gradient dL/dz"), result.subplots(1, 2), strict=True)):
        axes.axhline(0, color="black", linewidth=0.7)
        axes.plot(PROBABILITIES, curves(COMPARED)[0][part], color="#9A9A9A", linewidth=1, label="AN")
        for curve, colour, style, label in lines:
            axes.plot(PROBABILITIES, curve[part], color=colour, linestyle=style, linewidth=1.8, label=label)
        axes.set_xlim(0, 1)
        axes.set_ylim(*_limits([curve[part] for curve, *_ in lines], part))
        axes.set_title(title, fontsize=9.5, loc="left")
        axes.set_xlabel("p of the label", fontsize=9)
        axes.grid(axis="y", color="#DDDDDD", linewidth=0.7)
        axes.set_axisbelow(True)
        axes.tick_params(labelsize=8.5, bottom=False, left=False)
        axes.spines[["top", "left", "right", "bottom"]].set_visible(False)
    handles, labels = axes.get_legend_handles_labels()
    result.legend(
        handles[1:] + handles[:1],
        labels[1:] + labels[:1],
        loc="outside upper right",
        ncols=len(labels),
        frameon=False,
        fontsize=8.5,
    )
    return result


def _limits(values: list[np.ndarray], part: int) -> tuple[float, float]:
    """Return the limits of an axis. A weak method fills the frame and AN leaves it; others share AN's."""
    low, high = min(map(np.min, values)), max(map(np.max, values))
    if part == 0:
        high = min(high, 3.0)
    if max(high, -low) > 0.25 or high == low:
        high = max(high, 1.0)
    return min(low, 0) - 0.06 * (high - low), high + 0.06 * (high - low)
