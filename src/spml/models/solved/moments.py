"""Moments of features and labels, from which heads in closed form are computed."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ...common.errors import InputError
from ...data import Samples
from .columns import Columns, IntArray

if TYPE_CHECKING:
    from ..top import Top

MAX_FEATURES = 20_000
"""Largest number of features. The covariance of more does not fit into the memory of most machines, and its
eigendecomposition takes hours."""

_ENTRIES = 1 << 23  # elements of a batch


class Moments(NamedTuple):
    """Moments of N samples in float64, from which the heads are computed.

    Attributes:
        mean: Mean of the features, of shape (D,).
        covariance: Covariance Xc' Xc / N of the features, of shape (D, D), with the centred features Xc.
        share: Mean of the labels S of each column, of shape (K,), where S is 1 for a known positive, else 0.
        cross: Covariance Xc' Sc / N of features and labels, of shape (D, K).
        samples: Number of samples N.
        columns: Classes of the K columns.
    """

    mean: Tensor
    covariance: Tensor
    share: Tensor
    cross: Tensor
    samples: int
    columns: Columns


class MomentSum:
    """Accumulates moments over batches; memory does not grow with the number of samples.

    Features are summed relative to the mean of the first batch, and covariances of batches are merged (Chan,
    Golub, LeVeque 1979), which avoids cancellation where means are much larger than standard deviations.
    Labels are sparse: a batch costs what its known positives cost, however many classes there are.

    Args:
        width: Number of features D.
        columns: Columns of the labels.
    """

    def __init__(self, width: int, columns: Columns) -> None:
        self._columns = columns
        self._covariance = torch.zeros(width, width, dtype=torch.float64)
        self._positives = np.zeros((len(columns), width))  # sum over the known positives of a column
        self._known = np.zeros(len(columns), np.int64)
        self._origin = torch.zeros(width, dtype=torch.float64)
        self._total = torch.zeros(width, dtype=torch.float64)
        self._count = 0

    def add(self, features: Tensor, positives: tuple[IntArray, IntArray]) -> None:
        """Add a batch.

        Args:
            features: Features of shape (B, D). Products are computed in their precision, float64 or float32,
                and summed in float64.
            positives: Rows of the batch and columns of its known positives, int64 (M,).
        """
        from scipy.sparse import csr_matrix

        wide = features.double()
        batch_mean = wide.mean(0)
        if not self._count:
            self._origin = batch_mean
        features = features - batch_mean.to(features.dtype)
        self._covariance += features.T @ features
        total = self._count + len(features)
        if self._count:
            shift = batch_mean - self._origin - self._total / self._count
            self._covariance.addr_(shift, shift, alpha=self._count * len(features) / total)
        wide = wide - self._origin
        self._total += wide.sum(0)
        self._count = total
        rows, columns = positives
        own, position = np.unique(columns, return_inverse=True)
        labels = csr_matrix((np.ones(len(rows)), (position, rows)), shape=(len(own), len(features)))
        self._positives[own] += labels @ wide.numpy()
        self._known[own] += np.bincount(position, minlength=len(own))

    def moments(self) -> Moments:
        """Moments of all samples added so far.

        Raises:
            InputError: All samples have the same features, or no label is a known positive.
        """
        count = self._count
        mean = self._origin + self._total / count
        # Rounding leaves deviations of 1e-16 of the mean between equal features; float32 resolves only 1e-8.
        if self._covariance.trace() <= 1e-20 * count * mean.square().sum():
            raise InputError(
                f"all {count:,} training samples have the same features, so labels can't be predicted from "
                "them: use other features."
            )
        if not self._known.any():
            raise InputError(
                f"none of the {count:,} training samples has a known positive label, from which a head in "
                "closed form is computed. Label some of them."
            )
        share = torch.from_numpy(self._known / count)
        cross = torch.from_numpy(self._positives / count).T
        cross.addr_(self._total / count, share, alpha=-1)
        return Moments(mean, self._covariance / count, share, cross, count, self._columns)


def check_width(width: int) -> None:
    """Check that a closed form can be solved for this number of features.

    Raises:
        InputError: There are too many.
    """
    if width > MAX_FEATURES:
        raise InputError(
            f"a head in closed form uses a matrix of features x features, but there are {width:,} features, "
            f"more than {MAX_FEATURES:,}: train a head instead (--model.head linear), or reduce their number."
        )


def batch_rows(width: int) -> int:
    """Number of rows of `width` numbers in a batch."""
    return max(1, min(4096, _ENTRIES // width))


@torch.no_grad()
def moments(samples: Samples, top: Top, *, rows: int | None = None) -> Moments:
    """Compute the moments of the inputs of the top's head and of the known positives.

    A known negative has label 0, like an unknown label.

    Args:
        samples: Feature vectors and observed labels.
        top: Top whose scaling has been fitted, on any device.
        rows: Number of samples per batch.

    Raises:
        InputError: All samples have the same features, or no label is a known positive.
    """
    width = int(samples.inputs.fetch([0], None).shape[1])
    columns, device = Columns.of_samples(samples), next(top.parameters()).device
    total, rows = MomentSum(width, columns), rows or batch_rows(width)
    for start in range(0, len(samples), rows):
        batch = range(start, min(start + rows, len(samples)))
        features = top.scaling(samples.inputs.fetch(batch, None).to(device).float()).cpu().double()
        total.add(features, columns.positives(samples, batch))
    return total.moments()
