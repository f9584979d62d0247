"""Softmax regression on features that look like counts, most of which are 0."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from ...common.numerics import Weights, minimise_head
from .moments import IntArray, Moments

MULTINOMIAL_PENALTIES: Final = tuple(round(1000 / 10 ** (k / 2), 6) for k in range(9))
"""Penalties from 1000 down to .1, two per decade."""

TOLERANCE = 1e-2
"""A solution has converged if the norm of its gradient is at most this share of that at the start."""

MAX_EVALUATIONS = 100
_KEPT = 3  # solutions: the search ends with the second one that is worse than the best


class Multinomial:
    """Softmax regression of the known positives, for one penalty after the other.

    Minimises the mean over known positives of -log softmax_c(W' (x - mean) + b), plus l2 |W|^2 with
    l2 = penalty s2 / (2 K), where s2 is the mean variance of a feature and K the number of classes: the
    penalties that `spml.engine.lbfgs` has for balanced classes. Each solution starts from the one before.

    L-BFGS takes p_c (1 - p_c) as the curvature of a class, with its share p_c.

    Args:
        matrix: Scaled features, CSR float32 (N, D).
        positives: Rows and columns of the M known positives, int64 (M,).
        stats: Moments of both.
        start: Solution to start from; None = weights of 0 and the logarithms of the shares.

    Attributes:
        latest: The latest solution: weights (D, K) for centred features, and biases (K,), float32.
    """

    def __init__(
        self,
        matrix: Any,
        positives: tuple[IntArray, IntArray],
        stats: Moments,
        start: Weights | None = None,
    ) -> None:
        labelled, self._rows = np.unique(positives[0], return_inverse=True)
        self._matrix = matrix if len(labelled) == matrix.shape[0] else matrix[labelled]
        self._labels, self._known = positives[1], len(self._rows)
        self._times = torch.from_numpy(np.bincount(self._rows).astype(np.float32))[:, None]
        self._mean, self._scale = stats.spread.mean.float(), float(stats.spread.mean_variance())
        squares = np.bincount(matrix.indices, np.square(matrix.data, dtype=np.float64), matrix.shape[1])
        variances = torch.from_numpy(squares / matrix.shape[0]) - stats.spread.mean.square()
        self._variances = variances.clamp_(min=0).float()
        counts = stats.share * stats.samples
        share = counts / self._known
        self._curvature = (share * (1 - share)).float()
        self._origin = (
            torch.zeros(matrix.shape[1], len(counts)), ((counts + 0.5) / self._known).log().float()
        )  # fmt: skip
        self.latest = start or self._origin
        self._solutions: dict[float, Weights] = {}

    def layer(self, penalty: float) -> Weights:
        """Weights (D, K) and biases (K,) for features as they are; the last three solutions are kept."""
        if penalty not in self._solutions:
            self._solutions[penalty] = self.latest = self._solve(penalty)
            while len(self._solutions) > _KEPT:
                del self._solutions[next(iter(self._solutions))]
        weights, bias = self._solutions[penalty]
        return weights, bias - self._mean @ weights

    def outputs(self, penalty: float, matrix: Any) -> Tensor:
        """Outputs (B, K) of samples with features (B, D), CSR."""
        weights, bias = self.layer(penalty)
        return torch.from_numpy(matrix @ weights.numpy()).add_(bias)

    def _solve(self, penalty: float) -> Weights:
        def gradient(weights: Tensor, bias: Tensor) -> Weights:
            outputs = torch.from_numpy(self._matrix @ weights.numpy()).add_(bias - self._mean @ weights)
            slope = outputs.softmax(1).mul_(self._times)
            slope[self._rows, self._labels] -= 1
            slope /= self._known
            by_bias = slope.sum(0)
            by_weights = torch.from_numpy(self._matrix.T @ slope.numpy())
            return by_weights.addr_(self._mean, by_bias, alpha=-1), by_bias

        found, _, _ = minimise_head(
            gradient,
            self.latest,
            self._origin,
            penalty * self._scale / (2 * len(self._curvature)),
            variances=self._variances,
            curvature=self._curvature,
            tolerance=TOLERANCE,
            max_evaluations=MAX_EVALUATIONS,
        )
        return found
