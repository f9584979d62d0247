"""Linear heads in closed form, solved instead of trained: ridge regression of observed labels, class-mean
difference.

Both depend on the features only through means and covariances, which are accumulated over batches.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from ..data import Samples
from ..errors import InputError
from .top import Top

CLOSED_FORM = RIDGE, MEAN_DIFFERENCE = "ridge", "mean_difference"

PENALTIES = (*(round(0.1 * 3000 ** (k / 11), 6) for k in range(12)), math.inf)
"""Penalties from which `ridge` is selected: 12 from .1 to 300, evenly spaced on a log scale, and the
limit."""

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
    """

    mean: Tensor
    covariance: Tensor
    share: Tensor
    cross: Tensor


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


@torch.no_grad()
def moments(samples: Samples, top: Top, *, rows: int | None = None) -> Moments:
    """Compute the moments of the inputs of the top's head and of the known positives.

    A known negative has label 0, like an unknown label. The moments of the batches are merged (Chan, Golub,
    LeVeque 1979), which avoids cancellation where means are much larger than standard deviations. Memory does
    not grow with the number of samples.

    Args:
        samples: Feature vectors and observed labels.
        top: Top whose scaling has been fitted.
        rows: Number of samples per batch.

    Raises:
        InputError: All samples have the same features, or no label is a known positive.
    """
    width, classes = top.num_features, top.num_classes
    rows = rows or max(1, min(4096, _ENTRIES // max(width, classes)))
    covariance = torch.zeros(width, width, dtype=torch.float64)
    cross = torch.zeros(width, classes, dtype=torch.float64)
    mean, share = torch.zeros(width, dtype=torch.float64), torch.zeros(classes, dtype=torch.float64)
    count = 0
    for features, labels in _batches(samples, top, rows):
        batch_mean, batch_share = features.mean(0), labels.mean(0)
        features -= batch_mean
        covariance.addmm_(features.T, features)
        cross.addmm_(features.T, labels - batch_share)
        total = count + len(features)
        mean_shift, share_shift = batch_mean - mean, batch_share - share
        covariance.addr_(mean_shift, mean_shift, alpha=count * len(features) / total)
        cross.addr_(mean_shift, share_shift, alpha=count * len(features) / total)
        mean += mean_shift * (len(features) / total)
        share += share_shift * (len(features) / total)
        count = total
    # Rounding leaves deviations of 1e-16 of the mean between equal features; float32 resolves only 1e-8.
    if covariance.trace() <= 1e-20 * count * mean.square().sum():
        raise InputError(
            f"all {count:,} training samples have the same features, so labels can't be predicted from them: "
            "use other features."
        )
    if not share.any():
        raise InputError(
            f"none of the {count:,} training samples has a known positive label, from which a head in closed "
            "form is computed. Label some of them."
        )
    return Moments(mean, covariance / count, share, cross / count)


def _batches(samples: Samples, top: Top, rows: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield the inputs (B, D) of the head and the labels (B, C) of each batch, in float64."""
    device = next(top.parameters()).device
    for start in range(0, len(samples), rows):
        batch = range(start, min(start + rows, len(samples)))
        features = top(samples.inputs.fetch(batch, None).to(device)).features.cpu().double()
        target = samples.observed.target(batch)
        labels = functional.one_hot(target, top.num_classes) if target.ndim == 1 else target == 1
        yield features, labels.double()


def ridge(stats: Moments, penalties: Sequence[float] = PENALTIES) -> Iterator[Tensor]:
    """Yield the weights (D, C) of ridge regression for each penalty, from one eigendecomposition.

    W = (Sigma + lambda s2 I)^-1 Xc' Sc / N with s2 = tr(Sigma) / D. As lambda goes to infinity, the direction
    of W approaches Xc' Sc / N, whose columns are those of `mean_difference` times the classes' shares. The
    penalty infinity has this direction, with the length of least squared error.

    Args:
        stats: Moments of the training samples.
        penalties: Values of lambda, above 0.

    Source:
        Hoerl, Kennard. Ridge Regression: Biased Estimation for Nonorthogonal Problems. Technometrics 1970.
    """
    values, vectors = torch.linalg.eigh(stats.covariance)
    rotated, scale = vectors.T @ stats.cross, stats.covariance.diagonal().mean()
    for penalty in penalties:
        if math.isinf(penalty):
            yield _rescaled(stats.cross, stats)
        else:
            yield vectors @ (rotated / (values + penalty * scale)[:, None])


def mean_difference(stats: Moments) -> Tensor:
    """Return the weights (D, C) of the class-mean difference.

    For each class these are the mean of the samples in which it is a known positive, minus the mean of all
    samples; 0 for a class without known positives. One factor for all classes minimises the squared error.

    Args:
        stats: Moments of the training samples.
    """
    direction = torch.where(stats.share > 0, stats.cross / stats.share, 0.0)
    return _rescaled(direction, stats)


def _rescaled(direction: Tensor, stats: Moments) -> Tensor:
    """Multiply `direction` (D, C) by the number a that minimises the sum of (Sc - a Xc direction)^2."""
    explained = (direction * (stats.covariance @ direction)).sum()
    factor = (direction * stats.cross).sum() / explained
    return direction * torch.where(explained > 0, factor, 0.0)


@torch.no_grad()
def fill_head(head: nn.Linear, weights: Tensor, stats: Moments, mean_labels: float) -> None:
    """Set the weights of a linear layer so that it computes logits from a least-squares estimate of the
    labels.

    With s_c = (estimate of S_c) / (mean known positives per sample), the share of class c among the shown
    labels, K s_c estimates the probability of the class, and the logit is 4 (K s_c - 1/2), the tangent of the
    log-odds at 1/2. This is the same increasing line for all classes, so rankings are those of the estimate.

    Args:
        head: Layer from D features to C logits.
        weights: Weights (D, C) of the estimate S_c = share_c + (x - mean) . weights_c.
        stats: Moments from which the weights were computed.
        mean_labels: Mean labels per sample K.
    """
    slope = 4 * mean_labels / stats.share.sum()
    head.weight.copy_(slope * weights.T)
    head.bias.copy_(slope * (stats.share - stats.mean @ weights) - 2)
