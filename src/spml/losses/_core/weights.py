"""Weights of elements: functions of a point, constant in the derivative."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from .terms import LOG2_E, Number, Point, Term, Weight, above, at_least, below, power


def logistic(w: Number, b: Number) -> Weight:
    """sigmoid(w p + b). Source: GR, Eq. 7."""
    return lambda x: (x.frozen_p() * w).add_(b).sigmoid_()


def selected_at_random(a: float) -> Weight:
    """(1 - a) p / (1 - a p), which is P(y = 1 | s = 0) if positives are observed with probability a.

    Source: GR, Eq. 6.
    """

    def weight(x: Point) -> Tensor:
        p = x.frozen_p()
        return (1 - a) * p / (1 - a * p)

    return weight


def polynomial(w: Number, b: Number, degree: float) -> Weight:
    """low + (high - low) p^degree, with the values low and high of `logistic` at p = 0 and p = 1."""

    def weight(x: Point) -> Tensor:
        low, high = (end.sigmoid() for end in _logits_at_ends(x, w, b))
        return torch.lerp(low, high, power(x.frozen_p(), degree))

    return weight


def exponential(w: Number, b: Number) -> Weight:
    """low (high / low)^p, with the values low and high of `logistic` at p = 0 and p = 1."""

    def weight(x: Point) -> Tensor:
        low, high = (logsigmoid(end) for end in _logits_at_ends(x, w, b))
        return torch.lerp(low, high, x.frozen_p()).exp_()

    return weight


def _logits_at_ends(x: Point, w: Number, b: Number) -> tuple[Tensor, Tensor]:
    """Return w p + b at p = 0 and at p = 1, each of shape (1, C)."""
    first = x.z[:1]
    return torch.zeros_like(first).add_(b), torch.zeros_like(first).add_(w).add_(b)


def step(tau: float) -> Weight:
    """1 where p > tau, else 0: the threshold of SPLC and LASD."""
    return lambda x: above(x.frozen_p(), tau)


def half_step(tau: float) -> Weight:
    """1 where p > tau, 1/2 where p = tau, else 0. Source: GR, Eq. 8."""
    return lambda x: (x.frozen_p() - tau).sign_().add_(1).mul_(0.5)


def reached(bound: float) -> Weight:
    """1 where p is at least the bound, else 0. Source: GR, Eq. 15."""
    return lambda x: at_least(x.frozen_p(), bound)


def outside(low: float, high: float) -> Weight:
    """0 where low < p < high, else 1. Source: GR, Eq. 16."""

    def weight(x: Point) -> Tensor:
        p = x.frozen_p()
        return above(p, low).mul_(below(p, high)).neg_().add_(1)

    return weight


def constant(value: float) -> Weight:
    """Same weight for all elements. Source: GR, Assumption 1."""
    return lambda x: torch.full_like(x.z, value)


def gaussian(mu: Number, sigma: Number) -> Weight:
    """exp(-(p - mu)^2 / (2 sigma^2)). Source: GR, Eq. 11."""
    return lambda x: (x.frozen_p() - mu).square_().mul_(-0.5 * LOG2_E / sigma**2).exp2_()


def parabola(mu: Number, sigma: Number) -> Weight:
    """max(0, 1 - (p - mu)^2 / (2 sigma^2)), which is `gaussian` to second order around its maximum."""
    return lambda x: (x.frozen_p() - mu).square_().mul_(-0.5 / sigma**2).add_(1).clamp_(min=0)


def two_sided_exponential(mu: Number, sigma: Number) -> Weight:
    """exp(-|p - mu| / sigma)."""
    return lambda x: (x.frozen_p() - mu).abs_().mul_(-1 / sigma).exp_()


def lookup(name: str) -> Weight:
    """Constant of this name that was passed to `elementwise`, in the computing type."""
    return lambda x: x.constants[name].to(x.z.dtype)


def held(term: Term) -> Weight:
    """Value of a term, as a constant in the derivative."""
    return lambda x: term(x)[0].detach()
