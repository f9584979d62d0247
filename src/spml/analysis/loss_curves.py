"""Curves of losses and gradients on an unknown label, over its probability or its logit."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from ..common.errors import InputError
from ..common.parsing import parse_yaml
from ..plots.style import COLOURS, add_legend, label_axes, new_figure, style_axes
from .probe import Values, probe
from .registry import register_figure
from .result import Analysis, Column

_STYLES = ("-", (0, (5, 2)), (0, (1.5, 1.5)), (0, (6, 1.5, 1, 1.5)))
_RANGE = {"p": (0.001, 0.999), "z": (-8.0, 8.0)}
_LABELS = {"p": "probability p of the unknown label", "z": "logit z of the unknown label"}


class _Line(NamedTuple):
    """One curve of a frame: loss or gradient of a method in an epoch."""

    method: str
    epoch: int
    values: Values


@register_figure(
    "gradients",
    "Gradient of methods on an unknown label, at several epochs of their schedules",
    needs="methods, such as `em` or `gr:w=[0,10],b=[-2,-8]`",
)
def gradients(
    methods: Sequence[str],
    *,
    over: Literal["p", "z"] = "p",
    epochs: int = 10,
    show: list[int] | None = None,
    points: int = 101,
) -> Analysis:
    """Draw dL/dz on an unknown label over its probability or logit, all methods in one frame.

    Each method is called as in training on a small batch; curves are scaled so that the gradient on a known
    positive with p = 1/2 is -1/2. A positive value pushes the probability down.

    Args:
        methods: Methods, with hyper-parameters after a colon, such as `gr:w=[0,10],q3=1.5`.
        over: Horizontal axis: probability `p` or logit `z`.
        epochs: Epochs of the schedules.
        show: Epochs to draw, counted from 1; the first and the last if None. A method whose curves are the
            same is drawn once.
        points: Number of points of a curve.

    Returns:
        The figure; its table has the columns method, epoch, p, z and gradient.

    Raises:
        InputError: A method or hyper-parameter is unknown, or an epoch lies outside the schedule.

    Source: Chen et al., "Boosting Single Positive Multi-label Classification with Generalized Robust Loss",
    Fig. 1b; Zhou et al., "Acknowledging the Unknown for Multi-label Learning with Single Positive Labels",
    gradient regimes.
    """
    return _draw(methods, "gradient", over, epochs, show, points)


@register_figure(
    "losses",
    "Loss of methods on an unknown label, or L3 of GR for several exponents",
    needs="exponents q3, such as `0.001 0.5 1`, or methods",
)
def losses(
    sources: Sequence[str | float],
    *,
    over: Literal["p", "z"] = "p",
    epochs: int = 10,
    show: list[int] | None = None,
    points: int = 101,
) -> Analysis:
    """Draw the loss on an unknown label over its probability or logit, all curves in one frame.

    Numbers are exponents q: the loss on negatives L3 = (1 - (1 - p)^q) / q, which runs from the log loss at
    q = 0 over the absolute error at q = 1. Methods are drawn as by `gradients`, with the lowest loss at 0.

    Args:
        sources: Exponents, or methods, with hyper-parameters after a colon.
        over: Horizontal axis: probability `p` or logit `z`.
        epochs: Epochs of the schedules of methods.
        show: Epochs of methods to draw, counted from 1; the first and the last if None.
        points: Number of points of a curve.

    Returns:
        The figure; its table has the columns method, epoch, p, z and loss.

    Raises:
        InputError: Numbers and methods are mixed, a number is negative, a method or hyper-parameter is
            unknown, or an epoch lies outside the schedule.

    Source: Chen et al., "Boosting Single Positive Multi-label Classification with Generalized Robust Loss",
    Eq. 14 and Fig. 1a.
    """
    exponents = [_number(source) for source in sources]
    if any(exponent is None for exponent in exponents):
        if any(exponent is not None for exponent in exponents):
            raise InputError("name either exponents or methods, not both in one frame")
        return _draw([str(source) for source in sources], "loss", over, epochs, show, points)
    lines = []
    for q in exponents:
        assert q is not None
        if not 0 <= q < np.inf:
            raise InputError(f"an exponent q must be a number of at least 0, got {q:g}")
        p, _ = _axis(over, points)
        lines.append(_Line(f"q = {q:g}", 0, -np.log1p(-p) if q == 0 else -np.expm1(q * np.log1p(-p)) / q))
    return _frame(lines, "loss", over, points)


def _number(source: str | float) -> float | None:
    try:
        return float(source)
    except ValueError:
        return None


def parse_method(text: str) -> tuple[str, dict[str, Any]]:
    """Split `name:hp=value,hp=value` into the name and the hyper-parameters, whose values are YAML.

    Raises:
        InputError: The part after the colon is not a list of settings.
    """
    name, colon, settings = text.partition(":")
    if not colon:
        return name, {}
    try:
        # A flow mapping of YAML has the same commas and brackets.
        hp = parse_yaml("{" + settings.replace("=", ": ") + "}", text)
    except InputError:
        hp = None
    if not isinstance(hp, dict) or any(value is None for value in hp.values()):
        raise InputError(f"{text!r}: expected NAME:HP=VALUE,HP=VALUE, such as gr:w=[0,10],q3=1.5")
    return name, hp


def _axis(over: str, points: int) -> tuple[Values, Values]:
    """Probabilities and logits along the horizontal axis."""
    if points < 2:
        raise InputError(f"--points must be at least 2, got {points}")
    values = np.linspace(*_RANGE[over], points)
    if over == "p":
        return values, np.log(values) - np.log1p(-values)
    return 1 / (1 + np.exp(-values)), values


def _draw(
    methods: Sequence[str], part: str, over: str, epochs: int, show: list[int] | None, points: int
) -> Analysis:
    shown = [1, epochs] if show is None and epochs > 1 else show or [1]
    probabilities, _ = _axis(over, points)
    lines = []
    for text in methods:
        name, hp = parse_method(text)
        values: Values = getattr(probe(name, probabilities, hp, epochs=epochs, show=shown), part)
        lines += [_Line(text, epoch, curve) for epoch, curve in zip(shown, values, strict=True)]
    return _frame(lines, part, over, points)


def _frame(lines: Sequence[_Line], part: str, over: str, points: int) -> Analysis:
    p, z = _axis(over, points)
    axis = {"p": p, "z": z}[over]
    figure = new_figure(6.4, 3.8)
    axes = figure.subplots()
    style_axes(axes, whole=False)
    axes.axhline(0, color="black", linewidth=0.7)
    for colour, (method, group) in zip(
        itertools.cycle(COLOURS), itertools.groupby(lines, key=lambda line: line.method), strict=False
    ):
        curves = list(group)
        if all(_same(curves[0].values, curve.values) for curve in curves):
            curves = curves[:1]
        for style, line in zip(itertools.cycle(_STYLES), reversed(curves), strict=False):
            label = method if len(curves) == 1 else f"{method}, epoch {line.epoch}"
            axes.plot(axis, line.values, color=colour, linestyle=style, linewidth=1.8, label=label)
    quantity = {"loss": "loss L", "gradient": "gradient dL/dz"}[part]
    label_axes(axes, f"{quantity} on an unknown label", _LABELS[over], quantity)
    if part == "loss":
        # The log loss is infinite at the end of the axis, and would leave no room for the others.
        axes.set_ylim(top=min(axes.get_ylim()[1], 3.5))
    add_legend(axes)
    count = len(lines)
    table: dict[str, Column] = {
        "method": [line.method for line in lines for _ in range(points)],
        "epoch": [line.epoch for line in lines for _ in range(points)],
        "p": np.tile(p, count),
        "z": np.tile(z, count),
        part: np.concatenate([line.values for line in lines]),
    }
    return Analysis(figure, table)


def _same(first: Values, second: Values) -> bool:
    return bool(np.allclose(first, second, rtol=1e-6, atol=1e-3 * float(np.abs(second).max())))
