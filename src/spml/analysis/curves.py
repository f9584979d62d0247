"""Loss and gradient of methods on one label, computed by calling them as in training."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from ..common.documents import parse_yaml
from ..common.errors import InputError
from ..common.torch_draws import borrowed_generators
from ..labels import ObservedLabels
from ..methods.base import Batch, Facts, Objective, Outputs, Progress
from ..methods.registry import create
from ..plots.style import add_legend, colours_of, label_axes, single_panel
from .registry import Analysis, register_figure

SIZE, MEAN_LABELS = 20, 2.0
_ROW, _COLUMN = 0, 2

Values = npt.NDArray[np.float64]


class Curves(NamedTuple):
    """Scaled loss and gradient on one label, at P probabilities in E epochs."""

    loss: Values  # shape (E, P); the lowest of an epoch is 0
    gradient: Values  # derivative of the loss with respect to the logit, shape (E, P)


class Setting(NamedTuple):
    """Data that a method accepts: `single`, `negatives` (some are known) or `full`."""

    kind: str
    needs_mean_labels: bool
    facts: Facts


def accepted_setting(method: str, hp: Mapping[str, Any] | None = None) -> Setting:
    """The first kind of data, from single positives to full labels, that a method accepts.

    Raises:
        InputError: The method or a hyper-parameter is unknown, or the method accepts none of them.
    """
    single = np.eye(SIZE, dtype=np.int8)
    negatives = single - np.roll(single, 1, 1)
    names = tuple(str(number) for number in range(SIZE))
    refusal = ""
    for kind, labels in (("single", single), ("negatives", negatives), ("full", 2 * single - 1)):
        for mean_labels in (None, MEAN_LABELS):
            facts = Facts(ObservedLabels.from_ternary(labels), names, names, mean_labels)
            objective = create(method, hp)
            try:
                objective.on_fit_start(facts)
            except InputError as error:
                refusal = str(error)
                continue
            return Setting(kind, mean_labels is not None, facts)
    raise InputError(f"method {method!r} can't be probed on made-up labels: {refusal}")


def probe(
    method: str,
    probabilities: Sequence[float] | Values,
    hp: Mapping[str, Any] | None = None,
    *,
    epochs: int = 10,
    show: Sequence[int] = (1, 10),
    positive: bool = False,
) -> Curves:
    """Compute loss and gradient on one unknown label at several probabilities.

    For each probability the method is trained on one batch with constant logits, so that schedules advance
    and memories fill. The curves are scaled so that the gradient on the known positive of the same row is
    -1/2 where that has p = 1/2: methods that sum and methods that average become comparable.

    Args:
        method: Registered method.
        probabilities: Probabilities of the label, between 0 and 1, P of them.
        hp: Hyper-parameters; the others have their defaults.
        epochs: Epochs of the schedule.
        show: Epochs that are returned, counted from 1, E of them, in ascending order.
        positive: Vary the known positive of the row instead of an unknown label.

    Raises:
        InputError: The method or a hyper-parameter is unknown, or an epoch lies outside the schedule.
    """
    if not show or list(show) != sorted(set(show)) or not 1 <= show[0] <= show[-1] <= epochs:
        raise InputError(
            f"epochs to show must ascend from 1 to {epochs}, the length of the schedule, got {show}"
        )
    facts = accepted_setting(method, hp).facts
    known = start_logits()
    known[_ROW, _ROW] = 0
    # In the first epoch, where memories have no influence.
    strength = abs(_train(create(method, hp), facts, known, (_ROW, _ROW), epochs, (1,))[0][1])
    points = []
    position = (_ROW, _ROW if positive else _COLUMN)
    for p in probabilities:
        logits = start_logits()
        logits[position] = float(np.log(p) - np.log1p(-p))
        points.append(_train(create(method, hp), facts, logits, position, epochs, show))
    loss, gradient = np.array(points).transpose(2, 1, 0) / (2 * strength)
    return Curves(loss - loss.min(axis=1, keepdims=True), gradient)


def start_logits() -> torch.Tensor:
    """Logits (SIZE, SIZE) of the batch: 0.5 for known positives (diagonal), else from -5 to -1."""
    spread = np.arange(1, SIZE**2 + 1) * (np.sqrt(5) - 1) / 2 % 1
    return torch.from_numpy(4 * spread - 5).reshape(SIZE, SIZE).fill_diagonal_(0.5)


def _train(
    objective: Objective,
    facts: Facts,
    logits: torch.Tensor,
    position: tuple[int, int],
    epochs: int,
    show: Sequence[int],
) -> list[tuple[float, float]]:
    """Loss and its derivative at `position`, in the epochs to show."""
    with borrowed_generators(0):
        objective.on_fit_start(facts)
    objective.double()
    batch = Batch(facts.observed.target(range(SIZE)), torch.arange(SIZE))
    z = logits.clone().requires_grad_()
    # Complete the outputs: all views have the same logits, a further pass those of `start_logits`.
    needs, p = objective.needs, torch.sigmoid(logits)
    code = torch.zeros(SIZE, 4, dtype=z.dtype)
    outputs = Outputs(
        z,
        code,
        views=(z,) * len(needs.views),
        latent=(code, code + 1) if needs.latent else None,
        posterior=(torch.ones_like(p), torch.ones_like(p), p) if needs.posterior else None,
        class_maps=torch.zeros(SIZE, SIZE, 2, 2) if needs.class_maps else None,
        embeddings=(code[:, :1, None].expand(-1, SIZE, needs.embedding),) * (1 + len(needs.views))
        if needs.embedding
        else (),
    )
    images = torch.zeros(SIZE, 3, 8, 8, dtype=torch.uint8)
    with torch.no_grad():
        extra = objective.extra_inputs(images, outputs._replace(logits=start_logits()), batch)
    if extra is not None:
        outputs = outputs._replace(extra=start_logits(), extra_target=extra.target)
    results = []
    # Without a memory, an epoch depends on its number alone.
    for epoch in range(show[-1]) if objective.remembers else [number - 1 for number in show]:
        progress = Progress(epoch, epochs)
        objective.on_epoch_start(progress)
        if epoch + 1 in show:
            loss = torch.stack(list(objective(outputs, batch).values())).sum()
            (gradient,) = torch.autograd.grad(loss, z)
            results.append((float(loss.detach()), float(gradient[position])))
        with torch.no_grad():
            objective.after_step(outputs.map(torch.Tensor.detach), batch)
        objective.on_epoch_end(progress, (lambda: logits) if objective.needs.train_pass else None)
    return results


_STYLES = ("-", (0, (5, 2)), (0, (1.5, 1.5)), (0, (6, 1.5, 1, 1.5)))
_RANGE = {"p": (0.001, 0.999), "z": (-8.0, 8.0)}
_LABELS = {"p": "probability p of the label", "z": "logit z of the label"}
_POSITIVE = "known positive"


_Drawn = list[tuple[str, int, Values]]
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
    curves: _Drawn = []
    for q in exponents:
        if not 0 <= q < np.inf:
            raise InputError(f"an exponent q must be a number of at least 0, got {q:g}")
        curves.append((f"q3 = {q:g}", 0, -np.log1p(-p) if q == 0 else -np.expm1(q * np.log1p(-p)) / q))
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
        raise InputError(f"`points` must be at least 2, got {points}")
    low, high = _RANGE[over]
    if over == "p":  # closer together at the ends, where losses are steep
        values = low + (high - low) * (1 - np.cos(np.linspace(0, np.pi, points))) / 2
        return values, np.log(values) - np.log1p(-values)
    values = np.linspace(low, high, points)
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

    def curves_of(positive: bool) -> _Drawn:
        curves: _Drawn = []
        for text in methods:
            name, hp = parse_method(text)
            values = getattr(probe(name, p, hp, epochs=epochs, show=shown, positive=positive), part)
            ends = {key: " to ".join(map(str, v)) if isinstance(v, list) else v for key, v in hp.items()}
            settings = [f"{key} {value}" for key, value in ends.items()]
            label = ", ".join([name, *settings, *([_POSITIVE] if positive else [])])
            curves += [(label, epoch, curve) for epoch, curve in zip(shown, values, strict=True)]
        return curves

    curves, known = curves_of(positive=False), curves_of(positive=True) if positives else []
    if all(np.allclose(known[0][2], values, atol=1e-9) for *_, values in known):
        known = [(_POSITIVE, *curve[1:]) for curve in known[:1]]
    return _frame(curves + known, part, over, p, z)


def _frame(curves: _Drawn, part: str, over: str, p: Values, z: Values) -> Analysis:
    axis = {"p": p, "z": z}[over]
    figure, axes = single_panel(6.4, 3.8, whole=False)
    axes.axhline(0, color="black", linewidth=0.7)
    by_method = {name: [*group] for name, group in itertools.groupby(curves, key=lambda curve: curve[0])}
    for colour, (method, group) in zip(colours_of(by_method), by_method.items(), strict=True):
        epochs = [(epoch, values) for _, epoch, values in group]
        first = epochs[0][1]
        if all(np.allclose(first, v, rtol=1e-6, atol=1e-3 * float(np.abs(v).max())) for _, v in epochs):
            epochs = epochs[:1]
        for style, (epoch, values) in zip(itertools.cycle(_STYLES), reversed(epochs), strict=False):
            label = method if len(epochs) == 1 else f"{method}, epoch {epoch}"
            axes.plot(axis, values, color=colour, linestyle=style, linewidth=1.8, label=label)
    quantity = {"loss": "loss L", "gradient": "gradient dL/dz"}[part]
    positives = any(method.endswith(_POSITIVE) for method, *_ in curves)
    if all(method.startswith("q3 = ") for method, *_ in curves):
        quantity = "loss L3"
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
