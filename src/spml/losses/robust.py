"""Generalised robust loss (GR): soft pseudo-labels and instance weights for unknown labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias, get_args

from torch import Tensor

from ._core import terms
from ._core.domains import check_choice, check_non_negative, check_positive, check_share, check_thresholds
from ._core.elementwise import Reduction, elementwise
from ._core.terms import Number, Robust, robust_terms
from .modules import as_module

__all__ = ["GRLoss", "gr_loss"]

PseudoLabel: TypeAlias = Literal[
    "logistic", "scar", "step", "thresholds", "constant", "polynomial", "exponential"
]
InstanceWeight: TypeAlias = Literal["gaussian", "one", "thresholds", "polynomial", "exponential"]


def gr_loss(
    logits: Tensor,
    target: Tensor,
    *,
    k: PseudoLabel = "logistic",
    w: Number = 2.0,
    b: Number = -2.0,
    a: float = 0.5,
    tau: float = 0.5,
    tau_low: float = 0.25,
    tau_high: float = 0.75,
    share: float = 0.5,
    degree: float = 2.0,
    v: InstanceWeight = "gaussian",
    mu: Number = 0.8,
    sigma: Number = 0.5,
    q1: float = 0.0,
    q2: float = 0.01,
    q3: float = 1.0,
    robust: Robust = "gce",
    constants: Mapping[str, float] | None = None,
    eps: float = 0.0,
    reduction: Reduction = "mean",
) -> Tensor:
    """Generalised robust (GR) loss: L1 on known positives, v(p) [k(p) L2 + (1 - k(p)) L3] on unknown labels.

    L1 = (1 - p^q1) / q1, L2 = (1 - p^q2) / q2, L3 = (1 - (1 - p)^q3) / q3; q = 0 stands for the limit, -log p
    or -log(1 - p). k is a soft pseudo-label and v an instance weight, both constant in the derivative. The
    gradient on an unknown label is v [(1 - k) (1 - p)^q3 p - k p^q2 (1 - p)].

    Args:
        logits: Logits of shape (B, C), any floating dtype.
        target: Class indices, int64 of shape (B,), or labels in {-1, 0, +1}, integer of shape (B, C). Known
            negatives get -log(1 - p).
        k: Soft pseudo-label. From the paper: `logistic` = sigmoid(w p + b) (Eq. 7), `scar` = (1 - a) p /
            (1 - a p) (Eq. 6), `step` = 1 above tau, 1/2 at tau and 0 below (Eq. 8), `thresholds` = 1 if p >=
            tau_high, else 0 (Eq. 15), `constant` = share (Assumption 1). Other forms through the values k0 =
            sigmoid(b) and k1 = sigmoid(w + b) of `logistic` at p = 0 and p = 1: `polynomial` = k0 + (k1 - k0)
            p^degree, `exponential` = k0 (k1 / k0)^p.
        w, b: Parameters of `logistic`, `polynomial` and `exponential`: numbers, or tensors of shape () or
            (C,), which get a gradient if they require one.
        a: Parameter of `scar`, in (0, 1]: probability that a positive is observed, 1 / mean labels per
            sample.
        tau: Threshold of `step`, in [0, 1].
        tau_low, tau_high: Thresholds of `thresholds`, 0 <= tau_low <= tau_high <= 1: tau_2 and tau_1 of the
            paper. tau_high = 1 is EN, without pseudo-positives.
        share: Value of `constant`, in [0, 1].
        degree: Exponent of `polynomial` for k, > 0.
        v: Instance weight. From the paper: `gaussian` = exp(-(p - mu)^2 / (2 sigma^2)) (Eq. 11), `one` (its
            ablation), `thresholds` = 0 if tau_low < p < tau_high, else 1 (Eq. 16). Other forms with the same
            maximum 1 at mu: `polynomial` = max(0, 1 - (p - mu)^2 / (2 sigma^2)), `exponential` = exp(-|p -
            mu| / sigma).
        mu, sigma: Parameters of `gaussian`, `polynomial` and `exponential`, sigma > 0: numbers or tensors, as
            for w and b.
        q1, q2, q3: Exponents, >= 0; 0 = cross-entropy (Eq. 17). The paper has q1 = 0.01, the released code q1
            = 0, which is the default.
        robust: Losses L1 and L2 of a positive and L3 of a negative: `gce` with q1, q2, q3, or another loss in
            place of all three. With t = p for a positive and t = 1 - p for a negative, a loss f(t) of its own
            and r = beta |log_zero| (1 - t): `taylor` = sum of (1 - t)^i / i for i up to order, `sce` = r -
            alpha log t, and three of the form alpha f(t) / (f(t) + f(1 - t)) + r: `nce` with f(t) = -log t,
            `nfl` with f(t) = -(1 - t)^gamma log t, `ngce` with f(t) = 1 - t^q.
        constants: Constants of these losses by name. Default: order = 2; alpha = 0.1 of `sce`, else 1; beta =
            1; log_zero = log 1e-4 (r is RCE; with -1 it is MAE); gamma = 0.5; q = 0.7.
        eps: Added inside the logarithm of L1 if q1 = 0; 1e-7 reproduces the released code.
        reduction: Reduction of the losses: `mean` over B * C (released code), `sum`, or `none`. The paper's
            Eq. 4 is `sum` divided by B.

    Returns:
        Scalar, or shape (B, C) for `none`; float32, or float64 for float64 logits.

    Raises:
        ValueError, TypeError: An argument lies outside its domain, or logits or target have a wrong shape,
            dtype or range.

    Example:
        >>> import torch
        >>> round(gr_loss(torch.zeros(1, 2), torch.tensor([0]), k="constant", share=0.0, v="one").item(), 4)
        0.5966

    Source: Chen et al., "Boosting Single Positive Multi-label Classification with Generalized Robust Loss",
    IJCAI 2024, Eq. 4-8, 11 and 14-18. The other robust losses are those of one class of many in Feng et al.,
    IJCAI 2020 (`taylor`), Wang et al., ICCV 2019 (`sce`) and Ma et al., ICML 2020, for two classes.
    """
    check_non_negative(q1=q1, q2=q2, q3=q3, eps=eps)
    check_thresholds(tau_low, tau_high)
    check_choice("k", k, get_args(PseudoLabel))
    check_choice("v", v, get_args(InstanceWeight))
    if k == "scar" and not 0 < a <= 1:
        raise ValueError(f"a must lie in (0, 1], got {a}")
    if k == "step":
        check_share(tau=tau)
    if k == "constant":
        check_share(share=share)
    if k == "polynomial":
        check_positive(degree=degree)
    if v in ("gaussian", "polynomial", "exponential") and not isinstance(sigma, Tensor):
        check_positive(sigma=sigma)
    pseudo_label = {
        "logistic": terms.logistic(w, b),
        "scar": terms.selected_at_random(a),
        "step": terms.half_step(tau),
        "thresholds": terms.reached(tau_high),
        "constant": terms.constant(share),
        "polynomial": terms.polynomial(w, b, degree),
        "exponential": terms.exponential(w, b),
    }[k]
    weight = {
        "one": None,
        "thresholds": terms.outside(tau_low, tau_high),
        "gaussian": terms.gaussian(mu, sigma),
        "polynomial": terms.parabola(mu, sigma),
        "exponential": terms.two_sided_exponential(mu, sigma),
    }[v]
    first = terms.positive_power_loss(q1) if q1 else terms.positive_eps_loss(eps)
    second, third = terms.positive_power_loss(q2), terms.negative_power_loss(q3)
    others = robust_terms(robust, constants or {})
    if others is not None:
        first, second, third = others[0], *others
    return elementwise(
        logits,
        target,
        positive=first,
        unknown=terms.unified(pseudo_label, weight, second, third),
        reduction=reduction,
        learned=(w, b, mu, sigma),
    )


GRLoss = as_module("GRLoss", gr_loss)
