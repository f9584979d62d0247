"""Losses that compare several views of the same samples (IGNORE, PLC)."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from ._core.domains import check_non_negative
from ._core.elementwise import check_target, elementwise, upcast
from ._core.point import Point
from ._core.rows import by_label
from ._core.terms import (
    Number,
    Term,
    negative_eps_loss,
    negative_log_loss,
    no_loss,
    positive_eps_loss,
    positive_log_loss,
    switched,
)


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
    """Information-gap rejection: weight_pos * mean over known positives of l+ (plain view) + weight_an * mean
    over labels that are not rejected of the assume-negative loss (strong view) + weight_views * mean squared
    difference of the two views' logits.

    An unknown label is rejected as a likely false negative if |z - z_masked| > gap_threshold and
    z > mean_logits: hiding what the observed class was seen by changes it as much as that class.

    Args:
        logits: (B, C), of the plain view.
        target: int64 (B,) class indices, or integer (B, C) in {-1, 0, +1}; known negatives are never
            rejected.
        strong_logits: (B, C), of the strongly augmented view.
        masked_logits: (B, C), of the view in which the observed class is hidden; only compared with, it gets
            no gradient. None = nothing is rejected, as in the warm-up epochs.
        gap_threshold: running mean of the gap at the observed class, a number or scalar.
        mean_logits: running mean of the logits, a number or (C,).
        weight_pos, weight_an, weight_views: >= 0.
        eps: added inside the logarithms; 1e-5 reproduces the released implementation.

    Returns:
        A scalar.

    Raises:
        ValueError, TypeError: an argument outside its domain; see also `elementwise`.

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
    _check_view("strong_logits", strong_logits, logits)
    positive, negative = positive_eps_loss(eps), negative_eps_loss(eps)
    rejected = torch.zeros_like(logits, dtype=torch.bool)
    if masked_logits is not None:
        _check_view("masked_logits", masked_logits, logits)
        z, masked = upcast(logits).detach(), upcast(masked_logits).detach()
        suspect = ((z - masked).abs() > gap_threshold) & (z > mean_logits)
        rejected = by_label(target, positive=False, unknown=suspect, negative=False)
    assumed = elementwise(
        strong_logits,
        target,
        positive=positive,
        unknown=_if("rejected", no_loss, negative),
        negative=negative,
        reduction="sum",
        beside={"rejected": rejected},
    )
    shown = elementwise(logits, target, positive=positive, unknown=no_loss, negative=no_loss, reduction="sum")
    between = functional.mse_loss(upcast(strong_logits), upcast(logits), reduction="sum")
    return (
        weight_pos * shown / (target == 1 if target.ndim == 2 else target >= 0).sum().clamp(min=1)
        + weight_an * assumed / (~rejected).sum().clamp(min=1)
        + weight_views * between / max(logits.numel(), 1)
    )


def plc_loss(logits: Tensor, target: Tensor, strong_logits: Tensor, *, tau: float = 0.6) -> Tensor:
    """Pseudo-label consistency: binary cross-entropy of the strong view with hard labels of the weak one.

    An unknown label is taken for positive where the weak view has p >= tau, for negative where p < 1 - tau,
    and left out between; known labels are what they are. Mean over what is not left out.

    Args:
        logits: (B, C), of the weakly augmented view; constant in the derivative.
        target: int64 (B,) class indices, or integer (B, C) in {-1, 0, +1}.
        strong_logits: (B, C), of the strongly augmented view.
        tau: in [0.5, 1].

    Returns:
        A scalar, to be added to the assume-negative loss of the weak view.

    Raises:
        ValueError, TypeError: an argument outside its domain; see also `elementwise`.

    Example:
        >>> import torch
        >>> weak = torch.tensor([[0.0, 4.0, 0.0, -4.0]])
        >>> round(plc_loss(weak, torch.tensor([0]), torch.zeros(1, 4)).item(), 4)
        0.6931

    Source: Xie et al., "Label-Aware Global Consistency for Multi-Label Learning with Single Positive Labels",
    NeurIPS 2022.
    """
    check_target(logits, target)
    _check_view("strong_logits", strong_logits, logits)
    if not 0.5 <= tau <= 1:
        raise ValueError(f"tau must lie in [0.5, 1], got {tau}")
    p = torch.sigmoid(upcast(logits)).detach()
    up, down = p >= tau, p < 1 - tau
    total = elementwise(
        strong_logits,
        target,
        positive=positive_log_loss,
        unknown=_if("up", positive_log_loss, _if("down", negative_log_loss, no_loss)),
        reduction="sum",
        beside={"up": up, "down": down},
    )
    used = by_label(target, positive=True, unknown=up | down, negative=True).sum()
    return total / used.clamp(min=1)


def _if(name: str, yes: Term, no: Term) -> Term:
    def there(x: Point) -> Tensor:
        return x.beside[name].to(x.z.dtype)

    return switched(there, yes, no)


def _check_view(name: str, view: Tensor, logits: Tensor) -> None:
    if view.shape != logits.shape or not view.is_floating_point():
        raise ValueError(
            f"{name} must be floating point with the shape of the logits, {tuple(logits.shape)}, got "
            f"{view.dtype} {tuple(view.shape)}"
        )
