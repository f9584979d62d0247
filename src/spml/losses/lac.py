"""Label-aware contrast of embeddings of classes (LAC)."""

from __future__ import annotations

import torch
from torch import Tensor

from ._core.domains import check_positive
from ._core.evaluate import upcast
from ._core.rows import LOG_ZERO


def lac_loss(first: Tensor, second: Tensor, classes: Tensor, *, temperature: float = 0.5) -> Tensor:
    """Label-aware contrast (LAC) of embeddings e of entries, each a class of a sample in two views.

    Mean over the 2 V embeddings a of log sum_b exp(e_a . e_b / T) - mean_b+ (e_a . e_b+ / T), where b are all
    others, b+ the others of the same class, and T is the temperature. The other view of an entry is one of
    its b+.

    Args:
        first, second: Embeddings of length 1 in the first and in the second view, floating point of shape
            (V, E); computed in at least float32.
        classes: Class of each entry, int64 of shape (V,); -1 leaves it out.
        temperature: T > 0.

    Returns:
        Scalar >= 0; 0 for one entry or none.

    Raises:
        ValueError: `temperature` is not positive, or the shapes do not go together.

    Example:
        >>> import torch
        >>> same = torch.tensor([[1.0, 0.0], [1.0, 0.0]])
        >>> round(lac_loss(same, same, torch.tensor([0, 1])).item(), 4)
        1.0986

    Source: Xie et al., "Label-Aware Global Consistency for Multi-Label Learning with Single Positive Labels",
    NeurIPS 2022.
    """
    check_positive(temperature=temperature)
    if first.shape != second.shape or first.ndim != 2 or classes.shape != first.shape[:1]:
        raise ValueError(
            "first and second must have the same shape (V, E), and classes the shape (V,), got "
            f"{tuple(first.shape)}, {tuple(second.shape)} and {tuple(classes.shape)}"
        )
    entries, of = upcast(torch.cat([first, second])), torch.cat([classes, classes])
    similarity, used = entries @ entries.T / temperature, of >= 0
    other = used & ~torch.eye(len(entries), dtype=torch.bool, device=entries.device)
    same = (of[:, None] == of) & other
    attracted = similarity.where(same, 0).sum(1) / same.sum(1).clamp(min=1)
    each = similarity.where(other, LOG_ZERO).logsumexp(1) - attracted
    return each.where(used, 0).sum() / used.sum().clamp(min=1)
