"""Functions shared by losses of whole rows and whole batches."""

from __future__ import annotations

from torch import Tensor

from .elementwise import Reduction

LOG_ZERO = -1e30
"""Finite stand-in for log 0, with which a sum over nothing has a gradient of zero instead of NaN."""


def by_label(
    target: Tensor, *, positive: Tensor | float, unknown: Tensor, negative: Tensor | float
) -> Tensor:
    """Select `positive` where the target is +1, `unknown` where it is 0 and `negative` where it is -1.

    Args:
        target: Class indices, int64 of shape (B,), or labels in {-1, 0, +1}, integer of shape (B, C).
        positive, negative: Values of shape (B, C), or a number.
        unknown: Values of shape (B, C).

    Returns:
        Tensor of shape (B, C).
    """
    if target.ndim == 1:
        column = target[:, None]
        if isinstance(positive, Tensor):
            return unknown.scatter(1, column, positive.gather(1, column))
        return unknown.scatter(1, column, positive)
    without_negatives = unknown.where(target != -1, negative)
    return without_negatives.where(target != 1, positive)


def reduce_rows(each: Tensor, reduction: Reduction) -> Tensor:
    """Reduce B losses: `mean`, `sum` or `none`.

    Raises:
        ValueError: The reduction is none of these.
    """
    if reduction == "none":
        return each
    if reduction not in ("mean", "sum"):
        raise ValueError(f"reduction must be 'mean', 'sum' or 'none', got {reduction!r}")
    return each.sum() / max(len(each), 1) if reduction == "mean" else each.sum()
