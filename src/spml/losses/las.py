"""Leveraged asymmetric losses: a small weight for assumed negatives, confident ones as positives."""

from __future__ import annotations

import torch
from torch import Tensor

from ._core.domains import check_non_negative, check_share
from ._core.elementwise import Reduction, elementwise, upcast
from ._core.terms import scaled, step, switched
from .focal import focal_negative, focal_positive


def las_loss(
    logits: Tensor,
    target: Tensor,
    *,
    weight: float = 0.05,
    gamma_pos: float = 0.0,
    gamma_neg: float = 4.0,
    reduction: Reduction = "mean",
) -> Tensor:
    """Leveraged asymmetric loss (LAS): focal loss with a small weight for unknown labels.

    (1 - p)^gamma_pos l+ on known positives, weight p^gamma_neg l- on unknown labels. The gradient flows
    through the focusing factors.

    Args:
        logits: Logits of shape (B, C), any floating dtype.
        target: Class indices, int64 of shape (B,), or labels in {-1, 0, +1}, integer of shape (B, C). Known
            negatives get -log(1 - p).
        weight: Weight (leverage) of unknown labels, >= 0.
        gamma_pos, gamma_neg: Focusing exponents, >= 0.
        reduction: Reduction of the losses: `mean` over B * C, `sum`, or `none`. The paper sums over classes.

    Returns:
        Scalar, or shape (B, C) for `none`; float32, or float64 for float64 logits.

    Raises:
        ValueError, TypeError: A hyper-parameter is negative, or logits or target have a wrong shape, dtype or
            range.

    Example:
        >>> import torch
        >>> round(las_loss(torch.zeros(1, 2), torch.tensor([0]), reduction="sum").item(), 4)
        0.6953

    Source: Cui et al., "Leveraged Asymmetric Loss with Disambiguation for Multi-label Recognition with
    One-Positive Annotations", OpenReview JFf-bPQu5RB, Eq. 5.
    """
    check_non_negative(weight=weight, gamma_pos=gamma_pos, gamma_neg=gamma_neg)
    return elementwise(
        logits,
        target,
        positive=focal_positive(gamma_pos),
        unknown=scaled(weight, focal_negative(gamma_neg)),
        reduction=reduction,
    )


def lasd_loss(
    logits: Tensor,
    target: Tensor,
    *,
    weight_pos: float = 0.1,
    weight_neg: float = 0.05,
    tau: float = 0.9,
    gamma_pos: float = 0.0,
    gamma_neg: float = 4.0,
    reduction: Reduction = "mean",
) -> Tensor:
    """Leveraged asymmetric loss with disambiguation (LASD): unknown labels with p > tau count as positives.

    With L+ = (1 - p)^gamma_pos l+ and L- = p^gamma_neg l-: L+ on known positives; on unknown labels
    weight_pos L+ if p > tau, otherwise weight_neg L-. The gradient flows through the focusing factors. With
    both weights 1 it is the focal form of SPLC without a margin.

    Args:
        logits: Logits of shape (B, C), any floating dtype.
        target: Class indices, int64 of shape (B,), or labels in {-1, 0, +1}, integer of shape (B, C). Known
            negatives get -log(1 - p).
        weight_pos, weight_neg: Weights lambda+ and lambda-, >= 0; `balanced_weight` computes lambda-.
        tau: Threshold of the disambiguation, in [0, 1].
        gamma_pos, gamma_neg: Focusing exponents, >= 0.
        reduction: Reduction of the losses: `mean` over B * C, `sum`, or `none`. The paper sums over classes.

    Returns:
        Scalar, or shape (B, C) for `none`; float32, or float64 for float64 logits.

    Raises:
        ValueError, TypeError: An argument lies outside its domain, or logits or target have a wrong shape,
            dtype or range.

    Example:
        >>> import torch
        >>> round(lasd_loss(torch.tensor([[0.0, 3.0]]), torch.tensor([0]), reduction="sum").item(), 4)
        0.698

    Source: Cui et al., "Leveraged Asymmetric Loss with Disambiguation for Multi-label Recognition with
    One-Positive Annotations", OpenReview JFf-bPQu5RB, Eq. 6.
    """
    check_non_negative(weight_pos=weight_pos, weight_neg=weight_neg, gamma_pos=gamma_pos, gamma_neg=gamma_neg)
    check_share(tau=tau)
    positive = focal_positive(gamma_pos)
    return elementwise(
        logits,
        target,
        positive=positive,
        unknown=switched(
            step(tau), scaled(weight_pos, positive), scaled(weight_neg, focal_negative(gamma_neg))
        ),
        reduction=reduction,
    )


def balanced_weight(weight_pos: float, mean_labels: float, classes: int) -> float:
    """Weight of assumed negatives that balances both sides: (1 + weight_pos (K - 1)) / (C - K).

    Args:
        weight_pos: Weight lambda+ of labels that count as positives, >= 0.
        mean_labels: Mean labels per sample K, in [1, C).
        classes: Number of classes C.

    Raises:
        ValueError: An argument lies outside its domain.

    Example:
        >>> round(balanced_weight(0.1, 1.46, 20), 4)
        0.0564

    Source: Cui et al., "Leveraged Asymmetric Loss with Disambiguation for Multi-label Recognition with
    One-Positive Annotations", OpenReview JFf-bPQu5RB, Theorem 5.4; the number of labels is the mean over the
    data set.
    """
    check_non_negative(weight_pos=weight_pos)
    if not 1 <= mean_labels < classes:
        raise ValueError(f"mean_labels must be at least 1 and less than {classes}, got {mean_labels}")
    return (1 + weight_pos * (mean_labels - 1)) / (classes - mean_labels)


def consistency_loss(logits: Tensor, other: Tensor, third: Tensor) -> Tensor:
    """Consistency loss: squared differences between the probabilities of three views.

    Sum over the three pairs of views and over classes, mean over samples.

    Args:
        logits, other, third: Logits of three views of the same samples, shape (B, C), any floating dtype. The
            gradient flows to all three.

    Returns:
        Scalar; 0 for an empty batch.

    Raises:
        ValueError: The shapes differ.

    Example:
        >>> import torch
        >>> zero = torch.zeros(1, 2)
        >>> round(consistency_loss(zero, zero, torch.full((1, 2), 100.0)).item(), 4)
        1.0

    Source: Cui et al., "Leveraged Asymmetric Loss with Disambiguation for Multi-label Recognition with
    One-Positive Annotations", OpenReview JFf-bPQu5RB, Eq. 7.
    """
    if not logits.shape == other.shape == third.shape or logits.ndim != 2:
        raise ValueError(
            "the three views must have the same shape (B, C), got "
            f"{tuple(logits.shape)}, {tuple(other.shape)} and {tuple(third.shape)}"
        )
    first, second, last = (torch.sigmoid(upcast(view)) for view in (logits, other, third))
    total = (first - second).square() + (first - last).square() + (second - last).square()
    return total.sum() / max(len(logits), 1)
