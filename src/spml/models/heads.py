"""Heads: features, or the places of a feature map, to logits."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

HEADS = LINEAR, MLP, BOOSTED_CAM, GAUSSIAN = "linear", "mlp", "boosted_cam", "gaussian"
_BOOST = 5.0
_DRAWS = 10
_LARGEST_LOG_STD = 6.0


class BoostedCAM(nn.Module):
    """A linear layer at every place of a feature map, its positive values times 5, then the mean over places.

    score[c, p] = w_c . x_p + b_c;  logit_c = mean over p of max(score[c, p], 5 score[c, p]), in training and
    in evaluation. Without the factor this is a linear layer on mean-pooled features. A network that was told
    of present classes that they are absent still answers at their places, but weakly; the factor makes up
    for it.

    Args:
        num_features: D.
        num_classes: C.

    Source:
        Kim, Kim, Jeong, Schmid, Akata, Lee. Bridging the Gap between Model Explanations in Partially
        Annotated Multi-label Classification. CVPR 2023.
    """

    def __init__(self, num_features: int, num_classes: int) -> None:
        super().__init__()
        self.last = nn.Linear(num_features, num_classes)

    def at_places(self, places: Tensor) -> Tensor:
        """Boosted scores (..., C) of places (..., D)."""
        scores = self.last(places)
        return torch.where(scores > 0, _BOOST * scores, scores)

    def forward(self, maps: Tensor) -> Tensor:
        """Logits (B, C) of maps (B, D, h, w)."""
        return self.at_places(maps.permute(0, 2, 3, 1)).mean((1, 2))


class GaussianHead(nn.Module):
    """Logits from a random code: Gaussian, with mean and standard deviation that follow from the features.

    (mean, s) = two halves of a linear layer;  std = exp(clamp(s / 2, -6, 6));  logits = linear layer of
    mean + std * eps, averaged over 10 draws of eps in training; of the mean in evaluation.

    Args:
        num_features: D.
        num_classes: C.
        width: Z, numbers in the code.

    Source:
        Liu, Xu, Lv, Geng. Revisiting Pseudo-Label for Single-Positive Multi-Label Learning. ICML 2023.
    """

    def __init__(self, num_features: int, num_classes: int, width: int) -> None:
        super().__init__()
        self.code = nn.Linear(num_features, 2 * width)
        self.last = nn.Linear(width, num_classes)

    def latent(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation of the code, (..., Z) each, of features (..., D)."""
        mean, raw = self.code(features).chunk(2, -1)
        return mean, (raw / 2).clamp(-_LARGEST_LOG_STD, _LARGEST_LOG_STD).exp()

    def at_places(self, places: Tensor) -> Tensor:
        """Logits (..., C) of the mean code of places (..., D)."""
        logits: Tensor = self.last(self.latent(places)[0])
        return logits

    def forward(self, features: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Logits (B, C) of features (B, D), and the code's mean and standard deviation."""
        mean, std = self.latent(features)
        code = mean
        if self.training:
            # The last layer is linear: the mean of the logits of 10 codes is the logits of their mean, and
            # the mean of 10 draws of eps is one draw with a deviation of 1 / sqrt(10).
            code = mean + std * torch.randn_like(std) / math.sqrt(_DRAWS)
        return self.last(code), (mean, std)


def make_head(kind: str, num_features: int, num_classes: int, hidden: int) -> nn.Module:
    """A head with random weights, from torch's global random state.

    Args:
        kind: `linear`, `mlp` (one hidden layer, ReLU), `boosted_cam` or `gaussian`.
        num_features: D.
        num_classes: C.
        hidden: width of the hidden layer of `mlp`, and of the code of `gaussian`.

    Raises:
        ValueError: no such kind.
    """
    if kind == LINEAR:
        return nn.Linear(num_features, num_classes)
    if kind == MLP:
        return nn.Sequential(nn.Linear(num_features, hidden), nn.ReLU(), nn.Linear(hidden, num_classes))
    if kind == BOOSTED_CAM:
        return BoostedCAM(num_features, num_classes)
    if kind == GAUSSIAN:
        return GaussianHead(num_features, num_classes, hidden)
    raise ValueError(f"head must be one of {', '.join(HEADS)}, got {kind!r}")


def last_layer(head: nn.Module) -> nn.Linear:
    """The layer of a head that gives logits."""
    last = head[-1] if isinstance(head, nn.Sequential) else getattr(head, "last", head)
    assert isinstance(last, nn.Linear)
    return last
