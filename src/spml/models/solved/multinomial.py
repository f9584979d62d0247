"""Softmax regression on many sparse features, of which no row becomes dense."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from ...common.minimise import minimise
from .linear import LINEAR_SOLUTIONS, MULTINOMIAL, Solver, head_scores
from .moments import IntArray, Moments

MULTINOMIAL_PENALTIES: Final = tuple(round(1000 / 10 ** (k / 2), 6) for k in range(9))
"""Penalties from 1000 down to .1, two per decade."""

TOLERANCE = 1e-2
"""A solution has converged if the norm of its gradient is at most this share of that at the start."""

MAX_EVALUATIONS = 100
MOST_WEIGHTS = 20_000_000
"""Largest features x classes for which it is solved: 80 MB of float32, of which about 25 are in memory."""

MOST_WORK = 1 << 31
"""Largest number of values that are not 0, times classes, for which it is solved, in a few minutes."""

_LEAST_CURVATURE = 1e-3  # least curvature of a class, as a share of the largest
_KEPT = 3  # solutions: the search ends with the second one that is worse than the best


class Solution(NamedTuple):
    """Weights (D, K) for centred features, and biases (K,), float32."""

    weights: Tensor
    bias: Tensor


class Multinomial:
    """Softmax regression of the known positives, for one penalty after the other.

    Minimises the mean over known positives of -log softmax_c(W' (x - mean) + b), plus l2 |W|^2 with
    l2 = penalty s2 / (2 K), where s2 is the mean variance of a feature and K the number of classes: the
    penalties that `spml.engine.lbfgs` has for balanced classes. Each solution starts from the one before.

    L-BFGS searches in units of weights and biases in which the curvature is about 1: that of weight (j, c) is
    var_j p_c (1 - p_c) + 2 l2, with the variance var_j of the feature and the share p_c of the class. In
    these, terms of very different frequency converge together.

    Args:
        matrix: Scaled features, CSR float32 (N, D).
        positives: Rows and columns of the M known positives, int64 (M,).
        stats: Moments of both.
        start: Solution to start from; None = weights of 0 and the logarithms of the shares.
    """

    def __init__(
        self, matrix: Any, positives: tuple[IntArray, IntArray], stats: Moments, start: Solution | None
    ) -> None:
        labelled, self._rows = np.unique(positives[0], return_inverse=True)
        self._matrix = matrix if len(labelled) == matrix.shape[0] else matrix[labelled]
        self._labels, self._known = positives[1], len(self._rows)
        self._times = torch.from_numpy(np.bincount(self._rows).astype(np.float32))[:, None]
        self.mean, self._scale = stats.spread.mean.float(), float(stats.spread.mean_variance())
        squares = np.bincount(matrix.indices, np.square(matrix.data, dtype=np.float64), matrix.shape[1])
        variances = torch.from_numpy(squares / matrix.shape[0]) - stats.spread.mean.square()
        self._variances = variances.clamp_(min=0).float()
        counts = stats.share * stats.samples
        share = counts / self._known
        curvature = (share * (1 - share)).float()
        self._curvature = curvature.clamp(min=_LEAST_CURVATURE * float(curvature.max()) or 1.0)
        self._origin = Solution(
            torch.zeros(matrix.shape[1], len(counts)), ((counts + 0.5) / self._known).log().float()
        )
        self.latest = start or self._origin
        self._solutions: dict[float, Solution] = {}

    def solution(self, penalty: float) -> Solution:
        """Solution for a penalty; the last three are kept."""
        if penalty not in self._solutions:
            self.latest = self._solve(penalty)
            self._solutions[penalty] = self.latest
            while len(self._solutions) > _KEPT:
                del self._solutions[next(iter(self._solutions))]
        return self._solutions[penalty]

    def outputs(self, penalty: float, matrix: Any) -> Tensor:
        """Outputs (B, K) of samples with features (B, D), CSR."""
        return self._outputs(matrix, self.solution(penalty))

    def _outputs(self, matrix: Any, solution: Solution) -> Tensor:
        weights, bias = solution
        return torch.from_numpy(matrix @ weights.numpy()).add_(bias - self.mean @ weights)

    def _solve(self, penalty: float) -> Solution:
        count, l2 = len(self._curvature), penalty * self._scale / (2 * len(self._curvature))
        of_weights = (self._variances[:, None] * self._curvature).add_(2 * l2).rsqrt_()
        of_bias = self._curvature.rsqrt()

        def point(solution: Solution) -> Tensor:
            return torch.cat([(solution.weights / of_weights).ravel(), solution.bias / of_bias])

        def split(values: Tensor) -> Solution:
            return Solution(values[:-count].view_as(of_weights) * of_weights, values[-count:] * of_bias)

        def gradient(values: Tensor) -> Tensor:
            solution = split(values)
            slope = self._outputs(self._matrix, solution).softmax(1).mul_(self._times)
            slope[self._rows, self._labels] -= 1
            slope /= self._known
            by_bias = slope.sum(0)
            by_weights = torch.from_numpy(self._matrix.T @ slope.numpy())
            by_weights.addr_(self.mean, by_bias, alpha=-1).add_(solution.weights, alpha=2 * l2)
            return torch.cat([by_weights.mul_(of_weights).ravel(), by_bias * of_bias])

        tolerance = TOLERANCE * float(gradient(point(self._origin)).norm())
        found = minimise(gradient, point(self.latest), tolerance=tolerance, max_evaluations=MAX_EVALUATIONS)
        return split(found.point)


class _Along(NamedTuple):
    """Features (B, R) along the axes, and as they are, CSR (B, D)."""

    axes: Tensor
    matrix: Any


class SparseSolver(Solver):
    """Solutions on sparse features: those of `Solver`, and softmax regression.

    Args:
        stats: Moments of the samples to solve on.
        multinomial: Softmax regression of them.
    """

    solutions = (*LINEAR_SOLUTIONS, *((MULTINOMIAL, penalty) for penalty in MULTINOMIAL_PENALTIES))

    def __init__(self, stats: Moments, multinomial: Multinomial) -> None:
        super().__init__(stats)
        self.multinomial = multinomial

    def centred(self, inputs: Any) -> Any:
        """Features (B, D), CSR, as `scores` takes them."""
        return _Along(super().centred(inputs), inputs)

    def scores(
        self, head: str, penalty: float, parts: Sequence[Any], columns: Tensor | None = None
    ) -> Tensor:
        """Predictions of a head; softmax regression gives log-probabilities, as LDA does."""
        if head != MULTINOMIAL:
            return super().scores(head, penalty, [part.axes for part in parts], columns)
        found = torch.cat([self.multinomial.outputs(penalty, part.matrix) for part in parts])
        scores = head_scores(head, found)
        return scores if columns is None else scores[:, columns]

    @torch.no_grad()
    def fill(self, layer: nn.Linear, head: str, penalty: float, projection: Tensor | None = None) -> None:
        """Set a linear layer to a solution; there is no projection that it could take in."""
        if head != MULTINOMIAL:
            super().fill(layer, head, penalty, projection)
            return
        weights, bias = self.multinomial.solution(penalty)
        layer.weight.copy_(weights.T)
        layer.bias.copy_(bias - self.multinomial.mean @ weights)
