"""Label enhancement (SMILE) and information bottleneck (MIME): losses of the classifier and of the networks
that infer soft labels or codes."""

from __future__ import annotations

from typing import Literal, TypeAlias

import torch
from torch import Tensor

from ._core.domains import check_choice, check_non_negative
from ._core.elementwise import Reduction, check_like_logits, check_soft, check_target, elementwise
from ._core.evaluate import upcast
from ._core.terms import cross_entropy, lookup, negative_eps_loss, positive_eps_loss, scaled
from .assume_negative import an_loss
from .modules import as_module

__all__ = [
    "MIMELoss",
    "SMILEImageLoss",
    "SMILELoss",
    "beta_kl_loss",
    "gaussian_kl_loss",
    "mime_loss",
    "smile_image_loss",
    "smile_loss",
    "smile_vae_loss",
]


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


KnownPositives: TypeAlias = Literal["soft", "one"]
Divergence: TypeAlias = Literal["correct", "released"]

_EPS = 1e-5
"""Added inside logarithms of labels drawn at random, which may be 0 or 1 to the last digit."""
_LEAST = 1e-6
"""Added to both parameters of the Beta distribution of a soft label."""


def smile_loss(
    logits: Tensor,
    target: Tensor,
    soft: Tensor,
    *,
    unknown_weight: float = 1.0,
    known_positives: KnownPositives = "soft",
    eps: float = 0.0,
    reduction: Reduction = "mean",
) -> Tensor:
    """Classifier loss of SMILE: binary cross-entropy with soft labels d, weighted on unknown labels.

    d l+ + (1 - d) l- on known positives, unknown_weight times this on unknown labels.

    Args:
        logits: Logits of shape (B, C), any floating dtype.
        target: Class indices, int64 of shape (B,), or labels in {-1, 0, +1}, integer of shape (B, C). Known
            negatives get -log(1 - p).
        soft: Soft labels d, floating point of shape (B, C) in [0, 1]; gets no gradient. Known negatives do
            not use it.
        unknown_weight: Weight of unknown labels, >= 0. The option `bias` of the released code is 1 / (C - 1).
        known_positives: Loss of known positives: with their `soft` label, as in the released training, or l+
            (`one`), as in a function of the released code that is never called.
        eps: Added inside the logarithms; 1e-5 reproduces the released code.
        reduction: Reduction of the losses: `mean` over B * C, `sum`, or `none`.

    Returns:
        Scalar, or shape (B, C) for `none`; float32, or float64 for float64 logits.

    Raises:
        ValueError, TypeError: An argument lies outside its domain, or logits or target have a wrong shape,
            dtype or range.

    Example:
        >>> import torch
        >>> z, soft = torch.tensor([[0.0, 2.0]]), torch.tensor([[0.9, 1.0]])
        >>> round(smile_loss(z, torch.tensor([0]), soft, reduction="sum").item(), 4)
        0.8201

    Source: Xu et al., "One Positive Label is Sufficient: Single-Positive Multi-Label Learning with Label
    Enhancement", NeurIPS 2022.
    """
    check_non_negative(unknown_weight=unknown_weight, eps=eps)
    check_choice("known_positives", known_positives, ("soft", "one"))
    check_soft(logits, soft)
    with_soft = cross_entropy(lookup("soft"), eps)
    return elementwise(
        logits,
        target,
        positive=with_soft if known_positives == "soft" else positive_eps_loss(eps),
        unknown=scaled(unknown_weight, with_soft),
        negative=negative_eps_loss(eps),
        reduction=reduction,
        constants={"soft": soft},
    )


def smile_vae_loss(
    enhanced: Tensor,
    drawn: Tensor,
    target: Tensor,
    features: Tensor,
    rebuilt: Tensor,
    adjacency: Tensor,
    *,
    gamma: float = 1e-3,
    delta: float = 1.0,
    kl: Divergence = "correct",
) -> Tensor:
    """Loss of SMILE's variational autoencoder, whose soft labels D shall explain what is observed.

    AN(D) + gamma (MSE(x', x) + AN(y) + MSE(y y^T, A)) + delta KL, with AN(v) = mean over B * C of [-log(v +
    1e-5) on known positives, -log(1 - v + 1e-5) elsewhere] and every MSE a mean over its elements. KL is
    `beta_kl_loss` of Beta(D + 1e-6, 1 - D + 1e-6).

    Args:
        enhanced: Soft labels D, floating point of shape (B, C) in [0, 1].
        drawn: Labels y drawn from Beta(D + 1e-5, 1 - D + 1e-5), of the same shape.
        target: Class indices, int64 of shape (B,), or labels in {-1, 0, +1}, integer of shape (B, C).
        features: Features x of the samples, of shape (B, Q).
        rebuilt: Features x' that the decoder makes of D and its code, of the same shape.
        adjacency: Graph A of the samples of the batch, bool of shape (B, B).
        gamma: Weight of what is decoded, >= 0.
        delta: Weight of the divergence, >= 0. With the default of 1, which the released code always has, the
            best D of a label by itself is 0.44 if unknown and 0.56 if it is a known positive.
        kl: Form of the divergence; see `beta_kl_loss`.

    Returns:
        Scalar; 0 for an empty batch.

    Raises:
        ValueError, TypeError: An argument lies outside its domain, or has a wrong shape, dtype or range.

    Example:
        >>> import torch
        >>> half, x = torch.full((1, 2), 0.5), torch.zeros(1, 3)
        >>> args = half, half, torch.tensor([0]), x, x, torch.tensor([[False]])
        >>> round(smile_vae_loss(*args).item(), 4)
        0.9356

    Source: Xu et al., "One Positive Label is Sufficient: Single-Positive Multi-Label Learning with Label
    Enhancement", NeurIPS 2022, as in its released code.
    """
    check_non_negative(gamma=gamma, delta=delta)
    check_target(enhanced, target)
    check_like_logits(enhanced, drawn=drawn)
    decoded = (
        _mean((rebuilt - features).square())
        + _assume_negative(drawn, target)
        + _mean((drawn @ drawn.T - adjacency.to(drawn.dtype)).square())
    )
    divergence = beta_kl_loss(enhanced + _LEAST, 1 - enhanced + _LEAST, form=kl)
    return _assume_negative(enhanced, target) + gamma * decoded + delta * divergence


def smile_image_loss(
    logits: Tensor,
    target: Tensor,
    drawn: Tensor,
    mean: Tensor,
    std: Tensor,
    a: Tensor,
    b: Tensor,
    *,
    theta: float = 1.0,
    alpha: float = 1.0,
    beta: float = 1.0,
    kl: float = 1e-5,
) -> Tensor:
    """Loss of SMILE for images: predictions and labels d drawn from predicted distributions shall agree.

    theta M + alpha AN(p) + beta AN(d) + kl KL(code) + kl KL(labels), with M = mean over B * C of [-d log(p +
    1e-5) - (1 - d) log(1 - p + 1e-5)], AN as in `smile_vae_loss`, `gaussian_kl_loss` of the code and
    `beta_kl_loss` of the distributions of the labels. d is not detached: labels are pulled towards
    predictions, too.

    Args:
        logits: Logits of shape (B, C), any floating dtype.
        target: Class indices, int64 of shape (B,), or labels in {-1, 0, +1}, integer of shape (B, C).
        drawn: Labels d in [0, 1] drawn from Beta(a, b), of shape (B, C).
        mean, std: Parameters of the code, as `gaussian_kl_loss` takes them.
        a, b: Parameters of the distributions of the labels, as `beta_kl_loss` takes them.
        theta: Weight of the agreement M, >= 0.
        alpha: Weight of the assume-negative loss of the predictions, >= 0.
        beta: Weight of the assume-negative loss of the drawn labels, >= 0.
        kl: Weight of both divergences, >= 0.

    Returns:
        Scalar; 0 for an empty batch.

    Raises:
        ValueError, TypeError: An argument lies outside its domain, or has a wrong shape, dtype or range.

    Example:
        >>> import torch
        >>> z, d, one = torch.zeros(1, 2), torch.full((1, 2), 0.5), torch.ones(1, 2)
        >>> round(smile_image_loss(z, torch.tensor([0]), d, z, one, one, one).item(), 4)
        2.0794

    Source: The code released with Liu et al., "Revisiting Pseudo-Label for Single-Positive Multi-Label
    Learning", ICML 2023, which never calls it; weights are not published.
    """
    check_non_negative(theta=theta, alpha=alpha, beta=beta, kl=kl)
    check_like_logits(logits, drawn=drawn)
    p, d = torch.sigmoid(upcast(logits)), upcast(drawn)
    agreement = _mean(-d * (p + _EPS).log() - (1 - d) * (1 - p + _EPS).log())
    return (
        theta * agreement
        + alpha * an_loss(logits, target, eps=_EPS)
        + beta * _assume_negative(d, target)
        + kl * (gaussian_kl_loss(mean, std) + beta_kl_loss(a, b))
    )


def beta_kl_loss(a: Tensor, b: Tensor, *, form: Divergence = "correct") -> Tensor:
    """Kullback-Leibler divergence of Beta(a, b) from the uniform distribution Beta(1, 1), mean over elements.

    log G(a + b) - log G(a) - log G(b) + (a - 1) psi(a) + (b - 1) psi(b) - (a + b - 2) psi(a + b), with the
    gamma function G and its logarithmic derivative psi.

    Args:
        a, b: Parameters of the distributions, floating point of the same shape, > 0; computed in at least
            float32. SMILE uses a = D and b = 1 - D for a soft label D that is kept away from 0 and 1.
        form: `correct`, or what SMILE's code for tables computes (`released`): log G(a) + log G(b) + (a - 1)
            psi(a) + (b - 1) psi(b), which is not a divergence.

    Returns:
        Scalar, >= 0 if `correct`; 0 for empty tensors.

    Raises:
        ValueError: The shapes differ, a value is not positive (checked on CPU), or there is no such form.

    Example:
        >>> import torch
        >>> round(beta_kl_loss(torch.tensor([2.0]), torch.tensor([1.0])).item(), 4)
        0.1931

    Source: Xu et al., "One Positive Label is Sufficient: Single-Positive Multi-Label Learning with Label
    Enhancement", NeurIPS 2022.
    """
    check_choice("form", form, ("correct", "released"))
    if a.shape != b.shape:
        raise ValueError(f"a and b must have the same shape, got {tuple(a.shape)} and {tuple(b.shape)}")
    if a.device.type == "cpu" and ((a <= 0).any() or (b <= 0).any()):  # NaN is left to the loss
        raise ValueError("a and b must be greater than 0")
    a, b = upcast(a), upcast(b)
    gammas = torch.lgamma(a) + torch.lgamma(b)
    slopes = (a - 1) * torch.digamma(a) + (b - 1) * torch.digamma(b)
    if form == "released":
        return _mean(gammas + slopes)
    total = a + b
    return _mean(torch.lgamma(total) - gammas + slopes - (total - 2) * torch.digamma(total))


def _assume_negative(labels: Tensor, target: Tensor) -> Tensor:
    """-log(v + 1e-5) of labels v on known positives, -log(1 - v + 1e-5) elsewhere, mean over elements."""
    known = target == 1
    if target.ndim == 1:
        known = torch.zeros_like(labels, dtype=torch.bool).scatter(1, target[:, None], True)
    return _mean(-(torch.where(known, labels, 1 - labels) + _EPS).log())


def _mean(losses: Tensor) -> Tensor:
    """Mean over elements; 0 if there are none."""
    return losses.sum() / max(losses.numel(), 1)


MIMELoss = as_module("MIMELoss", mime_loss)
SMILEImageLoss = as_module("SMILEImageLoss", smile_image_loss)
SMILELoss = as_module("SMILELoss", smile_loss)
