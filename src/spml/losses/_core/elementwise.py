"""Losses that are sums over elements, evaluated in one pass over the logits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor

from .evaluate import Scale, Terms, computing_dtype, evaluate, gradient, upcast
from .linear import LinearLogits, linear_elementwise
from .terms import Term, negative_eps_loss, negative_log_loss, positive_eps_loss

Reduction: TypeAlias = Literal["mean", "sum", "none"]

# Elements per chunk: on CPU, intermediate results stay in the cache; elsewhere, few kernels are launched.
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
    constants: Mapping[str, Tensor] | None = None,
) -> Tensor:
    """Sum over elements of `positive` where the target is +1, `unknown` where it is 0, `negative` where -1.

    The gradient is computed together with the value, in chunks of rows: memory other than for the gradient
    does not grow with B. Second derivatives are not supported and raise a RuntimeError.

    Args:
        logits: Logits of shape (B, C), any floating dtype; computed in at least float32. `LinearLogits` are
            computed here, some classes at a time.
        target: Class index of the one known positive, int64 of shape (B,), all other labels being unknown; or
            labels in {-1, 0, +1}, integer of shape (B, C).
        positive, unknown, negative: Terms, see `terms.py`.
        reduction: Reduction of the losses: `mean` over B * C, `sum`, or `none`.
        learned: Parameters of the terms' weights. If one is a tensor that requires a gradient, a slower path
            through autograd computes it.
        constants: Tensors of shape (B, C) that terms use element by element (soft targets, masks), by name; a
            term finds the values of its elements in `x.constants[name]`.

    Returns:
        Scalar, or shape (B, C) for `none`; float32, or float64 for float64 logits.

    Raises:
        ValueError, TypeError: Wrong shape, dtype or range, or an unknown reduction.
    """
    fused = isinstance(logits, LinearLogits)
    # A class index out of range fails in `gather`, at no cost. Over chunks of classes it would not fail.
    negatives = check_target(logits, target, in_range=fused or target.ndim == 2)
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"reduction must be 'mean', 'sum' or 'none', got {reduction!r}")
    terms = (positive, unknown, negative if negatives else None)
    if isinstance(logits, LinearLogits):
        return linear_elementwise(logits, target, terms, constants, reduction, learned)
    try:
        if any(isinstance(part, Tensor) and part.requires_grad for part in learned):
            # `.data` and not `.detach()`: this is part of our computation, not a stop-gradient of the method.
            loss: Tensor = _Attach.apply(logits, *evaluate(upcast(logits.data), target, terms, constants))
            loss = loss if reduction == "none" else loss.sum()
            return loss / max(logits.numel(), 1) if reduction == "mean" else loss
        loss = _Elementwise.apply(logits, target, terms, constants, reduction)
    except RuntimeError:
        check_target(logits, target)
        raise
    return loss


def log_losses(
    logits: Tensor,
    target: Tensor,
    unknown: Term,
    *,
    eps: float = 0.0,
    reduction: Reduction = "mean",
    constants: Mapping[str, Tensor] | None = None,
) -> Tensor:
    """`elementwise` with l+ on known positives, l- on known negatives, and `eps` inside the logarithms."""
    return elementwise(
        logits,
        target,
        positive=positive_eps_loss(eps),
        unknown=unknown,
        negative=negative_eps_loss(eps),
        reduction=reduction,
        constants=constants,
    )


def check_target(logits: Tensor, target: Tensor, *, in_range: bool = True) -> bool:
    """Check shapes and dtypes of logits and target, and the range of the target if `in_range`.

    The range is checked on CPU only, because it would wait for another device, and not in compiled code.

    Returns:
        Whether known negatives are possible: False for class indices, and where the range was checked and
        none was found.

    Raises:
        ValueError, TypeError: A check failed; the message states what was found and what was expected.
    """
    if logits.ndim != 2 or not logits.is_floating_point():
        raise ValueError(
            f"logits must be floating point of shape (B, C), got {logits.dtype} {tuple(logits.shape)}"
        )
    if target.is_floating_point() or target.is_complex():
        raise TypeError(
            f"target must hold integers (class indices, or -1, 0, +1), got {target.dtype}: pass "
            "target.long() if it holds 0 for unknown and 1 for known labels. Soft targets are a separate "
            "argument of the losses that take them."
        )
    rows, classes = logits.shape
    if target.shape not in ((rows,), (rows, classes)):
        raise ValueError(
            f"target must have shape ({rows},) or ({rows}, {classes}) for logits of shape "
            f"({rows}, {classes}), got {tuple(target.shape)}"
        )
    if target.device.type != "cpu" or target.numel() == 0 or torch.compiler.is_compiling():
        return target.ndim == 2
    if target.ndim == 1:
        if target.dtype != torch.int64:
            raise TypeError(f"class indices must be int64, got {target.dtype}: pass target.long()")
        if not in_range:
            return False
    elif target.dtype in (torch.bool, torch.uint8):
        raise TypeError(
            f"a target matrix must be of a signed integer type with -1, 0, +1, got {target.dtype}: pass "
            "target.long(). An unknown label is 0, a known negative is -1."
        )
    bottom, top = (0, classes - 1) if target.ndim == 1 else (-1, 1)
    low, high = map(int, torch.aminmax(target))
    if low < bottom or high > top:
        raise ValueError(f"target values must lie in {bottom} ... {top}, got {low} ... {high}")
    return low < 0


def check_like_logits(logits: Tensor, **tensors: Tensor) -> None:
    """Check that tensors are floating point and have the shape of the logits."""
    for name, tensor in tensors.items():
        if tensor.shape != logits.shape or not tensor.is_floating_point():
            raise ValueError(
                f"{name} must be floating point with the shape of the logits, {tuple(logits.shape)}, got "
                f"{tensor.dtype} {tuple(tensor.shape)}"
            )


def check_soft(logits: Tensor, soft: Tensor) -> None:
    """Check that soft targets are floating point of the shape of the logits and, on CPU, in [0, 1]."""
    check_like_logits(logits, soft=soft)
    if soft.device.type == "cpu" and not ((soft >= 0) & (soft <= 1)).all():
        raise ValueError("soft must lie in [0, 1]")


def _in_chunks(
    logits: Tensor,
    target: Tensor,
    terms: Terms,
    constants: Mapping[str, Tensor] | None,
    unreduced: bool,
    with_slope: bool,
) -> tuple[Tensor, Tensor | None]:
    """Sum of the losses of all elements (or their matrix), and their slopes if `with_slope`."""
    rows, classes = logits.shape
    size = max(1, _CHUNK.get(logits.device.type, _CHUNK_ELSEWHERE) // max(classes, 1))
    # The compiler fuses everything into one pass. A single chunk needs no tensors in which to collect parts.
    if rows <= size or torch.compiler.is_compiling():
        value, slope = evaluate(upcast(logits), target, terms, constants)
        return value if unreduced else value.sum(), slope
    compute = computing_dtype(logits.dtype)
    # Not in half precision, in which small slopes would vanish before a loss scale is applied.
    slopes = torch.empty_like(logits, dtype=compute) if with_slope else None
    total = torch.zeros((), dtype=compute, device=logits.device)
    matrix = torch.empty(logits.shape, dtype=compute, device=logits.device) if unreduced else None
    for start in range(0, rows, size):
        chunk = slice(start, start + size)
        parts = {name: tensor[chunk] for name, tensor in (constants or {}).items()}
        value, slope = evaluate(upcast(logits[chunk]), target[chunk], terms, parts)
        if slopes is not None:
            slopes[chunk] = slope
        if matrix is not None:
            matrix[chunk] = value
        else:
            total += value.sum()
    return total if matrix is None else matrix, slopes


class _Elementwise(torch.autograd.Function):
    """Mean or sum of the losses of all elements (or their matrix); the forward pass computes the gradient."""

    @staticmethod
    def forward(
        ctx: Any,
        logits: Tensor,
        target: Tensor,
        terms: Terms,
        constants: Mapping[str, Tensor] | None,
        reduction: Reduction,
    ) -> Tensor:
        unreduced = reduction == "none"
        value, ctx.slope = _in_chunks(logits, target, terms, constants, unreduced, ctx.needs_input_grad[0])
        ctx.terms, ctx.constants, ctx.unreduced = terms, constants, unreduced
        ctx.count = max(logits.numel(), 1) if reduction == "mean" else None
        ctx.save_for_backward(logits, target)
        return value if ctx.count is None else value.div_(ctx.count)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None, None, None, None]:
        logits, target = ctx.saved_tensors
        # The slope becomes the gradient in place. A second backward pass over a retained graph recomputes it.
        slope, ctx.slope = ctx.slope, None
        if slope is None:
            _, slope = _in_chunks(logits, target, ctx.terms, ctx.constants, ctx.unreduced, True)
        factor = grad_output if ctx.count is None else grad_output / ctx.count
        return gradient(factor, slope, logits), None, None, None, None


class _Attach(torch.autograd.Function):
    """Attach the derivative `slope` with respect to the logits to `value`, which keeps its own graph."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, value: Tensor, slope: Tensor) -> Tensor:
        ctx.save_for_backward(slope, logits)
        return value.clone()

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, Tensor, None]:
        return Scale.apply(grad_output, *ctx.saved_tensors), grad_output, None
