"""Linear heads in closed form: ridge regression of observed labels, LDA, class-mean difference.

All depend on the features only through means and covariances.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sized
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from .columns import IntArray
from .moments import Moments

CLOSED_FORM = RIDGE, LDA, MEAN_DIFFERENCE = "ridge", "lda", "mean_difference"

PENALTIES = (*(round(0.1 * 3000 ** (k / 11), 6) for k in range(12)), math.inf)
"""Penalties from which `ridge` is selected: 12 from .1 to 300, evenly spaced on a log scale, and the
limit."""

FINITE_PENALTIES = PENALTIES[:-1]
"""Penalties from which `lda` is selected: in the limit it ranks nothing."""

_ENTRIES = 1 << 25  # weights that are solved at a time, and outputs that are computed at a time


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


def start_lda(stats: Moments) -> LdaStart:
    """Prepare LDA from moments whose `cross` is along the principal axes, (R, C); see `ClosedForm`."""
    means = torch.where(stats.share > 0, stats.cross / stats.share, 0.0)
    log_prior = ((stats.share * stats.samples + 0.5) / stats.samples).log()
    return LdaStart(means, log_prior)


def lda_along(axes: Axes, start: LdaStart, penalty: float) -> tuple[Tensor, Tensor]:
    """Weights (R, C) and bias (C,) of LDA along principal axes, for centred features; see `ClosedForm`."""
    weights = start.means / (axes.values + penalty * axes.scale)[:, None]
    return weights, start.log_prior - (start.means * weights).sum(0) / 2


class ClosedForm:
    """A linear head in closed form, for each penalty and for some of the columns at a time, from one
    eigendecomposition.

    For `ridge`, W = (Sigma + lambda s2 I)^-1 Xc' Sc / N with s2 = tr(Sigma) / D. As lambda goes to infinity,
    the direction of W approaches Xc' Sc / N, whose columns are those of `mean_difference` times the classes'
    shares. The penalty infinity has this direction, with the length of least squared error.

    For `lda`, A = (Sigma + lambda s2 I)^-1 M, where column c of M is the mean of the samples in which class c
    is a known positive, minus the mean of all samples. The log-probability of class c is log softmax over c
    of xc' A_c - M_c' A_c / 2 + log((n_c + 1/2) / N), for centred features xc and n_c known positives. Sigma
    is the covariance of all samples, as for `ridge`. A multi-class model of the label that is shown: nearly
    that of softmax regression, without its iterations.

    For `mean_difference`, the weights of a class are the mean of the samples in which it is a known positive,
    minus the mean of all samples; 0 for a class without known positives. One factor for all classes minimises
    the squared error.

    Args:
        head: `ridge`, `lda` or `mean_difference`.
        stats: Moments of the training samples.
        mean_labels: Mean labels per sample K, for the scale of the logits of `ridge` and `mean_difference`.

    Attributes:
        penalties: Values of lambda from which one is selected; `mean_difference` has only None.

    Source:
        Hoerl, Kennard. Ridge Regression: Biased Estimation for Nonorthogonal Problems. Technometrics 1970.
        Friedman. Regularized Discriminant Analysis. JASA 1989, with a shared covariance shrunk to the
        identity.
    """

    def __init__(self, head: str, stats: Moments, mean_labels: float) -> None:
        self.head = head
        self.penalties: tuple[float | None, ...] = {
            RIDGE: PENALTIES, LDA: FINITE_PENALTIES, MEAN_DIFFERENCE: (None,)
        }[head]  # fmt: skip
        self._slope = 4 * mean_labels / stats.share.sum()
        self._axes = None
        if head != MEAN_DIFFERENCE:
            self._axes = principal_axes(stats.covariance)
            stats = stats._replace(cross=self._axes.vectors.T @ stats.cross)
        self._stats = stats
        self._factor = None if head == LDA else self._least_squares_factor()

    def estimate(self, penalty: float | None, columns: Tensor | slice = slice(None)) -> Tensor:
        """Weights (D, J) of the least-squares estimate S_c = share_c + (x - mean) . weights_c, float64."""
        if penalty is None or math.isinf(penalty):
            assert self._factor is not None
            direction = self._direction(columns) * self._factor
            return direction if self._axes is None else self._axes.vectors @ direction
        assert self._axes is not None
        along = ridge_along(self._axes, _some(self._stats, columns).cross, penalty)
        return self._axes.vectors @ along

    def layer(self, penalty: float | None, columns: Tensor | slice = slice(None)) -> tuple[Tensor, Tensor]:
        """Weight (J, D) and bias (J,) of a linear layer on the features as they are, float64.

        The outputs of LDA differ from its log-probabilities by a number per sample. For the other heads, with
        s_c = (estimate of S_c) / (mean known positives per sample), the share of class c among the shown
        labels, K s_c estimates the probability of the class, and the logit is 4 (K s_c - 1/2), the tangent of
        the log-odds at 1/2. This is the same increasing line for all classes, so rankings are those of the
        estimate.
        """
        stats = _some(self._stats, columns)
        if self.head == LDA:
            assert self._axes is not None
            assert penalty is not None
            along, bias = lda_along(self._axes, start_lda(stats), penalty)
            weights = self._axes.vectors @ along
            return weights.T, bias - stats.mean @ weights
        weights = self.estimate(penalty, columns)
        return self._slope * weights.T, self._slope * (stats.share - stats.mean @ weights) - 2

    @torch.no_grad()
    def fill(self, layer: nn.Linear, penalty: float | None) -> None:
        """Set a layer from D features to the C classes to a solution, a block of classes at a time."""
        own = self._stats.columns.own
        if own is not None:
            last = torch.tensor([len(own)])
            for parameter, value in zip((layer.weight, layer.bias), self.layer(penalty, last), strict=True):
                parameter.copy_(value)  # of one column, for all classes
        for block in self._blocks(self._stats.share if own is None else own):
            target = block if own is None else torch.from_numpy(own[block])
            weight, bias = self.layer(penalty, block)
            layer.weight[target] = weight.to(layer.weight)
            layer.bias[target] = bias.to(layer.bias)

    @torch.no_grad()
    def scorer(self, penalty: float | None, classes: IntArray) -> Callable[[Tensor], Tensor]:
        """Function from features (B, D) to the logits of some classes (B, J), for LDA log-probabilities.

        The log-probabilities of LDA need the outputs of all columns, those of the other heads only their own.
        """
        columns = self._stats.columns
        wanted = torch.from_numpy(columns.of_class[classes])
        if self.head != LDA:
            weight, bias = (part.float() for part in self.layer(penalty, wanted))
            return lambda features: functional.linear(features, weight.to(features), bias.to(features))
        weight, bias = torch.empty(len(columns), len(self._stats.mean)), torch.empty(len(columns))
        for block in self._blocks(self._stats.share):
            weight[block], bias[block] = self.layer(penalty, block)
        rows, log_sizes = max(1, _ENTRIES // len(columns)), columns.log_sizes

        def log_probabilities(features: Tensor) -> Tensor:
            outputs = (functional.linear(part, weight, bias) for part in torch.split(features.cpu(), rows))
            parts = [part[:, wanted] - log_total(part, log_sizes) for part in outputs]
            return torch.cat(parts).to(features.device)

        return log_probabilities

    def _blocks(self, columns: Sized) -> Iterator[slice]:
        """Blocks of columns whose weights fit into memory."""
        size = max(1, _ENTRIES // len(self._stats.mean))
        for first in range(0, len(columns), size):
            yield slice(first, min(first + size, len(columns)))

    def _direction(self, columns: Tensor | slice) -> Tensor:
        """Covariance (D, J) of features and labels, for the class-mean difference divided by the shares."""
        stats = _some(self._stats, columns)
        if self.head == RIDGE:
            return stats.cross
        return torch.where(stats.share > 0, stats.cross / stats.share, 0.0)

    def _least_squares_factor(self) -> Tensor:
        """Number a that minimises the sum of (Sc - a Xc direction)^2."""
        explained, along = torch.zeros((), dtype=torch.float64), torch.zeros((), dtype=torch.float64)
        for block in self._blocks(self._stats.share):
            direction = self._direction(block)
            if self._axes is None:
                explained += (direction * (self._stats.covariance @ direction)).sum()
            else:
                explained += (direction.square() * self._axes.values[:, None]).sum()
            along += (direction * self._stats.cross[:, block]).sum()
        return torch.where(explained > 0, along / explained, 0.0)


def log_total(outputs: Tensor, log_sizes: Tensor | None) -> Tensor:
    """Logarithm of the sum of exp(outputs) (B, K) over all classes, of shape (B, 1).

    Args:
        outputs: Outputs of a linear layer.
        log_sizes: Logarithm of the number of classes of each column (K,); None = one class each.
    """
    return (outputs if log_sizes is None else outputs + log_sizes).logsumexp(1, keepdim=True)


def _some(stats: Moments, columns: Tensor | slice) -> Moments:
    """Moments of some of the columns."""
    return stats._replace(share=stats.share[columns], cross=stats.cross[:, columns])
