"""Unknown labels with a large assumed-negative loss are taken for false negatives (LL-R, LL-Ct, LL-Cp)."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor

from ._core.domains import check_share
from ._core.elementwise import Reduction, check_target, elementwise, upcast
from ._core.point import Point
from ._core.rows import by_label
from ._core.terms import Term, at_least, negative_log_loss, no_loss, positive_log_loss, switched


def ll_loss(
    logits: Tensor,
    target: Tensor,
    *,
    rate: float,
    treatment: Literal["reject", "correct"] = "reject",
    reduction: Reduction = "mean",
) -> Tensor:
    """Large-loss modification: assume-negative loss, but the largest losses on unknown labels are rejected
    or corrected.

    Over the whole batch, with k = ceil(B C rate), an unknown label whose loss l- is at least the k-th
    largest among unknown labels gets 0 (`reject`) or l+ (`correct`). Ties at the k-th all count. The rest
    gets l-.

    Args:
        logits: (B, C).
        target: int64 (B,) class indices, or integer (B, C) in {-1, 0, +1}; known negatives get l- always.
        rate: share of the batch's labels, in [0, 1]; 0 changes nothing. LL-R and LL-Ct: epoch t = 1, 2, ...
            has (t - 1) * Delta; LL-Cp: Delta, from the second epoch on.
        treatment: `reject` (LL-R) or `correct` (LL-Ct, LL-Cp).
        reduction: `mean` over B * C (rejected labels count), `sum`, or `none`.

    Returns:
        A scalar, or (B, C) for `none`.

    Raises:
        ValueError, TypeError: an argument outside its domain; see also `elementwise`.

    Example:
        >>> import torch
        >>> logits, target = torch.tensor([[0.0, 4.0, -1.0, 0.0]]), torch.tensor([0])
        >>> round(ll_loss(logits, target, rate=0.25, reduction="sum").item(), 4)
        1.6996
        >>> round(ll_loss(logits, target, rate=0.25, treatment="correct", reduction="sum").item(), 4)
        1.7177

    Source: Kim et al., "Large Loss Matters in Weakly Supervised Multi-Label Classification", CVPR 2022,
    Eq. 5-8.
    """
    check_target(logits, target)
    if treatment not in ("reject", "correct"):
        raise ValueError(f"treatment must be 'reject' or 'correct', got {treatment!r}")
    cut = _cut(logits, target, rate)
    unknown: Term = negative_log_loss
    if cut is not None:

        def large(x: Point) -> Tensor:
            return at_least(x.z, cut)

        unknown = switched(large, no_loss if treatment == "reject" else positive_log_loss, unknown)
    return elementwise(logits, target, positive=positive_log_loss, unknown=unknown, reduction=reduction)


def large_loss_mask(logits: Tensor, target: Tensor, *, rate: float, strict: bool = False) -> Tensor:
    """Which unknown labels `ll_loss` rejects or corrects.

    Args:
        logits, target, rate: as in `ll_loss`.
        strict: leave out those at the k-th largest loss, as one released implementation does.

    Returns:
        bool (B, C).

    Raises:
        ValueError, TypeError: as `ll_loss`.

    Example:
        >>> import torch
        >>> logits, target = torch.tensor([[0.0, 4.0, -1.0, 0.0]]), torch.tensor([0])
        >>> large_loss_mask(logits, target, rate=0.25).tolist()
        [[False, True, False, False]]
    """
    check_target(logits, target)
    cut = _cut(logits, target, rate)
    if cut is None:
        return torch.zeros_like(logits, dtype=torch.bool)
    z = upcast(logits)
    return by_label(target, positive=False, unknown=z > cut if strict else z >= cut, negative=False)


def _cut(logits: Tensor, target: Tensor, rate: float) -> Tensor | None:
    """The k-th largest logit of unknown labels; None for k = 0.

    l- rises strictly with the logit, so the order of logits is that of losses, without the ties that
    rounding makes.
    """
    check_share(rate=rate)
    count = min(math.ceil(logits.numel() * rate), logits.numel())
    if count == 0:
        return None
    with torch.no_grad():
        of_unknown = by_label(target, positive=-math.inf, unknown=upcast(logits), negative=-math.inf)
        # Faster than topk, and only one value is wanted.
        return of_unknown.flatten().kthvalue(logits.numel() - count + 1).values
