"""What losses of whole rows and whole batches share."""

from __future__ import annotations

from torch import Tensor

from .elementwise import Reduction

NOTHING = -1e30
"""Logarithm of zero that stays finite, so that a sum over nothing has a gradient, which is zero."""


def by_label(
    target: Tensor, *, positive: Tensor | float, unknown: Tensor, negative: Tensor | float
) -> Tensor:
    """(B, C): `positive` where the target is +1, `unknown` where 0, `negative` where -1.

    Args:
        target: int64 (B,) class indices, or integer (B, C) in {-1, 0, +1}.
        positive, negative: (B, C), or a number.
        unknown: (B, C).
    """
    if target.ndim == 1:
        place = target[:, None]
        if isinstance(positive, Tensor):
            return unknown.scatter(1, place, positive.gather(1, place))
        return unknown.scatter(1, place, positive)
    without_negatives = unknown.where(target != -1, negative)
    return without_negatives.where(target != 1, positive)


def reduce_rows(each: Tensor, reduction: Reduction) -> Tensor:
    """`mean` over the B losses, `sum`, or `none`.

    Raises:
        ValueError: another reduction.
    """
    if reduction == "none":
        return each
    if reduction not in ("mean", "sum"):
        raise ValueError(f"reduction must be 'mean', 'sum' or 'none', got {reduction!r}")
    return each.sum() / max(len(each), 1) if reduction == "mean" else each.sum()
