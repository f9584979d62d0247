"""Likelihood of the observed label: softmax cross-entropy, and SHOW, with the number of labels near K."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

from ._core.domains import check_non_negative, check_positive, check_share
from ._core.elementwise import Reduction, check_target, elementwise
from ._core.evaluate import upcast
from ._core.rows import LOG_ZERO, in_parts, reduce_rows
from ._core.terms import negative_log_loss, no_loss, positive_log_loss
from ._core.terms import shifted as at_margin
from .modules import as_module

__all__ = ["SHOWLoss", "SoftmaxLoss", "expected_labels", "show_loss", "softmax_loss"]


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


def show_loss(
    logits: Tensor,
    target: Tensor,
    *,
    mean_labels: float,
    rho: float = 0.5,
    weight: float = 10.0,
    shifted: bool = True,
    running: Tensor | None = None,
    momentum: float = 1.0,
) -> Tensor:
    """Likelihood of the observed label, with the number of labels kept near its mean (SHOW).

    Mean over rows of [-log p_o + rho log sum_c p_c], plus weight * log^2(k / K), where k is the mean over
    rows of sum_c p_c.

    With rho = 1 the first part is -log P(observed = o) for a uniform draw among the true labels. Its gradient
    on an unknown label, rho p (1 - p) / sum p, vanishes as p -> 1, so a confident hidden positive is not
    pushed down.

    Args:
        logits: Logits of shape (B, C), any floating dtype.
        target: Class indices, int64 of shape (B,), or labels in {-1, 0, +1}, integer of shape (B, C). Known
            negatives get -log(1 - p) and are left out of sum_c. Each known positive of a row adds its -log p.
        mean_labels: Mean labels per sample K, in (0, C).
        rho: Weight of the normalisation, in [0, 1].
        weight: Weight lambda of the regulariser, >= 0. Use a smaller value for small batches, and 1, with
            rho = 1, if the number of labels varies much.
        shifted: Whether p = sigmoid(z + logit(K / C)), as published. Otherwise p = sigmoid(z), which is
            equivalent if the bias of the head starts at logit(K / C).
        running: Running mean of k over earlier batches, a scalar that is constant in the derivative, or None.
            With it, k is momentum * (k of the batch) + (1 - momentum) * running, for small batches, in which
            k is noisy.
        momentum: Weight of the batch in k, in (0, 1].

    Returns:
        Scalar. A row without a known positive contributes only its known negatives.

    Raises:
        ValueError, TypeError: An argument lies outside its domain, or logits or target have a wrong shape,
            dtype or range.

    Example:
        >>> import torch
        >>> loss = show_loss(torch.zeros(1, 4), torch.tensor([0]), mean_labels=2.0, rho=1.0, weight=0.0)
        >>> round(loss.item(), 4)
        1.3863

    Source: this project.
    """
    check_target(logits, target)
    check_share(rho=rho, momentum=momentum)
    check_positive(momentum=momentum)
    check_non_negative(weight=weight)
    shift = _shift(logits.shape[1], mean_labels, shifted)
    log_sums, labelled = _log_sums(logits, target, shift)
    known = _known_loss(logits, target, shift)
    likelihood = (rho * log_sums.where(labelled, 0).sum() + known) / max(len(target), 1)
    if not logits.numel():
        return likelihood
    rows = labelled.sum().clamp(min=1).to(log_sums.dtype)
    log_count = torch.logsumexp(log_sums.where(labelled, LOG_ZERO), 0) - rows.log()
    if running is not None:
        before = ((1 - momentum) * running.detach().to(log_sums.dtype)).log().clamp(min=LOG_ZERO)
        log_count = torch.logaddexp(log_count + math.log(momentum), before)
    distance = (log_count - math.log(mean_labels)).where(labelled.any(), 0)
    return likelihood + weight * distance.square()


def expected_labels(logits: Tensor, target: Tensor, *, mean_labels: float, shifted: bool = True) -> Tensor:
    """Expected labels per sample, k of `show_loss`: mean of sum_c p_c over the rows with a known positive.

    Args:
        logits, target, mean_labels, shifted: Arguments of `show_loss`.

    Returns:
        Scalar; NaN if no row has a known positive.

    Raises:
        ValueError, TypeError: As in `show_loss`.

    Example:
        >>> import torch
        >>> round(expected_labels(torch.zeros(1, 4), torch.tensor([0]), mean_labels=1.0).item(), 4)
        1.0
    """
    check_target(logits, target)
    log_sums, labelled = _log_sums(logits, target, _shift(logits.shape[1], mean_labels, shifted))
    return log_sums.exp().where(labelled, 0).sum() / labelled.sum()


def _log_sums(logits: Tensor, target: Tensor, shift: float) -> tuple[Tensor, Tensor]:
    """log sum_c p_c without known negatives, and whether the row has a known positive; both of shape (B,)."""

    def of_rows(z: Tensor, rows: slice) -> Tensor:
        log_p = functional.logsigmoid(z + shift)
        if target.ndim == 2:
            log_p = log_p.where(target[rows] != -1, LOG_ZERO)
        return torch.logsumexp(log_p, 1)

    labelled = torch.ones_like(target, dtype=torch.bool) if target.ndim == 1 else (target == 1).any(1)
    return in_parts(of_rows, logits, 0), labelled


def _known_loss(logits: Tensor, target: Tensor, shift: float) -> Tensor:
    """Sum of -log p over known positives and -log(1 - p) over known negatives."""
    if target.ndim == 1:
        return -functional.logsigmoid(upcast(logits.gather(1, target[:, None])) + shift).sum()
    return elementwise(
        logits,
        target,
        positive=at_margin(-shift, positive_log_loss),
        unknown=no_loss,
        negative=at_margin(-shift, negative_log_loss),
        reduction="sum",
    )


def _shift(classes: int, mean_labels: float, shifted: bool) -> float:
    if not 0 < mean_labels < classes:
        raise ValueError(
            f"mean_labels must lie between 0 and {classes}, the number of classes, got {mean_labels}"
        )
    return math.log(mean_labels / (classes - mean_labels)) if shifted else 0.0


SoftmaxLoss = as_module("SoftmaxLoss", softmax_loss)
SHOWLoss = as_module("SHOWLoss", show_loss)
