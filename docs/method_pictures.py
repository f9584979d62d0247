"""Picture of the effect of a method on one unknown label: loss and gradient over its probability."""

from __future__ import annotations

import functools
import io
import re
from typing import Any, NamedTuple

import numpy as np

from spml.analysis.curves import Setting, accepted_setting, probe
from spml.methods.registry import methods
from spml.plots.style import COLOURS

METHODS = methods()
EPOCHS = 10
PROBABILITIES = tuple(np.linspace(0.001, 0.999, 101).tolist())
COMPARED = "an"
LOSS, GRADIENT = (-0.15, 3.2), (-1.1, 1.3)
"""Limits of the axes, the same in all pictures."""
MAGNIFIED = (4, 10, 40, 100, 400)
"""Factors by which a weak gradient is drawn again; at least 4, so that there is something to see."""

_INSTEAD = (
    "Where p is below that of the corrected labels, another label of the batch is corrected in its place.",
    "Its loss is part of the curve, which is why the curve does not start at 0.",
)
REMARKS = {"ll_ct": _INSTEAD, "ll_cp": _INSTEAD}
"""What a reader of a picture would stumble over."""


class Curve(NamedTuple):
    """Scaled loss and gradient on one label at several probabilities, in one epoch."""

    loss: np.ndarray
    gradient: np.ndarray


@functools.cache
def setting(name: str) -> Setting:
    """Return the first kind of data that a method with default hyper-parameters accepts."""
    return accepted_setting(name)


@functools.cache
def curves(name: str, probabilities: tuple[float, ...] = PROBABILITIES) -> tuple[Curve, Curve]:
    """Compute loss and gradient of one label at these probabilities, in the first and the last epoch."""
    both = probe(name, probabilities, epochs=EPOCHS, show=(1, EPOCHS))
    first, last = (Curve(*parts) for parts in zip(both.loss, both.gradient, strict=True))
    return first, last


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
    """Shorten an SVG: paths in tenths of a point, no rotations by zero, no indentation."""

    def short_path(path: re.Match[str]) -> str:
        return re.sub(r"\s+L ", " ", re.sub(r"(\.\d)\d+", r"\1", path[0]))

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
    factor = magnification([curve.gradient for curve, *_ in lines])
    result = Figure((9.6 if factor else 7.2, 2.7), layout="constrained", facecolor="white")
    panels = result.subplots(1, 3 if factor else 2)
    for axes, (title, part, scale) in zip(
        panels,
        (("loss", 0, 1), ("gradient dL/dz", 1, 1), (f"gradient, {factor} times larger", 1, factor)),
        strict=False,
    ):
        axes.axhline(0, color="black", linewidth=0.7)
        axes.plot(PROBABILITIES, scale * curves(COMPARED)[0][part], color="#9A9A9A", linewidth=1, label="AN")
        for curve, colour, style, label in lines:
            drawn = scale * curve[part]
            axes.plot(PROBABILITIES, drawn, color=colour, linestyle=style, linewidth=1.8, label=label)
        axes.set_ylim(*(LOSS, GRADIENT)[part])
        axes.set_xlim(0, 1)
        steepest = scale * max(curve.gradient.max() for curve, *_ in lines)
        if part == 1 and steepest > GRADIENT[1]:
            text, place = f"\N{UPWARDS ARROW} {steepest:.2g}", {"ha": "center", "va": "top"}
            axes.text(0.5, 0.99, text, fontsize=8.5, transform=axes.transAxes, **place)
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


def magnification(gradients: list[np.ndarray]) -> int:
    """Return the factor by which a weak gradient is drawn again; 0 for one that is strong, or none at all."""
    largest = max(np.abs(gradient).max() for gradient in gradients)
    fitting = [factor for factor in MAGNIFIED if factor * largest <= GRADIENT[1]]
    return fitting[-1] if fitting and largest > 0 else 0
