"""Random Gaussian code of a head and Beta distributions of labels: parameters and draws."""

from __future__ import annotations

import math
from typing import Annotated

import msgspec
import torch
from torch import Tensor
from torch.distributions import Beta
from torch.nn import functional

DRAWS = 10
"""Draws of the code that are averaged in training."""
LEAST = 1e-6
"""Least standard deviation and parameter of the heads of SMILE, which softplus would round to 0."""
_LARGEST_LOG_STD = 6.0


class CodeSettings(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Random code of each class of a `GaussianPerClassHead`, as in model.json.

    Attributes:
        code: Elements Z. 256 in MIME.
        codes_in_evaluation: Draws of the code that are averaged in evaluation; 0 = the mean code.
    """

    code: Annotated[int, msgspec.Meta(ge=1)] = 64
    codes_in_evaluation: Annotated[int, msgspec.Meta(ge=0)] = 0


def statistics(raw: Tensor) -> tuple[Tensor, Tensor]:
    """Return mean and standard deviation (..., Z) of a code from numbers (..., 2 Z).

    The first half is the mean; of the second half s the deviation is exp(clamp(s / 2, -6, 6)).
    """
    mean, half = raw.chunk(2, -1)
    return mean, (half / 2).clamp(-_LARGEST_LOG_STD, _LARGEST_LOG_STD).exp()


def soft_statistics(raw: Tensor) -> tuple[Tensor, Tensor]:
    """Return mean and standard deviation (..., Z) of a code from numbers (..., 2 Z), as SMILE does.

    The first half is the mean; of the second half s the deviation is softplus(s), at least 1e-6.
    """
    mean, half = raw.chunk(2, -1)
    return mean, functional.softplus(half).clamp(min=LEAST)


def draw(mean: Tensor, std: Tensor, draws: int) -> Tensor:
    """Return the mean of `draws` draws of a code (..., Z); without any, its mean."""
    # The mean of n standard normal numbers is one with a deviation of 1 / sqrt(n).
    return mean + std * torch.randn_like(std) / math.sqrt(draws) if draws else mean


def with_labels(alpha: Tensor, beta: Tensor, *, random: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Return alpha and beta of Beta distributions of labels, and labels drawn from them, or their means.

    A draw has the implicit derivative of torch.
    """
    labels = Beta(alpha, beta, validate_args=False).rsample() if random else alpha / (alpha + beta)
    return alpha, beta, labels
