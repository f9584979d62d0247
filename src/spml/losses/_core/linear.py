"""Losses over chunks of classes of a linear layer, whose logits never exist as a whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import torch
from torch import Tensor
from torch.nn import functional

from .evaluate import NEEDS_ALL_LOGITS, Terms, computing_dtype, evaluate_columns, gradient, upcast

# Logits per chunk: as for `elementwise`, and enough of them for an efficient matrix product.
_CHUNK = {"cpu": 1 << 17}
_CHUNK_ELSEWHERE = 1 << 24
_FEWEST_COLUMNS = 256


class LinearLogits:
    """Logits features @ weight.T + bias, of which `elementwise` computes some columns at a time.

    It takes the place of the tensor of logits in a loss. Whatever else is done with it raises an error.

    Args:
        features: Features of shape (B, D).
        weight: Weights of shape (C, D).
        bias: Biases of shape (C,), or None.
        chunk: Number of columns that are computed at a time; None = as many as suit the device.
        dtype: Floating dtype in which matrix products are computed.
    """

    ndim = 2

    def __init__(
        self, features: Tensor, weight: Tensor, bias: Tensor | None, chunk: int | None, dtype: torch.dtype
    ) -> None:
        self.features, self.weight, self.bias, self.dtype = features, weight, bias, dtype
        self.shape, self.device = torch.Size((len(features), len(weight))), features.device
        limit = _CHUNK.get(self.device.type, _CHUNK_ELSEWHERE)
        self.chunk = chunk or max(_FEWEST_COLUMNS, limit // max(len(features), 1))

    def is_floating_point(self) -> bool:
        return self.dtype.is_floating_point

    def numel(self) -> int:
        return self.shape.numel()

    def __getattr__(self, name: str) -> NoReturn:
        raise TypeError(NEEDS_ALL_LOGITS)

    @classmethod
    def __torch_function__(cls, *args: Any, **kwargs: Any) -> NoReturn:
        raise TypeError(NEEDS_ALL_LOGITS)


def linear_elementwise(
    logits: LinearLogits,
    target: Tensor,
    terms: Terms,
    constants: Mapping[str, Tensor] | None,
    reduction: str,
    learned: Sequence[Any],
) -> Tensor:
    """`elementwise` for the logits of a linear layer.

    Raises:
        ValueError: The losses are not reduced, or parameters of the terms are learned or differ by class.
    """
    if reduction == "none":
        raise ValueError("reduction must be 'mean' or 'sum' over chunks of classes, got 'none'")
    if any(isinstance(part, Tensor) and (part.requires_grad or part.numel() > 1) for part in learned):
        raise ValueError(
            "parameters of the loss that are learned, or differ by class, can't be used over chunks of "
            "classes: compute the logits, and pass them to the loss."
        )
    count = max(logits.numel(), 1) if reduction == "mean" else 1
    constants = constants or {}
    if not torch.is_grad_enabled():
        # A function of autograd is not told so, and would compute the gradients of trainable weights.
        return _sweep(logits, target, terms, constants, (False, False, False))[0].div_(count)
    tensors = logits.features, logits.weight, logits.bias
    loss: Tensor = _LinearElementwise.apply(*tensors, logits, target, terms, constants, count)
    return loss


@torch.no_grad()
def _sweep(
    logits: LinearLogits,
    target: Tensor,
    terms: Terms,
    constants: Mapping[str, Tensor],
    wanted: Sequence[bool],
) -> tuple[Tensor, list[Tensor | None]]:
    """Sum of all losses, and its gradients with respect to features, weight and bias where `wanted`."""
    features, weight, bias, dtype = logits.features, logits.weight, logits.bias, logits.dtype
    compute, rows = computing_dtype(dtype), features.to(dtype)
    total = torch.zeros((), dtype=compute, device=logits.device)
    of_features = torch.zeros_like(features, dtype=compute) if wanted[0] else None
    of_weight = torch.empty_like(weight, dtype=compute) if wanted[1] else None
    of_bias = torch.empty_like(bias, dtype=compute) if bias is not None and wanted[2] else None
    with torch.autocast(logits.device.type, enabled=False):
        for first in range(0, len(weight), logits.chunk):
            columns = slice(first, first + logits.chunk)
            part = weight[columns].to(dtype)
            z = functional.linear(rows, part, None if bias is None else bias[columns].to(dtype))
            parts = {name: tensor[:, columns] for name, tensor in constants.items()}
            value, slope = evaluate_columns(upcast(z), first, target, terms, parts)
            total += value.sum()
            if of_bias is not None:
                of_bias[columns] = slope.sum(0)
            # Slopes of single losses: divided by their number, they would vanish in half precision.
            slope = slope.to(dtype)
            if of_features is not None:
                of_features += slope @ part
            if of_weight is not None:
                of_weight[columns] = slope.T @ rows
    return total, [of_features, of_weight, of_bias]


class _LinearElementwise(torch.autograd.Function):
    """Sum of the losses of all logits over `count`; the forward pass computes the gradients."""

    @staticmethod
    def forward(
        ctx: Any,
        features: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        logits: LinearLogits,
        target: Tensor,
        terms: Terms,
        constants: Mapping[str, Tensor],
        count: int,
    ) -> Tensor:
        ctx.save_for_backward(features, weight, bias, target)
        ctx.logits, ctx.terms, ctx.constants, ctx.count = logits, terms, constants, count
        total, ctx.gradients = _sweep(logits, target, terms, constants, ctx.needs_input_grad)
        return total.div_(count)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
        *inputs, target = ctx.saved_tensors
        # As in `elementwise`: gradients are scaled in place, and a second backward pass recomputes them.
        slopes, ctx.gradients = ctx.gradients, None
        if slopes is None:
            _, slopes = _sweep(ctx.logits, target, ctx.terms, ctx.constants, ctx.needs_input_grad)
        factor = grad_output / ctx.count
        pairs = zip(slopes, inputs, strict=True)
        scaled = [None if slope is None else gradient(factor, slope, like) for slope, like in pairs]
        return *scaled, None, None, None, None, None
