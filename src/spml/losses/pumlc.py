"""Positive-unlabelled learning of each class over the batch (PU-MLC), and mixing of samples."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

from ._core.domains import check_non_negative, check_positive
from ._core.elementwise import check_target
from ._core.evaluate import upcast
from ._core.rows import by_label, in_parts
from .modules import as_module

__all__ = ["PUMLCLoss", "mixed_consistency_loss", "mixed_log_target", "pumlc_loss"]

SMALLEST_SPREAD = 1e-3
"""Standard deviation of the logits of a class over the batch below which its temperature is 1."""


def pumlc_loss(
    logits: Tensor,
    target: Tensor,
    *,
    gamma: float = 0.55,
    alpha: float = 1.0,
    reduction: Literal["mean", "sum", "none"] = "sum",
) -> Tensor:
    """Variational positive-unlabelled loss of each class over the batch (PU-MLC).

    For each class m^gamma log m - mean over known positives of log p, where m is the mean of p over the
    batch.

    p = sigmoid(z / T) with the temperature T = min(alpha * standard deviation of z over the batch, 1) of the
    class. T and the factor m^gamma are constant in the derivative. A class without a known positive in the
    batch has only the first part. A class whose logits are constant over the batch (always in a batch of one
    sample) has T = 1.

    Args:
        logits: Logits of shape (B, C), any floating dtype.
        target: Class indices, int64 of shape (B,), or labels in {-1, 0, +1}, integer of shape (B, C). Known
            negatives add their mean of -log(1 - p).
        gamma: Exponent of the factor m^gamma, >= 0.
        alpha: Factor of the temperature, > 0.
        reduction: Reduction of the losses of the classes: `sum` (published), `mean`, or `none`.

    Returns:
        Scalar, or shape (C,) for `none`. The paper also mixes samples; see `mixed_consistency_loss`.

    Raises:
        ValueError, TypeError: An argument lies outside its domain, or logits or target have a wrong shape,
            dtype or range.

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
    if not logits.numel():
        z = upcast(logits)
        return z.sum(0) if reduction == "none" else z.sum()

    def of_classes(z: Tensor, classes: slice) -> Tensor:
        z = z / _temperature(z, alpha)
        log_p = functional.logsigmoid(z)
        log_mean = torch.logsumexp(log_p, 0) - math.log(len(z))
        each = (gamma * log_mean).exp().detach() * log_mean
        if target.ndim == 1:
            own = torch.arange(logits.shape[1], device=target.device)[classes]
            return each - _mean(log_p, target[:, None] == own)
        labels = target[:, classes]
        return each - _mean(log_p, labels == 1) - _mean(functional.logsigmoid(-z), labels == -1)

    each = in_parts(of_classes, logits, 1)
    if reduction == "none":
        return each
    return each.mean() if reduction == "mean" else each.sum()


def mixed_log_target(logits: Tensor, target: Tensor, partner: Tensor, share: Tensor) -> Tensor:
    """Logarithm of the labels of mixed samples, log(share t + (1 - share) t of the partner).

    t = 1 on known positives, t = p = sigmoid(z) elsewhere, including known negatives: log 0 is infinite, and
    a small number in place of 0 would make them dominate the loss.

    Args:
        logits: Logits of the samples before mixing, shape (B, C), any floating dtype, constant in the
            derivative.
        target: Class indices, int64 of shape (B,), or labels in {-1, 0, +1}, integer of shape (B, C).
        partner: Row with which each row is mixed, int64 of shape (B,).
        share: Share of each row in its mixture, floating point of shape (B,) in [0, 1]; the partner has the
            rest.

    Returns:
        Tensor of shape (B, C), finite; float32, or float64 for float64 logits.

    Raises:
        ValueError, TypeError: Logits or target have a wrong shape, dtype or range.

    Example:
        >>> import torch
        >>> half, swapped = torch.full((2,), 0.5), torch.tensor([1, 0])
        >>> mixed_log_target(torch.zeros(2, 2), torch.tensor([0, 1]), swapped, half).exp()
        tensor([[0.7500, 0.7500],
                [0.7500, 0.7500]])

    Source: As for `mixed_consistency_loss`.
    """
    check_target(logits, target)
    log_p = functional.logsigmoid(upcast(logits).detach())
    log_t = by_label(target, positive=0.0, unknown=log_p, negative=log_p)
    own = share.to(log_t)[:, None]
    return torch.logaddexp(own.log() + log_t, torch.log1p(-own) + log_t[partner])


def mixed_consistency_loss(logits: Tensor, log_target: Tensor) -> Tensor:
    """Consistency of mixed samples with their mixed labels: (log y - log p)^2.

    Sum over classes, mean over samples.

    Args:
        logits: Logits of the mixed samples, shape (B, C), any floating dtype.
        log_target: Logarithm of the labels, log y, from `mixed_log_target`, shape (B, C), constant in the
            derivative.

    Returns:
        Scalar; 0 for an empty batch.

    Raises:
        ValueError: The shapes differ.

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
    """Mean of each column over the entries `where`, shape (C,); 0 if there are none."""
    return values.where(where, 0).sum(0) / where.sum(0).clamp(min=1)


def _temperature(z: Tensor, alpha: float) -> Tensor:
    """Temperature of each class, shape (C,), constant in the derivative."""
    if len(z) == 1:
        return z.new_ones(z.shape[1])
    spread = z.detach().std(0)
    return torch.where(spread < SMALLEST_SPREAD, 1, (alpha * spread).clamp(max=1))


PUMLCLoss = as_module("PUMLCLoss", pumlc_loss)
