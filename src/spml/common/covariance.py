"""Mean and covariance of many features, and their principal axes."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from .errors import InputError

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
        "other features."
    )
