"""The trained part on a frozen backbone: standardised features, dropout and head; its initial bias."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from ..data.dataset import Inputs
from ..errors import InputError
from ..methods.base import Outputs
from .heads import CORRELATED, LINEAR, BoostedCAM, CorrelatedHead, GaussianHead, last_layer, make_head

SCORES = LOGITS, LOG_SOFTMAX = "logits", "log_softmax"
_CLAMP = 10.0
_CHUNK = 256  # rows at a time; ten times faster than chunks that do not fit into the CPU's cache


class Standardise(nn.Module):
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


class Top(nn.Module):
    """Network that maps features to logits: standardisation, dropout and head.

    This is all that is trained on a frozen backbone. The initial weights of the head are drawn from torch's
    global random state (uniform, +- 1 / sqrt(D)); for its bias see `start_bias`. All computation is in
    float32, also under autocast.

    Args:
        num_features: Number of features D.
        num_classes: Number of classes C.
        head: Kind of head: `linear`; `mlp` with one hidden layer and ReLU; `boosted_cam`, which takes feature
            maps (see `BoostedCAM`); `gaussian` with a random code (see `GaussianHead`); `correlated`, where
            the probabilities of the other classes correct a logit (see `CorrelatedHead`).
        hidden: Width of the hidden layer of `mlp`, and of the code of `gaussian`.
        dropout: Share of features dropped before the head in training.
        standardise: Whether features are scaled as computed by `fit_standardise`. Feature maps never are.
        scores: Output, the head's `logits` or their `log_softmax` over the classes.

    Raises:
        ValueError: There is no such head or no such output.
    """

    def __init__(
        self,
        num_features: int,
        num_classes: int,
        *,
        head: str = LINEAR,
        hidden: int = 512,
        dropout: float = 0.0,
        standardise: bool = True,
        scores: str = LOGITS,
    ) -> None:
        super().__init__()
        if scores not in SCORES:
            raise ValueError(f"scores must be one of {', '.join(SCORES)}, got {scores!r}")
        self.scores = scores
        self.num_features, self.num_classes = num_features, num_classes
        self.head = make_head(head, num_features, num_classes, hidden)
        standardise = standardise and not self.takes_maps
        self.standardise = Standardise(num_features) if standardise else None
        # A feature of a map is dropped at all positions.
        self.dropout = nn.Dropout2d(dropout) if self.takes_maps else nn.Dropout(dropout)
        self._settings = {"head": head, "hidden": hidden, "dropout": dropout, "standardise": standardise}

    @property
    def takes_maps(self) -> bool:
        """Whether the input is feature maps (B, D, h, w) instead of features (B, D)."""
        return isinstance(self.head, BoostedCAM)

    def settings(self) -> dict[str, Any]:
        """Return the arguments that create a top like this one."""
        sizes = {"num_features": self.num_features, "num_classes": self.num_classes}
        return {**sizes, **self._settings, "scores": self.scores}

    def fit_standardise(self, inputs: Inputs) -> None:
        """Compute mean and standard deviation of the training features; no effect without `standardise`."""
        if self.standardise is not None:
            starts = range(0, len(inputs), _CHUNK)
            self.standardise.fit(
                inputs.fetch(range(start, min(start + _CHUNK, len(inputs))), None) for start in starts
            )

    def forward(self, features: Tensor) -> Outputs:
        """Compute the outputs of the head in float32.

        Args:
            features: Features (B, D), or maps (B, D, h, w) for a head that takes maps.

        Returns:
            Logits or log-probabilities (B, C), and the input of the head before dropout (B, D); of maps the
            mean over positions.
        """
        with torch.autocast(features.device.type, enabled=False):
            features = features.float()
            if self.standardise is not None:
                features = self.standardise(features)
            dropped, latent = self.dropout(features), None
            if isinstance(self.head, GaussianHead):
                logits, latent = self.head(dropped)
            else:
                logits = self.head(dropped)
            if self.scores == LOG_SOFTMAX:
                logits = functional.log_softmax(logits, 1)
            return Outputs(logits, features.mean((2, 3)) if self.takes_maps else features, latent=latent)

    def correlate(self, logits: Tensor) -> None:
        """Replace a linear head by a correlated one that keeps its weights.

        Args:
            logits: Logits (N, C) of the linear head, of whose co-occurrence the correlations start; see
                `CorrelatedHead.start_from_co_occurrence`.
        """
        linear = self.head
        assert isinstance(linear, nn.Linear)
        head = CorrelatedHead(self.num_features, self.num_classes)
        head.start_from_co_occurrence(logits)
        head.last = linear
        self.head = head.to(linear.weight.device).train(self.training)
        self._settings["head"] = CORRELATED

    @torch.no_grad()
    def class_maps(self, maps: Tensor) -> Tensor:
        """Apply the head to each position of feature maps (B, D, h, w) separately.

        Returns:
            Logits, float32 of shape (B, C, h, w), without dropout, random codes and gradient.
        """
        with torch.autocast(maps.device.type, enabled=False):
            features = maps.float().permute(0, 2, 3, 1)
            if self.standardise is not None:
                features = self.standardise(features)
            scores: Tensor = getattr(self.head, "scores_by_position", self.head)(features)
            return scores.permute(0, 3, 1, 2).contiguous()


def start_bias(head: nn.Module, start: str, mean_labels: float) -> None:
    """Set the bias of the head's last layer.

    Args:
        head: Head of a `Top`.
        start: Initial bias: `zero`, or `prior` = logit(K / C), so that every class starts with probability K
            / C.
        mean_labels: Mean labels per sample K; used by `prior` only.

    Raises:
        InputError: K does not lie between 0 and C.
    """
    last = last_layer(head)
    value, classes = 0.0, last.out_features
    if start == "prior":
        if not 0 < mean_labels < classes:
            raise InputError(
                f"a head bias of logit(K / C) needs mean labels per sample K between 0 and the {classes} "
                f"classes, got {mean_labels:g}: change --mean_labels, or pass --model.head_bias zero."
            )
        value = math.log(mean_labels / (classes - mean_labels))
    nn.init.constant_(last.bias, value)
