"""Losses that treat unknown labels as negatives (plain, weighted or smoothed), or ignore them."""

from __future__ import annotations

from torch import Tensor

from ._core.domains import check_below, check_positive
from ._core.elementwise import Reduction, elementwise, log_losses
from ._core.terms import constant, cross_entropy, negative_eps_loss, no_loss, scaled
from .modules import as_module

__all__ = [
    "ANLSLoss",
    "ANLoss",
    "IULoss",
    "NLSLoss",
    "WANLoss",
    "an_loss",
    "an_ls_loss",
    "iu_loss",
    "n_ls_loss",
    "wan_loss",
]


def an_loss(logits: Tensor, target: Tensor, *, eps: float = 0.0, reduction: Reduction = "mean") -> Tensor:
    """Assume-negative loss: binary cross-entropy in which every unknown label counts as a negative.

    l+ = -log p on known positives, l- = -log(1 - p) on all other labels. The gradient is p - s, with s = 1 on
    known positives and 0 elsewhere. On fully known labels it is plain binary cross-entropy.

    Args:
        logits: Logits of shape (B, C), any floating dtype.
        target: Class indices, int64 of shape (B,), or labels in {-1, 0, +1}, integer of shape (B, C).
        eps: Added inside the logarithms; 1e-5 reproduces the implementation released by Cole et al.
        reduction: Reduction of the losses: `mean` over B * C, `sum`, or `none`.

    Returns:
        Scalar, or shape (B, C) for `none`; float32, or float64 for float64 logits.

    Raises:
        ValueError, TypeError: Logits or target have a wrong shape, dtype or range.

    Example:
        >>> import torch
        >>> round(an_loss(torch.zeros(2, 4), torch.tensor([0, 3])).item(), 4)
        0.6931

    Source: Cole et al., "Multi-Label Learning from Single Positive Labels", CVPR 2021, Eq. 5.
    """
    return log_losses(logits, target, negative_eps_loss(eps), eps=eps, reduction=reduction)


def an_ls_loss(
    logits: Tensor,
    target: Tensor,
    *,
    swap: float = 0.1,
    eps: float = 0.0,
    reduction: Reduction = "mean",
) -> Tensor:
    """Assume-negative loss with label smoothing.

    (1 - e) l+ + e l- on known positives, (1 - e) l- + e l+ on all other labels, with e = `swap`. The gradient
    is p - t for the smoothed target t. Known labels are smoothed like the assumed ones; on fully known labels
    it is binary cross-entropy with label smoothing.

    Args:
        logits: Logits of shape (B, C), any floating dtype.
        target: Class indices, int64 of shape (B,), or labels in {-1, 0, +1}, integer of shape (B, C).
        swap: Weight e of the opposite label, in [0, 0.5). The paper smooths by 0.1, which is e = 0.05; the
            released code, and with it most published results, uses e = 0.1.
        eps: Added inside the logarithms; 1e-5 reproduces the released implementation.
        reduction: Reduction of the losses: `mean` over B * C, `sum`, or `none`.

    Returns:
        Scalar, or shape (B, C) for `none`; float32, or float64 for float64 logits.

    Raises:
        ValueError, TypeError: `swap` lies outside [0, 0.5), or logits or target have a wrong shape, dtype or
            range.

    Example:
        >>> import torch
        >>> round(an_ls_loss(torch.full((1, 2), -2.0), torch.tensor([0])).item(), 4)
        1.1269

    Source: Cole et al., "Multi-Label Learning from Single Positive Labels", CVPR 2021 (AN-LS).
    """
    check_below(0.5, swap=swap)
    smoothed = cross_entropy(constant(swap), eps)
    return elementwise(
        logits,
        target,
        positive=cross_entropy(constant(1 - swap), eps),
        unknown=smoothed,
        negative=smoothed,
        reduction=reduction,
    )


def n_ls_loss(
    logits: Tensor,
    target: Tensor,
    *,
    swap: float = 0.1,
    eps: float = 0.0,
    reduction: Reduction = "mean",
) -> Tensor:
    """Assume-negative loss in which only the assumed negatives are smoothed.

    l+ on known positives, (1 - e) l- + e l+ on unknown labels with e = `swap`, l- on known negatives.

    Args:
        logits: Logits of shape (B, C), any floating dtype.
        target: Class indices, int64 of shape (B,), or labels in {-1, 0, +1}, integer of shape (B, C).
        swap: Weight e of the opposite label, in [0, 0.5). The published value is not known.
        eps: Added inside the logarithms; 1e-5 reproduces the released implementation.
        reduction: Reduction of the losses: `mean` over B * C, `sum`, or `none`.

    Returns:
        Scalar, or shape (B, C) for `none`; float32, or float64 for float64 logits.

    Raises:
        ValueError, TypeError: `swap` lies outside [0, 0.5), or logits or target have a wrong shape, dtype or
            range.

    Example:
        >>> import torch
        >>> round(n_ls_loss(torch.full((1, 2), -2.0), torch.tensor([0])).item(), 4)
        1.2269

    Source: Zhou et al., "Acknowledging the Unknown for Multi-label Learning with Single Positive Labels",
    ECCV 2022 (compared method).
    """
    check_below(0.5, swap=swap)
    return log_losses(logits, target, cross_entropy(constant(swap), eps), eps=eps, reduction=reduction)


def wan_loss(
    logits: Tensor,
    target: Tensor,
    *,
    weight: float | None = None,
    eps: float = 0.0,
    reduction: Reduction = "mean",
) -> Tensor:
    """Weak assume-negative loss: assumed negatives have a small weight.

    l+ on known positives, weight * l- on unknown labels, l- on known negatives.

    Args:
        logits: Logits of shape (B, C), any floating dtype.
        target: Class indices, int64 of shape (B,), or labels in {-1, 0, +1}, integer of shape (B, C).
        weight: Weight of an assumed negative, > 0. None = 1 / (C - 1), with which both sides have the same
            total weight if there is one known positive.
        eps: Added inside the logarithms; 1e-5 reproduces the released implementation.
        reduction: Reduction of the losses: `mean` over B * C, `sum`, or `none`.

    Returns:
        Scalar, or shape (B, C) for `none`; float32, or float64 for float64 logits.

    Raises:
        ValueError, TypeError: `weight` is not positive, or logits or target have a wrong shape, dtype or
            range.

    Example:
        >>> import torch
        >>> round(wan_loss(torch.zeros(1, 5), torch.tensor([0]), reduction="sum").item(), 4)
        1.3863

    Source: Cole et al., "Multi-Label Learning from Single Positive Labels", CVPR 2021 (WAN); called DW in
    Zhou et al., ECCV 2022.
    """
    if weight is not None:
        check_positive(weight=weight)
    share = 1 / max(logits.shape[-1] - 1, 1) if weight is None else weight
    return log_losses(logits, target, scaled(share, negative_eps_loss(eps)), eps=eps, reduction=reduction)


def iu_loss(logits: Tensor, target: Tensor, *, eps: float = 0.0, reduction: Reduction = "mean") -> Tensor:
    """Ignore-unknown loss: binary cross-entropy on known labels, zero on unknown labels.

    With the true negatives as known negatives it is IUN, "one positive, all negatives"; with the negatives
    that EN expects it is the loss of EN.

    Args:
        logits: Logits of shape (B, C), any floating dtype.
        target: Class indices, int64 of shape (B,), or labels in {-1, 0, +1}, integer of shape (B, C).
        eps: Added inside the logarithms; 1e-5 reproduces the released implementation.
        reduction: Reduction of the losses: `mean` over B * C (including unknown labels), `sum`, or `none`.

    Returns:
        Scalar, or shape (B, C) for `none`; float32, or float64 for float64 logits.

    Raises:
        ValueError, TypeError: Logits or target have a wrong shape, dtype or range.

    Example:
        >>> import torch
        >>> round(iu_loss(torch.zeros(1, 4), torch.tensor([[1, -1, 0, 0]])).item(), 4)
        0.3466

    Source: Cole et al., "Multi-Label Learning from Single Positive Labels", CVPR 2021 (IU, IUN).
    """
    return log_losses(logits, target, no_loss, eps=eps, reduction=reduction)


ANLoss = as_module("ANLoss", an_loss)
ANLSLoss = as_module("ANLSLoss", an_ls_loss)
IULoss = as_module("IULoss", iu_loss)
NLSLoss = as_module("NLSLoss", n_ls_loss)
WANLoss = as_module("WANLoss", wan_loss)
