"""Label enhancement: soft labels from outside, and how far their distribution is from the uniform one."""

from __future__ import annotations

import torch
from torch import Tensor

from ._core.domains import check_non_negative
from ._core.elementwise import Reduction, elementwise, upcast
from ._core.terms import beside, negative_eps_loss, positive_eps_loss, scaled, unified


def smile_loss(
    logits: Tensor,
    target: Tensor,
    soft: Tensor,
    *,
    unknown_weight: float = 1.0,
    eps: float = 0.0,
    reduction: Reduction = "mean",
) -> Tensor:
    """Classifier loss of SMILE: binary cross-entropy with soft labels d for what is unknown.

    Known positives: l+. Unknown labels: unknown_weight [d l+ + (1 - d) l-].

    Args:
        logits: (B, C).
        target: int64 (B,) class indices, or integer (B, C) in {-1, 0, +1}; known negatives get -log(1 - p).
        soft: floating point (B, C) in [0, 1]; counts only where the target is unknown; gets no gradient.
        unknown_weight: >= 0. The option `bias` of the released code is 1 / (C - 1).
        eps: added inside the logarithms; 1e-5 reproduces the released code.
        reduction: `mean` over B * C, `sum`, or `none`.

    Returns:
        A scalar, or (B, C) for `none`.

    Raises:
        ValueError, TypeError: an argument outside its domain; see also `elementwise`.

    Example:
        >>> import torch
        >>> z, soft = torch.tensor([[0.0, 2.0]]), torch.tensor([[0.0, 1.0]])
        >>> round(smile_loss(z, torch.tensor([0]), soft, reduction="sum").item(), 4)
        0.8201

    Source: Xu et al., "One Positive Label is Sufficient: Single-Positive Multi-Label Learning with Label
    Enhancement", NeurIPS 2022.
    """
    check_non_negative(unknown_weight=unknown_weight, eps=eps)
    _check_soft(logits, soft)
    positive, negative = positive_eps_loss(eps), negative_eps_loss(eps)
    return elementwise(
        logits,
        target,
        positive=positive,
        unknown=scaled(unknown_weight, unified(beside("soft"), None, positive, negative)),
        negative=negative,
        reduction=reduction,
        beside={"soft": soft},
    )


def beta_kl_loss(a: Tensor, b: Tensor) -> Tensor:
    """Kullback-Leibler divergence of Beta(a, b) from the uniform distribution Beta(1, 1), mean over elements.

    log G(a + b) - log G(a) - log G(b) + (a - 1) psi(a) + (b - 1) psi(b) - (a + b - 2) psi(a + b), with the
    gamma function G and its logarithmic derivative psi. The released code has other signs, and no divergence.

    Args:
        a, b: floating point, the same shape, > 0; computed in float32 at least. SMILE has a = D and b = 1 - D
            for a soft label D, kept away from 0 and 1.

    Returns:
        A scalar >= 0; 0 for empty tensors.

    Raises:
        ValueError: shapes differ; on the CPU also a value that is not positive.

    Example:
        >>> import torch
        >>> round(beta_kl_loss(torch.tensor([2.0]), torch.tensor([1.0])).item(), 4)
        0.1931

    Source: Xu et al., "One Positive Label is Sufficient: Single-Positive Multi-Label Learning with Label
    Enhancement", NeurIPS 2022.
    """
    if a.shape != b.shape:
        raise ValueError(f"a and b must have the same shape, got {tuple(a.shape)} and {tuple(b.shape)}")
    if a.device.type == "cpu" and not ((a > 0).all() and (b > 0).all()):
        raise ValueError("a and b must be greater than 0")
    a, b = upcast(a), upcast(b)
    total = a + b
    divergence = (
        torch.lgamma(total)
        - torch.lgamma(a)
        - torch.lgamma(b)
        + (a - 1) * torch.digamma(a)
        + (b - 1) * torch.digamma(b)
        - (total - 2) * torch.digamma(total)
    )
    return divergence.sum() / max(a.numel(), 1)


def _check_soft(logits: Tensor, soft: Tensor) -> None:
    if soft.shape != logits.shape or not soft.is_floating_point():
        raise ValueError(
            f"soft must be floating point with the shape of the logits, {tuple(logits.shape)}, got "
            f"{soft.dtype} {tuple(soft.shape)}"
        )
    if soft.device.type == "cpu" and not ((soft >= 0) & (soft <= 1)).all():
        raise ValueError("soft must lie in [0, 1]")
