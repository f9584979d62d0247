"""Positives and negatives meet inside a logarithm of a sum (ZLPR, OPML), and the high-rank term."""

from __future__ import annotations

import math
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from ._core.domains import check_positive, check_share
from ._core.elementwise import Reduction, check_target, upcast
from ._core.rows import NOTHING, by_label, reduce_rows

Smoothing: TypeAlias = Literal["constant", "product", "score"]
HighRank: TypeAlias = Literal["determinant", "singular"]


def zlpr_loss(
    logits: Tensor, target: Tensor, *, soft: Tensor | None = None, reduction: Reduction = "mean"
) -> Tensor:
    """Zero-bounded log-sum-exp pairwise ranking loss: log(1 + sum_P e^-z) + log(1 + sum_N e^z).

    N is every label that is not a known positive. A label is predicted where z > 0. With soft targets t:
    log(1 + sum_j t_j e^-z_j) + log(1 + sum_j (1 - t_j) e^z_j).

    Args:
        logits: (B, C).
        target: int64 (B,) class indices, or integer (B, C) in {-1, 0, +1}.
        soft: None, or floating point (B, C) in [0, 1]: t of unknown labels, constant in the derivative. Known
            labels have t = 1 or 0.
        reduction: `mean` over B, `sum`, or `none`.

    Returns:
        A scalar, or (B,) for `none`. Without `soft`, a row that has no known positive contributes only its
        known negatives.

    Raises:
        ValueError, TypeError: see `opml_loss`.

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
    soft: Tensor | None = None,
    reduction: Reduction = "mean",
) -> Tensor:
    """One-positive multi-label loss: log(alpha + sum_P e^-z) + log(beta + sum_N e^z).

    ZLPR with two positive constants in place of 1. Gradients -e^-z_i / (alpha + sum_P e^-z) and
    e^z_j / (beta + sum_N e^z).

    Args:
        logits: (B, C).
        target: int64 (B,) class indices, or integer (B, C) in {-1, 0, +1}.
        alpha, beta: > 0.
        soft: as in `zlpr_loss`.
        reduction: `mean` over B, `sum`, or `none`.

    Returns:
        A scalar, or (B,) for `none`. Without `soft`, a row that has no known positive contributes only its
        known negatives, and the constants.

    Raises:
        ValueError, TypeError: an argument outside its domain; see also `elementwise`.

    Example:
        >>> import torch
        >>> round(opml_loss(torch.zeros(1, 4), torch.tensor([0]), alpha=2.0, beta=1.0).item(), 4)
        2.4849

    Source: Li et al., "Pushing One Pair of Labels Apart Each Time in Multi-Label Learning: From Single
    Positive to Full Labels", arXiv 2302.14695, Eq. 3 and 6, reconstructed from the text.
    """
    check_target(logits, target)
    z = upcast(logits)
    if soft is None:
        return _opml(z, target, None, z.where(_has_positive(target), NOTHING), alpha, beta, reduction)
    if soft.shape != logits.shape or not soft.is_floating_point():
        raise ValueError(
            f"soft must be floating point with the shape of the logits, {tuple(logits.shape)}, got "
            f"{soft.dtype} {tuple(soft.shape)}"
        )
    if soft.device.type == "cpu" and not ((soft >= 0) & (soft <= 1)).all():
        raise ValueError("soft must lie in [0, 1]")
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
    """OPML in which an unknown label is a positive to a share e:
    log(alpha + sum_P e^-z + sum_U e_j e^-z_j) + log(beta + sum_U (1 - e_j) e^z_j).

    The published expression of e is lost; each value of `smoothing` is a reading.

    Args:
        logits: (B, C).
        target: int64 (B,) class indices, or integer (B, C) in {-1, 0, +1}; known negatives are in the second
            sum with weight 1.
        smoothing: `constant`: e = share. `product`: e = (p AP)^gamma. `score`: e = p AP^gamma. AP is that of
            the class on the training set, p the present score, constant in the derivative.
        share: of `constant`, in [0, 1].
        average_precision: of `product` and `score`: floating point (C,) in [0, 1].
        gamma: of `product` and `score`, > 0.
        alpha, beta: > 0.
        reduction: `mean` over B, `sum`, or `none`.

    Returns:
        A scalar, or (B,) for `none`. A row that has no known positive contributes only its known negatives,
        and the constants.

    Raises:
        ValueError, TypeError: an argument outside its domain; see also `elementwise`.

    Example:
        >>> import torch
        >>> round(soft_opml_loss(torch.zeros(1, 4), torch.tensor([0]), share=0.5).item(), 4)
        2.1691

    Source: Li et al., arXiv 2302.14695, Eq. 11.
    """
    check_target(logits, target)
    check_positive(gamma=gamma)
    check_share(share=share)
    z = upcast(logits)
    p = torch.sigmoid(z).detach()
    if smoothing == "constant":
        soft = torch.full_like(p, share)
    elif smoothing not in ("product", "score"):
        raise ValueError(f"smoothing must be 'constant', 'product' or 'score', got {smoothing!r}")
    elif average_precision is None or average_precision.shape != logits.shape[1:]:
        raise ValueError(f"smoothing {smoothing!r} needs average_precision of shape ({logits.shape[1]},)")
    elif smoothing == "product":
        soft = (p * average_precision) ** gamma
    else:
        soft = p * average_precision**gamma
    labelled = _has_positive(target)
    falls, rises = (_log(soft) - z).where(labelled, NOTHING), (_log(1 - soft) + z).where(labelled, NOTHING)
    return _opml(z, target, falls, rises, alpha, beta, reduction)


def high_rank_loss(logits: Tensor, *, form: HighRank = "determinant", delta: float = 1.0) -> Tensor:
    """Pushes the matrix P of predicted probabilities towards a high rank, so that labels stay distinct.

    The published equation, -log det(.) of the predictions, is lost; each value of `form` is a reading. With
    the singular values s of P: `determinant`: -log det(I + P'P) = -sum log(1 + s^2); `singular`:
    -sum log(s + delta).

    Args:
        logits: (B, C).
        form: `determinant` or `singular`.
        delta: of `singular`, > 0.

    Returns:
        A scalar, a statistic of the batch (not divided by B); 0 for an empty batch.

    Raises:
        ValueError: an argument outside its domain.

    Example:
        >>> import torch
        >>> round(high_rank_loss(torch.zeros(1, 4)).item(), 4)
        -0.6931

    Source: Li et al., arXiv 2302.14695, Eq. 10.
    """
    check_positive(delta=delta)
    if form not in ("determinant", "singular"):
        raise ValueError(f"form must be 'determinant' or 'singular', got {form!r}")
    with torch.autocast(logits.device.type, enabled=False):
        p = torch.sigmoid(upcast(logits))
        if form == "singular":
            values: Tensor = torch.linalg.svdvals(p)
            return -(values + delta).log().sum()
        gram = p.T @ p if p.shape[1] < p.shape[0] else p @ p.T
        identity = torch.eye(len(gram), dtype=gram.dtype, device=gram.device)
        # cholesky_ex, because cholesky waits for the device to learn whether it succeeded; it always does.
        factor: Tensor = torch.linalg.cholesky_ex(gram + identity).L
        return -2 * factor.diagonal().log().sum()


def _opml(
    z: Tensor,
    target: Tensor,
    falls: Tensor | None,
    rises: Tensor,
    alpha: float,
    beta: float,
    reduction: Reduction,
) -> Tensor:
    """The loss from what an unknown label puts into the exponents of the first and of the second sum."""
    check_positive(alpha=alpha, beta=beta)
    if falls is not None:
        falling = by_label(target, positive=-z, unknown=falls, negative=NOTHING)
    elif target.ndim == 1:
        falling = -z.gather(1, target[:, None])
    else:
        falling = (-z).where(target == 1, NOTHING)
    rising = by_label(target, positive=NOTHING, unknown=rises, negative=z)
    return reduce_rows(_log_sum(falling, alpha) + _log_sum(rising, beta), reduction)


def _has_positive(target: Tensor) -> Tensor:
    """Which rows have a known positive, bool (B, 1); a single one where all have."""
    if target.ndim == 1:
        return torch.ones((), dtype=torch.bool, device=target.device)
    some: Tensor = (target == 1).any(1, keepdim=True)
    return some


def _log(share: Tensor) -> Tensor:
    logarithm: Tensor = share.clamp(min=torch.finfo(share.dtype).tiny).log()
    return logarithm.where(share > 0, NOTHING)


def _log_sum(exponents: Tensor, constant: float) -> Tensor:
    """log(constant + sum over the row of e^exponent), (B,)."""
    whole = torch.logsumexp(exponents, 1)
    return torch.logaddexp(whole, torch.full_like(whole, math.log(constant)))
