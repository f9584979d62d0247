"""Spaces of features: scalings of the features, and Nystroem features of Gaussian kernels on them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from ...data import Samples
from ...data.draws import permutation
from ..scaling import Scaling, make_scaling
from .ensemble import KernelMap, squared_distances
from .linear import LDA, lda_along, principal_axes, ridge_along, start_lda
from .moments import Moments, MomentSum, batch_rows, known_positives

Rows = npt.NDArray[np.int64]

LANDMARKS = 1000
AXES = 1500
"""Largest number of principal axes of a space that are kept."""

_SMALLEST_EIGENVALUE = 1e-6  # of a kernel, as a share of the largest


class Pool:
    """Training samples, followed by validation samples, as one numbered set of labelled samples.

    Args:
        parts: Feature vectors and observed labels; at least one sample.
    """

    def __init__(self, *parts: Samples) -> None:
        self._parts = parts
        self._starts = np.cumsum([0, *(len(part) for part in parts)])
        self.classes = parts[0].observed.num_classes
        self.width = int(parts[0].inputs.fetch([0], None).shape[1])

    def __len__(self) -> int:
        return int(self._starts[-1])

    def features(self, rows: Rows) -> Tensor:
        """Features (B, D) of some samples, float32."""
        return torch.cat([part.inputs.fetch(local, None).float() for part, local in self._split(rows)])

    def labels(self, rows: Rows) -> Tensor:
        """Labels (B, C) of some samples, 1 for a known positive, else 0."""
        return torch.cat([known_positives(part, local) for part, local in self._split(rows)])

    def _split(self, rows: Rows) -> Iterator[tuple[Samples, Rows]]:
        """Parts and rows in them; `rows` must ascend."""
        for part, start, end in zip(self._parts, self._starts, self._starts[1:], strict=False):
            local = rows[(rows >= start) & (rows < end)] - start
            if len(local):
                yield part, local

    def batches(self, rows: Rows) -> Iterator[Rows]:
        """Rows in batches that fit into memory."""
        size = batch_rows(max(self.width, self.classes, LANDMARKS))
        for first in range(0, len(rows), size):
            yield rows[first : first + size]


class Spaces:
    """The spaces of one scaling, fitted on some samples, with the moments of these samples.

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
        self._sums = [MomentSum(self.features(i), pool.classes) for i in range(len(self.widths))]
        self._solvers: list[Solver] | None = None
        self.add(rows)

    def features(self, position: int) -> int:
        """Number of features in one of the spaces."""
        space = self.maps[position]
        return space.projection.shape[1] if isinstance(space, KernelMap) else self.pool.width

    def add(self, rows: Rows) -> None:
        """Add samples to the moments; scaling and kernels stay as they are."""
        self._solvers = None
        for batch in self.pool.batches(rows):
            labels = self.pool.labels(batch)
            for total, inputs in zip(self._sums, self.inputs(batch), strict=True):
                total.add(inputs, labels)

    def inputs(self, batch: Rows) -> Iterator[Tensor]:
        """Yield the features (B, R) of samples in each space."""
        scaled = self.scaling(self.pool.features(batch))
        distances = squared_distances(scaled, self.landmarks) if any(self.widths) else None
        for width, space in zip(self.widths, self.maps, strict=True):
            yield space(distances if width else scaled)

    @property
    def solvers(self) -> list[Solver]:
        """Solver of each space."""
        if self._solvers is None:
            self._solvers = [Solver(total.moments()) for total in self._sums]
        return self._solvers


class Solver:
    """Solves ridge and LDA on one space for any penalty, from one eigendecomposition."""

    def __init__(self, stats: Moments) -> None:
        self.mean = stats.mean
        self.axes = principal_axes(stats.covariance, AXES)
        self._cross = self.axes.vectors.T @ stats.cross
        self.share = stats.share
        self._lda = start_lda(self.axes, stats)

    def along(self, head: str, penalty: float) -> tuple[Tensor, Tensor]:
        """Weights (R, C) and bias (C,) along the principal axes, for centred features."""
        if head == LDA:
            return lda_along(self.axes, self._lda, penalty)
        return ridge_along(self.axes, self._cross, penalty), self.share

    def centred(self, inputs: Tensor) -> Tensor:
        """Features (B, D) along the principal axes, float32 of shape (B, R)."""
        return (inputs - self.mean.float()) @ self.axes.vectors.float()

    @torch.no_grad()
    def fill(self, layer: nn.Linear, head: str, penalty: float) -> None:
        """Set a linear layer to a solution."""
        along, bias = self.along(head, penalty)
        weights = self.axes.vectors @ along
        layer.weight.copy_(weights.T)
        layer.bias.copy_(bias - self.mean @ weights)


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
    space.projection.copy_(vectors[:, kept] * values[kept].rsqrt())
    return space
