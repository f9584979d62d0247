"""Moments of features and labels, from which heads in closed form are computed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from ...data import Samples
from ...data.dataset import Rows
from ...errors import InputError

MAX_FEATURES = 20_000
"""Largest number of features. The covariance of more does not fit into the memory of most machines, and its
eigendecomposition takes hours."""

_ENTRIES = 1 << 23  # elements of a batch


class Moments(NamedTuple):
    """Moments of N samples in float64, from which the heads are computed.

    Attributes:
        mean: Mean of the features, of shape (D,).
        covariance: Covariance Xc' Xc / N of the features, of shape (D, D), with the centred features Xc.
        share: Mean of the labels S, of shape (C,), where S is 1 for a known positive, else 0.
        cross: Covariance Xc' Sc / N of features and labels, of shape (D, C).
        samples: Number of samples N.
    """

    mean: Tensor
    covariance: Tensor
    share: Tensor
    cross: Tensor
    samples: int


class MomentSum:
    """Accumulates moments over batches; memory does not grow with the number of samples.

    The moments of the batches are merged (Chan, Golub, LeVeque 1979), which avoids cancellation where means
    are much larger than standard deviations.

    Args:
        width: Number of features D.
        classes: Number of classes C.
    """

    def __init__(self, width: int, classes: int) -> None:
        self._covariance = torch.zeros(width, width, dtype=torch.float64)
        self._cross = torch.zeros(width, classes, dtype=torch.float64)
        self._mean = torch.zeros(width, dtype=torch.float64)
        self._share = torch.zeros(classes, dtype=torch.float64)
        self._count = 0

    def add(self, features: Tensor, labels: Tensor) -> None:
        """Add a batch.

        Args:
            features: Features of shape (B, D). Products are computed in their precision, float64 or float32,
                and summed in float64.
            labels: Labels of shape (B, C), 1 for a known positive, else 0.
        """
        batch_mean = features.double().mean(0)
        batch_share = labels.double().mean(0)
        features = features - batch_mean.to(features.dtype)
        labels = labels.to(features.dtype) - batch_share.to(features.dtype)
        self._covariance += features.T @ features
        self._cross += features.T @ labels
        total = self._count + len(features)
        mean_shift, share_shift = batch_mean - self._mean, batch_share - self._share
        weight = self._count * len(features) / total
        self._covariance.addr_(mean_shift, mean_shift, alpha=weight)
        self._cross.addr_(mean_shift, share_shift, alpha=weight)
        self._mean += mean_shift * (len(features) / total)
        self._share += share_shift * (len(features) / total)
        self._count = total

    def moments(self) -> Moments:
        """Moments of all samples added so far.

        Raises:
            InputError: All samples have the same features, or no label is a known positive.
        """
        count = self._count
        # Rounding leaves deviations of 1e-16 of the mean between equal features; float32 resolves only 1e-8.
        if self._covariance.trace() <= 1e-20 * count * self._mean.square().sum():
            raise InputError(
                f"all {count:,} training samples have the same features, so labels can't be predicted from "
                "them: use other features."
            )
        if not self._share.any():
            raise InputError(
                f"none of the {count:,} training samples has a known positive label, from which a head in "
                "closed form is computed. Label some of them."
            )
        return Moments(
            self._mean.clone(), self._covariance / count, self._share.clone(), self._cross / count, count
        )


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
def moments(samples: Samples, top: nn.Module, *, rows: int | None = None) -> Moments:
    """Compute the moments of the inputs of the top's head and of the known positives.

    A known negative has label 0, like an unknown label.

    Args:
        samples: Feature vectors and observed labels.
        top: Top whose scaling has been fitted, on any device.
        rows: Number of samples per batch.

    Raises:
        InputError: All samples have the same features, or no label is a known positive.
    """
    width, classes = int(samples.inputs.fetch([0], None).shape[1]), samples.observed.num_classes
    total = MomentSum(width, classes)
    for features, labels in _batches(samples, top, rows or batch_rows(max(width, classes))):
        total.add(features, labels)
    return total.moments()


def _batches(samples: Samples, top: nn.Module, rows: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield the inputs (B, D) of the head and the labels (B, C) of each batch, in float64."""
    device = next(top.parameters()).device
    for start in range(0, len(samples), rows):
        batch = range(start, min(start + rows, len(samples)))
        features = top(samples.inputs.fetch(batch, None).to(device)).features.cpu().double()
        yield features, known_positives(samples, batch).double()


def known_positives(samples: Samples, rows: Rows) -> Tensor:
    """Labels (B, C) of some samples: 1 for a known positive, else 0."""
    target = samples.observed.target(rows)
    if target.ndim == 1:
        return functional.one_hot(target, samples.observed.num_classes)
    return (target == 1).long()
