"""Positive-unlabelled learning, class by class over the batch."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

from .domains import check_non_negative, check_positive
from .elementwise import check_target, upcast
from .rows import by_label

SMALLEST_SPREAD = 1e-3
"""A class whose logits spread less than this over the batch keeps the temperature 1."""


def pumlc_loss(
    logits: Tensor,
    target: Tensor,
    *,
    gamma: float = 0.55,
    alpha: float = 1.0,
    reduction: Literal["mean", "sum", "none"] = "sum",
) -> Tensor:
    """Variational positive-unlabelled loss: per class m^gamma log m - mean over known positives of log p,
    with m the mean of p over the batch.

    p = sigmoid(z / T), with the temperature T = min(alpha * standard deviation of z over the batch, 1) of the
    class. T and the factor m^gamma are constant in the derivative. A class without a known positive in the
    batch has the first part only. A class whose logits are constant over the batch, a batch of one included,
    has T = 1.

    Args:
        logits: (B, C).
        target: int64 (B,) class indices, or integer (B, C) in {-1, 0, +1}; known negatives add the mean of
            -log(1 - p) over them.
        gamma: >= 0.
        alpha: > 0.
        reduction: `sum` over classes (published), `mean`, or `none`.

    Returns:
        A scalar, or (C,) for `none`. The mixing of samples that the paper adds is not part of the loss.

    Raises:
        ValueError, TypeError: an argument outside its domain; see also `elementwise`.

    Example:
        >>> import torch
        >>> round(pumlc_loss(torch.zeros(2, 3), torch.tensor([0, 0]), gamma=0.0).item(), 4)
        -1.3863

    Source: Yuan et al., "Positive Label Is All You Need for Multi-Label Classification", 2023.
    """
    check_target(logits, target)
    check_non_negative(gamma=gamma)
    check_positive(alpha=alpha)
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"reduction must be 'mean', 'sum' or 'none', got {reduction!r}")
    z = upcast(logits)
    if not z.numel():
        return z.sum(0) if reduction == "none" else z.sum()
    z = z / _temperature(z, alpha)
    log_p = functional.logsigmoid(z)
    log_mean = torch.logsumexp(log_p, 0) - math.log(len(z))
    each = (gamma * log_mean).exp().detach() * log_mean
    nowhere = torch.zeros_like(z, dtype=torch.bool)
    each = each - _mean(log_p, by_label(target, positive=True, unknown=nowhere, negative=False))
    if target.ndim == 2:
        each = each - _mean(functional.logsigmoid(-z), target == -1)
    if reduction == "none":
        return each
    return each.mean() if reduction == "mean" else each.sum()


def _mean(values: Tensor, where: Tensor) -> Tensor:
    """Mean of each column over some entries, (C,); 0 over none."""
    return values.where(where, 0).sum(0) / where.sum(0).clamp(min=1)


def _temperature(z: Tensor, alpha: float) -> Tensor:
    """(C,), constant in the derivative."""
    if len(z) == 1:
        return z.new_ones(z.shape[1])
    spread = z.detach().std(0)
    return torch.where(spread < SMALLEST_SPREAD, 1, (alpha * spread).clamp(max=1))
