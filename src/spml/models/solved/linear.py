"""Linear heads in closed form: ridge regression of observed labels, LDA, class-mean difference.

All depend on the features only through means and covariances.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence, Sized
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.nn import functional

from ...common.numerics import SparseSpread
from .moments import IntArray, Moments
from .softmax import MULTINOMIAL_PENALTIES, Multinomial

CLOSED_FORM = RIDGE, LDA, MEAN_DIFFERENCE = "ridge", "lda", "mean_difference"
MULTINOMIAL: Final = "multinomial"
"""Softmax regression, which has no closed form (see `Multinomial`)."""

LOG_PROBABILITIES = (LDA, MULTINOMIAL)
"""Heads whose scores are the log-softmax of the outputs of their layer."""

PENALTIES = (*(round(0.1 * 3000 ** (k / 11), 6) for k in range(12)), math.inf)
"""Penalties from which `ridge` is selected: 12 from .1 to 300, evenly spaced on a log scale, and the
limit."""

FINITE_PENALTIES = PENALTIES[:-1]
"""Penalties from which `lda` is selected: in the limit it ranks nothing."""

LINEAR_SOLUTIONS = (*((RIDGE, each) for each in PENALTIES), *((LDA, each) for each in FINITE_PENALTIES))
"""Head and penalty of the solutions that the auto head tries on a space."""

_ENTRIES = 1 << 25  # weights that are solved at a time, and outputs that are computed at a time
_BLOCK = 4096  # columns whose outputs are computed at a time, where those of all are not kept


class Solver:
    """Solutions of ridge regression and LDA for any penalty, along the principal axes of the features, and
    perhaps of softmax regression.

    One eigendecomposition serves all penalties; see `ClosedForm` for the formulas.

    Args:
        stats: Moments of the samples to solve on.
        most: Largest number of axes; those of the largest variances are kept. None = all.

    Of sparse features (`SparseSpread`), the variance is the same in all directions besides the axes. Of these
    the solutions need one for each column: the covariance of features and label, without its part along the
    axes. They follow the R axes, are orthogonal to them, and are as long as they are.

    Attributes:
        values: Variances along the axes, float64 of shape (R,).
        vectors: Orthonormal axes, float64 of shape (D, R).
        squares: Squared length of each axis, float64 of shape (R,).
        unit: Mean variance of a feature, the unit of penalties.
        cross: Covariance of features and labels along the axes, float64 of shape (R, K).
        multinomial: Softmax regression of the same samples; None = it is not solved.
    """

    values: Tensor
    vectors: Tensor
    multinomial: Multinomial | None = None

    def __init__(self, stats: Moments, most: int | None = None) -> None:
        # Without the covariance, which needs most memory.
        self.mean, self.share = stats.spread.mean, stats.share
        self.columns, self._samples = stats.columns, stats.samples
        self.values, self.vectors = stats.spread.axes()
        if most is not None and most < len(self.values):
            self.values, self.vectors = self.values[-most:], self.vectors[:, -most:]
        self.unit = stats.spread.mean_variance()
        self.cross = self.vectors.T @ stats.cross
        self.squares = torch.ones_like(self.values)
        if isinstance(stats.spread, SparseSpread):
            further = stats.cross - self.vectors @ self.cross
            count = further.shape[1]
            self.values = torch.cat([self.values, self.values.new_full((count,), stats.spread.rest)])
            self.vectors = torch.cat([self.vectors, further], 1)
            self.cross = torch.cat([self.cross, torch.eye(count, dtype=torch.float64)])
            self.squares = torch.cat([self.squares, further.square().sum(0)])

    @property
    def solutions(self) -> tuple[tuple[str, float], ...]:
        """Heads and penalties to try."""
        softmax = MULTINOMIAL_PENALTIES if self.multinomial else ()
        return (*LINEAR_SOLUTIONS, *((MULTINOMIAL, penalty) for penalty in softmax))

    def along(
        self, head: str, penalty: float, columns: Tensor | slice = slice(None)
    ) -> tuple[Tensor, Tensor]:
        """Weights (R, J) and bias (J,) along the axes, for centred features.

        For ridge regression, a penalty of infinity gives the direction of the limit, with another length.
        """
        cross, share = self.cross[:, columns], self.share[columns]
        shrunk = (self.values + penalty * self.unit)[:, None]
        if head == RIDGE:
            return cross if math.isinf(penalty) else cross / shrunk, share
        means = _class_means(cross, share)
        weights = means / shrunk
        log_prior = ((share * self._samples + 0.5) / self._samples).log()
        return weights, log_prior - (self.squares[:, None] * means * weights).sum(0) / 2

    def centred(self, inputs: Any) -> Tensor:
        """Features (B, D), a tensor or CSR, along the axes, float32 (B, R)."""
        if not isinstance(inputs, Tensor):
            vectors = self.vectors.float()
            return torch.from_numpy(inputs @ vectors.numpy()) - self.mean.float() @ vectors
        return (inputs - self.mean.float()) @ self.vectors.float()

    def scores(
        self, head: str, penalty: float, parts: Sequence[Any], columns: Tensor | None = None
    ) -> Tensor:
        """Predictions of a head for samples.

        Args:
            head: `ridge`; or `lda` or `multinomial`, which give log-probabilities.
            penalty: Penalty lambda.
            parts: Features of the samples: (B, R) along the axes, from `centred`, or for `multinomial` as
                they are, CSR (B, D).
            columns: Columns to predict, int64 (J,); None = all. Outputs of others are not kept.

        Returns:
            Scores, float32 (H, K) or (H, J).
        """
        if head == MULTINOMIAL:
            assert self.multinomial is not None
            found = torch.cat([self.multinomial.outputs(penalty, part) for part in parts])
            scores = head_scores(head, found)
            return scores if columns is None else scores[:, columns]
        weights, bias = (each.float() for each in self.along(head, penalty))
        log_sizes = self.columns.log_sizes
        if columns is None:
            return torch.cat(
                [head_scores(head, torch.addmm(bias, part, weights), log_sizes) for part in parts]
            )
        own_weights, own_bias = weights[:, columns], bias[columns]
        outputs = torch.cat([torch.addmm(own_bias, part, own_weights) for part in parts])
        if head != LDA:
            return outputs
        total = torch.full((len(outputs), 1), -torch.inf)
        for first in range(0, len(bias), _BLOCK):
            block = slice(first, first + _BLOCK)
            sizes = None if log_sizes is None else log_sizes[block]
            of_block = [
                _log_total(torch.addmm(bias[block], part, weights[:, block]), sizes) for part in parts
            ]
            total = torch.logaddexp(total, torch.cat(of_block))
        return outputs - total

    @torch.no_grad()
    def fill(self, layer: nn.Linear, head: str, penalty: float, projection: Tensor | None = None) -> None:
        """Set a linear layer to a solution.

        Args:
            layer: The layer, from R inputs.
            head: `ridge`, `lda` or `multinomial`.
            penalty: Penalty lambda.
            projection: Projection (M, R) that the layer takes in, so that it has M inputs; None = none.
        """
        if head == MULTINOMIAL:
            assert self.multinomial is not None
            weights, bias = self.multinomial.layer(penalty)
        else:
            along, bias = self.along(head, penalty)
            weights = self.vectors @ along
            bias = bias - self.mean @ weights
        layer.bias.copy_(bias)
        layer.weight.copy_((weights if projection is None else projection.double() @ weights).T)


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
        self.head, self._stats = head, stats
        self.penalties: tuple[float | None, ...] = {
            RIDGE: PENALTIES, LDA: FINITE_PENALTIES, MEAN_DIFFERENCE: (None,)
        }[head]  # fmt: skip
        self._slope = 4 * mean_labels / stats.share.sum()
        self._solver = None if head == MEAN_DIFFERENCE else Solver(stats)
        self._factor = None if head == LDA else self._least_squares_factor()

    def estimate(self, penalty: float | None, columns: Tensor | slice = slice(None)) -> Tensor:
        """Weights (D, J) of the least-squares estimate S_c = share_c + (x - mean) . weights_c, float64."""
        if penalty is None or math.isinf(penalty):
            assert self._factor is not None
            direction = self._direction(columns) * self._factor
            return direction if self._solver is None else self._solver.vectors @ direction
        assert self._solver is not None
        return self._solver.vectors @ self._solver.along(RIDGE, penalty, columns)[0]

    def layer(self, penalty: float | None, columns: Tensor | slice = slice(None)) -> tuple[Tensor, Tensor]:
        """Weight (J, D) and bias (J,) of a linear layer on the features as they are, float64.

        The outputs of LDA differ from its log-probabilities by a number per sample. For the other heads, with
        s_c = (estimate of S_c) / (mean known positives per sample), the share of class c among the shown
        labels, K s_c estimates the probability of the class, and the logit is 4 (K s_c - 1/2), the tangent of
        the log-odds at 1/2. This is the same increasing line for all classes, so rankings are those of the
        estimate.
        """
        mean, share = self._stats.spread.mean, self._stats.share[columns]
        if self.head == LDA:
            assert self._solver is not None
            assert penalty is not None
            along, bias = self._solver.along(LDA, penalty, columns)
            weights = self._solver.vectors @ along
            return weights.T, bias - mean @ weights
        weights = self.estimate(penalty, columns)
        return self._slope * weights.T, self._slope * (share - mean @ weights) - 2

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
        weight, bias = torch.empty(len(columns), len(self._stats.spread.mean)), torch.empty(len(columns))
        for block in self._blocks(self._stats.share):
            weight[block], bias[block] = self.layer(penalty, block)
        rows, log_sizes = max(1, _ENTRIES // len(columns)), columns.log_sizes

        def log_probabilities(features: Tensor) -> Tensor:
            outputs = (functional.linear(part, weight, bias) for part in torch.split(features.cpu(), rows))
            parts = [part[:, wanted] - _log_total(part, log_sizes) for part in outputs]
            return torch.cat(parts).to(features.device)

        return log_probabilities

    def _blocks(self, columns: Sized) -> Iterator[slice]:
        """Blocks of columns whose weights fit into memory."""
        size = max(1, _ENTRIES // len(self._stats.spread.mean))
        for first in range(0, len(columns), size):
            yield slice(first, min(first + size, len(columns)))

    def _direction(self, columns: Tensor | slice) -> Tensor:
        """Covariance (R, J) of features and labels, for the class-mean difference divided by the shares."""
        if self._solver is not None:
            return self._solver.cross[:, columns]
        return _class_means(self._stats.cross[:, columns], self._stats.share[columns])

    def _least_squares_factor(self) -> Tensor:
        """Number a that minimises the sum of (Sc - a Xc direction)^2."""
        explained, along = torch.zeros((), dtype=torch.float64), torch.zeros((), dtype=torch.float64)
        cross = self._stats.cross if self._solver is None else self._solver.cross
        for block in self._blocks(self._stats.share):
            direction = self._direction(block)
            if self._solver is None:
                explained += self._stats.spread.variance_along(direction)
            else:
                variances = self._solver.values * self._solver.squares
                explained += (direction.square() * variances[:, None]).sum()
            squares = 1.0 if self._solver is None else self._solver.squares[:, None]
            along += (squares * direction * cross[:, block]).sum()
        return torch.where(explained > 0, along / explained, 0.0)


def head_scores(head: str, outputs: Tensor, log_sizes: Tensor | None = None) -> Tensor:
    """Turn into predictions the outputs (B, K) of a head's linear layer, log-probabilities for some heads.

    Args:
        head: `ridge`, `lda` or `multinomial`.
        outputs: Outputs of the layer.
        log_sizes: Logarithm of the number of classes of each column (K,); None = one class each.
    """
    if head not in LOG_PROBABILITIES:
        return outputs
    if log_sizes is None:
        return functional.log_softmax(outputs, 1)
    return outputs - _log_total(outputs, log_sizes)


def _log_total(outputs: Tensor, log_sizes: Tensor | None) -> Tensor:
    """Logarithm of the sum of exp(outputs) (B, K) over all classes, of shape (B, 1)."""
    return (outputs if log_sizes is None else outputs + log_sizes).logsumexp(1, keepdim=True)


def _class_means(cross: Tensor, share: Tensor) -> Tensor:
    """Centred mean (R, J) of the known positives of each class; 0 for a class without any."""
    return torch.where(share > 0, cross / share, 0.0)
