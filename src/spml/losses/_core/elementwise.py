"""One pass over the logits for every loss that is a sum over elements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor

from .point import Point
from .terms import Term, negative_log_loss

Reduction: TypeAlias = Literal["mean", "sum", "none"]

# Elements per pass: on a CPU, what a term needs stays in the cache; elsewhere, few launches.
_CHUNK = {"cpu": 1 << 17}
_CHUNK_ELSEWHERE = 1 << 24


def elementwise(
    logits: Tensor,
    target: Tensor,
    *,
    positive: Term,
    unknown: Term,
    negative: Term = negative_log_loss,
    reduction: Reduction = "mean",
    learned: Sequence[Any] = (),
    beside: Mapping[str, Tensor] | None = None,
) -> Tensor:
    """A loss that is a sum over elements: `positive` where the target is +1, `unknown` where 0, `negative`
    where -1.

    Args:
        logits: (B, C), any floating dtype; computed in float32 at least.
        target: int64 (B,) class index of the one known positive, all else unknown; or integer (B, C) in
            {-1, 0, +1}.
        positive, unknown, negative: terms, see `terms.py`.
        reduction: `mean` over B * C, `sum`, or `none` (B, C).
        learned: what the terms' weights are made of; where one of these is a tensor that requires a gradient,
            the slower way through autograd is taken, so that it gets one.
        beside: constants of shape (B, C) that terms need element by element (soft targets, masks); a term
            finds its part in `x.beside[name]`.

    Returns:
        A scalar, or (B, C) for `none`; float32, or float64 for float64 logits.

    Raises:
        ValueError, TypeError: wrong shape, dtype or range, or an unknown reduction.

    The gradient is computed together with the value, in chunks of rows: memory beyond the gradient does not
    grow with B. It can't be differentiated a second time (and says so when tried).
    """
    check_target(logits, target)
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"reduction must be 'mean', 'sum' or 'none', got {reduction!r}")
    terms = (positive, unknown, negative)
    if any(isinstance(part, Tensor) and part.requires_grad for part in learned):
        # `.data` and not `.detach()`: this cut is ours, not a stop-gradient of the published method.
        loss: Tensor = _Attach.apply(logits, *_evaluate(upcast(logits.data), target, terms, beside))
        loss = loss if reduction == "none" else loss.sum()
    else:
        loss = _Elementwise.apply(logits, target, terms, beside, reduction == "none")
    return loss / max(logits.numel(), 1) if reduction == "mean" else loss


def check_target(logits: Tensor, target: Tensor) -> None:
    """Check shapes and dtypes; on the CPU also the range (elsewhere that would wait for the device), unless
    compiled.

    Raises:
        ValueError, TypeError: the message says what was found and what was expected.
    """
    if logits.ndim != 2 or not logits.is_floating_point():
        raise ValueError(
            f"logits must be floating point of shape (B, C), got {logits.dtype} {tuple(logits.shape)}"
        )
    if target.is_floating_point() or target.is_complex():
        raise TypeError(
            f"target must hold integers (class indices, or -1, 0, +1), got {target.dtype}. "
            "Soft targets are a separate argument of the losses that take them."
        )
    rows, classes = logits.shape
    if target.shape not in ((rows,), (rows, classes)):
        raise ValueError(
            f"target must have shape ({rows},) or ({rows}, {classes}) for logits of shape "
            f"({rows}, {classes}), got {tuple(target.shape)}"
        )
    if target.device.type != "cpu" or target.numel() == 0 or torch.compiler.is_compiling():
        return
    if target.ndim == 1:
        if target.dtype != torch.int64:
            raise TypeError(f"class indices must be int64, got {target.dtype}")
        low, high, bottom, top = *_range(target), 0, classes - 1
    elif target.dtype in (torch.bool, torch.uint8):
        raise TypeError(
            f"a target matrix must be a signed integer type with -1, 0, +1, got {target.dtype}. A label that "
            "is not known is 0, a known negative is -1."
        )
    else:
        low, high, bottom, top = *_range(target), -1, 1
    if low < bottom or high > top:
        raise ValueError(f"target values must lie in {bottom} ... {top}, got {low} ... {high}")


def _range(target: Tensor) -> tuple[int, int]:
    low, high = torch.aminmax(target)
    return int(low), int(high)


def upcast(logits: Tensor) -> Tensor:
    """Half precision becomes float32, in which it is computed; others stay."""
    return logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits


def _evaluate(
    z: Tensor,
    target: Tensor,
    terms: tuple[Term, Term, Term],
    beside: Mapping[str, Tensor] | None,
    out: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Value and slope of each element of (B, C) logits; the slope in `out` if given."""
    positive, unknown, negative = terms
    x = Point(z, beside)
    value, slope = unknown(x)
    if target.ndim == 1:
        place = target[:, None]
        there = {name: part.gather(1, place) for name, part in x.beside.items()}
        value_there, slope_there = positive(Point(z.gather(1, place), there))
        slope = slope.clone() if out is None else out.copy_(slope)
        if any(value is kept for kept in (*vars(x).values(), *x.beside.values())):
            value = value.clone()
        return value.scatter_(1, place, value_there), slope.scatter_(1, place, slope_there)
    signs = target.to(z.dtype)
    for here, term in ((signs.clamp(min=0), positive), (signs.clamp(max=0).neg_(), negative)):
        value_there, slope_there = term(x)
        value, slope = torch.lerp(value, value_there, here), torch.lerp(slope, slope_there, here)
    return value, slope if out is None else out.copy_(slope)


def _in_chunks(
    logits: Tensor,
    target: Tensor,
    terms: tuple[Term, Term, Term],
    beside: Mapping[str, Tensor] | None,
    unreduced: bool,
    with_slope: bool,
) -> tuple[Tensor, Tensor | None]:
    """Sum (or matrix) of the elements' losses, and their slopes if wanted."""
    rows, classes = logits.shape
    size = max(1, _CHUNK.get(logits.device.type, _CHUNK_ELSEWHERE) // max(classes, 1))
    if torch.compiler.is_compiling():
        size = max(rows, 1)  # the compiler makes one pass of all of it
    compute = torch.float64 if logits.dtype == torch.float64 else torch.float32
    # In the computing type: in half precision small slopes would vanish before a loss scale is applied.
    slope = torch.empty_like(logits, dtype=compute) if with_slope else None
    total = torch.zeros((), dtype=compute, device=logits.device)
    matrix = torch.empty(logits.shape, dtype=compute, device=logits.device) if unreduced else None
    for start in range(0, rows, size):
        chunk = slice(start, start + size)
        parts = {name: part[chunk] for name, part in (beside or {}).items()}
        out = None if slope is None else slope[chunk]
        value, _ = _evaluate(upcast(logits[chunk]), target[chunk], terms, parts, out)
        if matrix is not None:
            matrix[chunk] = value
        else:
            total += value.sum()
    return total if matrix is None else matrix, slope


class _Elementwise(torch.autograd.Function):
    """Sum (or matrix) of the elements' losses, with the gradient computed on the way."""

    @staticmethod
    def forward(
        ctx: Any,
        logits: Tensor,
        target: Tensor,
        terms: tuple[Term, Term, Term],
        beside: Mapping[str, Tensor] | None,
        unreduced: bool,
    ) -> Tensor:
        value, ctx.slope = _in_chunks(logits, target, terms, beside, unreduced, ctx.needs_input_grad[0])
        ctx.terms, ctx.beside, ctx.unreduced = terms, beside, unreduced
        ctx.save_for_backward(logits, target)
        return value

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None, None, None, None]:
        logits, target = ctx.saved_tensors
        # The slope becomes the gradient in place: a second tensor of this size would take longer to allocate
        # than the loss takes to compute. A second pass over a retained graph computes it again.
        slope, ctx.slope = ctx.slope, None
        if slope is None:
            _, slope = _in_chunks(logits, target, ctx.terms, ctx.beside, ctx.unreduced, True)
        if torch.is_grad_enabled():
            return _Scale.apply(grad_output, slope, logits), None, None, None, None
        return slope.mul_(grad_output).to(logits.dtype), None, None, None, None


class _Attach(torch.autograd.Function):
    """Give `value` the derivative `slope` with respect to the logits, and keep its own graph."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, value: Tensor, slope: Tensor) -> Tensor:
        ctx.save_for_backward(slope, logits)
        return value.clone()

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, Tensor, None]:
        return _Scale.apply(grad_output, *ctx.saved_tensors), grad_output, None


class _Scale(torch.autograd.Function):
    """The gradient of a loss from its stored slope; refuses a second derivative with a reason."""

    @staticmethod
    def forward(ctx: Any, grad_output: Tensor, slope: Tensor, logits: Tensor) -> Tensor:
        return (grad_output * slope).to(logits.dtype)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> None:
        raise RuntimeError(
            "spml.losses: a second derivative is not supported, because the first is computed in closed form "
            "together with the loss. Do without create_graph=True."
        )
