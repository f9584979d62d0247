"""Losses that treat unknown labels with a large loss as false negatives (LL-R, LL-Ct, LL-Cp)."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor

from ._core.domains import check_choice, check_share
from ._core.elementwise import Reduction, check_target, log_losses
from ._core.evaluate import upcast
from ._core.rows import by_label
from ._core.terms import Point, Term, at_least, cross_entropy, negative_log_loss, no_loss, switched
from .modules import as_module

__all__ = ["LLLoss", "large_loss_mask", "ll_loss"]


def ll_loss(
    logits: Tensor,
    target: Tensor,
    *,
    rate: float,
    treatment: Literal["reject", "correct"] = "reject",
    reduction: Reduction = "mean",
) -> Tensor:
    """Large-loss modification (LL): the largest losses on unknown labels are rejected or corrected.

    With k = ceil(B C rate) over the whole batch, an unknown label whose loss l- is at least the k-th largest
    among unknown labels gets 0 (`reject`) or l+ (`correct`), including all ties with the k-th. Other unknown
    labels get l-.

    Args:
        logits: Logits of shape (B, C), any floating dtype.
        target: Class indices, int64 of shape (B,), or labels in {-1, 0, +1}, integer of shape (B, C). Known
            negatives always get l-.
        rate: Share of the labels of the batch, in [0, 1]; 0 is the assume-negative loss. LL-R and LL-Ct use
            (t - 1) * Delta in epoch t = 1, 2, ..., LL-Cp uses Delta from the second epoch on.
        treatment: Treatment of large losses: `reject` (LL-R) or `correct` (LL-Ct, LL-Cp).
        reduction: Reduction of the losses: `mean` over B * C (including rejected labels), `sum`, or `none`.

    Returns:
        Scalar, or shape (B, C) for `none`; float32, or float64 for float64 logits.

    Raises:
        ValueError, TypeError: An argument lies outside its domain, or logits or target have a wrong shape,
            dtype or range.

    Example:
        >>> import torch
        >>> logits, target = torch.tensor([[0.0, 4.0, -1.0, 0.0]]), torch.tensor([0])
        >>> round(ll_loss(logits, target, rate=0.25, reduction="sum").item(), 4)
        1.6996
        >>> round(ll_loss(logits, target, rate=0.25, treatment="correct", reduction="sum").item(), 4)
        1.7177

    Source: Kim et al., "Large Loss Matters in Weakly Supervised Multi-Label Classification", CVPR 2022, Eq.
    5-8.
    """
    check_target(logits, target)
    check_choice("treatment", treatment, ("reject", "correct"))
    cut = _cut(logits, target, rate)
    unknown: Term = negative_log_loss
    if cut is not None:

        def large(x: Point) -> Tensor:
            return at_least(x.z, cut)

        unknown = switched(large, no_loss, unknown) if treatment == "reject" else cross_entropy(large)
    return log_losses(logits, target, unknown, reduction=reduction)


def large_loss_mask(logits: Tensor, target: Tensor, *, rate: float, strict: bool = False) -> Tensor:
    """Mask of the unknown labels that `ll_loss` rejects or corrects.

    Args:
        logits, target, rate: Arguments of `ll_loss`.
        strict: Whether labels with exactly the k-th largest loss are excluded, as in one released
            implementation.

    Returns:
        Mask of shape (B, C), bool.

    Raises:
        ValueError, TypeError: As in `ll_loss`.

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
    """K-th largest logit of unknown labels; None for k = 0.

    l- is strictly increasing in the logit, so logits are in the order of the losses, without ties due to
    rounding.
    """
    check_share(rate=rate)
    count = min(math.ceil(logits.numel() * rate), logits.numel())
    if count == 0:
        return None
    with torch.no_grad():
        of_unknown = by_label(target, positive=-math.inf, unknown=upcast(logits), negative=-math.inf)
        values, place = of_unknown.flatten(), logits.numel() - count
        if values.device.type == "cpu" and not torch.compiler.is_compiling():
            # In place, whereas kthvalue needs three more tensors of this size.
            values.numpy().partition(place)
            return values[place].clone()
        # Faster than topk, of which only one value would be used.
        return values.kthvalue(place + 1).values


LLLoss = as_module("LLLoss", ll_loss)
