"""Losses that keep the expected number of positives per sample near a stated mean (EPR, ROLE)."""

from __future__ import annotations

from typing import Literal, TypeAlias

import torch
from torch import Tensor

from ._core.domains import check_choice, check_non_negative, check_positive
from ._core.elementwise import check_like_logits, check_target, elementwise
from ._core.evaluate import upcast
from ._core.terms import Point, added, cross_entropy, negative_eps_loss, positive_eps_loss, scaled
from .assume_negative import iu_loss
from .modules import as_module

__all__ = ["EPRLoss", "ROLELoss", "epr_loss", "epr_regulariser_loss", "role_loss"]

Norm: TypeAlias = Literal["elements", "samples"]


def epr_regulariser_loss(logits: Tensor, *, mean_labels: float) -> Tensor:
    """Expected-positive regulariser R = ((k - K) / C)^2 with k = (sum of p) / B.

    A statistic of the whole batch, which differs from its mean over parts of the batch. The gradient is 2
    (k - K) p (1 - p) / (C^2 B).

    Args:
        logits: Logits of shape (B, C), any floating dtype.
        mean_labels: Mean labels per sample K, > 0.

    Returns:
        Scalar; 0 for an empty batch.

    Raises:
        ValueError: `mean_labels` is not positive.

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
    norm: Norm = "elements",
    eps: float = 0.0,
) -> Tensor:
    """Expected-positive regularisation: l+ on known positives, plus weight * ((k - K) / C)^2.

    Unknown labels enter only through k, the sum of p over the batch divided by B.

    Args:
        logits: Logits of shape (B, C), any floating dtype.
        target: Class indices, int64 of shape (B,), or labels in {-1, 0, +1}, integer of shape (B, C). Known
            negatives get -log(1 - p).
        mean_labels: Mean labels per sample K, > 0.
        weight: Weight lambda of the regulariser, >= 0.
        norm: Divisor of the sum over known labels: B * C (`elements`, as in the released code) or B
            (`samples`, as in the paper).
        eps: Added inside the logarithms; 1e-5 reproduces the released implementation.

    Returns:
        Scalar.

    Raises:
        ValueError, TypeError: An argument lies outside its domain, or logits or target have a wrong shape,
            dtype or range.

    Example:
        >>> import torch
        >>> round(epr_loss(torch.zeros(2, 4), torch.tensor([0, 3]), mean_labels=1.0).item(), 4)
        0.2358

    Source: Cole et al., "Multi-Label Learning from Single Positive Labels", CVPR 2021, Eq. 6.
    """
    check_non_negative(weight=weight)
    check_choice("norm", norm, ("elements", "samples"))
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
    norm: Norm = "elements",
    eps: float = 0.0,
) -> Tensor:
    """Regularised online label estimation: classifier p and estimated labels q teach each other.

    (L(p | q) + L(q | p)) / 2, where L(p | q) is the mean over B * C of [l+ on known positives + (-q log
    p - (1 - q) log(1 - p)) on all labels], plus weight * R(p). q is constant in the derivative of L(p | q),
    and p in that of L(q | p). R is the expected-positive regulariser.

    Args:
        logits: Logits of the classifier, shape (B, C), any floating dtype.
        target: Class indices, int64 of shape (B,), or labels in {-1, 0, +1}, integer of shape (B, C). Known
            negatives add -log(1 - p).
        estimates: Logits of the estimated labels, shape (B, C): q = sigmoid(estimates).
        mean_labels: Mean labels per sample K, > 0.
        weight: Weight of the regulariser, >= 0.
        norm: Divisor of the sum over known labels: B * C (`elements`, as in the released code) or B
            (`samples`, as in the paper). That of the cross-entropy on all labels is B * C.
        eps: Added inside the logarithms; 1e-5 reproduces the released implementation.

    Returns:
        Scalar; both `logits` and `estimates` get a gradient.

    Raises:
        ValueError, TypeError: An argument lies outside its domain, or logits or target have a wrong shape,
            dtype or range.

    Example:
        >>> import torch
        >>> zero = torch.zeros(2, 4)
        >>> round(role_loss(zero, torch.tensor([0, 3]), zero, mean_labels=2.0).item(), 4)
        0.8664

    Source: Cole et al., "Multi-Label Learning from Single Positive Labels", CVPR 2021, Eq. 7-8.
    """
    check_target(logits, target)
    check_non_negative(weight=weight)
    check_choice("norm", norm, ("elements", "samples"))
    check_like_logits(logits, estimates=estimates)
    known_weight = logits.shape[1] if norm == "samples" else 1

    def soft(x: Point) -> Tensor:
        # Of a chunk at a time, so that no second tensor of the size of the logits is kept.
        return torch.sigmoid(x.constants["teacher"].to(x.z.dtype))

    crossed = cross_entropy(soft, eps)
    halves = []
    for learner, teacher in ((logits, estimates), (estimates, logits)):
        explained = elementwise(
            learner,
            target,
            positive=added(scaled(known_weight, positive_eps_loss(eps)), crossed),
            unknown=crossed,
            negative=added(scaled(known_weight, negative_eps_loss(eps)), crossed),
            constants={"teacher": teacher.detach()},
        )
        halves.append(explained + weight * epr_regulariser_loss(learner, mean_labels=mean_labels))
    return (halves[0] + halves[1]) / 2


EPRLoss = as_module("EPRLoss", epr_loss)
ROLELoss = as_module("ROLELoss", role_loss)
