"""Losses for missing labels: unknown labels with a high probability are turned down or corrected."""

from __future__ import annotations

from torch import Tensor

from ._core.domains import check_non_negative, check_share
from ._core.elementwise import Reduction, elementwise
from ._core.terms import hill, positive_eps_loss, shifted, step, switched
from .focal import focal_negative, focal_positive


def hill_loss(
    logits: Tensor,
    target: Tensor,
    *,
    lam: float = 1.5,
    margin: float = 1.0,
    gamma: float = 2.0,
    eps: float = 0.0,
    reduction: Reduction = "mean",
) -> Tensor:
    """Hill loss: (lam - p) p^2 on unknown labels, focal margin loss on known positives.

    The gradient on an unknown label, p^2 (1 - p) (2 lam - 3 p), vanishes at both ends: a label that the model
    is sure of is probably a missing positive. Known positives: (1 - p_m)^gamma (-log p_m) with p_m =
    sigmoid(z - margin); margin = gamma = 0 is -log p.

    Args:
        logits: (B, C).
        target: int64 (B,) class indices, or integer (B, C) in {-1, 0, +1}; known negatives get -log(1 - p).
        lam: >= 1.5, so that the gradient never changes its sign; 1.5 makes it 3 p^2 (1 - p)^2.
        margin: of known positives, >= 0, in logits.
        gamma: focusing exponent of known positives, >= 0.
        eps: added inside the logarithm, only without focus (gamma = 0); 1e-7 with margin = 0 reproduces the
            copy in the code released with GR.
        reduction: `mean` over B * C, `sum` (released code), or `none`.

    Returns:
        A scalar, or (B, C) for `none`.

    Raises:
        ValueError, TypeError: an argument outside its domain; see also `elementwise`.

    Example:
        >>> import torch
        >>> round(hill_loss(torch.zeros(1, 2), torch.tensor([0]), margin=0.0, gamma=0.0).item(), 4)
        0.4716

    Source: Zhang et al., "Simple and Robust Loss Design for Multi-Label Learning with Missing Labels",
    arXiv 2112.07368.
    """
    check_non_negative(margin=margin, gamma=gamma, eps=eps)
    if not lam >= 1.5:
        raise ValueError(f"lam must be at least 1.5, got {lam}")
    if eps and gamma:
        raise ValueError(f"eps needs gamma = 0, got eps = {eps} and gamma = {gamma}")
    positive = focal_positive(gamma) if gamma else positive_eps_loss(eps)
    return elementwise(
        logits,
        target,
        positive=shifted(margin, positive),
        unknown=hill(lam),
        reduction=reduction,
    )


def splc_loss(
    logits: Tensor,
    target: Tensor,
    *,
    tau: float = 0.6,
    margin: float = 1.0,
    gamma: float = 2.0,
    reduction: Reduction = "mean",
) -> Tensor:
    """Self-paced loss correction: an unknown label with p > tau counts as a positive.

    Known positives: (1 - p_m)^gamma (-log p_m) with p_m = sigmoid(z - margin). Unknown labels:
    p^gamma l- where p <= tau, (1 - p)^gamma l+ (without the margin) where p > tau. The gradient flows through
    the focusing factors. Before its first epoch of correction the method is `focal_loss` with a margin.

    Args:
        logits: (B, C).
        target: int64 (B,) class indices, or integer (B, C) in {-1, 0, +1}; known negatives get -log(1 - p).
        tau: threshold of the correction, in [0, 1].
        margin: of known positives, >= 0, in logits.
        gamma: focusing exponent, >= 0.
        reduction: `mean` over B * C, `sum` (released code), or `none`.

    Returns:
        A scalar, or (B, C) for `none`.

    Raises:
        ValueError, TypeError: an argument outside its domain; see also `elementwise`.

    Example:
        >>> import torch
        >>> round(splc_loss(torch.tensor([[0.0, 3.0]]), torch.tensor([0]), gamma=0.0).item(), 4)
        0.6809

    Source: Zhang et al., "Simple and Robust Loss Design for Multi-Label Learning with Missing Labels",
    arXiv 2112.07368.
    """
    check_non_negative(margin=margin, gamma=gamma)
    check_share(tau=tau)
    positive = focal_positive(gamma)
    return elementwise(
        logits,
        target,
        positive=shifted(margin, positive),
        unknown=switched(step(tau), positive, focal_negative(gamma)),
        reduction=reduction,
    )
