"""A backbone and images for the tests of the feature cache."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import nn

PIXELS = np.random.default_rng(0).integers(0, 256, (11, 1, 4, 4), np.uint8)


class Counting(nn.Module):
    """Backbone whose features are right only in evaluation mode; counts the batches it computes."""

    def __init__(self, scale: float = 1.0) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(float(scale)))
        self.norm = nn.BatchNorm1d(16, eps=0)
        self.batches = 0

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        self.batches += 1
        features: torch.Tensor = self.scale * self.norm(images.flatten(1).float())
        return features


def files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*"))
