"""Value and slope of elements, and the gradient that follows from a slope."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import torch
from torch import Tensor

from .terms import Point, Term

Terms: TypeAlias = tuple[Term, Term, Term | None]
"""Terms of known positives, unknown labels and known negatives; None if there are no known negatives."""


NEEDS_ALL_LOGITS = (
    "this loss needs all logits at once, so it can't be computed over chunks of classes (it is not a sum "
    "over elements): compute the logits, and pass them to the loss."
)


def upcast(logits: Tensor) -> Tensor:
    """Convert half precision to float32, in which losses are computed; leave other types unchanged.

    Raises:
        TypeError: The logits are not a tensor, but those of a linear layer in chunks of classes.
    """
    if not isinstance(logits, Tensor):
        raise TypeError(NEEDS_ALL_LOGITS)
    return logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits


def computing_dtype(dtype: torch.dtype) -> torch.dtype:
    """Floating dtype in which the losses of logits of this dtype are computed."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def evaluate(
    z: Tensor, target: Tensor, terms: Terms, constants: Mapping[str, Tensor] | None
) -> tuple[Tensor, Tensor]:
    """Value and slope of each element of (B, C) logits, in two tensors that nothing else uses."""
    positive, unknown, negative = terms
    x = Point(z, constants)
    value, slope = unknown(x)
    if negative is not None:
        value, slope = _overwrite(value, slope, negative, x, target.to(z.dtype).clamp_(max=0).neg_())
    if target.ndim == 2 and (z.device.type != "cpu" or torch.compiler.is_compiling()):
        # Elsewhere, asking where the positives are would wait for the device.
        return _overwrite(value, slope, positive, x, target.to(z.dtype).clamp_(min=0))
    value, slope = _separate(value, slope, x)
    return _at_positives(value, slope, positive, x, target, signed=negative is not None)


def evaluate_columns(
    z: Tensor, first: int, target: Tensor, terms: Terms, constants: Mapping[str, Tensor]
) -> tuple[Tensor, Tensor]:
    """Value and slope of the columns from `first` on, of which `z` and `constants` hold only these.

    Args:
        target: Target for all columns. A class index may lie outside of these columns.
    """
    columns = slice(first, first + z.shape[1])
    if target.ndim == 2:
        return evaluate(z, target[:, columns], terms, constants)
    positive, unknown, _ = terms
    x = Point(z, constants)
    results = _separate(*unknown(x), x)
    # Without asking which rows have their positive here, which would wait for the device.
    place = (target - first)[:, None]
    column = place.clamp(0, z.shape[1] - 1)
    parts = {name: tensor.gather(1, column) for name, tensor in constants.items()}
    for result, known in zip(results, positive(Point(z.gather(1, column), parts)), strict=True):
        result.scatter_(1, column, torch.where(place == column, known, result.gather(1, column)))
    return results


def _separate(value: Tensor, slope: Tensor, x: Point) -> tuple[Tensor, Tensor]:
    """Copy what a term returns where it is one of its inputs, or the same tensor twice."""
    inputs = (x.z, *x.constants.values())
    if any(value is tensor for tensor in inputs):
        value = value.clone()
    if any(slope is tensor for tensor in (value, *inputs)):
        slope = slope.clone()
    return value, slope


def _at_positives(
    value: Tensor, slope: Tensor, positive: Term, x: Point, target: Tensor, signed: bool
) -> tuple[Tensor, Tensor]:
    """Overwrite value and slope with those of `positive` where the target is +1."""
    if target.ndim == 1:
        column = target[:, None]
        constants = {name: tensor.gather(1, column) for name, tensor in x.constants.items()}
        of_positives = positive(Point(x.z.gather(1, column), constants))
        return value.scatter_(1, column, of_positives[0]), slope.scatter_(1, column, of_positives[1])
    place = (target.clamp(min=0) if signed else target).flatten().nonzero().flatten()
    constants = {name: tensor.take(place) for name, tensor in x.constants.items()}
    of_positives = positive(Point(x.z.take(place), constants))
    return value.put_(place, of_positives[0]), slope.put_(place, of_positives[1])


def _overwrite(value: Tensor, slope: Tensor, term: Term, x: Point, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Take value and slope of a term where the mask is 1, and keep them where it is 0."""
    known_value, known_slope = term(x)
    return torch.lerp(value, known_value, mask), torch.lerp(slope, known_slope, mask)


def gradient(factor: Tensor, slope: Tensor, like: Tensor) -> Tensor:
    """Turn a stored slope into a gradient of the type of `like`.

    In place, because allocating a second tensor of this size would take longer than computing the loss.
    """
    if torch.is_grad_enabled():
        scaled: Tensor = Scale.apply(factor, slope, like)
        return scaled
    return slope.mul_(factor).to(like.dtype)


class Scale(torch.autograd.Function):
    """Gradient of a loss from its stored slope; raises an error on a second derivative."""

    @staticmethod
    def forward(ctx: Any, grad_output: Tensor, slope: Tensor, logits: Tensor) -> Tensor:
        return (grad_output * slope).to(logits.dtype)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> None:
        raise RuntimeError(
            "spml.losses: a second derivative is not supported, because the first is computed in closed form "
            "together with the loss. Remove create_graph=True."
        )
