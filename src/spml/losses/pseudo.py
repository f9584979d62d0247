"""Losses with external pseudo-labels for unknown labels (VLPL, GPR)."""

from __future__ import annotations

import torch
from torch import Tensor

from ._core.domains import check_non_negative, check_positive, check_share
from ._core.elementwise import Reduction, elementwise, log_losses
from ._core.terms import (
    Number,
    Point,
    Term,
    constant,
    cross_entropy,
    entropy,
    gaussian,
    logistic,
    negative_eps_loss,
    negative_focus,
    negative_power_loss,
    positive_eps_loss,
    positive_focus,
    positive_power_loss,
    product,
    scaled,
    switched,
    unified,
    weighted,
)
from .modules import as_module

__all__ = ["GPRLoss", "VLPLLoss", "gpr_loss", "vlpl_loss"]


def vlpl_loss(
    logits: Tensor,
    target: Tensor,
    pseudo: Tensor,
    *,
    alpha: float = 0.1,
    beta_pos: float = 0.7,
    beta_neg: float = 0.0,
    smoothing: float = 0.1,
    gamma_pos: float = 0.0,
    gamma_neg: float = 0.0,
    gamma_unknown: float = 0.0,
    eps: float = 0.0,
    reduction: Reduction = "mean",
) -> Tensor:
    """VLPL loss: entropy maximisation with external pseudo-labels, as from a vision-language model.

    Known positives: L+. Unknown labels without a pseudo-label: -alpha (1 - p)^gamma_unknown H(p); with a
    positive pseudo-label: beta_pos [(1 - e) L+ + e L-], e = smoothing; with a negative one: beta_neg L-. Here
    L+ = (1 - p)^gamma_pos l+ and L- = p^gamma_neg l-; all gammas are 0 except in the asymmetric variant.

    Args:
        logits: Logits of shape (B, C), any floating dtype.
        target: Class indices, int64 of shape (B,), or labels in {-1, 0, +1}, integer of shape (B, C). Known
            negatives get -log(1 - p).
        pseudo: Pseudo-labels in {-1, 0, +1}, integer of shape (B, C); used only where the target is unknown.
        alpha: Weight of the entropy, > 0.
        beta_pos, beta_neg: Weights of pseudo-labels, >= 0. The released code ignores negative ones.
        smoothing: Label smoothing e of positive pseudo-labels, in [0, 1].
        gamma_pos, gamma_neg, gamma_unknown: Focusing exponents, >= 0. The asymmetric variant of the released
            code has 2, 4, 4 with alpha = beta_pos = beta_neg = 1 and no smoothing.
        eps: Added inside the logarithms; 1e-5 reproduces the released code.
        reduction: Reduction of the losses: `mean` over B * C, `sum`, or `none`.

    Returns:
        Scalar, or shape (B, C) for `none`; float32, or float64 for float64 logits.

    Raises:
        ValueError, TypeError: An argument lies outside its domain, or logits or target have a wrong shape,
            dtype or range.

    Example:
        >>> import torch
        >>> pseudo = torch.tensor([[0, 1]])
        >>> round(vlpl_loss(torch.zeros(1, 2), torch.tensor([0]), pseudo, reduction="sum").item(), 4)
        1.1784

    Source: Xing et al., "Vision-Language Pseudo-Labels for Single-Positive Multi-Label Learning", CVPR 2024
    workshops.
    """
    check_positive(alpha=alpha)
    check_non_negative(beta_pos=beta_pos, beta_neg=beta_neg, eps=eps)
    check_non_negative(gamma_pos=gamma_pos, gamma_neg=gamma_neg, gamma_unknown=gamma_unknown)
    check_share(smoothing=smoothing)
    _check_pseudo(logits, pseudo)
    log_pos, log_neg = positive_eps_loss(eps), negative_eps_loss(eps)
    positive = product(positive_focus(gamma_pos), log_pos) if gamma_pos else log_pos
    negative = product(negative_focus(gamma_neg), log_neg) if gamma_neg else log_neg
    spread = product(positive_focus(gamma_unknown), entropy(eps)) if gamma_unknown else entropy(eps)
    smoothed = unified(constant(smoothing), None, negative, positive)
    if not (gamma_pos or gamma_neg):
        smoothed = cross_entropy(constant(1 - smoothing), eps)
    return elementwise(
        logits,
        target,
        positive=positive,
        unknown=_by_pseudo_label(
            scaled(beta_pos, smoothed),
            scaled(-alpha, spread),
            scaled(beta_neg, negative),
        ),
        negative=log_neg,
        reduction=reduction,
        constants={"pseudo": pseudo},
    )


def gpr_loss(
    logits: Tensor,
    target: Tensor,
    pseudo: Tensor,
    *,
    w: Number = 2.0,
    b: Number = -2.0,
    mu: Number = 0.8,
    sigma: float = 0.5,
    q2: float = 0.01,
    q3: float = 1.0,
    lam1: float = 0.7,
    lam2: float = 0.4,
    rho: float = 0.9,
    eps: float = 0.0,
    reduction: Reduction = "mean",
) -> Tensor:
    """Generalised pseudo-label robust (GPR) loss: the GR loss with external pseudo-labels.

    Known positives: l+. Unknown labels without a pseudo-label: v [k L2 + (1 - k) L3] as in `gr_loss`; with a
    positive pseudo-label: u [rho l+ + (1 - rho) l-] with u = 1 - clamp(v, 1 - lam1, 1 - lam2); with a
    negative one: v l-. k, v and u are constant in the derivative. The published loss adds reg
    ((k - K) / C)^2, in which k is the mean of sum_c p over the batch and K the mean labels per sample.

    Args:
        logits: Logits of shape (B, C), any floating dtype.
        target: Class indices, int64 of shape (B,), or labels in {-1, 0, +1}, integer of shape (B, C). Known
            negatives get -log(1 - p).
        pseudo: Pseudo-labels in {-1, 0, +1}, integer of shape (B, C); used only where the target is unknown.
        w, b: Parameters of k = sigmoid(w p + b).
        mu, sigma: Parameters of v = exp(-(p - mu)^2 / (2 sigma^2)), sigma > 0.
        q2, q3: Exponents of L2 and L3 as in `gr_loss`, >= 0.
        lam1, lam2: Upper and lower bound of u, 0 <= lam2 <= lam1 <= 1.
        rho: Share of l+ in the loss of a positive pseudo-label, in [0, 1].
        eps: Added inside the logarithms; 1e-7 reproduces the released code.
        reduction: Reduction of the losses: `mean` over B * C, `sum`, or `none`.

    Returns:
        Scalar, or shape (B, C) for `none`; float32, or float64 for float64 logits.

    Raises:
        ValueError, TypeError: An argument lies outside its domain, or logits or target have a wrong shape,
            dtype or range.

    Example:
        >>> import torch
        >>> pseudo = torch.tensor([[0, 1]])
        >>> loss = gpr_loss(torch.zeros(1, 2), torch.tensor([0]), pseudo, lam1=0.5, lam2=0.5, reduction="sum")
        >>> round(loss.item(), 4)
        1.0397

    Source: Tran et al., "More Reliable Pseudo-labels, Better Performance: A Generalized Approach to Single
    Positive Multi-label Learning", ICCV 2025.
    """
    check_non_negative(q2=q2, q3=q3, eps=eps)
    check_share(rho=rho, lam1=lam1, lam2=lam2)
    if lam2 > lam1:
        raise ValueError(f"lam2 must be at most lam1, got lam1 = {lam1} and lam2 = {lam2}")
    check_positive(sigma=sigma)
    _check_pseudo(logits, pseudo)
    v = gaussian(mu, sigma)

    def trust(x: Point) -> Tensor:
        return 1 - v(x).clamp(1 - lam1, 1 - lam2)

    unknown = _by_pseudo_label(
        weighted(trust, cross_entropy(constant(rho), eps)),
        unified(logistic(w, b), v, positive_power_loss(q2), negative_power_loss(q3)),
        weighted(v, negative_eps_loss(eps)),
    )
    return log_losses(logits, target, unknown, eps=eps, reduction=reduction, constants={"pseudo": pseudo})


def _by_pseudo_label(positive: Term, without: Term, negative: Term) -> Term:
    def is_positive(x: Point) -> Tensor:
        return x.constants["pseudo"].to(x.z.dtype).clamp_(min=0)

    def is_negative(x: Point) -> Tensor:
        return x.constants["pseudo"].to(x.z.dtype).clamp_(max=0).neg_()

    return switched(is_positive, positive, switched(is_negative, negative, without))


def _check_pseudo(logits: Tensor, pseudo: Tensor) -> None:
    if pseudo.shape != logits.shape:
        raise ValueError(
            f"pseudo must have the shape of the logits, {tuple(logits.shape)}, got {tuple(pseudo.shape)}"
        )
    if pseudo.is_floating_point() or pseudo.dtype in (torch.bool, torch.uint8):
        raise TypeError(f"pseudo must be a signed integer type with -1, 0, +1, got {pseudo.dtype}")
    if pseudo.device.type == "cpu" and pseudo.numel() and not -1 <= pseudo.min() <= pseudo.max() <= 1:
        raise ValueError(
            f"pseudo values must lie in -1 ... 1, got {int(pseudo.min())} ... {int(pseudo.max())}"
        )


GPRLoss = as_module("GPRLoss", gpr_loss)
VLPLLoss = as_module("VLPLLoss", vlpl_loss)
