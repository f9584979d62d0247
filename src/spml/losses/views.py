"""Losses that compare several views of the same samples (IGNORE, PLC, LAC)."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from ._core.domains import check_non_negative, check_positive
from ._core.elementwise import check_like_logits, check_target, elementwise, log_losses
from ._core.evaluate import upcast
from ._core.rows import LOG_ZERO, by_label
from ._core.terms import (
    Number,
    Term,
    lookup,
    negative_eps_loss,
    negative_log_loss,
    no_loss,
    positive_eps_loss,
    positive_log_loss,
    switched,
)
from .modules import as_module

__all__ = ["IgnoreLoss", "PLCLoss", "ignore_loss", "lac_loss", "plc_loss"]


def ignore_loss(
    logits: Tensor,
    target: Tensor,
    strong_logits: Tensor,
    masked_logits: Tensor | None = None,
    *,
    gap_threshold: Number = 0.0,
    mean_logits: Number = 0.0,
    weight_pos: float = 0.1,
    weight_an: float = 1.0,
    weight_views: float = 0.5,
    eps: float = 0.0,
) -> Tensor:
    """Information-gap rejection (IGNORE), with a plain, a strongly augmented and a masked view.

    weight_pos * mean of l+ over known positives (plain view) + weight_an * mean of the assume-negative loss
    over labels that are not rejected (strong view) + weight_views * mean squared difference between the
    logits of the two views.

    An unknown label is rejected as a likely false negative if |z - z_masked| > gap_threshold and
    z > mean_logits: masking the image region of the observed class changes it as much as that class.

    Args:
        logits: Logits of the plain view, shape (B, C), any floating dtype.
        target: Class indices, int64 of shape (B,), or labels in {-1, 0, +1}, integer of shape (B, C). Known
            negatives are never rejected.
        strong_logits: Logits of the strongly augmented view, shape (B, C).
        masked_logits: Logits of the view in which the observed class is masked, shape (B, C); gets no
            gradient. None = nothing is rejected, as in the warm-up epochs.
        gap_threshold: Running mean of the gap at the observed class, a number or a scalar tensor.
        mean_logits: Running mean of the logits, a number or a tensor of shape (C,).
        weight_pos, weight_an, weight_views: Weights of the three parts, >= 0.
        eps: Added inside the logarithms; 1e-5 reproduces the released implementation.

    Returns:
        Scalar.

    Raises:
        ValueError, TypeError: An argument lies outside its domain, or logits or target have a wrong shape,
            dtype or range.

    Example:
        >>> import torch
        >>> zero = torch.zeros(1, 4)
        >>> round(ignore_loss(zero, torch.tensor([0]), zero).item(), 4)
        0.7625

    Source: Song et al., "Ignore: Information Gap-based False Negative Loss Rejection for Single Positive
    Multi-Label Learning", ECCV 2024.
    """
    check_target(logits, target)
    check_non_negative(weight_pos=weight_pos, weight_an=weight_an, weight_views=weight_views, eps=eps)
    check_like_logits(logits, strong_logits=strong_logits)
    positive = positive_eps_loss(eps)
    rejected = torch.zeros_like(logits, dtype=torch.bool)
    if masked_logits is not None:
        check_like_logits(logits, masked_logits=masked_logits)
        z, masked = upcast(logits).detach(), upcast(masked_logits).detach()
        suspect = ((z - masked).abs() > gap_threshold) & (z > mean_logits)
        rejected = by_label(target, positive=False, unknown=suspect, negative=False)
    unknown, masks = _if("rejected", no_loss, negative_eps_loss(eps)), {"rejected": rejected}
    assumed = log_losses(strong_logits, target, unknown, eps=eps, reduction="sum", constants=masks)
    plain = elementwise(logits, target, positive=positive, unknown=no_loss, negative=no_loss, reduction="sum")
    between = functional.mse_loss(upcast(strong_logits), upcast(logits), reduction="sum")
    return (
        weight_pos * plain / (target == 1 if target.ndim == 2 else target >= 0).sum().clamp(min=1)
        + weight_an * assumed / (~rejected).sum().clamp(min=1)
        + weight_views * between / max(logits.numel(), 1)
    )


def plc_loss(logits: Tensor, target: Tensor, strong_logits: Tensor, *, tau: float = 0.6) -> Tensor:
    """Pseudo-label consistency (PLC): cross-entropy of the strong view with pseudo-labels of the weak one.

    An unknown label is treated as a positive if p >= tau in the weak view, as a negative if p < 1 - tau, and
    left out otherwise; known labels keep their value. Mean over the labels that are not left out.

    Args:
        logits: Logits of the weakly augmented view, shape (B, C), any floating dtype, constant in the
            derivative.
        target: Class indices, int64 of shape (B,), or labels in {-1, 0, +1}, integer of shape (B, C).
        strong_logits: Logits of the strongly augmented view, shape (B, C).
        tau: Confidence threshold, in [0.5, 1].

    Returns:
        Scalar, to be added to the assume-negative loss of the weak view.

    Raises:
        ValueError, TypeError: An argument lies outside its domain, or logits or target have a wrong shape,
            dtype or range.

    Example:
        >>> import torch
        >>> weak = torch.tensor([[0.0, 4.0, 0.0, -4.0]])
        >>> round(plc_loss(weak, torch.tensor([0]), torch.zeros(1, 4)).item(), 4)
        0.6931

    Source: Xie et al., "Label-Aware Global Consistency for Multi-Label Learning with Single Positive Labels",
    NeurIPS 2022.
    """
    check_target(logits, target)
    check_like_logits(logits, strong_logits=strong_logits)
    if not 0.5 <= tau <= 1:
        raise ValueError(f"tau must lie in [0.5, 1], got {tau}")
    p = torch.sigmoid(upcast(logits)).detach()
    up, down = p >= tau, p < 1 - tau
    unknown = _if("up", positive_log_loss, _if("down", negative_log_loss, no_loss))
    masks = {"up": up, "down": down}
    total = log_losses(strong_logits, target, unknown, reduction="sum", constants=masks)
    used = by_label(target, positive=True, unknown=up | down, negative=True).sum()
    return total / used.clamp(min=1)


def _if(name: str, yes: Term, no: Term) -> Term:
    return switched(lookup(name), yes, no)


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


IgnoreLoss = as_module("IgnoreLoss", ignore_loss)
PLCLoss = as_module("PLCLoss", plc_loss)
