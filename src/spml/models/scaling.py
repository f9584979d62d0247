"""Scalings: fixed maps of feature vectors, fitted on training samples, in front of a head."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

RAW: Final = "raw"
STANDARD: Final = "standard"
SQRT_L2: Final = "sqrtl2"
UNIT: Final = "unit"
TFIDF: Final = "tfidf"
_CLAMP = 10.0
_WIDE, _DENSE = 384, 0.2  # what features of networks have, and few hand-made ones
_SHORTEST = 1e-12  # a row of zeros stays one
_SMALLEST = 1e-12  # the derivative of the square root is infinite at 0


class Scaling(nn.Module):
    """Map of features (B, D) to features (B, D) that is fitted on training samples without their labels."""

    def fit(self, batches: Iterable[Tensor]) -> None:
        """Fit the map to batches of features (B, D); maps of single rows ignore them."""

    def forward(self, features: Tensor) -> Tensor:
        """Return the scaled features, float32 of shape (B, D)."""
        return features


class Standardise(Scaling):
    """Scale each feature to mean 0 and standard deviation 1 over the training set, clipped to [-10, 10].

    Without clipping, a feature that is nearly always 0 would reach values above a hundred in rare samples. A
    constant feature becomes 0.

    Attributes:
        mean: Mean of each feature, float32 of shape (D,).
        std: Standard deviation of each feature, float32 of shape (D,).
    """

    mean: Tensor
    std: Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("std", torch.ones(width))

    @torch.no_grad()
    def fit(self, batches: Iterable[Tensor]) -> None:
        """Compute mean and standard deviation from batches of features (B, D), in one pass and in float64.

        The moments of the batches are merged (Chan, Golub, LeVeque 1979), which avoids cancellation where the
        mean is much larger than the standard deviation.
        """
        count, mean, squares = 0, torch.zeros_like(self.mean, dtype=torch.float64), torch.tensor(0.0)
        for batch in batches:
            values = batch.to(mean.device, torch.float64)
            batch_mean = values.mean(0)
            total = count + len(values)
            shift = batch_mean - mean
            within = (values - batch_mean).square().sum(0)
            squares = squares + within + shift.square() * count * len(values) / total
            mean = mean + shift * len(values) / total
            count = total
        std = (squares / max(count, 1)).sqrt().float()
        self.mean.copy_(mean)
        self.std.copy_(torch.where(std > 0, std, torch.ones_like(std)))

    def forward(self, features: Tensor) -> Tensor:
        """Return the standardised features."""
        # In place, because allocating memory takes longer than the arithmetic.
        return (features - self.mean).div_(self.std).clamp_(-_CLAMP, _CLAMP)


class Unit(Scaling):
    """Scale each row to Euclidean length 1."""

    def forward(self, features: Tensor) -> Tensor:
        """Return rows of length 1."""
        return functional.normalize(features, dim=1, eps=_SHORTEST)


class SqrtL2(Scaling):
    """Replace x by sign(x) sqrt |x|, then scale each row to length 1: large values count less.

    Source:
        Perronnin, Sanchez, Mensink. Improving the Fisher Kernel for Large-Scale Image Classification. ECCV
        2010 ("power normalisation").
    """

    def forward(self, features: Tensor) -> Tensor:
        """Return rows of length 1."""
        roots = features.abs().clamp_min_(_SMALLEST).sqrt_()  # in place, as in `Standardise`
        return functional.normalize(features.sign() * roots, dim=1, eps=_SHORTEST)


class TfIdf(Scaling):
    """Weigh feature j by log((1 + N) / (1 + df_j)), then scale each row to length 1: for bags of words.

    Attributes:
        weight: Weight of each feature, float32 of shape (D,); df_j is the number of the N training samples in
            which feature j is not 0.
    """

    weight: Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        self.register_buffer("weight", torch.ones(width))

    @torch.no_grad()
    def fit(self, batches: Iterable[Tensor]) -> None:
        """Count in how many rows of the batches (B, D) each feature is not 0."""
        count, present = 0, torch.zeros_like(self.weight, dtype=torch.float64)
        for batch in batches:
            present += (batch.to(present.device) != 0).sum(0)
            count += len(batch)
        self.weight.copy_(((1 + count) / (1 + present)).log())

    def forward(self, features: Tensor) -> Tensor:
        """Return rows of length 1."""
        return functional.normalize(features * self.weight, dim=1, eps=_SHORTEST)


_BY_NAME: dict[str, type[Scaling]] = {
    RAW: Scaling, STANDARD: Standardise, SQRT_L2: SqrtL2, UNIT: Unit, TFIDF: TfIdf
}  # fmt: skip
SCALINGS = tuple(_BY_NAME)


def make_scaling(name: str, width: int) -> Scaling:
    """Create the scaling of this name for D = `width` features, which has not been fitted."""
    if name not in _BY_NAME:
        raise ValueError(f"scaling must be one of {', '.join(SCALINGS)}, got {name!r}")
    cls = _BY_NAME[name]
    return cls(width) if name in (STANDARD, TFIDF) else cls()


def default_scaling(features: Tensor) -> Literal["sqrtl2", "standard"]:
    """Return the scaling that suits features, judged by some of them.

    Features of convolutional networks, which end in ReLU and mean pooling, are many, never negative and
    mostly not 0. On them nearly every head is better with `sqrtl2` than standardised; on others it depends on
    the head and the set (benchmarks/results/bench/scaling.md).

    Args:
        features: Some of the training samples, of shape (B, D).

    Returns:
        `sqrtl2` if there are at least 384 features, none of which is negative and at least a fifth of which
        are not 0; else `standard`.
    """
    convolutional = (
        features.shape[1] >= _WIDE
        and bool((features >= 0).all())
        and float((features != 0).float().mean()) >= _DENSE
    )
    return SQRT_L2 if convolutional else STANDARD
