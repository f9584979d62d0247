"""Linear heads in closed form: ridge regression of observed labels, LDA, class-mean difference.

All depend on the features only through means and covariances.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from .moments import Moments

CLOSED_FORM = RIDGE, LDA, MEAN_DIFFERENCE = "ridge", "lda", "mean_difference"

PENALTIES = (*(round(0.1 * 3000 ** (k / 11), 6) for k in range(12)), math.inf)
"""Penalties from which `ridge` is selected: 12 from .1 to 300, evenly spaced on a log scale, and the
limit."""

FINITE_PENALTIES = PENALTIES[:-1]
"""Penalties from which `lda` is selected: in the limit it ranks nothing."""


class Axes(NamedTuple):
    """Principal axes of a covariance, float64.

    Attributes:
        values: Variances along the axes, of shape (R,).
        vectors: Orthonormal axes, of shape (D, R).
        scale: Mean variance of a feature, the unit of penalties.
    """

    values: Tensor
    vectors: Tensor
    scale: Tensor


def principal_axes(covariance: Tensor, most: int | None = None) -> Axes:
    """Compute the principal axes of a covariance (D, D), from small to large variance.

    Args:
        covariance: Covariance of the features.
        most: Largest number of axes; those of the largest variances are kept. None = all.
    """
    values, vectors = torch.linalg.eigh(covariance)
    if most is not None and most < len(values):
        values, vectors = values[-most:], vectors[:, -most:]
    return Axes(values, vectors, covariance.diagonal().mean())


class LdaStart(NamedTuple):
    """What all solutions of LDA share, in the coordinates of `Axes`.

    Attributes:
        means: Centred class means along the axes, of shape (R, C); 0 for a class without known positives.
        log_prior: Logarithm of each class's share of the known positives, of shape (C,).
    """

    means: Tensor
    log_prior: Tensor


def ridge_along(axes: Axes, cross: Tensor, penalty: float) -> Tensor:
    """Weights (R, C) of ridge regression along principal axes.

    Args:
        axes: Principal axes of the features.
        cross: Covariance of features and labels along the axes, of shape (R, C).
        penalty: lambda; infinity gives the direction of the limit, with another length.
    """
    if math.isinf(penalty):
        return cross
    return cross / (axes.values + penalty * axes.scale)[:, None]


def start_lda(axes: Axes, stats: Moments) -> LdaStart:
    """Prepare LDA on these axes; see `lda`."""
    means = torch.where(stats.share > 0, stats.cross / stats.share, 0.0)
    log_prior = ((stats.share * stats.samples + 0.5) / stats.samples).log()
    return LdaStart(axes.vectors.T @ means, log_prior)


def lda_along(axes: Axes, start: LdaStart, penalty: float) -> tuple[Tensor, Tensor]:
    """Weights (R, C) and bias (C,) of LDA along principal axes, for centred features; see `lda`."""
    weights = start.means / (axes.values + penalty * axes.scale)[:, None]
    return weights, start.log_prior - (start.means * weights).sum(0) / 2


def ridge(stats: Moments, penalties: Sequence[float] = PENALTIES) -> Iterator[Tensor]:
    """Yield the weights (D, C) of ridge regression for each penalty, from one eigendecomposition.

    W = (Sigma + lambda s2 I)^-1 Xc' Sc / N with s2 = tr(Sigma) / D. As lambda goes to infinity, the direction
    of W approaches Xc' Sc / N, whose columns are those of `mean_difference` times the classes' shares. The
    penalty infinity has this direction, with the length of least squared error.

    Args:
        stats: Moments of the training samples.
        penalties: Values of lambda, above 0.

    Source:
        Hoerl, Kennard. Ridge Regression: Biased Estimation for Nonorthogonal Problems. Technometrics 1970.
    """
    axes = principal_axes(stats.covariance)
    cross = axes.vectors.T @ stats.cross
    for penalty in penalties:
        if math.isinf(penalty):
            yield _rescaled(stats.cross, stats)
        else:
            yield axes.vectors @ ridge_along(axes, cross, penalty)


def lda(stats: Moments, penalties: Sequence[float] = FINITE_PENALTIES) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield weights (D, C) and bias (C,) of linear discriminant analysis for each penalty.

    A = (Sigma + lambda s2 I)^-1 M, where column c of M is the mean of the samples in which class c is a known
    positive, minus the mean of all samples. The log-probability of class c is log softmax over c of
    xc' A_c - M_c' A_c / 2 + log((n_c + 1/2) / N), for centred features xc and n_c known positives. Sigma is
    the covariance of all samples, as for `ridge`. A multi-class model of the label that is shown: nearly that
    of softmax regression, without its iterations.

    Args:
        stats: Moments of the training samples.
        penalties: Values of lambda, above 0 and finite.

    Yields:
        Weights and bias of a linear layer on the features as they are, whose outputs differ from the
        log-probabilities by a number per sample.

    Source:
        Friedman. Regularized Discriminant Analysis. JASA 1989, with a shared covariance shrunk to the
        identity.
    """
    axes = principal_axes(stats.covariance)
    start = start_lda(axes, stats)
    for penalty in penalties:
        along, bias = lda_along(axes, start, penalty)
        weights = axes.vectors @ along
        yield weights, bias - stats.mean @ weights


def mean_difference(stats: Moments) -> Tensor:
    """Return the weights (D, C) of the class-mean difference.

    For each class these are the mean of the samples in which it is a known positive, minus the mean of all
    samples; 0 for a class without known positives. One factor for all classes minimises the squared error.

    Args:
        stats: Moments of the training samples.
    """
    direction = torch.where(stats.share > 0, stats.cross / stats.share, 0.0)
    return _rescaled(direction, stats)


def _rescaled(direction: Tensor, stats: Moments) -> Tensor:
    """Multiply `direction` (D, C) by the number a that minimises the sum of (Sc - a Xc direction)^2."""
    explained = (direction * (stats.covariance @ direction)).sum()
    factor = (direction * stats.cross).sum() / explained
    return direction * torch.where(explained > 0, factor, 0.0)


@torch.no_grad()
def fill_head(head: nn.Linear, weights: Tensor, stats: Moments, mean_labels: float) -> None:
    """Set the weights of a linear layer so that it computes logits from a least-squares estimate of the
    labels.

    With s_c = (estimate of S_c) / (mean known positives per sample), the share of class c among the shown
    labels, K s_c estimates the probability of the class, and the logit is 4 (K s_c - 1/2), the tangent of the
    log-odds at 1/2. This is the same increasing line for all classes, so rankings are those of the estimate.

    Args:
        head: Layer from D features to C logits.
        weights: Weights (D, C) of the estimate S_c = share_c + (x - mean) . weights_c.
        stats: Moments from which the weights were computed.
        mean_labels: Mean labels per sample K.
    """
    slope = 4 * mean_labels / stats.share.sum()
    head.weight.copy_(slope * weights.T)
    head.bias.copy_(slope * (stats.share - stats.mean @ weights) - 2)
