"""Label enhancement (SMILE): soft labels, and the divergence of their distribution from the uniform one."""

from __future__ import annotations

from typing import Literal, TypeAlias

import torch
from torch import Tensor

from ._core.domains import check_choice, check_non_negative
from ._core.elementwise import Reduction, check_soft, elementwise
from ._core.evaluate import upcast
from ._core.terms import cross_entropy, negative_eps_loss, positive_eps_loss, scaled
from ._core.weights import lookup

KnownPositives: TypeAlias = Literal["soft", "one"]


def smile_loss(
    logits: Tensor,
    target: Tensor,
    soft: Tensor,
    *,
    unknown_weight: float = 1.0,
    known_positives: KnownPositives = "soft",
    eps: float = 0.0,
    reduction: Reduction = "mean",
) -> Tensor:
    """Classifier loss of SMILE: binary cross-entropy with soft labels d, weighted on unknown labels.

    d l+ + (1 - d) l- on known positives, unknown_weight times this on unknown labels.

    Args:
        logits: Logits of shape (B, C), any floating dtype.
        target: Class indices, int64 of shape (B,), or labels in {-1, 0, +1}, integer of shape (B, C). Known
            negatives get -log(1 - p).
        soft: Soft labels d, floating point of shape (B, C) in [0, 1]; gets no gradient. Known negatives do
            not use it.
        unknown_weight: Weight of unknown labels, >= 0. The option `bias` of the released code is 1 / (C - 1).
        known_positives: Loss of known positives: with their `soft` label, as in the released training, or l+
            (`one`), as in a function of the released code that is never called.
        eps: Added inside the logarithms; 1e-5 reproduces the released code.
        reduction: Reduction of the losses: `mean` over B * C, `sum`, or `none`.

    Returns:
        Scalar, or shape (B, C) for `none`; float32, or float64 for float64 logits.

    Raises:
        ValueError, TypeError: An argument lies outside its domain, or logits or target have a wrong shape,
            dtype or range.

    Example:
        >>> import torch
        >>> z, soft = torch.tensor([[0.0, 2.0]]), torch.tensor([[0.9, 1.0]])
        >>> round(smile_loss(z, torch.tensor([0]), soft, reduction="sum").item(), 4)
        0.8201

    Source: Xu et al., "One Positive Label is Sufficient: Single-Positive Multi-Label Learning with Label
    Enhancement", NeurIPS 2022.
    """
    check_non_negative(unknown_weight=unknown_weight, eps=eps)
    check_choice("known_positives", known_positives, ("soft", "one"))
    check_soft(logits, soft)
    with_soft = cross_entropy(lookup("soft"), eps)
    return elementwise(
        logits,
        target,
        positive=with_soft if known_positives == "soft" else positive_eps_loss(eps),
        unknown=scaled(unknown_weight, with_soft),
        negative=negative_eps_loss(eps),
        reduction=reduction,
        constants={"soft": soft},
    )


def beta_kl_loss(a: Tensor, b: Tensor) -> Tensor:
    """Kullback-Leibler divergence of Beta(a, b) from the uniform distribution Beta(1, 1), mean over elements.

    log G(a + b) - log G(a) - log G(b) + (a - 1) psi(a) + (b - 1) psi(b) - (a + b - 2) psi(a + b), with the
    gamma function G and its logarithmic derivative psi. The released code has other signs, so it does not
    compute a divergence.

    Args:
        a, b: Parameters of the distributions, floating point of the same shape, > 0; computed in at least
            float32. SMILE uses a = D and b = 1 - D for a soft label D that is kept away from 0 and 1.

    Returns:
        Scalar >= 0; 0 for empty tensors.

    Raises:
        ValueError: The shapes differ or, on CPU, a value is not positive.

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
