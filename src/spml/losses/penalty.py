"""Penalties on the weights of a model (L1R, L2R)."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from ._core.domains import check_non_negative
from ._core.evaluate import upcast

__all__ = ["weight_penalty_loss"]


def weight_penalty_loss(parameters: Iterable[Tensor], *, l1: float = 0.0, l2: float = 0.0) -> Tensor:
    """Penalty l1 sum |w| + l2 sum w^2 over weights, to be added to a loss.

    Its gradient, l1 sign(w) + 2 l2 w (0 at w = 0), is added to that of the loss before the optimiser step, so
    the penalised loss is minimised, unlike with the decoupled weight decay of AdamW.

    Args:
        parameters: Parameters of a model. Those with fewer than two dimensions (biases, norms) and those that
            do not require a gradient are left out.
        l1: Coefficient of the sum of magnitudes, >= 0.
        l2: Coefficient of the sum of squares, >= 0.

    Returns:
        Scalar, 0 if there are no weights; float32, or float64 for float64 weights.

    Raises:
        ValueError: A coefficient is negative.

    Example:
        >>> import torch
        >>> layer = torch.nn.Linear(2, 1)
        >>> _ = torch.nn.init.constant_(layer.weight, -3.0)
        >>> round(weight_penalty_loss(layer.parameters(), l1=0.5, l2=0.1).item(), 4)
        4.8

    Source: Hoerl & Kennard, Technometrics 1970 (l2); Tibshirani, JRSS B 1996 (l1). The rows L1R and L2R of
    SPML tables are read as AN with one of them; neither the form nor the coefficient is published.
    """
    check_non_negative(l1=l1, l2=l2)
    weights = [upcast(weight) for weight in parameters if weight.ndim > 1 and weight.requires_grad]
    parts = [l1 * weight.abs().sum() for weight in weights if l1]
    parts += [l2 * weight.square().sum() for weight in weights if l2]
    return torch.stack(parts).sum() if parts else torch.zeros(())
