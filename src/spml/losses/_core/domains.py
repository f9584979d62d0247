"""Domains of hyper-parameters. Each check raises a ValueError that names the first value outside of it."""

from __future__ import annotations

from collections.abc import Sequence


def check_positive(**values: float) -> None:
    """Check that all values are numbers greater than 0."""
    for name, value in values.items():
        if not _number(name, value) > 0:
            raise ValueError(f"{name} must be greater than 0, got {value}")


def check_non_negative(**values: float) -> None:
    """Check that all values are numbers of at least 0."""
    for name, value in values.items():
        if not _number(name, value) >= 0:
            raise ValueError(f"{name} must be at least 0, got {value}")


def check_share(**values: float) -> None:
    """Check that all values are numbers in [0, 1]."""
    for name, value in values.items():
        if not 0 <= _number(name, value) <= 1:
            raise ValueError(f"{name} must lie in [0, 1], got {value}")


def check_below(limit: float, **values: float) -> None:
    """Check that all values are numbers of at least 0 and below a limit."""
    for name, value in values.items():
        if not 0 <= _number(name, value) < limit:
            raise ValueError(f"{name} must lie in [0, {limit:g}), got {value}")


def check_choice(name: str, value: str, choices: Sequence[str]) -> None:
    """Check that a hyper-parameter has one of its possible values."""
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(choices)}, got {value!r}")


def check_thresholds(tau_low: float, tau_high: float) -> None:
    """Check that 0 <= tau_low <= tau_high <= 1."""
    check_share(tau_low=tau_low, tau_high=tau_high)
    if tau_low > tau_high:
        raise ValueError(f"tau_low must be at most tau_high, got {tau_low} and {tau_high}")


def check_whole(**values: int) -> None:
    """Check that all values are whole numbers, at least 1."""
    for name, value in values.items():
        if _number(name, value) != int(value) or value < 1:
            raise ValueError(f"{name} must be a whole number, at least 1, got {value}")


def check_epochs(**values: int) -> None:
    """Check that all values are whole numbers of epochs, at least 0."""
    for name, value in values.items():
        if value != int(value) or value < 0:
            raise ValueError(f"{name} must be a whole number of epochs, at least 0, got {value}")


def check_percent(percent: float) -> None:
    """Check that a percentage is greater than 0 and at most 100."""
    if not 0 < percent <= 100:
        raise ValueError(f"percent must be greater than 0 and at most 100, got {percent}")


def _number(name: str, value: float) -> float:
    if not hasattr(value, "__float__"):
        raise ValueError(f"{name} must be a number, got {value!r}")
    return value
