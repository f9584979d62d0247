"""Spaces of features: scalings of the features, and Nystroem features of Gaussian kernels on them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from ...common.draws import permutation
from ...common.numerics import SPARSE_AXES, minimise
from ...data import Samples
from ..scaling import SQRT_L2, Scaling, make_scaling
from .ensemble import KernelMap, squared_distances
from .linear import LINEAR_SOLUTIONS, MULTINOMIAL, Solver, head_scores
from .moments import (
    Columns,
    IntArray,
    Moments,
    MomentSum,
    batch_rows,
    fit_scaling,
    is_wide,
    scaled,
    sparse_moments,
    sparse_rows,
)

# -- softmax regression on sparse features ---------------------------------------------------------------


MULTINOMIAL_PENALTIES: Final = tuple(round(1000 / 10 ** (k / 2), 6) for k in range(9))
"""Penalties from 1000 down to .1, two per decade."""

TOLERANCE = 1e-2
"""A solution has converged if the norm of its gradient is at most this share of that at the start."""

MAX_EVALUATIONS = 100
MOST_SOFTMAX_WEIGHTS = 20_000_000
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
        most: As for `Solver`.
    """

    solutions = (*LINEAR_SOLUTIONS, *((MULTINOMIAL, penalty) for penalty in MULTINOMIAL_PENALTIES))

    def __init__(self, stats: Moments, multinomial: Multinomial, most: int | None = None) -> None:
        super().__init__(stats, most)
        self.multinomial = multinomial

    def centred(self, inputs: Any) -> Any:
        """Features (B, D), a tensor or CSR, as `scores` takes them."""
        return _Along(super().centred(inputs), to_csr(inputs))

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


def to_csr(features: Any) -> Any:
    """Features (B, D), a tensor or CSR, as CSR."""
    from scipy.sparse import csr_matrix

    return csr_matrix(features.numpy()) if isinstance(features, Tensor) else features


# -- spaces ----------------------------------------------------------------------------------------------


Rows = npt.NDArray[np.int64]

LANDMARKS = 1000
AXES = 1500
"""Largest number of principal axes of a space that are kept."""

SPARSE_SHARE = 0.2
"""Share of values that are not 0 below which non-negative features are treated as counts."""

_SPARSE_ROWS = 1 << 16  # samples that tell whether features look like counts
_SOME = 1000  # samples that tell how many values are not 0
_OUTPUTS = 1 << 25  # of samples with sparse features that are computed at a time
_SMALLEST_EIGENVALUE = 1e-6  # of a kernel, as a share of the largest


class Pool:
    """Training samples, followed by validation samples, as one numbered set of labelled samples.

    Args:
        parts: Feature vectors and observed labels; at least one sample.

    Attributes:
        columns: Columns in which heads are solved on these samples.
        width: Number of features D.
        training: The first part, the training samples.
    """

    def __init__(self, *parts: Samples) -> None:
        self._parts, self.training = parts, parts[0]
        self._starts = np.cumsum([0, *(len(part) for part in parts)])
        self.columns = Columns.of_samples(*parts)
        self.width = int(parts[0].inputs.fetch([0], None).shape[1])

    def __len__(self) -> int:
        return int(self._starts[-1])

    def features(self, rows: Rows) -> Tensor:
        """Features (B, D) of some samples, float32."""
        return torch.cat([part.inputs.fetch(local, None).float() for part, local in self._split(rows)])

    @property
    def wide(self) -> bool:
        """Whether there are so many sparse features that no row of them becomes dense."""
        return is_wide(*self._parts)

    @cached_property
    def counts(self) -> bool:
        """Whether features look like counts: none negative, and less than 20 % of the values not 0.

        Of many training samples, evenly spaced ones tell.
        """
        if self.wide:
            return True
        rows = np.arange(0, len(self.training), -(-len(self.training) // _SPARSE_ROWS))
        present = 0
        for batch in self.batches(rows):
            features = self.features(batch)
            if (features < 0).any():
                return False
            present += int(torch.count_nonzero(features))
        return present < SPARSE_SHARE * len(rows) * self.width

    def sparse(self, rows: Rows) -> Any:
        """Features (B, D) of some samples, CSR float32."""
        from scipy.sparse import vstack

        if self.wide:
            return vstack([sparse_rows(part, local) for part, local in self._split(rows)], format="csr")
        return vstack([to_csr(self.features(batch)) for batch in self.batches(rows)], format="csr")

    def positives(self, rows: Rows) -> tuple[IntArray, IntArray]:
        """Positions in `rows` and columns of the M known positives of some samples, int64 (M,)."""
        parts, before = [], 0
        for part, local in self._split(rows):
            positions, columns = self.columns.positives(part, local)
            parts.append((positions + before, columns))
            before += len(local)
        positions, columns = (np.concatenate(each) for each in zip(*parts, strict=True))
        return positions, columns

    def labels(self, rows: Rows) -> Tensor:
        """Labels of some samples, bool of shape (B, K): whether a column is a known positive."""
        labels = torch.zeros(len(rows), len(self.columns), dtype=torch.bool)
        positions, columns = self.positives(rows)
        labels[torch.from_numpy(positions), torch.from_numpy(columns)] = True
        return labels

    def _split(self, rows: Rows) -> Iterator[tuple[Samples, Rows]]:
        """Parts and rows in them; `rows` must ascend."""
        for part, start, end in zip(self._parts, self._starts, self._starts[1:], strict=False):
            local = rows[(rows >= start) & (rows < end)] - start
            if len(local):
                yield part, local

    def batches(self, rows: Rows, outputs: int = 0) -> Iterator[Rows]:
        """Rows in batches that fit into memory, with this number of outputs for each row."""
        if self.wide:
            size = max(1, _OUTPUTS // (outputs + SPARSE_AXES))
        else:
            size = batch_rows(max(self.width, outputs, LANDMARKS))
        for first in range(0, len(rows), size):
            yield rows[first : first + size]


class Spaces:
    """The spaces of one scaling, fitted on some samples, with the moments of these samples.

    Where features look like counts, the linear space of `sqrtl2` has softmax regression, too.

    Args:
        pool: Labelled samples.
        rows: Samples to fit on.
        scaling: Name of the scaling.
        widths: Widths of the kernels; 0 = the scaled features themselves.
        seed: Seed of the landmarks.
    """

    def __init__(self, pool: Pool, rows: Rows, scaling: str, widths: Sequence[float], seed: int) -> None:
        self.pool, self.widths = pool, tuple(widths)
        self.scaling: Scaling = make_scaling(scaling, pool.width)
        self.scaling.fit(pool.features(batch) for batch in pool.batches(rows))
        self.landmarks = torch.empty(0, pool.width)
        if any(widths):
            chosen = rows[np.sort(permutation(len(rows), "landmarks", seed)[:LANDMARKS])]
            self.landmarks = self.scaling(pool.features(chosen))
        between = squared_distances(self.landmarks, self.landmarks)
        self.maps = [kernel_map(between, width) if width else nn.Identity() for width in self.widths]
        self._sums = [MomentSum(self.features(i), pool.columns, len(rows)) for i in range(len(self.widths))]
        self._solvers: list[Solver] | None = None
        self._softmax = scaling == SQRT_L2 and 0 in widths and pool.counts and not too_much(pool)
        self._rows = rows[:0]
        self.add(rows)

    def features(self, position: int) -> int:
        """Number of features in one of the spaces."""
        space = self.maps[position]
        return space.features if isinstance(space, KernelMap) else self.pool.width

    def head_inputs(self, width: float, outputs: int) -> tuple[int, Tensor | None]:
        """Number of inputs of the linear heads on a space, and the projection (M, R) of its kernel map that
        they take in; None where they do not.

        Multiplied into heads with few outputs altogether, the projection leaves less to multiply with each
        sample: M x outputs instead of M x R and R x outputs.
        """
        position = self.widths.index(width)
        space, features = self.maps[position], self.features(position)
        if isinstance(space, KernelMap) and space.projection is not None:
            landmarks = len(space.projection)
            if landmarks * outputs <= features * (landmarks + outputs):
                return landmarks, space.projection
        return features, None

    def add(self, rows: Rows) -> None:
        """Add samples to the moments; scaling and kernels stay as they are."""
        self._rows, self._solvers = np.concatenate([self._rows, rows]), None
        for batch in self.pool.batches(rows):
            positives = self.pool.positives(batch)
            for total, inputs in zip(self._sums, self.inputs(batch), strict=True):
                total.add(inputs, positives)

    def inputs(self, batch: Rows, widths: Sequence[float] | None = None) -> Iterator[Tensor]:
        """Yield the features (B, R) of samples in each space, or in those of some widths."""
        scaled = self.scaling(self.pool.features(batch))
        widths = self.widths if widths is None else widths
        distances = squared_distances(scaled, self.landmarks) if any(widths) else None
        for width in widths:
            yield self.maps[self.widths.index(width)](distances if width else scaled)

    def solve(self) -> list[Solver]:
        """Solver of each space, for the samples added so far."""
        if self._solvers is None:
            self._solvers = [Solver(total.moments(), AXES) for total in self._sums]
            if self._softmax:
                linear, rows = self.widths.index(0), np.sort(self._rows)
                matrix, stats = scaled(self.pool.sparse(rows), self.scaling), self._sums[linear].moments()
                softmax = Multinomial(matrix, self.pool.positives(rows), stats, None)
                self._solvers[linear] = SparseSolver(stats, softmax, AXES)
        return self._solvers

    def solver(self, width: float) -> Solver:
        """Solver of the space of a width."""
        return self.solve()[self.widths.index(width)]


class SparseSpaces(Spaces):
    """The linear space of one scaling of sparse features.

    Args:
        pool: Labelled samples.
        rows: Samples to fit on.
        scaling: Name of a scaling that leaves zeros as they are.
    """

    def __init__(self, pool: Pool, rows: Rows, scaling: str) -> None:
        self.pool, self.widths, self._rows = pool, (0.0,), rows
        self.scaling = make_scaling(scaling, pool.width)
        fit_scaling(self.scaling, pool.sparse(rows))
        self.landmarks, self.maps = torch.empty(0, pool.width), [nn.Identity()]
        self._solvers: list[Solver] | None = None
        self._start: Solution | None = None  # of softmax regression

    def add(self, rows: Rows) -> None:
        """Add samples to the moments; the scaling stays as it is."""
        if self._solvers and isinstance(self._solvers[0], SparseSolver):
            self._start = self._solvers[0].multinomial.latest
        self._rows, self._solvers = np.concatenate([self._rows, rows]), None

    def inputs(self, batch: Rows, widths: Sequence[float] | None = None) -> Iterator[Any]:
        """Yield the features (B, D) of samples, CSR."""
        yield scaled(self.pool.sparse(batch), self.scaling)

    def solve(self) -> list[Solver]:
        """Solver for the samples added so far."""
        if self._solvers is None:
            rows = np.sort(self._rows)
            matrix, positives = scaled(self.pool.sparse(rows), self.scaling), self.pool.positives(rows)
            stats = sparse_moments(matrix, positives, self.pool.columns)
            if too_much(self.pool):
                self._solvers = [Solver(stats)]
            else:
                self._solvers = [SparseSolver(stats, Multinomial(matrix, positives, stats, self._start))]
        return self._solvers


def too_much(pool: Pool) -> str:
    """Why softmax regression is not solved on features that look like counts; empty if it is."""
    classes, some = len(pool.columns), np.arange(min(len(pool), _SOME))
    if pool.columns.own is not None:
        return f"{pool.columns.classes:,} classes are too many for it"
    if classes * pool.width > MOST_SOFTMAX_WEIGHTS:
        return f"that of {classes:,} classes with {pool.width:,} features would take too much memory"
    if classes * pool.sparse(some).nnz / len(some) * len(pool) > MOST_WORK:
        return f"that of {len(pool):,} samples and {classes:,} classes would take too much time"
    return ""


def fit_spaces(pool: Pool, rows: Rows, scaling: str, widths: Sequence[float], seed: int) -> Spaces:
    """Fit the spaces of one scaling on some samples; the arguments are those of `Spaces`."""
    return SparseSpaces(pool, rows, scaling) if pool.wide else Spaces(pool, rows, scaling, widths, seed)


def kernel_map(between: Tensor, width: float) -> KernelMap:
    """Kernel map for the squared distances (M, M) between landmarks."""
    upper = between[tuple(torch.triu_indices(len(between), len(between), 1))]
    # Where more than half of the landmarks are equal, the median of all distances would be 0.
    median = float(upper[upper > 0].median()) if upper.any() else 1.0
    gamma = 1 / (2 * width * median)
    values, vectors = torch.linalg.eigh((between.double() * -gamma).exp())
    kept = values > _SMALLEST_EIGENVALUE * values[-1]
    space = KernelMap(len(between), int(kept.sum()))
    space.gamma.fill_(gamma)
    space.projection = (vectors[:, kept] * values[kept].rsqrt()).float()
    return space
