"""Leveraged asymmetric losses: a small weight for assumed negatives, confident ones as positives."""

from __future__ import annotations

import torch
from torch import Tensor

from ._core.domains import check_non_negative, check_share
from ._core.elementwise import Reduction, check_target, elementwise
from ._core.evaluate import computing_dtype, upcast
from ._core.terms import KnownNegatives, known_negative, lookup, scaled, step, switched, weighted
from .focal import focal_negative, focal_positive
from .modules import as_module

__all__ = [
    "CostSensitiveLoss",
    "LASDFullLoss",
    "LASDLoss",
    "LASLoss",
    "balanced_weight",
    "consistency_loss",
    "cost_sensitive_loss",
    "las_loss",
    "lasd_full_loss",
    "lasd_loss",
]


def las_loss(
    logits: Tensor,
    target: Tensor,
    *,
    weight: float = 0.05,
    gamma_pos: float = 0.0,
    gamma_neg: float = 4.0,
    known_negatives: KnownNegatives = "plain",
    reduction: Reduction = "mean",
) -> Tensor:
    """Leveraged asymmetric loss (LAS): focal loss with a small weight for unknown labels.

    (1 - p)^gamma_pos l+ on known positives, weight p^gamma_neg l- on unknown labels. The gradient flows
    through the focusing factors.

    Args:
        logits: Logits of shape (B, C), any floating dtype.
        target: Class indices, int64 of shape (B,), or labels in {-1, 0, +1}, integer of shape (B, C).
        weight: Weight (leverage) of unknown labels, >= 0.
        gamma_pos, gamma_neg: Focusing exponents, >= 0.
        known_negatives: Loss of a known negative: -log(1 - p) (`plain`), or weight p^gamma_neg l- (`own`).
        reduction: Reduction of the losses: `mean` over B * C, `sum`, or `none`. The paper sums over classes.

    Returns:
        Scalar, or shape (B, C) for `none`; float32, or float64 for float64 logits.

    Raises:
        ValueError, TypeError: An argument lies outside its domain, or logits or target have a wrong shape,
            dtype or range.

    Example:
        >>> import torch
        >>> round(las_loss(torch.zeros(1, 2), torch.tensor([0]), reduction="sum").item(), 4)
        0.6953

    Source: Cui et al., "Leveraged Asymmetric Loss with Disambiguation for Multi-label Recognition with
    One-Positive Annotations", OpenReview JFf-bPQu5RB, Eq. 5.
    """
    check_non_negative(weight=weight, gamma_pos=gamma_pos, gamma_neg=gamma_neg)
    negative = scaled(weight, focal_negative(gamma_neg))
    return elementwise(
        logits,
        target,
        positive=focal_positive(gamma_pos),
        unknown=negative,
        negative=known_negative(known_negatives, negative),
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
    known_negatives: KnownNegatives = "plain",
    reduction: Reduction = "mean",
) -> Tensor:
    """Leveraged asymmetric loss with disambiguation (LASD): unknown labels with p > tau count as positives.

    With L+ = (1 - p)^gamma_pos l+ and L- = p^gamma_neg l-: L+ on known positives; on unknown labels
    weight_pos L+ if p > tau, otherwise weight_neg L-. The gradient flows through the focusing factors. With
    both weights 1 it is the focal form of SPLC without a margin.

    Args:
        logits: Logits of shape (B, C), any floating dtype.
        target: Class indices, int64 of shape (B,), or labels in {-1, 0, +1}, integer of shape (B, C).
        weight_pos, weight_neg: Weights lambda+ and lambda-, >= 0; `balanced_weight` computes lambda-.
        tau: Threshold of the disambiguation, in [0, 1].
        gamma_pos, gamma_neg: Focusing exponents, >= 0.
        known_negatives: Loss of a known negative, which never counts as a positive: -log(1 - p) (`plain`), or
            weight_neg p^gamma_neg l- (`own`).
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
    positive, negative = focal_positive(gamma_pos), scaled(weight_neg, focal_negative(gamma_neg))
    return elementwise(
        logits,
        target,
        positive=positive,
        unknown=switched(step(tau), scaled(weight_pos, positive), negative),
        negative=known_negative(known_negatives, negative),
        reduction=reduction,
    )


def lasd_full_loss(
    logits: Tensor,
    target: Tensor,
    *,
    weight_pos: float = 0.1,
    weight_neg: float = 0.05,
    gamma_pos: float = 0.0,
    gamma_neg: float = 4.0,
    reduction: Reduction = "mean",
) -> Tensor:
    """Loss on full labels to which the LASD loss on one positive is risk consistent.

    (1 + weight_pos (n - 1)) / n L+ on each of the n positives of a sample and weight_neg L- on all its other
    labels, with L+ = (1 - p)^gamma_pos l+ and L- = p^gamma_neg l-. It is the mean of `lasd_loss` over the n
    ways of observing one positive, if exactly the positives have p > tau. With one positive it is `las_loss`.

    Args:
        logits: Logits of shape (B, C), any floating dtype.
        target: Class indices, int64 of shape (B,), or labels in {-1, 0, +1}, integer of shape (B, C). Unknown
            labels are treated as negatives.
        weight_pos, weight_neg: Weights lambda+ and lambda-, >= 0; `balanced_weight` computes lambda-.
        gamma_pos, gamma_neg: Focusing exponents, >= 0.
        reduction: Reduction of the losses: `mean` over B * C, `sum`, or `none`. The paper sums over classes.

    Returns:
        Scalar, or shape (B, C) for `none`; float32, or float64 for float64 logits.

    Raises:
        ValueError, TypeError: An argument lies outside its domain, or logits or target have a wrong shape,
            dtype or range.

    Example:
        >>> import torch
        >>> round(lasd_full_loss(torch.zeros(1, 3), torch.tensor([[1, 1, -1]]), reduction="sum").item(), 4)
        0.7646

    Source: Cui et al., "Leveraged Asymmetric Loss with Disambiguation for Multi-label Recognition with
    One-Positive Annotations", OpenReview JFf-bPQu5RB, Eq. 11 (Theorem 5.3).
    """
    check_non_negative(weight_pos=weight_pos, weight_neg=weight_neg, gamma_pos=gamma_pos, gamma_neg=gamma_neg)
    check_target(logits, target)
    count = _positives(logits, target).clamp(min=1)
    negative = scaled(weight_neg, focal_negative(gamma_neg))
    return elementwise(
        logits,
        target,
        positive=weighted(lookup("weight"), focal_positive(gamma_pos)),
        unknown=negative,
        negative=negative,
        reduction=reduction,
        constants={"weight": ((1 + weight_pos * (count - 1)) / count).expand(logits.shape)},
    )


def cost_sensitive_loss(
    logits: Tensor,
    target: Tensor,
    *,
    gamma_pos: float = 0.0,
    gamma_neg: float = 4.0,
    reduction: Reduction = "mean",
) -> Tensor:
    """Surrogate of the cost-sensitive Hamming loss: both sides of a sample have the same total weight.

    L+ / n on each of the n positives of a sample and L- / (C - n) on its C - n other labels, with
    L+ = (1 - p)^gamma_pos l+ and L- = p^gamma_neg l-. In the Hamming loss itself, which has no gradient, a
    wrong label costs 1 in place of L+ or L-: `spml.metrics.cost_sensitive_hamming`.

    Args:
        logits: Logits of shape (B, C), any floating dtype.
        target: Class indices, int64 of shape (B,), or labels in {-1, 0, +1}, integer of shape (B, C). Unknown
            labels are treated as negatives.
        gamma_pos, gamma_neg: Focusing exponents, >= 0; with 0 it is binary cross-entropy with these weights.
        reduction: Reduction of the losses: `mean` over B * C, `sum`, or `none`. The paper sums over classes.

    Returns:
        Scalar, or shape (B, C) for `none`; float32, or float64 for float64 logits.

    Raises:
        ValueError, TypeError: An argument lies outside its domain, or logits or target have a wrong shape,
            dtype or range.

    Example:
        >>> import torch
        >>> z, target = torch.zeros(1, 3), torch.tensor([[1, 1, -1]])
        >>> round(cost_sensitive_loss(z, target, gamma_neg=0.0, reduction="sum").item(), 4)
        1.3863

    Source: Cui et al., "Leveraged Asymmetric Loss with Disambiguation for Multi-label Recognition with
    One-Positive Annotations", OpenReview JFf-bPQu5RB, Eq. 12 with the losses of Eq. 4. The equation prints
    the indicators of right predictions; the cost is that of wrong ones, as in Eq. 24.
    """
    check_non_negative(gamma_pos=gamma_pos, gamma_neg=gamma_neg)
    check_target(logits, target)
    count = _positives(logits, target)
    negative = weighted(lookup("of_negatives"), focal_negative(gamma_neg))
    weights = {"of_positives": count, "of_negatives": logits.shape[1] - count}
    return elementwise(
        logits,
        target,
        positive=weighted(lookup("of_positives"), focal_positive(gamma_pos)),
        unknown=negative,
        negative=negative,
        reduction=reduction,
        constants={name: (1 / n.clamp(min=1)).expand(logits.shape) for name, n in weights.items()},
    )


def _positives(logits: Tensor, target: Tensor) -> Tensor:
    """Number of known positives of each sample, of shape (B, 1) in the computing type."""
    count = torch.ones_like(target) if target.ndim == 1 else (target == 1).sum(1)
    return count[:, None].to(computing_dtype(logits.dtype))


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


CostSensitiveLoss = as_module("CostSensitiveLoss", cost_sensitive_loss)
LASLoss = as_module("LASLoss", las_loss)
LASDFullLoss = as_module("LASDFullLoss", lasd_full_loss)
LASDLoss = as_module("LASDLoss", lasd_loss)
