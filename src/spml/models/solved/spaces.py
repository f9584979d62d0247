"""Spaces of features: scalings of the features, and Nystroem features of Gaussian kernels on them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from ...common.draws import permutation
from ...common.numerics import SPARSE_AXES, Weights
from ...data import Samples
from ..scaling import SQRT_L2, Scaling, make_scaling
from .ensemble import KernelMap, squared_distances
from .linear import Solver
from .moments import (
    Columns,
    IntArray,
    MomentSum,
    batch_rows,
    fit_scaling,
    is_wide,
    scaled,
    sparse_moments,
    sparse_rows,
)
from .softmax import Multinomial

Rows = npt.NDArray[np.int64]

LANDMARKS = 1000
AXES = 1500
"""Largest number of principal axes of a space that are kept."""

SPARSE_SHARE = 0.2
"""Share of values that are not 0 below which non-negative features are treated as counts."""

MOST_SOFTMAX_WEIGHTS = 20_000_000
"""Largest features x classes for which softmax regression is solved: 80 MB of float32, of which about 25 are
in memory."""

MOST_WORK = 1 << 31
"""Largest number of values that are not 0, times classes, for which it is solved, in a few minutes."""

_SPARSE_ROWS = 1 << 16  # samples that tell whether features look like counts
_SOME = 1000  # samples that tell how many values are not 0
_OUTPUTS = 1 << 25  # of samples with sparse features that are computed at a time
_SMALLEST_EIGENVALUE = 1e-6  # of a kernel, as a share of the largest


def to_csr(features: Any) -> Any:
    """Features (B, D), a tensor or CSR, as CSR."""
    from scipy.sparse import csr_matrix

    return csr_matrix(features.numpy()) if isinstance(features, Tensor) else features


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

    def unseen(self, rows: Rows) -> npt.NDArray[np.bool_]:
        """Columns without a known positive among some samples, bool (K,)."""
        return np.asarray(np.bincount(self.positives(rows)[1], minlength=len(self.columns)) == 0)

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
        self.pool = pool
        self.scaling: Scaling = make_scaling(scaling, pool.width)
        self.scaling.fit(pool.features(batch) for batch in pool.batches(rows))
        self.landmarks = torch.empty(0, pool.width)
        if any(widths):
            chosen = rows[np.sort(permutation(len(rows), "landmarks", seed)[:LANDMARKS])]
            self.landmarks = self.scaling(pool.features(chosen))
        between = squared_distances(self.landmarks, self.landmarks)
        self.maps: dict[float, nn.Module] = {
            width: kernel_map(between, width) if width else nn.Identity() for width in widths
        }
        self._sums = {width: MomentSum(self.features(width), pool.columns, len(rows)) for width in widths}
        self._solvers: dict[float, Solver] = {}  # for the samples added so far; empty = to be solved
        self._softmax = scaling == SQRT_L2 and 0 in widths and pool.counts and not too_much(pool)
        self._rows = rows[:0]
        self.add(rows)

    def features(self, width: float) -> int:
        """Number of features in the space of a width."""
        space = self.maps[width]
        return space.features if isinstance(space, KernelMap) else self.pool.width

    def head_inputs(self, width: float, outputs: int) -> tuple[int, Tensor | None]:
        """Number of inputs of the linear heads on a space, and the projection (M, R) of its kernel map that
        they take in; None where they do not.

        Multiplied into heads with few outputs altogether, the projection leaves less to multiply with each
        sample: M x outputs instead of M x R and R x outputs.
        """
        space, features = self.maps[width], self.features(width)
        if isinstance(space, KernelMap) and space.projection is not None:
            landmarks = len(space.projection)
            if landmarks * outputs <= features * (landmarks + outputs):
                return landmarks, space.projection
        return features, None

    def add(self, rows: Rows) -> None:
        """Add samples to the moments; scaling and kernels stay as they are."""
        self._rows, self._solvers = np.concatenate([self._rows, rows]), {}
        for batch in self.pool.batches(rows):
            positives = self.pool.positives(batch)
            for total, inputs in zip(self._sums.values(), self.inputs(batch, [*self._sums]), strict=True):
                total.add(inputs, positives)

    def inputs(self, batch: Rows, widths: Sequence[float]) -> Iterator[Any]:
        """Yield the features (B, R) of samples in the spaces of some widths."""
        scaled = self.scaling(self.pool.features(batch))
        distances = squared_distances(scaled, self.landmarks) if any(widths) else None
        for width in widths:
            yield self.maps[width](distances if width else scaled)

    def solve(self) -> dict[float, Solver]:
        """Solver of the space of each width, for the samples added so far."""
        if not self._solvers:
            stats = {width: total.moments() for width, total in self._sums.items()}
            self._solvers = {width: Solver(each, AXES) for width, each in stats.items()}
            if self._softmax:
                rows = np.sort(self._rows)
                matrix, positives = scaled(self.pool.sparse(rows), self.scaling), self.pool.positives(rows)
                self._solvers[0].multinomial = Multinomial(matrix, positives, stats[0])
        return self._solvers


class SparseSpaces(Spaces):
    """The linear space of one scaling of sparse features.

    Args:
        pool: Labelled samples.
        rows: Samples to fit on.
        scaling: Name of a scaling that leaves zeros as they are.
    """

    def __init__(self, pool: Pool, rows: Rows, scaling: str) -> None:
        self.pool, self._rows = pool, rows
        self.scaling = make_scaling(scaling, pool.width)
        fit_scaling(self.scaling, pool.sparse(rows))
        self.landmarks, self.maps = torch.empty(0, pool.width), {0.0: nn.Identity()}
        self._solvers = {}
        self._start: Weights | None = None  # of softmax regression

    def add(self, rows: Rows) -> None:
        """Add samples to the moments; the scaling stays as it is."""
        if self._solvers and self._solvers[0].multinomial:
            self._start = self._solvers[0].multinomial.latest
        self._rows, self._solvers = np.concatenate([self._rows, rows]), {}

    def inputs(self, batch: Rows, widths: Sequence[float]) -> Iterator[Any]:
        """Yield the features (B, D) of samples, CSR."""
        yield scaled(self.pool.sparse(batch), self.scaling)

    def solve(self) -> dict[float, Solver]:
        """Solver of the one space, for the samples added so far."""
        if not self._solvers:
            rows = np.sort(self._rows)
            matrix, positives = scaled(self.pool.sparse(rows), self.scaling), self.pool.positives(rows)
            stats = sparse_moments(matrix, positives, self.pool.columns)
            self._solvers = {0.0: Solver(stats)}
            if not too_much(self.pool):
                self._solvers[0].multinomial = Multinomial(matrix, positives, stats, self._start)
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
