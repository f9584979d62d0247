"""Unknown labels are taken for negatives, with or without a weight."""

from __future__ import annotations

from torch import Tensor

from .elementwise import Reduction, elementwise
from .terms import negative_eps_loss, positive_eps_loss


def an_loss(logits: Tensor, target: Tensor, *, eps: float = 0.0, reduction: Reduction = "mean") -> Tensor:
    """Assume-negative loss: binary cross-entropy in which every unknown label counts as a negative.

    l+ = -log p on known positives, l- = -log(1 - p) on everything else. Gradient p - s. On labels without
    unknowns it is plain binary cross-entropy.

    Args:
        logits: (B, C).
        target: int64 (B,) class indices, or integer (B, C) in {-1, 0, +1}.
        eps: added inside the logarithms; 1e-5 reproduces the implementation released by Cole et al.
        reduction: `mean` over B * C, `sum`, or `none`.

    Returns:
        A scalar, or (B, C) for `none`.

    Raises:
        ValueError, TypeError: see `elementwise`.

    Example:
        >>> import torch
        >>> round(an_loss(torch.zeros(2, 4), torch.tensor([0, 3])).item(), 4)
        0.6931

    Source: Cole et al., "Multi-Label Learning from Single Positive Labels", CVPR 2021, Eq. 5.
    """
    negative = negative_eps_loss(eps)
    return elementwise(
        logits,
        target,
        positive=positive_eps_loss(eps),
        unknown=negative,
        negative=negative,
        reduction=reduction,
    )
