"""Variational information bottleneck (MIME)."""

from __future__ import annotations

from torch import Tensor

from ._core.domains import check_non_negative
from ._core.evaluate import upcast
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
    """Variational information bottleneck (MIME): assume-negative loss + beta * divergence of the code.

    The divergence is `gaussian_kl_loss` of the latent code from the standard normal distribution.

    Args:
        logits: Logits of a classifier on samples of the code, shape (B, C), any floating dtype.
        target: Class indices, int64 of shape (B,), or labels in {-1, 0, +1}, integer of shape (B, C), in
            which the pseudo-labels that MIME has assigned are known positives.
        mean, std: Parameters of the code, as in `gaussian_kl_loss`: (B, Z), or (B, C, Z) with one code per
            class.
        beta: Weight of the divergence, >= 0.
        eps: Added inside the logarithms of the assume-negative loss; 1e-5 reproduces the released
            implementation.

    Returns:
        Scalar.

    Raises:
        ValueError, TypeError: `beta` is negative, `mean` or `std` is not allowed, or logits or target have a
            wrong shape, dtype or range.

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
    """Kullback-Leibler divergence of N(mean, std^2) from N(0, 1), mean over elements.

    (mean^2 + std^2 - 1) / 2 - log std.

    Args:
        mean, std: Mean and standard deviation, floating point of the same shape, std > 0; computed in at
            least float32.

    Returns:
        Scalar >= 0; 0 for empty tensors.

    Raises:
        ValueError: The shapes differ or, on CPU, a standard deviation is not positive.

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
