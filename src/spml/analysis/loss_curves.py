"""Curves of losses and gradients on an unknown label, over its probability or its logit."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from ..common.errors import InputError
from ..common.parsing import parse_yaml
from ..plots.style import COLOURS, add_legend, label_axes, single_panel
from .probe import Values, probe
from .registry import Analysis, register_figure

_STYLES = ("-", (0, (5, 2)), (0, (1.5, 1.5)), (0, (6, 1.5, 1, 1.5)))
_RANGE = {"p": (0.001, 0.999), "z": (-8.0, 8.0)}
_LABELS = {"p": "probability p of the label", "z": "logit z of the label"}
_POSITIVE = "known positive"


Curves = list[tuple[str, int, Values]]
"""Method, epoch, and loss or gradient of each curve."""


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
    positives: bool = False,
) -> Analysis:
    """Draw dL/dz on an unknown label over its probability or logit, all methods in one frame.

    Each method is called as in training on a small batch; curves are scaled so that the gradient on a known
    positive with p = 1/2 is -1/2. A value above 0 pushes the probability down.

    Args:
        methods: Methods, with hyper-parameters after a colon, such as `gr:w=[0,10],q3=1.5`.
        over: Horizontal axis: probability `p` or logit `z`.
        epochs: Epochs of the schedules.
        show: Epochs to draw, counted from 1; the first and the last if None. A method whose curves are the
            same is drawn once.
        points: Number of points of a curve.
        positives: Draw the gradient on a known positive, too; once if it is the same for all methods.

    Returns:
        The figure; its table has the columns method, epoch, p, z and gradient. The method of a curve on a
        known positive ends in `, known positive`.

    Raises:
        InputError: A method or hyper-parameter is unknown, or an epoch lies outside the schedule.

    Source: Chen et al., "Boosting Single Positive Multi-label Classification with Generalized Robust Loss",
    Fig. 1b; Zhou et al., "Acknowledging the Unknown for Multi-label Learning with Single Positive Labels",
    gradient regimes.
    """
    return _draw(methods, "gradient", over, epochs, show, points, positives)


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
    exponents = []
    for source in sources:
        with contextlib.suppress(ValueError):
            exponents.append(float(source))
    if not exponents:
        return _draw([*map(str, sources)], "loss", over, epochs, show, points)
    if len(exponents) < len(sources):
        raise InputError("name either exponents or methods, not both in one frame")
    p, z = _axis(over, points)
    curves: Curves = []
    for q in exponents:
        if not 0 <= q < np.inf:
            raise InputError(f"an exponent q must be a number of at least 0, got {q:g}")
        curves.append((f"q = {q:g}", 0, -np.log1p(-p) if q == 0 else -np.expm1(q * np.log1p(-p)) / q))
    return _frame(curves, "loss", over, p, z)


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
    methods: Sequence[str],
    part: str,
    over: str,
    epochs: int,
    show: list[int] | None,
    points: int,
    positives: bool = False,
) -> Analysis:
    shown = [1, epochs] if show is None and epochs > 1 else show or [1]
    p, z = _axis(over, points)

    def curves_of(positive: bool) -> Curves:
        curves: Curves = []
        for text in methods:
            name, hp = parse_method(text)
            values = getattr(probe(name, p, hp, epochs=epochs, show=shown, positive=positive), part)
            label = f"{text}, {_POSITIVE}" if positive else text
            curves += [(label, epoch, curve) for epoch, curve in zip(shown, values, strict=True)]
        return curves

    curves, known = curves_of(positive=False), curves_of(positive=True) if positives else []
    if all(np.allclose(known[0][2], values, atol=1e-9) for *_, values in known):
        known = [(_POSITIVE, *curve[1:]) for curve in known[:1]]
    return _frame(curves + known, part, over, p, z)


def _frame(curves: Curves, part: str, over: str, p: Values, z: Values) -> Analysis:
    axis = {"p": p, "z": z}[over]
    figure, axes = single_panel(6.4, 3.8, whole=False)
    axes.axhline(0, color="black", linewidth=0.7)
    by_method = itertools.groupby(curves, key=lambda curve: curve[0])
    for colour, (method, group) in zip(itertools.cycle(COLOURS), by_method, strict=False):
        epochs = [(epoch, values) for _, epoch, values in group]
        first = epochs[0][1]
        if all(np.allclose(first, v, rtol=1e-6, atol=1e-3 * float(np.abs(v).max())) for _, v in epochs):
            epochs = epochs[:1]
        for style, (epoch, values) in zip(itertools.cycle(_STYLES), reversed(epochs), strict=False):
            label = method if len(epochs) == 1 else f"{method}, epoch {epoch}"
            axes.plot(axis, values, color=colour, linestyle=style, linewidth=1.8, label=label)
    quantity = {"loss": "loss L", "gradient": "gradient dL/dz"}[part]
    positives = any(method.endswith(_POSITIVE) for method, *_ in curves)
    title = f"{quantity} on an unknown label" + positives * ", and on a known positive"
    label_axes(axes, title, _LABELS[over], quantity)
    if part == "loss":
        # The log loss is infinite at the end of the axis, and would leave no room for the others.
        axes.set_ylim(top=min(axes.get_ylim()[1], 3.5))
    add_legend(axes)
    rows = [
        (method, epoch, *point)
        for method, epoch, values in curves
        for point in zip(p.tolist(), z.tolist(), values.tolist(), strict=True)
    ]
    return Analysis.from_rows(figure, ("method", "epoch", "p", "z", part), rows)
