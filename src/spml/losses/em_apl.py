"""Entropy maximisation with soft pseudo-negatives."""

from __future__ import annotations

from torch import Tensor

from ._core.domains import check_positive
from ._core.elementwise import Reduction, check_target, elementwise
from ._core.point import Point
from ._core.terms import (
    at_least,
    beside,
    entropy,
    negative_eps_loss,
    positive_eps_loss,
    scaled,
    switched,
    unified,
)


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
    """EM loss with asymmetric pseudo-labelling: a pseudo-negative has a soft target q.

    l+ on known positives, beta (q l+ + (1 - q) l-) on pseudo-negatives, -alpha H(p) on other unknown labels.

    Args:
        logits: (B, C).
        target: int64 (B,) class indices, or integer (B, C) in {-1, 0, +1}; known negatives get -log(1 - p).
        soft: (B, C), floating point: q in [0, 1] of a pseudo-negative, negative elsewhere. Looked at for
            unknown labels only.
        alpha: weight of the entropy, > 0.
        beta: weight of pseudo-negatives, > 0.
        eps: added inside the logarithms; 1e-5 reproduces the released implementation.
        reduction: `mean` over B * C, `sum`, or `none`.

    Returns:
        A scalar, or (B, C) for `none`.

    Raises:
        ValueError, TypeError: an argument outside its domain; see also `elementwise`.

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
    if soft.shape != logits.shape or not soft.is_floating_point():
        raise ValueError(
            f"soft must be floating point of the shape of the logits, {tuple(logits.shape)}, "
            f"got {soft.dtype} {tuple(soft.shape)}"
        )
    positive, negative = positive_eps_loss(eps), negative_eps_loss(eps)

    def labelled(x: Point) -> Tensor:
        return at_least(x.beside["soft"].to(x.z.dtype), 0)

    crossed = unified(beside("soft"), None, positive, negative)
    return elementwise(
        logits,
        target,
        positive=positive,
        unknown=switched(labelled, scaled(beta, crossed), scaled(-alpha, entropy(eps))),
        negative=negative,
        reduction=reduction,
        beside={"soft": soft.detach()},
    )
