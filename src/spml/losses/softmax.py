"""Softmax cross-entropy on the observed label."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from ._core.elementwise import Reduction, check_target
from ._core.evaluate import upcast
from ._core.rows import LOG_ZERO, reduce_rows


def softmax_loss(logits: Tensor, target: Tensor, *, reduction: Reduction = "mean") -> Tensor:
    """Softmax cross-entropy on the observed label: -log(e^z_o / sum_c e^z_c).

    Known negatives are left out of the sum. With several known positives i, the loss is the mean of
    -log(e^z_i / (e^z_i + sum over unknown labels of e^z)), so that they do not compete with each other.

    Args:
        logits: Logits of shape (B, C), any floating dtype, or log-probabilities, which give the same loss.
            They are not log-odds, and an offset common to all logits of a sample is arbitrary: compare
            samples by log-softmax.
        target: Class indices, int64 of shape (B,), or labels in {-1, 0, +1}, integer of shape (B, C).
        reduction: Reduction of the losses: `mean` over B, `sum`, or `none`.

    Returns:
        Scalar, or shape (B,) for `none`. A row without a known positive contributes 0.

    Raises:
        ValueError, TypeError: Logits or target have a wrong shape, dtype or range.

    Example:
        >>> import torch
        >>> round(softmax_loss(torch.zeros(1, 4), torch.tensor([0])).item(), 4)
        1.3863
        >>> round(softmax_loss(torch.zeros(1, 4), torch.tensor([[1, 0, 0, -1]])).item(), 4)
        1.0986

    Source: multi-class logistic regression, with the observed label as if it were the only one.
    """
    check_target(logits, target)
    z = upcast(logits)
    if target.ndim == 1:
        return reduce_rows(functional.cross_entropy(z, target, reduction="none"), reduction)
    positive = target == 1
    rivals = torch.logsumexp(z.where(target == 0, LOG_ZERO), 1, keepdim=True)
    # Not softplus, which is linear above 20.
    each = -functional.logsigmoid(z - rivals).where(positive, 0).sum(1)
    return reduce_rows(each / positive.sum(1).clamp(min=1), reduction)
