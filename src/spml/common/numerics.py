"""Numerics: L-BFGS with a line search on slopes; mean, covariance and principal axes of many features."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from .errors import InputError

# -- minimisation ----------------------------------------------------------------------------------------


PAIRS = 10
"""Number of steps remembered. With 50, solving a head took 10 % fewer evaluations but more time."""

_FLATNESS = 0.9  # a step ends where the slope along it is at most this share of the slope at its start
_MAX_LENGTHS = 20  # lengths tried for a step
_LEAST_CURVATURE = 1e-3  # least curvature of a class, as a share of the largest


class Minimum(NamedTuple):
    """Where a search ended, after how many steps."""

    point: Tensor
    slope: Tensor  # the gradient there
    iterations: int
    evaluations: int  # of the gradient


def minimise(
    gradient: Callable[[Tensor], Tensor], start: Tensor, *, tolerance: float, max_evaluations: int
) -> Minimum:
    """Follow a gradient downhill to where it vanishes, by L-BFGS with a line search on slopes.

    Many published losses treat a part of themselves as constant in the derivative. Their gradient is not that
    of any function, and a line search that compares values gives up. The point at which the slope along a
    line changes its sign from minus to plus is still defined, and for a convex function it is the minimum
    along that line.

    Args:
        gradient: Maps a point (P,) to the gradient (P,).
        start: Starting point (P,), scaled so that the second derivative is about 1 in all directions.
        tolerance: Norm of the gradient at which to stop.
        max_evaluations: Approximate limit on evaluations of the gradient.

    Source:
        Liu, Nocedal. On the Limited Memory BFGS Method for Large Scale Optimization. Mathematical Programming
        1989. Kafka, Wilke. Gradient-only Line Searches. arXiv:1903.09383, 2019.
    """
    point, slope = start, gradient(start)
    pairs: deque[tuple[Tensor, Tensor, float]] = deque(maxlen=PAIRS)
    iterations, evaluations = 0, 1
    # A norm of NaN ends the loop.
    while float(slope.norm()) > tolerance and evaluations < max_evaluations:
        direction = _direction(slope, pairs)
        length, new_slope, tries = _search(gradient, point, direction, float(slope @ direction))
        evaluations += tries
        if new_slope is None:
            if not pairs:
                break
            pairs.clear()
            continue
        step, change = length * direction, new_slope - slope
        along = float(step @ change)
        if along > 1e-10 * float(step.norm() * change.norm()):
            pairs.append((step, change, along))
        point, slope, iterations = point + step, new_slope, iterations + 1
    return Minimum(point, slope, iterations, evaluations)


Weights = tuple[Tensor, Tensor]
"""Weights (D, C) and biases (C,) of a linear head."""


def minimise_head(
    gradient: Callable[[Tensor, Tensor], Weights],
    start: Weights,
    origin: Weights,
    l2: float,
    *,
    variances: Tensor,
    curvature: Tensor,
    tolerance: float,
    max_evaluations: int,
) -> tuple[Weights, Minimum, bool]:
    """Find weights and biases of a linear head with the penalty l2 |W|^2 by `minimise`.

    The search is in units in which the second derivative is about 1: that by weight (j, c) is variance_j
    curvature_c + 2 l2. So terms of very different frequency converge together.

    Args:
        gradient: Maps weights and biases to the gradients by both, without the penalty. They are overwritten.
        start: Where the search starts.
        origin: Where the gradient is measured that `tolerance` is a share of.
        l2: Factor of the penalty.
        variances: Variance of each feature, (D,).
        curvature: Second derivative by the logits of each class, (C,).
        tolerance: Norm of the gradient in these units at which to stop, as a share of that at the origin.
        max_evaluations: As for `minimise`.

    Returns:
        Weights and biases, the search, and whether it reached the tolerance.
    """
    curvature = curvature.clamp(min=_LEAST_CURVATURE * float(curvature.max()) or 1.0)
    units = (variances[:, None] * curvature).add_(2 * l2).rsqrt_(), curvature.rsqrt()

    def joined(weights: Tensor, bias: Tensor) -> Tensor:
        return torch.cat([weights.ravel(), bias])

    def split(point: Tensor) -> Weights:
        weights, bias = point[: -len(units[1])], point[-len(units[1]) :]
        return weights.view_as(units[0]) * units[0], bias * units[1]

    def slope(point: Tensor) -> Tensor:
        weights, bias = split(point)
        by_weights, by_bias = gradient(weights, bias)
        return joined(by_weights.add_(weights, alpha=2 * l2).mul_(units[0]), by_bias * units[1])

    first, point = (joined(at[0] / units[0], at[1] / units[1]) for at in (origin, start))
    least = tolerance * float(slope(first).norm())
    minimum = minimise(slope, point, tolerance=least, max_evaluations=max_evaluations)
    return split(minimum.point), minimum, float(minimum.slope.norm()) <= least


def _direction(slope: Tensor, pairs: deque[tuple[Tensor, Tensor, float]]) -> Tensor:
    """Minus the gradient times an estimate of the inverse second derivative, which is positive definite."""
    direction, shares = -slope, []
    for step, change, along in reversed(pairs):
        shares.append(float(step @ direction) / along)
        direction = direction.sub(change, alpha=shares[-1])
    if pairs:
        _, change, along = pairs[-1]
        direction = direction * (along / float(change @ change))
    for (step, change, along), share in zip(pairs, reversed(shares), strict=True):
        direction = direction.add(step, alpha=share - float(change @ direction) / along)
    return direction


def _search(
    gradient: Callable[[Tensor], Tensor], point: Tensor, direction: Tensor, before: float
) -> tuple[float, Tensor | None, int]:
    """Search for a length of the step at which the slope along `direction` is nearly flat.

    Where the slope jumps from minus to plus, as it does where a method rejects losses, the step ends just
    before the jump. `before` is the slope at the start, below 0. Returns the length, the gradient at the end
    of the step (None if no step leads down), and the number of lengths tried.
    """
    low, low_slope, low_gradient = 0.0, before, None
    high, high_slope = math.inf, math.inf
    length = 1.0
    for tries in range(1, _MAX_LENGTHS + 1):
        new_slope = gradient(point + length * direction)
        slope = float(new_slope @ direction)
        if abs(slope) <= -_FLATNESS * before:
            return length, new_slope, tries
        if slope < 0:
            low, low_slope, low_gradient = length, slope, new_slope
        else:  # also if it is not finite
            high, high_slope = length, slope
        if math.isinf(high):
            length = 2 * low
        elif math.isfinite(high_slope):
            share = low_slope / (low_slope - high_slope)
            length = low + (high - low) * min(max(share, 0.1), 0.9)
        else:
            length = (low + high) / 2
    return low, low_gradient, _MAX_LENGTHS


# -- covariance ------------------------------------------------------------------------------------------


SPARSE_AXES = 256
"""Axes of sparse features. With 512 and 1,024, ridge and LDA on abstracts of arXiv have the same mAP."""

_ITERATIONS = 2  # of the decomposition that finds them


class Spread(NamedTuple):
    """Covariance Sigma = Xc' Xc / N of D features, where Xc (N, D) are the centred features of N samples.

    Of fewer samples than features, Sigma is never formed: Xc has all that it holds, in less memory and time.

    Attributes:
        mean: Mean of the features, float64 of shape (D,).
        matrix: Sigma, float64 of shape (D, D); where N < D, Xc divided by the square root of N, of shape
            (N, D).
    """

    mean: Tensor
    matrix: Tensor

    @property
    def wide(self) -> bool:
        """Whether there are fewer samples than features."""
        return len(self.matrix) < len(self.mean)

    def mean_variance(self) -> Tensor:
        """Mean variance of a feature."""
        if self.wide:
            return self.matrix.square().sum() / len(self.mean)
        return self.matrix.diagonal().mean()

    def variance_along(self, directions: Tensor) -> Tensor:
        """Sum over j of d_j' Sigma d_j for directions (D, J)."""
        along = self.matrix @ directions
        return along.square().sum() if self.wide else (directions * along).sum()

    def axes(self) -> tuple[Tensor, Tensor]:
        """Variances (R,), ascending, along the orthonormal principal axes (D, R), where R = min(N, D).

        The features of all samples, and the means of the classes, lie within these axes.
        """
        if not self.wide:
            values, vectors = torch.linalg.eigh(self.matrix)
            return values, vectors
        # Sigma has no other axes than those in the space that Q spans, and is R R' there.
        q, r = torch.linalg.qr(self.matrix.T)
        values, vectors = torch.linalg.eigh(r @ r.T)
        return values, q @ vectors


class SpreadSum:
    """Accumulates mean and covariance of features over batches, in memory for D x D or for N x D numbers.

    Features are summed relative to the mean of the first batch, and covariances of batches are merged (Chan,
    Golub, LeVeque 1979), which avoids cancellation where means are much larger than standard deviations.

    Args:
        width: Number of features D.
        samples: Number of samples that are known to come. Further ones may be added.
    """

    def __init__(self, width: int, samples: int) -> None:
        self._kept: list[Tensor] | None = [] if samples < width else None
        self._covariance = torch.zeros(0 if samples < width else width, width, dtype=torch.float64)
        self._origin = torch.zeros(width, dtype=torch.float64)
        self._total = torch.zeros(width, dtype=torch.float64)
        self.count = 0

    def add(self, features: Tensor) -> Tensor:
        """Add a batch (B, D).

        Products are computed in the precision of the features, float64 or float32, and summed in float64.

        Returns:
            The features relative to those that `about_origin` is relative to, float64 (B, D).
        """
        wide = features.double()
        batch_mean = wide.mean(0)
        if not self.count:
            self._origin = batch_mean
        total = self.count + len(features)
        if self._kept is None:
            features = features - batch_mean.to(features.dtype)
            self._covariance += features.T @ features
            if self.count:
                shift = batch_mean - self._origin - self.about_origin()
                self._covariance.addr_(shift, shift, alpha=self.count * len(features) / total)
        wide = wide - self._origin
        if self._kept is not None:
            self._kept.append(wide.to(features.dtype))
        self._total += wide.sum(0)
        self.count = total
        return wide

    def about_origin(self) -> Tensor:
        """Mean of the features (D,) relative to that of the first batch."""
        return self._total / self.count

    def spread(self) -> Spread:
        """Mean and covariance of all features added so far.

        Raises:
            InputError: All samples have the same features.
        """
        mean, matrix = self._origin + self.about_origin(), self._covariance / self.count
        if self._kept is not None:
            matrix = torch.cat(self._kept).double().sub_(self.about_origin()).div_(math.sqrt(self.count))
            if len(matrix) >= len(mean):  # more were added than were known to come
                matrix = matrix.T @ matrix
        spread = Spread(mean, matrix)
        # Rounding leaves deviations of 1e-16 of the mean between equal features; float32 resolves only 1e-8.
        if spread.mean_variance() * len(mean) <= 1e-20 * mean.square().sum():
            raise _equal_features(self.count)
        return spread


class SparseSpread:
    """Covariance of D sparse features, as `Spread` has it, in the form V diag(w) V' + rest (I - V V').

    Nothing has D x D numbers, and no row becomes dense.

    Args:
        matrix: Features of N samples, CSR (N, D).

    Attributes:
        mean: Mean of the features, float64 of shape (D,).
        rest: Mean variance along the directions that the features have besides the axes.

    Raises:
        InputError: All samples have the same features.

    Source:
        Halko, Martinsson, Tropp. Finding Structure with Randomness. SIAM Review 2011, for the axes. Tipping,
        Bishop. Probabilistic Principal Component Analysis. JRSS B 1999, for the form.
    """

    def __init__(self, matrix: Any) -> None:
        from sklearn.utils.extmath import randomized_svd

        count, width = matrix.shape
        mean = np.asarray(matrix.mean(0, dtype=np.float64)).ravel()
        squares = np.square(matrix.data, dtype=np.float64).sum() / count
        self._matrix, self.mean, self._total = matrix, torch.from_numpy(mean), squares - mean @ mean
        if self._total <= 1e-12 * squares:
            raise _equal_features(count)
        axes = min(SPARSE_AXES, count - 1, width)
        _, _, rows = randomized_svd(matrix, axes, n_iter=_ITERATIONS, random_state=0)
        along = matrix @ rows.T - mean @ rows.T
        values, rotation = np.linalg.eigh(along.T @ along / count)
        self._values, self._vectors = torch.from_numpy(values), torch.from_numpy(rows.T @ rotation).double()
        further = min(count, width) - len(values)
        self.rest = max(0.0, float(self._total - values.sum())) / max(1, further)

    def mean_variance(self) -> Tensor:
        """Mean variance of a feature."""
        return torch.tensor(self._total / len(self.mean))

    def variance_along(self, directions: Tensor) -> Tensor:
        """Sum over j of the variance of the features along d_j, for directions (D, J); exact."""
        along = self._matrix @ directions.numpy() - (self.mean @ directions).numpy()
        return torch.tensor(np.square(along).sum() / len(along))

    def axes(self) -> tuple[Tensor, Tensor]:
        """Variances (R,), ascending, along the orthonormal axes (D, R)."""
        return self._values, self._vectors


def _equal_features(count: int) -> InputError:
    return InputError(
        f"all {count:,} training samples have the same features, so labels can't be predicted from them: use "
        "other features; of images, try a larger size (data.size)."
    )
