"""The expected number of positives per sample is held near the mean that the user states (EPR, ROLE)."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from ._core.domains import check_non_negative, check_positive
from ._core.elementwise import check_target, elementwise, upcast
from ._core.terms import Term, beside, negative_eps_loss, positive_eps_loss, unified
from .assume_negative import iu_loss


def epr_regulariser_loss(logits: Tensor, *, mean_labels: float) -> Tensor:
    """Expected-positive regulariser R = ((k - K) / C)^2, where k = sum of p / B.

    A statistic of the batch: its mean over parts of a batch is another number. Gradient
    2 (k - K) p (1 - p) / (C^2 B).

    Args:
        logits: (B, C).
        mean_labels: mean labels per sample K, > 0.

    Returns:
        A scalar; 0 for an empty batch.

    Raises:
        ValueError: mean_labels is not positive.

    Example:
        >>> import torch
        >>> round(epr_regulariser_loss(torch.zeros(2, 4), mean_labels=1.0).item(), 4)
        0.0625

    Source: Cole et al., "Multi-Label Learning from Single Positive Labels", CVPR 2021, Eq. 6.
    """
    check_positive(mean_labels=mean_labels)
    rows, classes = logits.shape
    total = torch.sigmoid(upcast(logits)).sum()
    return ((total / rows - mean_labels) / classes).square() if logits.numel() else total


def epr_loss(
    logits: Tensor,
    target: Tensor,
    *,
    mean_labels: float,
    weight: float = 1.0,
    norm: Literal["elements", "samples"] = "elements",
    eps: float = 0.0,
) -> Tensor:
    """Expected-positive regularisation: l+ on known positives, plus weight * ((k - K) / C)^2.

    Unknown labels enter only by k, the sum of p over the batch divided by B.

    Args:
        logits: (B, C).
        target: int64 (B,) class indices, or integer (B, C) in {-1, 0, +1}; known negatives get -log(1 - p).
        mean_labels: mean labels per sample K, > 0.
        weight: lambda, of the regulariser, >= 0.
        norm: known labels are summed and divided by B * C (`elements`, released code) or by B (`samples`,
            the paper).
        eps: added inside the logarithms; 1e-5 reproduces the released implementation.

    Returns:
        A scalar.

    Raises:
        ValueError, TypeError: an argument outside its domain; see also `elementwise`.

    Example:
        >>> import torch
        >>> round(epr_loss(torch.zeros(2, 4), torch.tensor([0, 3]), mean_labels=1.0).item(), 4)
        0.2358

    Source: Cole et al., "Multi-Label Learning from Single Positive Labels", CVPR 2021, Eq. 6.
    """
    check_non_negative(weight=weight)
    if norm not in ("elements", "samples"):
        raise ValueError(f"norm must be 'elements' or 'samples', got {norm!r}")
    known = iu_loss(logits, target, eps=eps)
    if norm == "samples":
        known = known * logits.shape[1]
    return known + weight * epr_regulariser_loss(logits, mean_labels=mean_labels)


def role_loss(
    logits: Tensor,
    target: Tensor,
    estimates: Tensor,
    *,
    mean_labels: float,
    weight: float = 1.0,
    eps: float = 0.0,
) -> Tensor:
    """Regularised online label estimation: classifier p and estimated labels q teach each other.

    (L(p | q) + L(q | p)) / 2 with L(p | q) = mean over B * C of [l+ on known positives + (-q log p -
    (1 - q) log(1 - p)) on all labels] + weight * R(p). The condition is constant in the derivative. R is
    the expected-positive regulariser.

    Args:
        logits: (B, C), of the classifier.
        target: int64 (B,) class indices, or integer (B, C) in {-1, 0, +1}; known negatives add -log(1 - p).
        estimates: (B, C), logits of the estimated labels, q = sigmoid(estimates).
        mean_labels: mean labels per sample K, > 0.
        weight: of the regulariser, >= 0.
        eps: added inside the logarithms; 1e-5 reproduces the released implementation.

    Returns:
        A scalar. Both `logits` and `estimates` get a gradient.

    Raises:
        ValueError, TypeError: an argument outside its domain; see also `elementwise`.

    Example:
        >>> import torch
        >>> zero = torch.zeros(2, 4)
        >>> round(role_loss(zero, torch.tensor([0, 3]), zero, mean_labels=2.0).item(), 4)
        0.8664

    Source: Cole et al., "Multi-Label Learning from Single Positive Labels", CVPR 2021, Eq. 7-8.
    """
    check_target(logits, target)
    check_non_negative(weight=weight)
    if estimates.shape != logits.shape:
        raise ValueError(
            f"estimates must have the shape of the logits, {tuple(logits.shape)}, got "
            f"{tuple(estimates.shape)}"
        )
    both = ((logits, estimates), (estimates, logits))
    halves = [
        _explain(learner, target, torch.sigmoid(upcast(teacher)).detach(), eps)
        + weight * epr_regulariser_loss(learner, mean_labels=mean_labels)
        for learner, teacher in both
    ]
    return (halves[0] + halves[1]) / 2


def _explain(logits: Tensor, target: Tensor, soft: Tensor, eps: float) -> Tensor:
    """Cross-entropy to soft labels on all entries, plus that to the known ones; mean over B * C."""
    positive, negative = positive_eps_loss(eps), negative_eps_loss(eps)
    crossed = unified(beside("soft"), None, positive, negative)
    return elementwise(
        logits,
        target,
        positive=_sum(positive, crossed),
        unknown=crossed,
        negative=_sum(negative, crossed),
        beside={"soft": soft},
    )


def _sum(first: Term, second: Term) -> Term:
    return lambda x: tuple(a + b for a, b in zip(first(x), second(x), strict=True))  # type: ignore[return-value]
