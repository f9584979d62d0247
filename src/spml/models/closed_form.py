"""Linear heads that are solved and not trained: ridge regression of observed labels, class-mean difference.

Both look at the features only through their means and covariances, which are summed up over batches.
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
from .classifier import Top

CLOSED_FORM = RIDGE, MEAN_DIFFERENCE = "ridge", "mean_difference"

PENALTIES = (*(round(0.1 * 3000 ** (k / 11), 6) for k in range(12)), math.inf)
"""Those that `ridge` is chosen among: 12 from .1 to 300, evenly spaced in their logarithm, and the limit."""

MOST_FEATURES = 20_000
"""The covariance of more does not fit into the memory of most machines, and its eigenvectors take hours."""

_ENTRIES = 1 << 23  # numbers in a batch


class Moments(NamedTuple):
    """What a closed form needs to know of N samples; float64.

    Attributes:
        mean: (D,), of the features.
        covariance: (D, D), Xc' Xc / N with the centred features Xc.
        share: (C,), mean of the labels S: 1 where a label is a known positive, else 0.
        cross: (D, C), Xc' Sc / N.
    """

    mean: Tensor
    covariance: Tensor
    share: Tensor
    cross: Tensor


def check_width(width: int) -> None:
    """Refuse more features than a closed form can be solved for.

    Raises:
        InputError: says how many there are.
    """
    if width > MOST_FEATURES:
        raise InputError(
            f"a head in closed form works with a matrix of features x features, but there are {width:,} "
            f"features, more than {MOST_FEATURES:,}: train a head instead (--model.head linear), or reduce "
            "them."
        )


@torch.no_grad()
def moments(samples: Samples, top: Top, *, rows: int | None = None) -> Moments:
    """Means and covariances of what the top's head is given, and of the known positives.

    A known negative counts like an unknown label: 0. The batches' moments are merged (Chan, Golub, LeVeque
    1979), so that nothing cancels where means are much larger than deviations, and memory does not grow with
    the number of samples.

    Args:
        samples: feature vectors and observed labels.
        top: standardises the features, if it does.
        rows: per batch.

    Raises:
        InputError: the features of all samples are the same, or no label is a known positive.
    """
    width, classes = top.num_features, top.num_classes
    device = next(top.parameters()).device
    rows = rows or max(1, min(4096, _ENTRIES // max(width, classes)))
    covariance = torch.zeros(width, width, dtype=torch.float64)
    cross = torch.zeros(width, classes, dtype=torch.float64)
    mean, share = torch.zeros(width, dtype=torch.float64), torch.zeros(classes, dtype=torch.float64)
    count = 0
    for start in range(0, len(samples), rows):
        batch = range(start, min(start + rows, len(samples)))
        features = top(samples.inputs.fetch(batch, None).to(device)).features.cpu().double()
        target = samples.observed.target(batch)
        labels = functional.one_hot(target, classes) if target.ndim == 1 else target == 1
        labels = labels.double()
        here, shown = features.mean(0), labels.mean(0)
        features -= here
        covariance.addmm_(features.T, features)
        cross.addmm_(features.T, labels - shown)
        total = count + len(batch)
        apart, between = here - mean, shown - share
        covariance.addr_(apart, apart, alpha=count * len(batch) / total)
        cross.addr_(apart, between, alpha=count * len(batch) / total)
        mean += apart * (len(batch) / total)
        share += between * (len(batch) / total)
        count = total
    # Where all are equal, rounding leaves deviations of 1e-16 of the mean; float32 can't hold less than 1e-8.
    if covariance.trace() <= 1e-20 * count * mean.square().sum():
        raise InputError(
            f"all {count:,} training samples have the same features, so no label can be told from them: give "
            "other features."
        )
    if not share.any():
        raise InputError(
            f"none of the {count:,} training samples has a known positive label, which a head in closed form "
            "is made of. Label some of them."
        )
    return Moments(mean, covariance / count, share, cross / count)


def ridge(found: Moments, penalties: Sequence[float] = PENALTIES) -> Iterator[Tensor]:
    """Weights (D, C) of ridge regression for each penalty, by one eigendecomposition.

    W = (Sigma + lambda s2 I)^-1 Xc' Sc / N with s2 = tr(Sigma) / D. As lambda goes to infinity, W takes the
    direction of Xc' Sc / N, whose columns are those of `mean_difference` times the classes' shares; the
    penalty infinity gives this direction with the length of least squared error.

    Args:
        found: from `moments`.
        penalties: values of lambda, above 0.

    Source:
        Hoerl, Kennard. Ridge Regression: Biased Estimation for Nonorthogonal Problems. Technometrics 1970.
    """
    values, vectors = torch.linalg.eigh(found.covariance)
    turned, scale = vectors.T @ found.cross, found.covariance.diagonal().mean()
    for penalty in penalties:
        if math.isinf(penalty):
            yield _fitted(found.cross, found)
        else:
            yield vectors @ (turned / (values + penalty * scale)[:, None])


def mean_difference(found: Moments) -> Tensor:
    """Weights (D, C): for each class the mean of the samples in which it is a known positive, minus the mean
    of all; 0 for a class without one. One factor for all classes gives them the least squared error.
    """
    direction = torch.where(found.share > 0, found.cross / found.share, 0.0)
    return _fitted(direction, found)


def _fitted(direction: Tensor, found: Moments) -> Tensor:
    """`direction` (D, C) times the number a with the least squared error, sum of (Sc - a Xc direction)^2."""
    explained = (direction * (found.covariance @ direction)).sum()
    factor = (direction * found.cross).sum() / explained
    return direction * torch.where(explained > 0, factor, 0.0)


@torch.no_grad()
def fill_head(head: nn.Linear, weights: Tensor, found: Moments, mean_labels: float) -> None:
    """Make a linear layer give logits from a least-squares estimate of the labels.

    With s_c = (estimate of S_c) / (mean known positives per sample), the share of class c among shown labels,
    K s_c estimates the probability of the class, and the logit is 4 (K s_c - 1/2), the tangent of the
    log-odds at 1/2. The same increasing line for all classes: rankings are those of the estimate.

    Args:
        head: from D features to C logits.
        weights: (D, C), of the estimate S_c = share_c + (x - mean) . weights_c.
        found: what they were computed from.
        mean_labels: mean labels per sample K.
    """
    slope = 4 * mean_labels / found.share.sum()
    head.weight.copy_(slope * weights.T)
    head.bias.copy_(slope * (found.share - found.mean @ weights) - 2)
