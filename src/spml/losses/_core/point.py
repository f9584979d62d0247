"""Logits together with p, 1 - p and their logarithms."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor


class _Cached:
    """Property that is computed once. functools.cached_property has a lock, which torch.compile refuses."""

    def __init__(self, make: Callable[[Any], Tensor]) -> None:
        self.make = make

    def __get__(self, point: Any, owner: Any = None) -> Tensor:
        value = self.make(point)
        setattr(point, self.make.__name__, value)  # found before this descriptor, from now on
        return value


class Point:
    """Logits and the quantities that terms derive from them, each computed once, on first use.

    Attributes:
        z: Logits of any shape, float32 or float64.
        p: Probability sigmoid(z).
        not_p: 1 - p.
        log_p: log p.
        log_not_p: log(1 - p).
        spread: p (1 - p).
        constants: Further tensors of the same shape, by name.
    """

    def __init__(self, z: Tensor, constants: Mapping[str, Tensor] | None = None) -> None:
        self.z, self.constants = z, constants or {}

    @_Cached
    def p(self) -> Tensor:
        return torch.sigmoid(self.z)

    @_Cached
    def not_p(self) -> Tensor:
        return 1 - self.p

    @_Cached
    def smaller(self) -> Tensor:
        """The smaller of p and 1 - p."""
        return self.z.abs().neg_().sigmoid_()

    @_Cached
    def log_larger(self) -> Tensor:
        """Logarithm of the larger of p and 1 - p, the expensive part of both log p and log(1 - p)."""
        return self.smaller.neg().log1p_()

    @_Cached
    def log_p(self) -> Tensor:
        return self.z.clamp(max=0).add_(self.log_larger)

    @_Cached
    def log_not_p(self) -> Tensor:
        return self.log_larger - self.z.clamp(min=0)

    @_Cached
    def spread(self) -> Tensor:
        return self.smaller * (1 - self.smaller)

    def frozen_p(self) -> Tensor:
        """p as a constant in the derivative, for use in weights."""
        return self.p.detach()
