"""An information bottleneck beside the classifier (MIME)."""

from __future__ import annotations

from torch import Tensor

from ._core.domains import check_non_negative
from ._core.elementwise import upcast
from .assume_negative import an_loss


def mime_loss(
    logits: Tensor,
    target: Tensor,
    mean: Tensor,
    std: Tensor,
    *,
    beta: float = 1e-4,
    eps: float = 0.0,
) -> Tensor:
    """Variational information bottleneck: assume-negative loss + beta * KL of the latent code.

    Args:
        logits: (B, C), of a classifier on samples of the code.
        target: int64 (B,) class indices, or integer (B, C) in {-1, 0, +1}; with the pseudo-labels that MIME
            has assigned as known positives.
        mean, std: of the code, see `gaussian_kl_loss`.
        beta: >= 0.
        eps: added inside the logarithms of the first part; 1e-5 reproduces the released implementation.

    Returns:
        A scalar.

    Raises:
        ValueError, TypeError: beta is negative; see also `gaussian_kl_loss` and `elementwise`.

    Example:
        >>> import torch
        >>> zero = torch.zeros(1, 4)
        >>> round(mime_loss(zero, torch.tensor([0]), zero, torch.ones(1, 4)).item(), 4)
        0.6931

    Source: Liu et al., "Revisiting Pseudo-Label for Single-Positive Multi-Label Learning", ICML 2023.
    """
    check_non_negative(beta=beta)
    return an_loss(logits, target, eps=eps) + beta * gaussian_kl_loss(mean, std)


def gaussian_kl_loss(mean: Tensor, std: Tensor) -> Tensor:
    """Kullback-Leibler divergence of N(mean, std^2) from N(0, 1): mean over elements of
    (mean^2 + std^2 - 1) / 2 - log std.

    Args:
        mean, std: floating point, the same shape; std > 0. Computed in float32 at least.

    Returns:
        A scalar >= 0; 0 for empty tensors.

    Raises:
        ValueError: shapes differ; on the CPU also a standard deviation that is not positive.

    Example:
        >>> import torch
        >>> round(gaussian_kl_loss(torch.ones(2, 3), torch.ones(2, 3)).item(), 4)
        0.5

    Source: Liu et al., "Revisiting Pseudo-Label for Single-Positive Multi-Label Learning", ICML 2023.
    """
    if mean.shape != std.shape:
        raise ValueError(
            f"mean and std must have the same shape, got {tuple(mean.shape)} and {tuple(std.shape)}"
        )
    if std.device.type == "cpu" and not (std > 0).all():
        raise ValueError("std must be greater than 0")
    mean, std = upcast(mean), upcast(std)
    divergence = (mean.square() + std.square() - 1) / 2 - std.log()
    return divergence.sum() / max(mean.numel(), 1)
