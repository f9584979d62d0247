"""Logits, and what losses need of them: p, 1 - p and their logarithms."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor


class _Kept:
    """A property that is computed once. functools.cached_property has a lock, which torch.compile refuses."""

    def __init__(self, make: Callable[[Any], Tensor]) -> None:
        self.make, self.name = make, f"_{make.__name__}"

    def __get__(self, point: Any, owner: Any = None) -> Tensor:
        if not hasattr(point, self.name):
            setattr(point, self.name, self.make(point))
        value: Tensor = getattr(point, self.name)
        return value


class Point:
    """Logits, and what terms need of them, each computed once and only when asked for.

    Attributes:
        z: logits, any shape, float32 or float64.
        p: sigmoid(z).
        not_p: 1 - p.
        log_p: log p.
        log_not_p: log(1 - p).
        spread: p (1 - p).
        beside: further tensors of the same shape, by name.
    """

    def __init__(self, z: Tensor, beside: Mapping[str, Tensor] | None = None) -> None:
        self.z, self.beside = z, beside or {}

    @_Kept
    def p(self) -> Tensor:
        return torch.sigmoid(self.z)

    @_Kept
    def not_p(self) -> Tensor:
        return 1 - self.p

    @_Kept
    def smaller(self) -> Tensor:
        """The smaller of p and 1 - p."""
        return self.z.abs().neg_().sigmoid_()

    @_Kept
    def log_larger(self) -> Tensor:
        """Logarithm of the larger of p and 1 - p: the costly part of both log p and log(1 - p)."""
        return self.smaller.neg().log1p_()

    @_Kept
    def log_p(self) -> Tensor:
        return self.z.clamp(max=0).add_(self.log_larger)

    @_Kept
    def log_not_p(self) -> Tensor:
        return self.log_larger - self.z.clamp(min=0)

    @_Kept
    def spread(self) -> Tensor:
        return self.smaller * (1 - self.smaller)

    def frozen_p(self) -> Tensor:
        """p for use in a weight: constant in the derivative."""
        return self.p.detach()
