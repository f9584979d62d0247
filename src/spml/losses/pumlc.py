"""Positive-unlabelled learning, class by class over the batch."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

from ._core.domains import check_non_negative, check_positive
from ._core.elementwise import check_target, upcast
from ._core.rows import by_label

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
        A scalar, or (C,) for `none`. The mixing of samples that the paper adds is `mixed_consistency_loss`.

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


def mixed_log_target(logits: Tensor, target: Tensor, partner: Tensor, share: Tensor) -> Tensor:
    """Logarithm of the labels that mixed samples should be given: log(share t + (1 - share) t of the
    partner).

    t = 1 on known positives, p = sigmoid(z) elsewhere: on known negatives too, because the logarithm of 0 is
    infinite, and with a small number in its place they outweigh all else.

    Args:
        logits: (B, C), of the samples before they are mixed; constant in the derivative.
        target: int64 (B,) class indices, or integer (B, C) in {-1, 0, +1}.
        partner: int64 (B,), the row that each row is mixed with.
        share: float (B,), of each row in its mixture, in [0, 1]; its partner has the rest.

    Returns:
        (B, C), finite, float32, or float64 for float64 logits.

    Raises:
        ValueError, TypeError: see `elementwise`.

    Example:
        >>> import torch
        >>> half, swapped = torch.full((2,), 0.5), torch.tensor([1, 0])
        >>> mixed_log_target(torch.zeros(2, 2), torch.tensor([0, 1]), swapped, half).exp()
        tensor([[0.7500, 0.7500],
                [0.7500, 0.7500]])

    Source: as `mixed_consistency_loss`.
    """
    check_target(logits, target)
    log_p = functional.logsigmoid(upcast(logits).detach())
    log_t = by_label(target, positive=0.0, unknown=log_p, negative=log_p)
    mine = share.to(log_t)[:, None]
    return torch.logaddexp(mine.log() + log_t, torch.log1p(-mine) + log_t[partner])


def mixed_consistency_loss(logits: Tensor, log_target: Tensor) -> Tensor:
    """A mixture of two samples has the mixture of their labels: (log y - log p)^2.

    Sum over classes, mean over samples.

    Args:
        logits: (B, C), of the mixed samples.
        log_target: (B, C), log y, see `mixed_log_target`; constant in the derivative.

    Returns:
        A scalar; 0 for an empty batch.

    Raises:
        ValueError: the shapes differ.

    Example:
        >>> import torch
        >>> round(mixed_consistency_loss(torch.zeros(1, 2), torch.zeros(1, 2)).item(), 4)
        0.9609

    Source: Yuan et al., "Positive Label Is All You Need for Multi-Label Classification", 2023, which adds
    mixing; the formula is that of Chen et al., "A Variational Approach for Learning from Positive and
    Unlabeled Data", NeurIPS 2020, for each class.
    """
    if logits.ndim != 2 or log_target.shape != logits.shape or not log_target.is_floating_point():
        raise ValueError(
            f"log_target must be floating point with the shape of the logits (B, C), {tuple(logits.shape)}, "
            f"got {log_target.dtype} {tuple(log_target.shape)}"
        )
    difference = log_target.detach() - functional.logsigmoid(upcast(logits))
    return difference.square().sum() / max(len(logits), 1)


def _mean(values: Tensor, where: Tensor) -> Tensor:
    """Mean of each column over some entries, (C,); 0 over none."""
    return values.where(where, 0).sum(0) / where.sum(0).clamp(min=1)


def _temperature(z: Tensor, alpha: float) -> Tensor:
    """(C,), constant in the derivative."""
    if len(z) == 1:
        return z.new_ones(z.shape[1])
    spread = z.detach().std(0)
    return torch.where(spread < SMALLEST_SPREAD, 1, (alpha * spread).clamp(max=1))
