"""What a method does to one unknown label: loss and gradient against its probability, and a picture of both.

Everything is computed by calling the method as training does, so that no picture can differ from the code.
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
PLACES = tuple(np.linspace(0.001, 0.999, 101).tolist())
COMPARED = "an"
_ROW, _COLUMN = 0, 2


class Curve(NamedTuple):
    """Loss and gradient on one label at some probabilities, in one epoch, both scaled."""

    loss: np.ndarray
    gradient: np.ndarray


class Setting(NamedTuple):
    """Data that a method accepts: `kind` is `single`, `negatives` (some are known) or `full`."""

    kind: str
    needs_mean_labels: bool
    facts: Facts


@functools.cache
def setting(name: str) -> Setting:
    """The first kind of data that a method with its defaults does not refuse."""
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
    raise ValueError(f"method {name!r} refuses all data that this script makes")


def start() -> torch.Tensor:
    """Logits (SIZE, SIZE) of the batch: known positives, on the diagonal, at 0.5, the rest from -5 to -1."""
    spread = np.arange(1, SIZE**2 + 1) * (np.sqrt(5) - 1) / 2 % 1
    return torch.from_numpy(4 * spread - 5).reshape(SIZE, SIZE).fill_diagonal_(0.5)


@functools.cache
def curves(name: str, places: tuple[float, ...] = PLACES) -> tuple[Curve, Curve]:
    """What one label gets from a method at each of these probabilities, in the first and the last epoch.

    The method is trained for `EPOCHS` epochs on one batch whose logits stay as they are, so that schedules
    move and memories fill; then again with another logit of this one label. Scaled so that the gradient on
    the known positive of its row is -1/2 where that has p = 1/2; of the loss, the lowest value is 0.
    """
    facts = setting(name).facts
    known = start()
    known[_ROW, _ROW] = 0
    # In the first epoch, where no memory has an influence.
    strength = abs(_epochs(name, facts, known, (_ROW, _ROW))[0][1])
    found = []
    for p in places:
        logits = start()
        logits[_ROW, _COLUMN] = float(np.log(p / (1 - p)))
        found.append(_epochs(name, facts, logits, (_ROW, _COLUMN)))
    first, last = np.array(found).transpose(1, 2, 0) / (2 * strength)
    return Curve(first[0] - first[0].min(), first[1]), Curve(last[0] - last[0].min(), last[1])


def change(first: Curve, last: Curve) -> bool:
    """Whether an epoch makes a difference."""
    return not np.allclose(first.gradient, last.gradient, atol=1e-3 * np.abs(last.gradient).max())


def gradient_is_slope(name: str, step: float = 1e-4) -> bool:
    """Whether a method's gradient is the derivative of its loss, in both epochs."""
    for p in (0.3, 0.7):
        z = np.log(p / (1 - p)) + np.array([-step, 0, step])
        for curve in curves(name, tuple((1 / (1 + np.exp(-z))).tolist())):
            slope = (curve.loss[2] - curve.loss[0]) / (2 * step)
            if abs(slope - curve.gradient[1]) > 1e-3 * max(abs(slope), 1e-3):
                return False
    return True


@functools.cache
def makes_inputs(name: str) -> bool:
    """Whether a method with its defaults asks for a further forward pass."""
    objective, facts = METHODS[name](), setting(name).facts
    objective.on_fit_start(facts)
    batch = Batch(facts.observed.target(range(SIZE)), torch.arange(SIZE))
    return _outputs(objective, start(), batch).extra is not None


def _epochs(
    name: str, facts: Facts, logits: torch.Tensor, place: tuple[int, int]
) -> list[tuple[float, float]]:
    """Loss, and its derivative for the logit at `place`, in the first and in the last epoch."""
    torch.manual_seed(0)
    objective = METHODS[name]()
    objective.on_fit_start(facts)
    objective.double()
    batch = Batch(facts.observed.target(range(SIZE)), torch.arange(SIZE))
    z = logits.clone().requires_grad_()
    outputs = _outputs(objective, z, batch)
    remembers = any(
        getattr(type(objective), hook) is not getattr(Objective, hook)
        for hook in ("after_step", "on_epoch_end")
    )
    found = []
    # Without a memory, an epoch depends on where training stands alone.
    for epoch in range(EPOCHS) if remembers else (0, EPOCHS - 1):
        progress = Progress(epoch, EPOCHS)
        objective.on_epoch_start(progress)
        if epoch in (0, EPOCHS - 1):
            loss = torch.stack(list(objective(outputs, batch).values())).sum()
            (gradient,) = torch.autograd.grad(loss, z)
            found.append((float(loss.detach()), float(gradient[place])))
        with torch.no_grad():
            objective.after_step(outputs.map(torch.Tensor.detach), batch)
        objective.on_epoch_end(progress, (lambda: logits) if objective.needs.train_pass else None)
    return found


def _outputs(objective: Objective, z: torch.Tensor, batch: Batch) -> Outputs:
    """Every view shows the same logits; a further forward pass is what it is for those of `start`."""
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
    """SVG of loss and gradient on one unknown label in the first and the last epoch, beside AN."""
    from matplotlib import rc_context

    style = {"svg.hashsalt": name, "svg.fonttype": "none", "font.sans-serif": ["DejaVu Sans", "Arial"]}
    stream = io.StringIO()
    with rc_context(style):
        figure(name).savefig(stream, format="svg", metadata={"Date": None, "Creator": None})
    return _short(stream.getvalue())


def _short(svg: str) -> str:
    """The same picture in fewer bytes: paths in hundredths of a point, no turns by zero, no indents."""

    def short_path(path: re.Match[str]) -> str:
        return re.sub(r"\s+L ", " ", re.sub(r"(\.\d\d)\d+", r"\1", path[0]))

    svg = re.sub(r' transform="rotate\(-0 [^"]*"', "", svg)
    return re.sub(r"\n +", "\n", re.sub(r' d="[^"]*"', short_path, svg))


def figure(name: str) -> Any:
    """The picture as a matplotlib figure."""
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
        axes.plot(PLACES, curves(COMPARED)[0][part], color="#9A9A9A", linewidth=1, label="AN")
        for curve, colour, style, label in lines:
            axes.plot(PLACES, curve[part], color=colour, linestyle=style, linewidth=1.8, label=label)
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


def _limits(shown: list[np.ndarray], part: int) -> tuple[float, float]:
    """A weak method fills the frame, which AN then leaves; others share the frame of AN."""
    low, high = min(map(np.min, shown)), max(map(np.max, shown))
    if part == 0:
        high = min(high, 3.0)
    if max(high, -low) > 0.25 or high == low:
        high = max(high, 1.0)
    return min(low, 0) - 0.06 * (high - low), high + 0.06 * (high - low)
