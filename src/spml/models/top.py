"""The trained part on a frozen backbone: scaled features, dropout and head; its initial bias."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from ..data.dataset import Inputs
from ..errors import InputError
from ..methods.base import Outputs
from .heads import CORRELATED, LINEAR, BoostedCAM, CorrelatedHead, GaussianHead, last_layer, make_head
from .scaling import RAW, STANDARD, make_scaling

SCORES = LOGITS, LOG_SOFTMAX = "logits", "log_softmax"
_CHUNK = 256  # rows at a time; ten times faster than chunks that do not fit into the CPU's cache


class Top(nn.Module):
    """Network that maps features to logits: scaling, dropout and head.

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
        scaling: Fixed map of the features (see `make_scaling`), fitted by `fit_scaling`. Feature maps are
            never scaled.
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
        scaling: str = STANDARD,
        scores: str = LOGITS,
    ) -> None:
        super().__init__()
        if scores not in SCORES:
            raise ValueError(f"scores must be one of {', '.join(SCORES)}, got {scores!r}")
        self.scores = scores
        self.num_features, self.num_classes = num_features, num_classes
        self.head = make_head(head, num_features, num_classes, hidden)
        scaling = RAW if self.takes_maps else scaling
        self.scaling = make_scaling(scaling, num_features)
        # A feature of a map is dropped at all positions.
        self.dropout = nn.Dropout2d(dropout) if self.takes_maps else nn.Dropout(dropout)
        self._settings = {"head": head, "hidden": hidden, "dropout": dropout, "scaling": scaling}

    @property
    def takes_maps(self) -> bool:
        """Whether the input is feature maps (B, D, h, w) instead of features (B, D)."""
        return isinstance(self.head, BoostedCAM)

    def settings(self) -> dict[str, Any]:
        """Return the arguments that create a top like this one."""
        sizes = {"num_features": self.num_features, "num_classes": self.num_classes}
        return {**sizes, **self._settings, "scores": self.scores}

    def fit_scaling(self, inputs: Inputs) -> None:
        """Fit the scaling to the features of the training samples."""
        starts = range(0, len(inputs), _CHUNK)
        self.scaling.fit(
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
            features = self.scaling(features.float())
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
            # A position is treated like the pooled features, so the rows of the scaling are positions.
            features = self.scaling(features.flatten(0, -2)).view_as(features)
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
