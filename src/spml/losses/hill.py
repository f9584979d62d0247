"""Losses for missing labels, which down-weight or correct unknown labels with a high probability."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from ._core.domains import check_choice, check_non_negative, check_share
from ._core.elementwise import Reduction, elementwise
from ._core.terms import (
    KnownNegatives,
    corrected,
    hill,
    known_negative,
    positive_eps_loss,
    shifted,
    step,
    switched,
)
from .focal import focal_negative, focal_positive
from .modules import as_module

__all__ = ["HillLoss", "SPLCLoss", "hill_loss", "splc_loss"]


def hill_loss(
    logits: Tensor,
    target: Tensor,
    *,
    lam: float = 1.5,
    margin: float = 1.0,
    gamma: float = 2.0,
    known_negatives: KnownNegatives = "plain",
    eps: float = 0.0,
    reduction: Reduction = "mean",
) -> Tensor:
    """Hill loss: (lam - p) p^2 on unknown labels, focal margin loss on known positives.

    The gradient on an unknown label, p^2 (1 - p) (2 lam - 3 p), vanishes at p = 0 and p = 1: a label of which
    the model is confident is probably a missing positive. Known positives: (1 - p_m)^gamma (-log p_m) with
    p_m = sigmoid(z - margin); -log p if margin = gamma = 0.

    Args:
        logits: Logits of shape (B, C), any floating dtype.
        target: Class indices, int64 of shape (B,), or labels in {-1, 0, +1}, integer of shape (B, C).
        lam: Parameter lambda, at least 1.5, so that the gradient does not change its sign; it is 3 p^2
            (1 - p)^2 for 1.5.
        margin: Margin of known positives in logits, >= 0.
        gamma: Focusing exponent of known positives, >= 0.
        known_negatives: Loss of a known negative: -log(1 - p) (`plain`), or (lam - p) p^2 (`own`).
        eps: Added inside the logarithm, only without focusing (gamma = 0); 1e-7 with margin = 0 reproduces
            the copy in the code released with GR.
        reduction: Reduction of the losses: `mean` over B * C, `sum` (released code), or `none`.

    Returns:
        Scalar, or shape (B, C) for `none`; float32, or float64 for float64 logits.

    Raises:
        ValueError, TypeError: An argument lies outside its domain, or logits or target have a wrong shape,
            dtype or range.

    Example:
        >>> import torch
        >>> round(hill_loss(torch.zeros(1, 2), torch.tensor([0]), margin=0.0, gamma=0.0).item(), 4)
        0.4716

    Source: Zhang et al., "Simple and Robust Loss Design for Multi-Label Learning with Missing Labels", arXiv
    2112.07368.
    """
    check_non_negative(margin=margin, gamma=gamma, eps=eps)
    check_lam(lam)
    if eps and gamma:
        raise ValueError(f"eps needs gamma = 0, got eps = {eps} and gamma = {gamma}")
    positive = focal_positive(gamma, margin=margin) if gamma else shifted(margin, positive_eps_loss(eps))
    return elementwise(
        logits,
        target,
        positive=positive,
        unknown=hill(lam),
        negative=known_negative(known_negatives, hill(lam)),
        reduction=reduction,
    )


def splc_loss(
    logits: Tensor,
    target: Tensor,
    *,
    tau: float = 0.6,
    margin: float = 1.0,
    gamma: float = 2.0,
    negative: Literal["focal", "hill"] = "focal",
    lam: float = 1.5,
    margin_corrected: bool = False,
    known_negatives: KnownNegatives = "plain",
    reduction: Reduction = "mean",
) -> Tensor:
    """Self-paced loss correction (SPLC): an unknown label with p > tau counts as a positive.

    Known positives: (1 - p_m)^gamma (-log p_m) with p_m = sigmoid(z - margin). Unknown labels: p^gamma l- if
    p <= tau, (1 - p)^gamma l+ (without the margin) if p > tau. The gradient flows through the focusing
    factors. Before its first epoch of correction the method uses `focal_loss` with a margin.

    "Focal margin + SPLC" in Table 1 of the GR paper is `negative="hill", margin_corrected=True`: the focal
    margin loss on corrected labels too, and the Hill loss on the others.

    Args:
        logits: Logits of shape (B, C), any floating dtype.
        target: Class indices, int64 of shape (B,), or labels in {-1, 0, +1}, integer of shape (B, C).
        tau: Threshold of the correction, in [0, 1].
        margin: Margin of known positives in logits, >= 0.
        gamma: Focusing exponent, >= 0.
        negative: Loss of an unknown label with p <= tau: `focal` = p^gamma l- (released code), or `hill` =
            (lam - p) p^2.
        lam: Parameter lambda of `hill`, at least 1.5.
        margin_corrected: Whether an unknown label with p > tau has the margin of a known positive.
        known_negatives: Loss of a known negative, which is never corrected: -log(1 - p) (`plain`), or that of
            an unknown label with p <= tau (`own`).
        reduction: Reduction of the losses: `mean` over B * C, `sum` (released code), or `none`.

    Returns:
        Scalar, or shape (B, C) for `none`; float32, or float64 for float64 logits.

    Raises:
        ValueError, TypeError: An argument lies outside its domain, or logits or target have a wrong shape,
            dtype or range.

    Example:
        >>> import torch
        >>> round(splc_loss(torch.tensor([[0.0, 3.0]]), torch.tensor([0]), gamma=0.0).item(), 4)
        0.6809

    Source: Zhang et al., "Simple and Robust Loss Design for Multi-Label Learning with Missing Labels", arXiv
    2112.07368; table of Chen et al. (GR loss), IJCAI 2024: Eq. 24-25, Table 1.
    """
    check_non_negative(margin=margin, gamma=gamma)
    check_share(tau=tau)
    check_choice("negative", negative, ("focal", "hill"))
    check_lam(lam)
    positive, beyond = focal_positive(gamma, margin=margin), margin if margin_corrected else 0.0
    if negative == "focal":
        low = focal_negative(gamma)
        unknown = corrected(step(tau), low, beyond)
    else:
        low = hill(lam)
        unknown = switched(step(tau), focal_positive(gamma, margin=beyond), low)
    return elementwise(
        logits,
        target,
        positive=positive,
        unknown=unknown,
        negative=known_negative(known_negatives, low),
        reduction=reduction,
    )


def check_lam(lam: float) -> None:
    """Check that lambda of the Hill loss is at least 1.5.

    Raises:
        ValueError: It is not.
    """
    if not lam >= 1.5:
        raise ValueError(f"lam must be at least 1.5, got {lam}")


HillLoss = as_module("HillLoss", hill_loss)
SPLCLoss = as_module("SPLCLoss", splc_loss)
