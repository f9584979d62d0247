"""Unknown labels contribute their entropy, with one sign or the other."""

from __future__ import annotations

from torch import Tensor

from ._core.domains import check_positive
from ._core.elementwise import Reduction, elementwise
from ._core.terms import entropy, negative_eps_loss, positive_eps_loss, scaled


def em_loss(
    logits: Tensor, target: Tensor, *, alpha: float = 0.1, eps: float = 0.0, reduction: Reduction = "mean"
) -> Tensor:
    """Entropy-maximisation loss: known positives -log p, unknown labels -alpha H(p).

    H(p) = -p log p - (1 - p) log(1 - p). The gradient on an unknown label is alpha p (1 - p) z: zero at
    z = 0, towards p = 0.5, vanishing at both ends.

    Args:
        logits: (B, C).
        target: int64 (B,) class indices, or integer (B, C) in {-1, 0, +1}; known negatives get -log(1 - p).
        alpha: weight of the entropy, > 0.
        eps: added inside the logarithms; 1e-5 reproduces the released implementation.
        reduction: `mean` over B * C, `sum`, or `none`.

    Returns:
        A scalar, or (B, C) for `none`.

    Raises:
        ValueError, TypeError: alpha is not positive; see also `elementwise`.

    Example:
        >>> import torch
        >>> round(em_loss(torch.zeros(1, 2), torch.tensor([0]), alpha=1.0).item(), 4)
        0.0

    Source: Zhou et al., "Acknowledging the Unknown for Multi-label Learning with Single Positive Labels",
    ECCV 2022, Eq. 4-5.
    """
    return _with_entropy(logits, target, -1, alpha, eps, reduction)


def entmin_loss(
    logits: Tensor, target: Tensor, *, alpha: float = 0.1, eps: float = 0.0, reduction: Reduction = "mean"
) -> Tensor:
    """Entropy-minimisation loss: known positives -log p, unknown labels +alpha H(p).

    H(p) = -p log p - (1 - p) log(1 - p). The EM loss with the opposite sign: the gradient pulls an unknown
    label to 0 or 1, whichever is nearer, and training collapses; a baseline that shows why EM maximises.

    Args:
        logits: (B, C).
        target: int64 (B,) class indices, or integer (B, C) in {-1, 0, +1}; known negatives get -log(1 - p).
        alpha: weight of the entropy, > 0. Its published value is not known.
        eps: added inside the logarithms.
        reduction: `mean` over B * C, `sum`, or `none`.

    Returns:
        A scalar, or (B, C) for `none`.

    Raises:
        ValueError, TypeError: alpha is not positive; see also `elementwise`.

    Example:
        >>> import torch
        >>> round(entmin_loss(torch.zeros(1, 2), torch.tensor([0]), alpha=1.0).item(), 4)
        0.6931

    Source: Zhou et al., "Acknowledging the Unknown for Multi-label Learning with Single Positive Labels",
    ECCV 2022 (compared method).
    """
    return _with_entropy(logits, target, 1, alpha, eps, reduction)


def _with_entropy(
    logits: Tensor, target: Tensor, sign: int, alpha: float, eps: float, reduction: Reduction
) -> Tensor:
    check_positive(alpha=alpha)
    return elementwise(
        logits,
        target,
        positive=positive_eps_loss(eps),
        unknown=scaled(sign * alpha, entropy(eps)),
        negative=negative_eps_loss(eps),
        reduction=reduction,
    )
