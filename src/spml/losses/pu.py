"""Positive-unlabelled risks of each class, computed from its prior (uPU, nnPU, CRISP)."""

from __future__ import annotations

import math
from typing import Literal, TypeAlias

import torch
from torch import Tensor
from torch.nn.functional import softplus

from ._core.domains import check_choice, check_non_negative, check_positive, check_share
from ._core.elementwise import check_target
from ._core.evaluate import upcast
from ._core.terms import LINEAR
from .modules import as_module

__all__ = ["CRISPLoss", "PULoss", "crisp_loss", "crisp_priors", "negative_risk", "pu_loss"]

Correction: TypeAlias = Literal["non_negative", "none"]
Surrogate: TypeAlias = Literal["sigmoid", "logistic"]
Unlabelled: TypeAlias = Literal["all", "rest"]


def pu_loss(
    logits: Tensor,
    target: Tensor,
    *,
    prior: Tensor,
    correction: Correction = "non_negative",
    surrogate: Surrogate = "logistic",
    unlabelled: Unlabelled = "all",
    beta: float = 0.0,
    gamma: float = 1.0,
    observed: Tensor | None = None,
    running: Tensor | None = None,
    momentum: float = 1.0,
) -> Tensor:
    """Risk of a classifier of each class, estimated from positive and unlabelled samples (nnPU, uPU).

    The sum over classes of R+ + R-, with R+ = prior mean_P l(z) and R- = mean_U l(-z) - prior mean_P l(-z).
    R- is a risk and so not negative, but its estimate is where a model fits the known positives by heart. A
    class with R- < -beta then has the value R+ - beta and the gradient of -gamma R-, which is not that of the
    value.

    Args:
        logits: Logits of shape (B, C), any floating dtype.
        target: Class indices, int64 of shape (B,), or labels in {-1, 0, +1}, integer of shape (B, C). Known
            negatives add their mean of l(-z).
        prior: Share of positives of each class in U, of shape (C,) in [0, 1].
        correction: `non_negative` (nnPU), or `none`: R+ + R- everywhere (uPU).
        surrogate: Loss l(z) of a positive: `logistic` = -log p, or `sigmoid` = 1 - p.
        unlabelled: Samples U of a class: `all` of the batch, or the `rest`, without its known positives.
        beta: Lowest R- that is not corrected, as -beta, >= 0.
        gamma: Factor of the gradient of a corrected class, in [0, 1].
        observed: Share of samples in which a class is a known positive, of shape (C,) in [0, 1]. With it,
            sums over the samples of P and U are divided by their expected number in B samples, for small
            batches, in which most classes have no known positive. None: by their number in the batch.
        running: Running mean of R- over earlier batches, of shape (C,), or None. With it, classes are
            corrected by momentum * (R- of the batch) + (1 - momentum) * running.
        momentum: Weight of the batch in this mean, in (0, 1].

    Returns:
        Scalar. A class without a known positive in the batch has R+ = 0 and R- = mean_U l(-z).

    Raises:
        ValueError, TypeError: An argument lies outside its domain, or logits or target have a wrong shape,
            dtype or range.

    Example:
        >>> import torch
        >>> prior = torch.tensor([0.6, 0.2])
        >>> round(pu_loss(torch.zeros(4, 2), torch.tensor([0, 0, 1, 0]), prior=prior).item(), 4)
        1.3863

    Source: Kiryo et al., "Positive-Unlabeled Learning with Non-Negative Risk Estimator", NeurIPS 2017,
    Algorithm 1, for every class.
    """
    check_choice("correction", correction, ("non_negative", "none"))
    check_non_negative(beta=beta)
    check_share(gamma=gamma, momentum=momentum)
    check_positive(momentum=momentum)
    positive, negative, known = _risks(logits, target, prior, surrogate, unlabelled, observed)
    risk = positive + negative
    if correction == "none" or not len(logits):
        return risk.sum() + known
    estimate = negative.detach()
    if running is not None:
        estimate = momentum * estimate + (1 - momentum) * running.to(estimate)
    corrected = estimate < -beta
    slope = torch.where(corrected, -gamma * negative, risk).sum()
    value = torch.where(corrected, positive - beta, risk).sum()
    return slope + (value - slope).detach() + known


def negative_risk(
    logits: Tensor,
    target: Tensor,
    *,
    prior: Tensor,
    surrogate: Surrogate = "logistic",
    unlabelled: Unlabelled = "all",
    observed: Tensor | None = None,
) -> Tensor:
    """R- of `pu_loss` for each class, from which its running mean is made.

    Args:
        logits, target, prior, surrogate, unlabelled, observed: Arguments of `pu_loss`.

    Returns:
        Tensor of shape (C,).

    Raises:
        ValueError, TypeError: As in `pu_loss`.

    Example:
        >>> import torch
        >>> prior = torch.tensor([0.6, 0.2])
        >>> risks = negative_risk(torch.zeros(4, 2), torch.tensor([0, 0, 1, 0]), prior=prior)
        >>> round(risks[0].item(), 4)
        0.2773
    """
    return _risks(logits, target, prior, surrogate, unlabelled, observed)[1]


def crisp_loss(
    logits: Tensor,
    target: Tensor,
    *,
    prior: Tensor,
    observed: Tensor | None = None,
    running: Tensor | None = None,
    momentum: float = 1.0,
) -> Tensor:
    """Class-priors induced single-positive loss (CRISP).

    The sum over classes of 2 prior mean_P (1 - p) + |m - prior|, where m is the mean of p over the batch.
    Without the absolute value it is the risk of `pu_loss` with the surrogate `sigmoid`; with it, the loss is
    0 for a perfect classifier, and biased.

    Args:
        logits: Logits of shape (B, C), any floating dtype.
        target: Class indices, int64 of shape (B,), or labels in {-1, 0, +1}, integer of shape (B, C). Known
            negatives add their mean of p.
        prior: Share of samples in which a class is present, of shape (C,) in [0, 1].
        observed: Share of samples in which a class is a known positive, as in `pu_loss`.
        running: Running mean of m over earlier batches, of shape (C,), or None. With it, the sign of m -
            prior is that of momentum * m + (1 - momentum) * running - prior.
        momentum: Weight of the batch in this mean, in (0, 1].

    Returns:
        Scalar.

    Raises:
        ValueError, TypeError: An argument lies outside its domain, or logits or target have a wrong shape,
            dtype or range.

    Example:
        >>> import torch
        >>> prior = torch.tensor([0.6, 0.2])
        >>> round(crisp_loss(torch.zeros(4, 2), torch.tensor([0, 0, 1, 0]), prior=prior).item(), 4)
        1.2

    Source: Liu et al., "Can Class-Priors Help Single-Positive Multi-Label Learning?", arXiv 2309.13886, Eq.
    7, derived again from Eq. 4 and 5.
    """
    check_share(momentum=momentum)
    check_positive(momentum=momentum)
    positives, negatives, prior = _masks(logits, target, prior, observed)
    z = upcast(logits)
    if not len(z):
        return z.sum()
    p = torch.sigmoid(z)
    mean = p.mean(0)
    level = mean.detach()
    if running is not None:
        level = momentum * level + (1 - momentum) * running.to(level)
    missed = prior * _mean(torch.sigmoid(-z), positives, observed)
    return (2 * missed + (level - prior).sign() * (mean - prior) + _mean(p, negatives)).sum()


def crisp_priors(logits: Tensor, target: Tensor, *, delta: float = 0.01, tau: float = 0.01) -> Tensor:
    """Estimate of the share of samples in which each class is present, from scores of all training samples.

    Of all samples a share q, and of the known positives of the class a share q+, have at least the score of a
    threshold. The estimate is q / q+ at the threshold where q / q+ + (1 + tau) / q+ (sqrt(log(4 / delta) / (2
    N)) + sqrt(log(4 / delta) / (2 n))) is lowest, with n known positives among N samples. It is too high
    where negatives have scores like positives, and 1 if the scores do not tell them apart at all.

    Args:
        logits: Logits or other scores of the training set, of shape (N, C), any floating dtype.
        target: Class indices, int64 of shape (N,), or labels in {-1, 0, +1}, integer of shape (N, C).
        delta: Probability with which the bound does not hold, in (0, 1].
        tau: Margin of the bound, >= 0.

    Returns:
        Tensor of shape (C,), float64 on the CPU, at least n / N; NaN for a class without a known positive.

    Raises:
        ValueError, TypeError: An argument lies outside its domain, or logits or target have a wrong shape,
            dtype or range.

    Example:
        >>> import torch
        >>> logits = torch.cat([torch.full((3000, 1), 2.0), torch.full((7000, 1), -2.0)])
        >>> target = (torch.arange(10000) < 1000).long()[:, None]
        >>> round(crisp_priors(logits, target).item(), 4)
        0.3

    Source: Liu et al., arXiv 2309.13886, Theorem 4.1, Eq. 2 and Appendix A.2.
    """
    check_target(logits, target)
    check_positive(delta=delta)
    check_share(delta=delta)
    check_non_negative(tau=tau)
    positives = _positives(logits, target).cpu()
    rows = len(logits)
    deviation = math.sqrt(math.log(4 / delta) / 2)
    priors = torch.full(logits.shape[1:], math.nan, dtype=torch.float64)
    for column, count in enumerate(positives.sum(0).tolist()):
        if not count:
            continue
        scores = upcast(logits[:, column].detach()).cpu()
        known = scores[positives[:, column]].sort().values
        scores = scores.sort().values
        share = (rows - torch.searchsorted(scores, scores).double()) / rows
        found = (count - torch.searchsorted(known, scores).double()) / count
        bound = (share + (1 + tau) * deviation * (rows**-0.5 + count**-0.5)) / found
        best = bound.argmin()
        priors[column] = share[best] / found[best]
    return priors


def _risks(
    logits: Tensor,
    target: Tensor,
    prior: Tensor,
    surrogate: Surrogate,
    unlabelled: Unlabelled,
    observed: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """R+ and R- of each class, both of shape (C,), and the loss of known negatives."""
    check_choice("surrogate", surrogate, ("sigmoid", "logistic"))
    check_choice("unlabelled", unlabelled, ("all", "rest"))
    positives, negatives, prior = _masks(logits, target, prior, observed)
    z = upcast(logits)
    if surrogate == "sigmoid":
        of_positive, of_negative = torch.sigmoid(-z), torch.sigmoid(z)
    else:
        of_positive, of_negative = softplus(-z, threshold=LINEAR), softplus(z, threshold=LINEAR)
    if unlabelled == "all":
        on_unlabelled = of_negative.sum(0) / max(len(z), 1)
    else:
        on_unlabelled = _mean(of_negative, ~positives, None if observed is None else 1 - observed)
    positive = prior * _mean(of_positive, positives, observed)
    negative = on_unlabelled - prior * _mean(of_negative, positives, observed)
    return positive, negative, _mean(of_negative, negatives).sum()


def _masks(
    logits: Tensor, target: Tensor, prior: Tensor, observed: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Masks of known positives and known negatives, bool of shape (B, C), and the prior in their dtype."""
    check_target(logits, target)
    for name, values in (("prior", prior), ("observed", observed)):
        if values is None:
            continue
        if values.shape != logits.shape[1:] or not values.is_floating_point():
            raise ValueError(
                f"{name} must be floating point of shape ({logits.shape[1]},), got {values.dtype} "
                f"{tuple(values.shape)}"
            )
        if values.device.type == "cpu" and not ((values >= 0) & (values <= 1)).all():
            raise ValueError(f"{name} must lie in [0, 1]")
    positives = _positives(logits, target)
    negatives = target == -1 if target.ndim == 2 else torch.zeros_like(positives)
    return positives, negatives, prior.to(upcast(logits[:0]).dtype)


def _positives(logits: Tensor, target: Tensor) -> Tensor:
    """Mask of known positives, bool of shape (B, C)."""
    if target.ndim == 2:
        return target == 1
    return torch.zeros_like(logits, dtype=torch.bool).scatter_(1, target[:, None], True)


def _mean(values: Tensor, members: Tensor, share: Tensor | None = None) -> Tensor:
    """Sum over the members of each class, divided by their number, or by the expected one in a batch."""
    number = members.sum(0) if share is None else len(members) * share.to(values.dtype)
    return values.where(members, 0).sum(0) / number.where(number > 0, 1)


CRISPLoss = as_module("CRISPLoss", crisp_loss)
PULoss = as_module("PULoss", pu_loss)
