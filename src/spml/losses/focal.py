"""Losses with a focusing factor that reduces the weight of easy labels."""

from __future__ import annotations

from torch import Tensor
from torch.nn.functional import softplus

from ._core.domains import check_below, check_non_negative
from ._core.elementwise import Reduction, elementwise
from ._core.terms import (
    LINEAR,
    KnownNegatives,
    Point,
    Term,
    capped,
    held,
    known_negative,
    mirrored,
    negative_focus,
    negative_log_loss,
    negative_margin_loss,
    positive_focus,
    positive_log_loss,
    power,
    product,
    shifted,
    weighted,
)
from .modules import as_module

__all__ = ["ASLLoss", "FocalLoss", "asl_loss", "focal_loss"]


def focal_loss(
    logits: Tensor,
    target: Tensor,
    *,
    gamma: float = 2.0,
    margin: float = 0.0,
    detach_weights: bool = False,
    known_negatives: KnownNegatives = "plain",
    eps: float = 0.0,
    reduction: Reduction = "mean",
) -> Tensor:
    """Focal loss: (1 - p)^gamma l+ on known positives, p^gamma l- on unknown labels.

    With a margin, known positives are evaluated at the logit z - margin: the focal margin loss.

    Args:
        logits: Logits of shape (B, C), any floating dtype.
        target: Class indices, int64 of shape (B,), or labels in {-1, 0, +1}, integer of shape (B, C).
        gamma: Focusing exponent, >= 0.
        margin: Margin that is subtracted from the logits of known positives, >= 0.
        detach_weights: Whether the factors are constant in the derivative, as in the training code released
            with ASL.
        known_negatives: Loss of a known negative: -log(1 - p) (`plain`), or that of an unknown label (`own`),
            as in the paper, in which all labels are known.
        eps: Lower bound of the arguments of the logarithms; 1e-8 reproduces that code.
        reduction: Reduction of the losses: `mean` over B * C, `sum`, or `none`.

    Returns:
        Scalar, or shape (B, C) for `none`; float32, or float64 for float64 logits.

    Raises:
        ValueError, TypeError: An argument lies outside its domain, or logits or target have a wrong shape,
            dtype or range.

    Example:
        >>> import torch
        >>> round(focal_loss(torch.zeros(1, 2), torch.tensor([0])).item(), 4)
        0.1733

    Source: Lin et al., "Focal Loss for Dense Object Detection", ICCV 2017; margin: Zhang et al., "Simple and
    Robust Loss Design for Multi-Label Learning with Missing Labels", arXiv 2112.07368.
    """
    check_non_negative(gamma=gamma, margin=margin, eps=eps)
    negative = focal_negative(gamma, detach_weights, eps)
    return elementwise(
        logits,
        target,
        positive=focal_positive(gamma, detach_weights, eps, margin),
        unknown=negative,
        negative=known_negative(known_negatives, negative),
        reduction=reduction,
    )


def asl_loss(
    logits: Tensor,
    target: Tensor,
    *,
    gamma_pos: float = 0.0,
    gamma_neg: float = 4.0,
    clip: float = 0.05,
    detach_weights: bool = False,
    known_negatives: KnownNegatives = "plain",
    eps: float = 0.0,
    reduction: Reduction = "mean",
) -> Tensor:
    """Asymmetric loss (ASL): focal loss with an exponent for each side, and a shift of p for negatives.

    (1 - p)^gamma_pos l+ on known positives, p_m^gamma_neg (-log(1 - p_m)) on unknown labels, with
    p_m = max(p - clip, 0). An unknown label with p <= clip has neither loss nor gradient; clip = 0 is ASL
    without probability shifting.

    Args:
        logits: Logits of shape (B, C), any floating dtype.
        target: Class indices, int64 of shape (B,), or labels in {-1, 0, +1}, integer of shape (B, C).
        gamma_pos, gamma_neg: Focusing exponents, >= 0.
        clip: Shift of p, in [0, 1).
        detach_weights: Whether the focusing factors are constant in the derivative, as in the released
            training code. The gradient analysed in the paper flows through them.
        known_negatives: Loss of a known negative: -log(1 - p) (`plain`), or that of an unknown label (`own`),
            as in the paper, in which all labels are known.
        eps: Lower bound of the arguments of the logarithms; 1e-8 reproduces the released code.
        reduction: Reduction of the losses: `mean` over B * C, `sum` (released code), or `none`.

    Returns:
        Scalar, or shape (B, C) for `none`; float32, or float64 for float64 logits.

    Raises:
        ValueError, TypeError: An argument lies outside its domain, or logits or target have a wrong shape,
            dtype or range.

    Example:
        >>> import torch
        >>> round(asl_loss(torch.zeros(1, 2), torch.tensor([0]), clip=0.0).item(), 4)
        0.3682

    Source: Ridnik et al., "Asymmetric Loss For Multi-Label Classification", ICCV 2021, Eq. 4-7.
    """
    check_non_negative(gamma_pos=gamma_pos, gamma_neg=gamma_neg, eps=eps)
    check_below(1, clip=clip)
    negative = focal_negative(gamma_neg, detach_weights, eps, clip)
    return elementwise(
        logits,
        target,
        positive=focal_positive(gamma_pos, detach_weights, eps),
        unknown=negative,
        negative=known_negative(known_negatives, negative),
        reduction=reduction,
    )


def focal_positive(gamma: float, detach: bool = False, eps: float = 0.0, margin: float = 0.0) -> Term:
    """(1 - p_m)^gamma (-log p_m) with p_m = sigmoid(z - margin).

    With `detach`, the factor is constant in the derivative; with `eps`, the logarithm is capped.
    """
    if gamma and not detach and not eps:
        return mirrored(_focal_negative(gamma), margin)
    return shifted(margin, _focused(gamma, positive_focus(gamma), capped(eps, positive_log_loss), detach))


def focal_negative(gamma: float, detach: bool = False, eps: float = 0.0, clip: float = 0.0) -> Term:
    """p_m^gamma (-log(1 - p_m)) with p_m = max(p - clip, 0). `detach` and `eps` as in `focal_positive`."""
    if gamma and not (detach or eps or clip):
        return _focal_negative(gamma)
    log_loss = negative_margin_loss(clip) if clip else negative_log_loss
    return _focused(gamma, negative_focus(gamma, clip), capped(eps, log_loss), detach)


def _focal_negative(gamma: float) -> Term:
    """p^gamma l-. Slope p^gamma (p + gamma (1 - p) l-)."""

    def term(x: Point) -> tuple[Tensor, Tensor]:
        factor = power(x.p, gamma)
        value = softplus(x.z, threshold=LINEAR).mul_(factor)
        return value, (value * x.not_p).mul_(gamma).addcmul_(factor, x.p)

    return term


def _focused(gamma: float, focus: Term, log_loss: Term, detach: bool) -> Term:
    if gamma == 0:
        return log_loss
    return weighted(held(focus), log_loss) if detach else product(focus, log_loss)


ASLLoss = as_module("ASLLoss", asl_loss)
FocalLoss = as_module("FocalLoss", focal_loss)
