"""Loss and gradient of a method on one label, unknown or known to be positive, over its probability.

Everything is computed by calling the method as in training, so that no curve can differ from the code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from ..common.errors import InputError
from ..labels import ObservedLabels
from ..methods.base import Batch, Facts, Objective, Outputs, Progress
from ..methods.registry import create

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


def makes_inputs(method: str) -> bool:
    """Whether a method with default hyper-parameters needs a further forward pass."""
    objective, facts = create(method), accepted_setting(method).facts
    objective.on_fit_start(facts)
    batch = Batch(facts.observed.target(range(SIZE)), torch.arange(SIZE))
    return _outputs(objective, start_logits(), batch).extra is not None


def _train(
    objective: Objective,
    facts: Facts,
    logits: torch.Tensor,
    position: tuple[int, int],
    epochs: int,
    show: Sequence[int],
) -> list[tuple[float, float]]:
    """Loss and its derivative at `position`, in the epochs to show."""
    torch.manual_seed(0)
    objective.on_fit_start(facts)
    objective.double()
    batch = Batch(facts.observed.target(range(SIZE)), torch.arange(SIZE))
    z = logits.clone().requires_grad_()
    outputs = _outputs(objective, z, batch)
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


def _outputs(objective: Objective, z: torch.Tensor, batch: Batch) -> Outputs:
    """Complete the outputs: all views have the same logits, a further pass those of `start_logits`."""
    needs = objective.needs
    code, p = torch.zeros(SIZE, 4, dtype=z.dtype), torch.sigmoid(z.detach())
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
    return outputs if extra is None else outputs._replace(extra=start_logits(), extra_target=extra.target)
