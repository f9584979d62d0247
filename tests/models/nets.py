"""Networks of a user, for tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn


class Small(nn.Module):
    """Maps of a convolution, (B, 3, h, w) to (B, width, h/2, w/2)."""

    def __init__(self, width: int = 6, channels: int = 3) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(channels, width, 3, stride=2, padding=1)
        self.norm = nn.BatchNorm2d(width)
        self.power = 1

    def forward(self, images: Tensor) -> Tensor:
        maps: Tensor = self.norm(self.convolution(images)).relu() ** self.power
        return maps


class Pooled(Small):
    """The same, pooled to features (B, width)."""

    def forward(self, images: Tensor) -> Tensor:
        return super().forward(images).mean((2, 3))


class Tied(Pooled):
    """The same, with one tensor under two names, as language models have it."""

    def __init__(self) -> None:
        super().__init__()
        self.again = self.convolution


class Does(nn.Module):
    """Whatever a function does."""

    def __init__(self, function: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, images: Tensor) -> Any:
        return self.function(images)


def seeded(make: Callable[[], nn.Module], seed: int = 0) -> nn.Module:
    """A network with weights that depend on the seed alone, and statistics that are not all 0 and 1."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network = make()
        for buffer in network.buffers():
            if buffer.dtype.is_floating_point:
                buffer.uniform_(0.5, 1.5)
    return network
