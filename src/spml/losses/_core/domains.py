"""Domains of hyper-parameters."""

from __future__ import annotations


def check_positive(**values: float) -> None:
    """Check that all values are numbers greater than 0.

    Raises:
        ValueError: A value is not; the message names the first one.
    """
    for name, value in values.items():
        if not _number(name, value) > 0:
            raise ValueError(f"{name} must be greater than 0, got {value}")


def check_non_negative(**values: float) -> None:
    """Check that all values are numbers of at least 0.

    Raises:
        ValueError: A value is not; the message names the first one.
    """
    for name, value in values.items():
        if not _number(name, value) >= 0:
            raise ValueError(f"{name} must be at least 0, got {value}")


def check_share(**values: float) -> None:
    """Check that all values are numbers in [0, 1].

    Raises:
        ValueError: A value is not; the message names the first one.
    """
    for name, value in values.items():
        if not 0 <= _number(name, value) <= 1:
            raise ValueError(f"{name} must lie in [0, 1], got {value}")


def check_thresholds(tau_low: float, tau_high: float) -> None:
    """Check that 0 <= tau_low <= tau_high <= 1.

    Raises:
        ValueError: It does not hold.
    """
    check_share(tau_low=tau_low, tau_high=tau_high)
    if tau_low > tau_high:
        raise ValueError(f"tau_low must be at most tau_high, got {tau_low} and {tau_high}")


def _number(name: str, value: float) -> float:
    if not hasattr(value, "__float__"):
        raise ValueError(f"{name} must be a number, got {value!r}")
    return value
