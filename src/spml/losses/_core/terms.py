"""Numerically stable terms and weights of which losses are composed.

A *term* maps logits to `(value, slope)`, both of the shape of the logits: the loss of each element and its
derivative with respect to the logit. With the slope in closed form, `elementwise` (in `elementwise.py`) needs
one pass over the logits and no autograd graph.

A *weight* maps logits to a tensor that is constant in the derivative (the stop-gradient of the papers).

Everything is computed from log-probabilities, so it is finite for |z| <= 1e4 without an epsilon. Released
implementations put one inside the logarithms; `eps=` reproduces them.

Notation: z logit, p = sigmoid(z), l+ = -log p, l- = -log(1 - p).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias, get_args

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid, softplus

from .domains import check_choice, check_non_negative, check_positive


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


Number: TypeAlias = float | Tensor

LOG2_E = math.log2(math.e)
_MIN_EXP2 = 0.01
"""Smallest exponent for which exp2 is used: on CPU it is four times faster than exp and expm1. Its rounding
error, divided by such an exponent, changes a loss in float32 by less than 1e-5."""


LINEAR = 37.0
"""Logit above which softplus(z) is z to the last digit, in float64, too."""

Term: TypeAlias = Callable[[Point], tuple[Tensor, Tensor]]
Weight: TypeAlias = Callable[[Point], Tensor]
KnownNegatives: TypeAlias = Literal["plain", "own"]
"""Loss of a known negative: l- (`plain`), or the loss that an assumed negative has (`own`)."""


# -- terms -----------------------------------------------------------------------------------------------


def positive_log_loss(x: Point) -> tuple[Tensor, Tensor]:
    """l+ = -log p. Slope p - 1."""
    opposite = -x.z
    return softplus(opposite, threshold=LINEAR), opposite.sigmoid_().neg_()


def negative_log_loss(x: Point) -> tuple[Tensor, Tensor]:
    """l- = -log(1 - p). Slope p."""
    return softplus(x.z, threshold=LINEAR), x.p


def no_loss(x: Point) -> tuple[Tensor, Tensor]:
    """Zero, for elements that are ignored."""
    zero = torch.zeros_like(x.z)
    return zero, zero


def positive_eps_loss(eps: float) -> Term:
    """-log(p + eps), the form of l+ in released implementations. Slope -p (1 - p) / (p + eps)."""
    if eps == 0:
        return positive_log_loss

    def term(x: Point) -> tuple[Tensor, Tensor]:
        shifted = x.p + eps
        return -shifted.log(), -x.p * x.not_p / shifted

    return term


def negative_eps_loss(eps: float) -> Term:
    """-log(1 - p + eps), the form of l- in released implementations. Slope p (1 - p) / (1 - p + eps)."""
    if eps == 0:
        return negative_log_loss

    def term(x: Point) -> tuple[Tensor, Tensor]:
        shifted = x.not_p + eps
        return -shifted.log(), x.p * x.not_p / shifted

    return term


def cross_entropy(share: Weight, eps: float = 0.0) -> Term:
    """share l+ + (1 - share) l-, with a share that is constant in the derivative. Slope p - share."""
    if eps:
        return unified(share, None, positive_eps_loss(eps), negative_eps_loss(eps))

    def term(x: Point) -> tuple[Tensor, Tensor]:
        of_positive = share(x)
        # max(z, 0) - share z, which is exact for the shares 0 and 1, - log of the larger of p and 1 - p.
        value = x.z.clamp(min=0).addcmul_(x.z, of_positive, value=-1).sub_(x.log_larger)
        return value, x.p - of_positive

    return term


def entropy(eps: float = 0.0) -> Term:
    """Binary entropy H = -p log p - (1 - p) log(1 - p). Slope -p (1 - p) z.

    With `eps`: -p log(p + eps) - (1 - p) log(1 - p + eps).
    """

    def exact(x: Point) -> tuple[Tensor, Tensor]:
        # With m the smaller of p and 1 - p, and log m = log(1 - m) - |z|: H = m |z| - log(1 - m).
        return (x.smaller * x.z.abs()).sub_(x.log_larger), (x.spread * x.z).neg_()

    def released(x: Point) -> tuple[Tensor, Tensor]:
        log_p, log_not_p = (x.p + eps).log(), (x.not_p + eps).log()
        slope = log_not_p - log_p + x.not_p / (x.not_p + eps) - x.p / (x.p + eps)
        return -(x.p * log_p + x.not_p * log_not_p), x.p * x.not_p * slope

    return released if eps else exact


def positive_power_loss(q: float) -> Term:
    """(1 - p^q) / q, the generalised cross-entropy towards 1; l+ for q = 0. Slope -p^q (1 - p)."""
    if q == 0:
        return positive_log_loss

    def term(x: Point) -> tuple[Tensor, Tensor]:
        less, whole = power_less_one(x.log_p, q)
        return less.mul_(-1 / q), (whole * x.not_p).neg_()

    return term


def negative_power_loss(q: float) -> Term:
    """(1 - (1 - p)^q) / q, the generalised cross-entropy towards 0; l- for q = 0. Slope (1 - p)^q p."""
    if q == 0:
        return negative_log_loss
    if q == 1:
        return lambda x: (x.p, x.p * x.not_p)

    def term(x: Point) -> tuple[Tensor, Tensor]:
        less, whole = power_less_one(x.log_not_p, q)
        return less.mul_(-1 / q), whole * x.p

    return term


def positive_focus(gamma: float) -> Term:
    """(1 - p)^gamma, the focusing factor of a positive. Slope -gamma (1 - p)^gamma p."""

    def term(x: Point) -> tuple[Tensor, Tensor]:
        factor = power(x.not_p, gamma)
        return factor, (factor * x.p).mul_(-gamma)

    return term


def negative_focus(gamma: float, margin: float = 0.0) -> Term:
    """p_m^gamma with p_m = max(p - margin, 0), the focusing factor of a negative.

    Slope gamma p_m^(gamma - 1) p (1 - p); 0 where p <= margin.
    """

    def plain(x: Point) -> tuple[Tensor, Tensor]:
        factor = power(x.p, gamma)
        return factor, (factor * x.not_p).mul_(gamma)

    def shifted(x: Point) -> tuple[Tensor, Tensor]:
        mask = above(x.p, margin)
        # 1 where p <= margin, so that the quotient is finite for gamma < 1.
        excess = torch.lerp(torch.ones_like(x.p), x.p - margin, mask)
        factor = power(excess, gamma).mul_(mask)
        return factor, (factor / excess).mul_(x.p).mul_(x.not_p).mul_(gamma)

    return shifted if margin else plain


def negative_margin_loss(margin: float) -> Term:
    """-log(1 - p_m) with p_m = max(p - margin, 0). Slope p (1 - p) / (1 - p_m); 0 where p <= margin."""
    if margin == 0:
        return negative_log_loss

    def term(x: Point) -> tuple[Tensor, Tensor]:
        rest = (x.not_p + margin).clamp_(max=1)
        return rest.log().neg_(), (x.p * x.not_p).div_(rest).mul_(above(x.p, margin))

    return term


def hill(lam: float) -> Term:
    """(lam - p) p^2. Slope p^2 (1 - p) (2 lam - 3 p)."""

    def term(x: Point) -> tuple[Tensor, Tensor]:
        square = x.p.square()
        part = square * x.not_p
        rest = x.not_p if lam == 1.5 else x.not_p + (2 * lam / 3 - 1)
        return torch.add(part, square, alpha=lam - 1), (part * rest).mul_(3)

    return term


# -- combinations of terms -------------------------------------------------------------------------------


def scaled(factor: Number, term: Term) -> Term:
    """A term times `factor`, a number or a tensor that broadcasts over the logits."""

    def product(x: Point) -> tuple[Tensor, Tensor]:
        value, slope = term(x)
        return factor * value, factor * slope

    return product


def added(first: Term, second: Term) -> Term:
    """Sum of two terms."""

    def total(x: Point) -> tuple[Tensor, Tensor]:
        value1, slope1 = first(x)
        value2, slope2 = second(x)
        return value1 + value2, slope1 + slope2

    return total


def unified(k: Weight, v: Weight | None, l2: Term, l3: Term) -> Term:
    """Loss of unknown labels in the unified framework: v(p) [k(p) L2 + (1 - k(p)) L3]; v = 1 if None.

    k and v are constant in the derivative. Source: Chen et al. (GR loss, IJCAI 2024), Eq. 4-5.
    """

    def term(x: Point) -> tuple[Tensor, Tensor]:
        share = k(x)
        value2, slope2 = l2(x)
        value3, slope3 = l3(x)
        value, slope = torch.lerp(value3, value2, share), torch.lerp(slope3, slope2, share)
        if v is None:
            return value, slope
        weight = v(x)
        return value.mul_(weight), slope.mul_(weight)

    return term


def product(first: Term, second: Term) -> Term:
    """Product of two terms, both of which are differentiated."""

    def term(x: Point) -> tuple[Tensor, Tensor]:
        value1, slope1 = first(x)
        value2, slope2 = second(x)
        return value1 * value2, slope1 * value2 + value1 * slope2

    return term


def weighted(weight: Weight, term: Term) -> Term:
    """A term times a weight, which is constant in the derivative."""

    def product(x: Point) -> tuple[Tensor, Tensor]:
        factor = weight(x)
        value, slope = term(x)
        return factor * value, factor * slope

    return product


def shifted(margin: float, term: Term) -> Term:
    """A term at the logit z - margin."""
    return term if margin == 0 else lambda x: term(Point(x.z - margin, x.constants))


def mirrored(term: Term, margin: float = 0.0) -> Term:
    """A term at the logit margin - z: a loss of negatives becomes that of positives with a margin."""

    def mirror(x: Point) -> tuple[Tensor, Tensor]:
        value, slope = term(Point(margin - x.z if margin else -x.z, x.constants))
        return value, slope.neg_()

    return mirror


def corrected(condition: Weight, term: Term, margin: float = 0.0) -> Term:
    """A loss of negatives, or where the condition is 1 that of positives: the term at margin - z."""

    def switch(x: Point) -> tuple[Tensor, Tensor]:
        mask = condition(x)
        value, slope = term(Point(torch.lerp(x.z, margin - x.z, mask), x.constants))
        return value, torch.lerp(slope, -slope, mask)

    return switch


def capped(eps: float, term: Term) -> Term:
    """min(term, -log eps), for released implementations that clamp the argument of the logarithm to eps."""
    if eps == 0:
        return term
    cap = -math.log(eps)

    def minimum(x: Point) -> tuple[Tensor, Tensor]:
        value, slope = term(x)
        return value.clamp(max=cap), slope * below(value, cap)

    return minimum


def switched(condition: Weight, yes: Term, no: Term) -> Term:
    """`yes` where the condition is 1, `no` where it is 0; the condition has no other values."""

    def term(x: Point) -> tuple[Tensor, Tensor]:
        mask = condition(x)
        value1, slope1 = yes(x)
        value2, slope2 = no(x)
        return torch.lerp(value2, value1, mask), torch.lerp(slope2, slope1, mask)

    return term


def known_negative(choice: KnownNegatives, own: Term) -> Term:
    """Term of known negatives: l- for `plain`; for `own` the term of assumed negatives, `own`."""
    if choice not in ("plain", "own"):
        raise ValueError(f"known_negatives must be 'plain' or 'own', got {choice!r}")
    return own if choice == "own" else negative_log_loss


# -- masks of 0 and 1 in the computing type: several times faster than bool and `where` ------------------


def above(values: Tensor, bound: Number) -> Tensor:
    """1 where a value is greater than the bound, else 0."""
    return torch.gt(values, bound, out=torch.empty_like(values))


def at_least(values: Tensor, bound: Number) -> Tensor:
    """1 where a value is at least the bound, else 0."""
    return torch.ge(values, bound, out=torch.empty_like(values))


def below(values: Tensor, bound: Number) -> Tensor:
    """1 where a value is less than the bound, else 0."""
    return torch.lt(values, bound, out=torch.empty_like(values))


def power_less_one(log_base: Tensor, exponent: float) -> tuple[Tensor, Tensor]:
    """base^exponent - 1 and base^exponent as new tensors, from the logarithm of the base."""
    if exponent < _MIN_EXP2:
        less = (log_base * exponent).expm1_()
        return less, less + 1
    whole = (log_base * (exponent * LOG2_E)).exp2_()
    return whole - 1, whole


def power(base: Tensor, exponent: float) -> Tensor:
    """base^exponent as a new tensor; integer exponents up to 8 by multiplication (ten times faster)."""
    if exponent != int(exponent) or not 1 <= exponent <= 8:
        return base**exponent
    if exponent == 2:
        return base.square()
    result, square, remaining = torch.ones_like(base), base, int(exponent)
    while remaining:
        if remaining % 2:
            result *= square
        remaining //= 2
        square = square * square if remaining else square
    return result


# -- weights of elements: functions of a point, constant in the derivative -------------------------------


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


# -- robust losses of a label, in pairs: that of a positive and that of a negative -----------------------


Robust: TypeAlias = Literal["gce", "taylor", "sce", "nce", "nfl", "ngce"]

_PASSIVE = {"beta": 1.0, "log_zero": math.log(1e-4)}
_CONSTANTS: Mapping[str, Mapping[str, float]] = {
    "gce": {},
    "taylor": {"order": 2},
    "sce": {"alpha": 0.1, **_PASSIVE},
    "nce": {"alpha": 1.0, **_PASSIVE},
    "nfl": {"gamma": 0.5, "alpha": 1.0, **_PASSIVE},
    "ngce": {"q": 0.7, "alpha": 1.0, **_PASSIVE},
}


def robust_terms(robust: str, constants: Mapping[str, float]) -> tuple[Term, Term] | None:
    """Terms of a positive and of a negative; None for `gce`, whose terms depend on no constants of these.

    Args:
        robust: Name of the loss.
        constants: Constants by name; those that are not given have their defaults.

    Raises:
        ValueError: The loss or a constant is unknown, or a constant lies outside its domain.
    """
    check_choice("robust", robust, get_args(Robust))
    if not isinstance(constants, Mapping):
        raise ValueError(f"constants must be numbers by name, such as {{beta: 1}}, got {constants!r}")
    known = _CONSTANTS[robust]
    for name, value in constants.items():
        if name not in known:
            raise ValueError(f"constants of robust={robust!r}: {', '.join(known) or 'none'}, got {name!r}")
        if not isinstance(value, (int, float)):
            raise ValueError(f"constants must be numbers, got {name}={value!r}")
    if robust == "gce":
        return None
    values = {**known, **constants}
    if robust == "taylor":
        term = _taylor(values["order"])
        return mirrored(term), term
    check_non_negative(alpha=values["alpha"], beta=values["beta"])
    if not values["log_zero"] <= 0:
        raise ValueError(f"log_zero must be at most 0, got {values['log_zero']}")
    positive, negative = _active(robust, values)
    weight = -values["beta"] * values["log_zero"]
    return (
        added(scaled(values["alpha"], positive), scaled(weight, positive_power_loss(1))),
        added(scaled(values["alpha"], negative), scaled(weight, negative_power_loss(1))),
    )


def _active(robust: str, values: Mapping[str, float]) -> tuple[Term, Term]:
    if robust == "sce":
        return positive_log_loss, negative_log_loss
    if robust == "nce":
        return _normalised(positive_log_loss, negative_log_loss)
    if robust == "nfl":
        check_non_negative(gamma=values["gamma"])
        return _normalised(
            product(positive_focus(values["gamma"]), positive_log_loss),
            product(negative_focus(values["gamma"]), negative_log_loss),
        )
    check_positive(q=values["q"])
    return _normalised(positive_power_loss(values["q"]), negative_power_loss(values["q"]))


def _normalised(positive: Term, negative: Term) -> tuple[Term, Term]:
    """Each of two terms divided by the sum of both, which is never 0 for the losses of this module."""

    def ratio(own: Term, other: Term) -> Term:
        def term(x: Point) -> tuple[Tensor, Tensor]:
            value1, slope1 = own(x)
            value2, slope2 = other(x)
            total = value1 + value2
            share = value1 / total
            return share, (slope1 * (value2 / total) - slope2 * share) / total

        return term

    return ratio(positive, negative), ratio(negative, positive)


def _taylor(order: float) -> Term:
    """Sum of p^i / i for i = 1 ... order, the start of the series of l-. Slope p (1 - p^order)."""
    if order != int(order) or order < 1:
        raise ValueError(f"order must be a whole number, at least 1, got {order}")

    def term(x: Point) -> tuple[Tensor, Tensor]:
        value = x.p / order
        for i in range(int(order) - 1, 0, -1):
            value = (value + 1 / i) * x.p
        return value, x.p * (1 - x.p**order)

    return term
