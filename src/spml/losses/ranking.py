"""Losses in which the order of classes matters (ZLPR, OPML, PR), and the high-rank regulariser."""

from __future__ import annotations

import math
from typing import Literal, TypeAlias, get_args

import torch
from torch import Tensor

from ._core.domains import check_choice, check_non_negative, check_positive, check_share
from ._core.elementwise import Reduction, check_soft, check_target, elementwise
from ._core.evaluate import upcast
from ._core.rows import LOG_ZERO, by_label, reduce_rows
from ._core.terms import Weight, constant, lookup, negative_power_loss, positive_power_loss, weighted
from .modules import as_module

__all__ = [
    "OPMLLoss",
    "PRLoss",
    "SoftOPMLLoss",
    "ZLPRLoss",
    "high_rank_loss",
    "opml_loss",
    "pr_loss",
    "soft_opml_loss",
    "zlpr_loss",
]


Smoothing: TypeAlias = Literal["constant", "product", "score"]
HighRank: TypeAlias = Literal["determinant", "singular", "trace"]
Maximum: TypeAlias = Literal["smooth", "hard"]


def zlpr_loss(
    logits: Tensor, target: Tensor, *, soft: Tensor | None = None, reduction: Reduction = "mean"
) -> Tensor:
    """Zero-bounded log-sum-exp pairwise ranking loss: log(1 + sum_P e^-z) + log(1 + sum_N e^z).

    P are the known positives, N all other labels. A label is predicted if z > 0. With soft targets t:
    log(1 + sum_j t_j e^-z_j) + log(1 + sum_j (1 - t_j) e^z_j).

    Args:
        logits: Logits of shape (B, C), any floating dtype.
        target: Class indices, int64 of shape (B,), or labels in {-1, 0, +1}, integer of shape (B, C).
        soft: Soft targets t of unknown labels, floating point of shape (B, C) in [0, 1], constant in the
            derivative, or None. Known labels have t = 1 or 0.
        reduction: Reduction of the losses: `mean` over B, `sum`, or `none`.

    Returns:
        Scalar, or shape (B,) for `none`. Without `soft`, a row that has no known positive contributes only
        its known negatives.

    Raises:
        ValueError, TypeError: As in `opml_loss`.

    Example:
        >>> import torch
        >>> round(zlpr_loss(torch.zeros(1, 4), torch.tensor([0])).item(), 4)
        2.0794

    Source: Su et al., "ZLPR: A Novel Loss for Multi-label Classification", arXiv 2208.02955.
    """
    return opml_loss(logits, target, soft=soft, reduction=reduction)


def opml_loss(
    logits: Tensor,
    target: Tensor,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    form: Maximum = "smooth",
    soft: Tensor | None = None,
    reduction: Reduction = "mean",
) -> Tensor:
    """One-positive multi-label loss (OPML): log(alpha + sum_P e^-z) + log(beta + sum_N e^z).

    ZLPR with two constants in place of 1. The gradients are -e^-z_i / (alpha + sum_P e^-z) on known positives
    and e^z_j / (beta + sum_N e^z) on other labels. With both constants 0 it is the smooth form of
    max_N z - min_P z, the `hard` form, which pushes one pair of labels apart; both are unbounded below.

    Args:
        logits: Logits of shape (B, C), any floating dtype.
        target: Class indices, int64 of shape (B,), or labels in {-1, 0, +1}, integer of shape (B, C).
        alpha, beta: Constants of the two sums, >= 0. Where a constant is 0, an empty sum contributes 0.
        form: `smooth`, or `hard` = max_N z - min_P z, in which alpha and beta have no role; among equal
            extreme values the gradient is divided.
        soft: Soft targets of unknown labels, as in `zlpr_loss`; for the form `smooth` only.
        reduction: Reduction of the losses: `mean` over B, `sum`, or `none`.

    Returns:
        Scalar, or shape (B,) for `none`. Without `soft`, a row that has no known positive contributes only
        its known negatives, and the constants.

    Raises:
        ValueError, TypeError: An argument lies outside its domain, or logits or target have a wrong shape,
            dtype or range.

    Example:
        >>> import torch
        >>> round(opml_loss(torch.zeros(1, 4), torch.tensor([0]), alpha=2.0, beta=1.0).item(), 4)
        2.4849

    Source: Li et al., "Pushing One Pair of Labels Apart Each Time in Multi-Label Learning: From Single
    Positive to Full Labels", arXiv 2302.14695, reconstructed from the text: Eq. 3 and 6, with constants 0 Eq.
    2, `hard` Eq. 1, 4 and 5.
    """
    check_target(logits, target)
    check_non_negative(alpha=alpha, beta=beta)
    check_choice("form", form, ("smooth", "hard"))
    z = upcast(logits)
    if soft is None:
        rises = z.where(_has_positive(target), LOG_ZERO)
        return _opml(z, target, None, rises, alpha, beta, reduction, form == "hard")
    if form == "hard":
        raise ValueError("soft targets need form='smooth'")
    check_soft(logits, soft)
    t = soft.detach().to(z.dtype)
    return _opml(z, target, _log(t) - z, _log(1 - t) + z, alpha, beta, reduction)


def soft_opml_loss(
    logits: Tensor,
    target: Tensor,
    *,
    smoothing: Smoothing = "constant",
    share: float = 0.1,
    average_precision: Tensor | None = None,
    gamma: float = 1.0,
    alpha: float = 1.0,
    beta: float = 1.0,
    reduction: Reduction = "mean",
) -> Tensor:
    """OPML in which unknown labels U are positives with a share e.

    log(alpha + sum_P e^-z + sum_U e_j e^-z_j) + log(beta + sum_U (1 - e_j) e^z_j).

    The published expression of e is lost; each value of `smoothing` is one interpretation.

    Args:
        logits: Logits of shape (B, C), any floating dtype.
        target: Class indices, int64 of shape (B,), or labels in {-1, 0, +1}, integer of shape (B, C). Known
            negatives enter the second sum with weight 1.
        smoothing: Expression of e: `constant` = share, `product` = (p AP)^gamma, `score` = p AP^gamma. AP is
            the average precision of the class on the training set; p is the current score, constant in the
            derivative.
        share: Value of `constant`, in [0, 1].
        average_precision: AP of `product` and `score`, floating point of shape (C,) in [0, 1].
        gamma: Exponent of `product` and `score`, > 0.
        alpha, beta: Constants of the two sums, > 0.
        reduction: Reduction of the losses: `mean` over B, `sum`, or `none`.

    Returns:
        Scalar, or shape (B,) for `none`. A row that has no known positive contributes only its known
        negatives, and the constants.

    Raises:
        ValueError, TypeError: An argument lies outside its domain, or logits or target have a wrong shape,
            dtype or range.

    Example:
        >>> import torch
        >>> round(soft_opml_loss(torch.zeros(1, 4), torch.tensor([0]), share=0.5).item(), 4)
        2.1691

    Source: Li et al., arXiv 2302.14695, Eq. 11.
    """
    check_target(logits, target)
    check_positive(gamma=gamma, alpha=alpha, beta=beta)
    check_share(share=share)
    z = upcast(logits)
    p = torch.sigmoid(z).detach()
    check_choice("smoothing", smoothing, ("constant", "product", "score"))
    if smoothing == "constant":
        soft = torch.full_like(p, share)
    elif average_precision is None or average_precision.shape != logits.shape[1:]:
        raise ValueError(f"smoothing {smoothing!r} needs average_precision of shape ({logits.shape[1]},)")
    elif smoothing == "product":
        soft = (p * average_precision) ** gamma
    else:
        soft = p * average_precision**gamma
    labelled = _has_positive(target)
    falls, rises = (_log(soft) - z).where(labelled, LOG_ZERO), (_log(1 - soft) + z).where(labelled, LOG_ZERO)
    return _opml(z, target, falls, rises, alpha, beta, reduction)


def high_rank_loss(logits: Tensor, *, form: HighRank = "determinant", delta: float | None = None) -> Tensor:
    """High-rank regulariser of the matrix P of predicted probabilities, which keeps labels distinct.

    The published equation, -log det(.) of the predictions, is lost; each value of `form` is one
    interpretation. With the singular values s of P: `determinant` is -log det(I + P'P) = -sum log(1 + s^2),
    `singular` is -sum log(s + delta). `trace` is the alternative that the paper mentions, minus the trace
    norm, as -sum sqrt(s^2 + delta^2), whose gradient is unique where the rows of P are equal, too.

    Args:
        logits: Logits of shape (B, C), any floating dtype.
        form: Interpretation of the equation, `determinant`, `singular` or `trace`.
        delta: Constant of `singular`, > 0, or of `trace`, >= 0; None: 1 or 1e-3.

    Returns:
        Scalar, a statistic of the batch (not divided by B); 0 for an empty batch.

    Raises:
        ValueError: An argument lies outside its domain.

    Example:
        >>> import torch
        >>> round(high_rank_loss(torch.zeros(1, 4)).item(), 4)
        -0.6931

    Source: Li et al., arXiv 2302.14695, Eq. 10 and Section III-D.
    """
    delta = high_rank_delta(form, delta)
    with torch.autocast(logits.device.type, enabled=False):
        p = torch.sigmoid(upcast(logits))
        if form != "determinant":
            values: Tensor = torch.linalg.svdvals(p)
            if form == "singular":
                return -(values + delta).log().sum()
            return -(values.square() + delta**2).sqrt().sum() if delta else -values.sum()
        gram = p.T @ p if p.shape[1] < p.shape[0] else p @ p.T
        identity = torch.eye(len(gram), dtype=gram.dtype, device=gram.device)
        # cholesky_ex does not wait for the device to report success, which is certain for I + P'P.
        factor: Tensor = torch.linalg.cholesky_ex(gram + identity).L
        return -2 * factor.diagonal().log().sum()


def high_rank_delta(form: str, delta: float | None) -> float:
    """Constant of a form of `high_rank_loss`; None stands for its default.

    Raises:
        ValueError: The form or the constant is not allowed.
    """
    check_choice("form", form, get_args(HighRank))
    if delta is None:
        return 1e-3 if form == "trace" else 1.0
    (check_non_negative if form == "trace" else check_positive)(delta=delta)
    return delta


def _opml(
    z: Tensor,
    target: Tensor,
    falls: Tensor | None,
    rises: Tensor,
    alpha: float,
    beta: float,
    reduction: Reduction,
    hard: bool = False,
) -> Tensor:
    """OPML loss from the exponents of unknown labels in the first (`falls`) and second (`rises`) sum."""
    if falls is not None:
        falling = by_label(target, positive=-z, unknown=falls, negative=LOG_ZERO)
    elif target.ndim == 1:
        falling = -z.gather(1, target[:, None])
    else:
        falling = (-z).where(target == 1, LOG_ZERO)
    rising = by_label(target, positive=LOG_ZERO, unknown=rises, negative=z)
    if hard:
        return reduce_rows(_not_empty(falling.amax(1)) + _not_empty(rising.amax(1)), reduction)
    return reduce_rows(_log_sum(falling, alpha) + _log_sum(rising, beta), reduction)


def _has_positive(target: Tensor) -> Tensor:
    """Mask of the rows with a known positive, bool of shape (B, 1), or a scalar if all rows have one."""
    if target.ndim == 1:
        return torch.ones((), dtype=torch.bool, device=target.device)
    labelled: Tensor = (target == 1).any(1, keepdim=True)
    return labelled


def _log(share: Tensor) -> Tensor:
    logarithm: Tensor = share.clamp(min=torch.finfo(share.dtype).tiny).log()
    return logarithm.where(share > 0, LOG_ZERO)


def _log_sum(exponents: Tensor, constant: float) -> Tensor:
    """log(constant + sum over the row of e^exponent), shape (B,)."""
    whole = torch.logsumexp(exponents, 1)
    if constant == 0:
        return _not_empty(whole)
    return torch.logaddexp(whole, torch.full_like(whole, math.log(constant)))


def _not_empty(exponents: Tensor) -> Tensor:
    """Exponents, with 0 for the logarithm of an empty sum."""
    return exponents.where(exponents > LOG_ZERO / 2, 0.0)


def pr_loss(logits: Tensor, target: Tensor, *, reduction: Reduction = "mean") -> Tensor:
    """Pairwise-ranking loss: sum over known positives i and other labels j of max(0, 1 - p_i + p_j).

    The hinge is on probabilities and never clips, because p_i - p_j <= 1. The loss of a row with P positives
    and U other labels is therefore U sum_i (1 - p_i) + P sum_j p_j, which takes O(C) instead of O(P U). The
    gradients are -U p_i (1 - p_i) and P p_j (1 - p_j). A row without a known positive has no pairs and no
    loss.

    Args:
        logits: Logits of shape (B, C), any floating dtype.
        target: Class indices, int64 of shape (B,), or labels in {-1, 0, +1}, integer of shape (B, C). Unknown
            labels and known negatives are equally ranked below known positives.
        reduction: Reduction of the losses: `mean` = sum over pairs / (B * C), `sum`, or `none` (the loss of a
            pair is split between its two labels).

    Returns:
        Scalar, or shape (B, C) for `none`; float32, or float64 for float64 logits.

    Raises:
        ValueError, TypeError: Logits or target have a wrong shape, dtype or range.

    Example:
        >>> import torch
        >>> round(pr_loss(torch.zeros(1, 5), torch.tensor([2]), reduction="sum").item(), 4)
        4.0

    Source: Cole et al., "Multi-Label Learning from Single Positive Labels", CVPR 2021 (compared method).
    """
    check_target(logits, target)
    classes = logits.shape[1]
    partners: dict[str, Tensor] | None = None
    above: Weight = constant(classes - 1)
    below: Weight = constant(1)
    if target.ndim == 2:
        count = (target == 1).sum(1, keepdim=True, dtype=torch.int64)
        partners = {"others": (classes - count).expand(target.shape), "positives": count.expand(target.shape)}
        above, below = lookup("others"), lookup("positives")
    lower = weighted(below, negative_power_loss(1))
    return elementwise(
        logits,
        target,
        positive=weighted(above, positive_power_loss(1)),
        unknown=lower,
        negative=lower,
        reduction=reduction,
        constants=partners,
    )


OPMLLoss = as_module("OPMLLoss", opml_loss)
SoftOPMLLoss = as_module("SoftOPMLLoss", soft_opml_loss)
ZLPRLoss = as_module("ZLPRLoss", zlpr_loss)
PRLoss = as_module("PRLoss", pr_loss)
