"""Known positives are ranked above everything else, pair by pair."""

from __future__ import annotations

import torch
from torch import Tensor

from ._core.elementwise import Reduction, check_target, elementwise
from ._core.terms import Weight, beside, constant, negative_power_loss, positive_power_loss, weighted


def pr_loss(logits: Tensor, target: Tensor, *, reduction: Reduction = "mean") -> Tensor:
    """Pairwise-ranking loss: sum over known positives i and other labels j of max(0, 1 - p_i + p_j).

    The hinge is on probabilities and never clips, because p_i - p_j <= 1. So a row with P positives and U
    other labels costs U sum_i (1 - p_i) + P sum_j p_j, in O(C) and not O(P U). Gradient -U p_i (1 - p_i) and
    P p_j (1 - p_j). A row without a known positive has no pair and costs nothing.

    Args:
        logits: (B, C).
        target: int64 (B,) class indices, or integer (B, C) in {-1, 0, +1}; unknown labels and known
            negatives are ranked below known positives alike.
        reduction: `mean` = sum over pairs / (B * C), `sum`, or `none` (a pair is shared out among its two
            labels).

    Returns:
        A scalar, or (B, C) for `none`.

    Raises:
        ValueError, TypeError: see `elementwise`.

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
        above, below = beside("others"), beside("positives")
    lower = weighted(below, negative_power_loss(1))
    return elementwise(
        logits,
        target,
        positive=weighted(above, positive_power_loss(1)),
        unknown=lower,
        negative=lower,
        reduction=reduction,
        beside=partners,
    )
