"""Losses that maximise or minimise the entropy of unknown labels (EM, EntMin, EM + APL)."""

from __future__ import annotations

from torch import Tensor

from ._core.domains import check_positive
from ._core.elementwise import Reduction, check_like_logits, check_target, log_losses
from ._core.terms import Point, at_least, cross_entropy, entropy, lookup, scaled, switched
from .modules import as_module

__all__ = ["EMAPLLoss", "EMLoss", "EntMinLoss", "em_apl_loss", "em_loss", "entmin_loss"]


def em_loss(
    logits: Tensor, target: Tensor, *, alpha: float = 0.1, eps: float = 0.0, reduction: Reduction = "mean"
) -> Tensor:
    """Entropy-maximisation loss: known positives -log p, unknown labels -alpha H(p).

    H(p) = -p log p - (1 - p) log(1 - p). The gradient on an unknown label, alpha p (1 - p) z, pulls p towards
    0.5 and vanishes at 0, 0.5 and 1.

    Args:
        logits: Logits of shape (B, C), any floating dtype.
        target: Class indices, int64 of shape (B,), or labels in {-1, 0, +1}, integer of shape (B, C). Known
            negatives get -log(1 - p).
        alpha: Weight of the entropy, > 0.
        eps: Added inside the logarithms; 1e-5 reproduces the released implementation.
        reduction: Reduction of the losses: `mean` over B * C, `sum`, or `none`.

    Returns:
        Scalar, or shape (B, C) for `none`; float32, or float64 for float64 logits.

    Raises:
        ValueError, TypeError: `alpha` is not positive, or logits or target have a wrong shape, dtype or
            range.

    Example:
        >>> import torch
        >>> round(em_loss(torch.zeros(1, 2), torch.tensor([0]), alpha=1.0).item(), 4)
        0.0

    Source: Zhou et al., "Acknowledging the Unknown for Multi-label Learning with Single Positive Labels",
    ECCV 2022, Eq. 4-5.
    """
    check_positive(alpha=alpha)
    return log_losses(logits, target, scaled(-alpha, entropy(eps)), eps=eps, reduction=reduction)


def entmin_loss(
    logits: Tensor, target: Tensor, *, alpha: float = 0.1, eps: float = 0.0, reduction: Reduction = "mean"
) -> Tensor:
    """Entropy-minimisation loss: known positives -log p, unknown labels +alpha H(p).

    H(p) = -p log p - (1 - p) log(1 - p). The EM loss with the opposite sign: the gradient pulls unknown
    labels to 0 or 1, whichever is nearer, and training collapses. A baseline that shows why EM maximises the
    entropy.

    Args:
        logits: Logits of shape (B, C), any floating dtype.
        target: Class indices, int64 of shape (B,), or labels in {-1, 0, +1}, integer of shape (B, C). Known
            negatives get -log(1 - p).
        alpha: Weight of the entropy, > 0. The published value is not known.
        eps: Added inside the logarithms.
        reduction: Reduction of the losses: `mean` over B * C, `sum`, or `none`.

    Returns:
        Scalar, or shape (B, C) for `none`; float32, or float64 for float64 logits.

    Raises:
        ValueError, TypeError: `alpha` is not positive, or logits or target have a wrong shape, dtype or
            range.

    Example:
        >>> import torch
        >>> round(entmin_loss(torch.zeros(1, 2), torch.tensor([0]), alpha=1.0).item(), 4)
        0.6931

    Source: Zhou et al., "Acknowledging the Unknown for Multi-label Learning with Single Positive Labels",
    ECCV 2022 (compared method).
    """
    check_positive(alpha=alpha)
    return log_losses(logits, target, scaled(alpha, entropy(eps)), eps=eps, reduction=reduction)


def em_apl_loss(
    logits: Tensor,
    target: Tensor,
    soft: Tensor,
    *,
    alpha: float = 0.1,
    beta: float = 0.2,
    eps: float = 0.0,
    reduction: Reduction = "mean",
) -> Tensor:
    """Entropy-maximisation loss with asymmetric pseudo-labelling: pseudo-negatives have a soft target q.

    l+ on known positives, beta (q l+ + (1 - q) l-) on pseudo-negatives, -alpha H(p) on other unknown labels.

    Args:
        logits: Logits of shape (B, C), any floating dtype.
        target: Class indices, int64 of shape (B,), or labels in {-1, 0, +1}, integer of shape (B, C). Known
            negatives get -log(1 - p).
        soft: Soft targets of shape (B, C), floating point: q in [0, 1] for a pseudo-negative, a negative
            number elsewhere. Used for unknown labels only; gets no gradient.
        alpha: Weight of the entropy, > 0.
        beta: Weight of pseudo-negatives, > 0.
        eps: Added inside the logarithms; 1e-5 reproduces the released implementation.
        reduction: Reduction of the losses: `mean` over B * C, `sum`, or `none`.

    Returns:
        Scalar, or shape (B, C) for `none`; float32, or float64 for float64 logits.

    Raises:
        ValueError, TypeError: An argument lies outside its domain, or logits or target have a wrong shape,
            dtype or range.

    Example:
        >>> import torch
        >>> soft = torch.tensor([[-1.0, 0.1, -1.0]])
        >>> round(em_apl_loss(torch.zeros(1, 3), torch.tensor([0]), soft, reduction="sum").item(), 4)
        0.7625

    Source: Zhou et al., "Acknowledging the Unknown for Multi-label Learning with Single Positive Labels",
    ECCV 2022, Eq. 4-8.
    """
    check_target(logits, target)
    check_positive(alpha=alpha, beta=beta)
    check_like_logits(logits, soft=soft)

    def labelled(x: Point) -> Tensor:
        return at_least(x.constants["soft"].to(x.z.dtype), 0)

    crossed = scaled(beta, cross_entropy(lookup("soft"), eps))
    unknown = switched(labelled, crossed, scaled(-alpha, entropy(eps)))
    return log_losses(
        logits, target, unknown, eps=eps, reduction=reduction, constants={"soft": soft.detach()}
    )


EMLoss = as_module("EMLoss", em_loss)
EntMinLoss = as_module("EntMinLoss", entmin_loss)
EMAPLLoss = as_module("EMAPLLoss", em_apl_loss)
