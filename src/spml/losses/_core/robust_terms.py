"""Robust losses of a label, known or assumed, in pairs: that of a positive and that of a negative."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal, TypeAlias, get_args

from torch import Tensor

from .domains import check_choice, check_non_negative, check_positive
from .terms import (
    Point,
    Term,
    added,
    mirrored,
    negative_focus,
    negative_log_loss,
    negative_power_loss,
    positive_focus,
    positive_log_loss,
    positive_power_loss,
    product,
    scaled,
)

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
