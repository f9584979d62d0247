"""Random Gaussian code of a head: its mean and deviation, and draws of it."""

from __future__ import annotations

import math

import torch
from torch import Tensor

DRAWS = 10
"""Draws of the code that are averaged in training."""
_LARGEST_LOG_STD = 6.0


def statistics(raw: Tensor) -> tuple[Tensor, Tensor]:
    """Return mean and standard deviation (..., Z) of a code from numbers (..., 2 Z).

    The first half is the mean; of the second half s the deviation is exp(clamp(s / 2, -6, 6)).
    """
    mean, half = raw.chunk(2, -1)
    return mean, (half / 2).clamp(-_LARGEST_LOG_STD, _LARGEST_LOG_STD).exp()


def draw(mean: Tensor, std: Tensor, draws: int) -> Tensor:
    """Return the mean of `draws` draws of a code (..., Z); without any, its mean."""
    # The mean of n standard normal numbers is one with a deviation of 1 / sqrt(n).
    return mean + std * torch.randn_like(std) / math.sqrt(draws) if draws else mean
