"""Pairwise ranking of known positives above all other labels."""

from __future__ import annotations

import torch
from torch import Tensor

from ._core.elementwise import Reduction, check_target, elementwise
from ._core.terms import Weight, negative_power_loss, positive_power_loss, weighted
from ._core.weights import constant, lookup


def pr_loss(logits: Tensor, target: Tensor, *, reduction: Reduction = "mean") -> Tensor:
    """Pairwise-ranking loss: sum over known positives i and other labels j of max(0, 1 - p_i + p_j).

    The hinge is on probabilities and never clips, because p_i - p_j <= 1. The loss of a row with P positives
    and U other labels is therefore U sum_i (1 - p_i) + P sum_j p_j, which takes O(C) instead of O(P U). The
    gradients are -U p_i (1 - p_i) and P p_j (1 - p_j). A row without a known positive has no pairs and no
    loss.

    Args:
        logits: Logits of shape (B, C), any floating dtype.
        target: Class indices, int64 of shape (B,), or labels in {-1, 0, +1}, integer of shape (B, C). Unknown
            labels and known negatives are equally ranked below known positives.
        reduction: Reduction of the losses: `mean` = sum over pairs / (B * C), `sum`, or `none` (the loss of a
            pair is split between its two labels).

    Returns:
        Scalar, or shape (B, C) for `none`; float32, or float64 for float64 logits.

    Raises:
        ValueError, TypeError: Logits or target have a wrong shape, dtype or range.

    Example:
        >>> import torch
        >>> round(pr_loss(torch.zeros(1, 5), torch.tensor([2]), reduction="sum").item(), 4)
        4.0

    Source: Cole et al., "Multi-Label Learning from Single Positive Labels", CVPR 2021 (compared method).
    """
    check_target(logits, target)
    classes = logits.shape[1]
    partners: dict[str, Tensor] | None = None
    above: Weight = constant(classes - 1)
    below: Weight = constant(1)
    if target.ndim == 2:
        count = (target == 1).sum(1, keepdim=True, dtype=torch.int64)
        partners = {"others": (classes - count).expand(target.shape), "positives": count.expand(target.shape)}
        above, below = lookup("others"), lookup("positives")
    lower = weighted(below, negative_power_loss(1))
    return elementwise(
        logits,
        target,
        positive=weighted(above, positive_power_loss(1)),
        unknown=lower,
        negative=lower,
        reduction=reduction,
        constants=partners,
    )
