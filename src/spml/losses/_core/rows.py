"""Losses of whole rows or columns: what they share, and their evaluation in parts that fit into the cache."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import torch
from torch import Tensor

from .elementwise import Reduction
from .evaluate import computing_dtype, gradient, upcast

LOG_ZERO = -1e30
"""Finite stand-in for log 0, with which a sum over nothing has a gradient of zero instead of NaN."""


def by_label(
    target: Tensor, *, positive: Tensor | float, unknown: Tensor, negative: Tensor | float
) -> Tensor:
    """Select `positive` where the target is +1, `unknown` where it is 0 and `negative` where it is -1.

    Args:
        target: Class indices, int64 of shape (B,), or labels in {-1, 0, +1}, integer of shape (B, C).
        positive, negative: Values of shape (B, C), or a number.
        unknown: Values of shape (B, C).

    Returns:
        Tensor of shape (B, C).
    """
    if target.ndim == 1:
        column = target[:, None]
        if isinstance(positive, Tensor):
            return unknown.scatter(1, column, positive.gather(1, column))
        return unknown.scatter(1, column, positive)
    without_negatives = unknown.where(target != -1, negative)
    return without_negatives.where(target != 1, positive)


def reduce_rows(each: Tensor, reduction: Reduction) -> Tensor:
    """Reduce B losses: `mean`, `sum` or `none`."""
    if reduction == "none":
        return each
    if reduction not in ("mean", "sum"):
        raise ValueError(f"reduction must be 'mean', 'sum' or 'none', got {reduction!r}")
    return each.sum() / max(len(each), 1) if reduction == "mean" else each.sum()


OfPart: TypeAlias = Callable[[Tensor, slice], Tensor]
"""Maps the logits of some rows (or columns), and which ones they are, to one value for each of them."""

# Logits per part. On CPU several times those of `elementwise`, because every part has a graph of its own.
_CHUNK = {"cpu": 1 << 19}
_CHUNK_ELSEWHERE = 1 << 24


def in_parts(function: OfPart, logits: Tensor, dim: int) -> Tensor:
    """Apply a function of whole rows (dim = 0) or whole columns (dim = 1) to a part of them at a time.

    The gradient of a part is computed together with its values, so that memory other than for the gradient
    does not grow with B * C. Logits that fit into one part take the plain way through autograd. Second
    derivatives raise a RuntimeError where there are several parts.

    Args:
        function: Differentiable function of logits in at least float32. A value depends on its own row (or
            column) only.
        logits: Logits of shape (B, C), any floating dtype.
        dim: Dimension that is split.

    Returns:
        Values of shape (B,) or (C,).
    """
    limit = _CHUNK.get(logits.device.type, _CHUNK_ELSEWHERE)
    if logits.numel() <= limit or torch.compiler.is_compiling():
        return function(upcast(logits), slice(None))
    values: Tensor = _InParts.apply(logits, function, dim, max(1, limit // logits.shape[1 - dim]))
    return values


def _sweep(
    logits: Tensor, function: OfPart, dim: int, size: int, with_slope: bool
) -> tuple[Tensor, Tensor | None]:
    """Values of all parts, and the derivative of each with respect to its row or column if `with_slope`."""
    values = []
    slopes = torch.empty_like(logits, dtype=computing_dtype(logits.dtype)) if with_slope else None
    for start in range(0, logits.shape[dim], size):
        place = slice(start, min(start + size, logits.shape[dim]))
        part = upcast(logits.narrow(dim, start, place.stop - start)).detach()
        with torch.set_grad_enabled(with_slope):
            value = function(part.requires_grad_(with_slope), place)
        values.append(value.detach())
        if slopes is not None:
            (slope,) = torch.autograd.grad(value, part, torch.ones_like(value))
            slopes.narrow(dim, start, place.stop - start).copy_(slope)
    return torch.cat(values), slopes


class _InParts(torch.autograd.Function):
    """Values of all parts; the forward pass computes the gradient."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, function: OfPart, dim: int, size: int) -> Tensor:
        ctx.save_for_backward(logits)
        ctx.function, ctx.dim, ctx.size = function, dim, size
        values, ctx.slope = _sweep(logits, function, dim, size, ctx.needs_input_grad[0])
        return values

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None, None, None]:
        (logits,) = ctx.saved_tensors
        # As in `elementwise`: the slope becomes the gradient in place, a second pass computes it again.
        slope, ctx.slope = ctx.slope, None
        if slope is None:
            _, slope = _sweep(logits, ctx.function, ctx.dim, ctx.size, True)
        assert slope is not None
        factor = grad_output.unsqueeze(1 - ctx.dim)
        return gradient(factor, slope, logits), None, None, None
