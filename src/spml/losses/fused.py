"""A loss of the logits of a linear layer that computes them in chunks of classes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ._core.linear import LinearLogits

__all__ = ["fused_linear_loss"]


def fused_linear_loss(
    features: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    target: Tensor,
    *,
    loss: Callable[[Any, Tensor], Tensor],
    chunk: int | None = None,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """Loss of the logits features @ weight.T + bias, which never exist as a whole.

    Value and gradients are those of `loss(functional.linear(features, weight, bias), target)` up to rounding.
    The logits of some classes are computed, their loss and its gradients with respect to features, weight and
    bias, and then they are discarded, so that apart from these gradients memory does not grow with B * C.
    The loss must be a sum over elements, which most losses of this package are; a loss that compares the
    logits of a row or of a batch, such as `softmax_loss` or `ll_loss`, raises a TypeError. Second derivatives
    are not supported and raise a RuntimeError.

    Args:
        features: Features of shape (B, D), floating point.
        weight: Weights of shape (C, D), such as `head.weight` of an `nn.Linear`.
        bias: Biases of shape (C,), or None.
        target: Class indices, int64 of shape (B,), or labels in {-1, 0, +1}, integer of shape (B, C).
        loss: Loss of logits and target from this package, a `functools.partial` of one that sets its other
            arguments, or its module. Tensors of shape (B, C) among these arguments are split like the logits.
        chunk: Number of classes at a time, >= 1; None = as many as suit the device.
        dtype: Floating dtype of the matrix products and of the logits; None = that of autocast where it is
            enabled, otherwise that of the features. Losses, their sum and the sums of gradients over
            chunks are computed in at least float32, for any dtype. With bfloat16, a logit keeps 8 significant
            bits, as under autocast.

    Returns:
        Scalar; float32, or float64 for float64 logits.

    Raises:
        ValueError, TypeError: The shapes or dtypes do not fit, the loss is not a sum over elements, it has
            parameters that are learned or differ by class, or `reduction="none"`; and as for the loss.

    Example:
        >>> import torch
        >>> from spml.losses import gr_loss
        >>> head, known = torch.nn.Linear(3, 4), torch.tensor([0, 3])
        >>> features = torch.ones(2, 3, requires_grad=True)
        >>> value = fused_linear_loss(features, head.weight, head.bias, known, loss=gr_loss)
        >>> torch.allclose(value, gr_loss(head(features), known))
        True

    Source: chunks as in Hsu et al., "Liger Kernel: Efficient Triton Kernels for LLM Training", arXiv
    2410.10989 (there over rows, for softmax cross-entropy).
    """
    if features.ndim != 2 or weight.ndim != 2 or features.shape[1] != weight.shape[1]:
        raise ValueError(
            "features must have shape (B, D) and weight shape (C, D), got "
            f"{tuple(features.shape)} and {tuple(weight.shape)}"
        )
    if bias is not None and bias.shape != weight.shape[:1]:
        raise ValueError(f"bias must have shape ({len(weight)},), got {tuple(bias.shape)}")
    if not features.is_floating_point() or not weight.is_floating_point():
        raise TypeError(f"features and weight must be floating point, got {features.dtype}, {weight.dtype}")
    if chunk is not None and chunk < 1:
        raise ValueError(f"chunk must be at least 1, got {chunk}")
    kind = features.device.type
    if dtype is None and torch.is_autocast_enabled(kind):
        dtype = torch.get_autocast_dtype(kind)
    if dtype is None:
        dtype = features.dtype
    return loss(LinearLogits(features, weight, bias, chunk, dtype), target)
