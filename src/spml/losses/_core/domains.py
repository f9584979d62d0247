"""Where hyper-parameters may lie."""

from __future__ import annotations


def check_positive(**values: float) -> None:
    """Refuse zero, negative values, NaN, and what is no number.

    Raises:
        ValueError: names the first.
    """
    for name, value in values.items():
        if not _number(name, value) > 0:
            raise ValueError(f"{name} must be greater than 0, got {value}")


def check_non_negative(**values: float) -> None:
    """Refuse negative values, NaN, and what is no number.

    Raises:
        ValueError: names the first.
    """
    for name, value in values.items():
        if not _number(name, value) >= 0:
            raise ValueError(f"{name} must be at least 0, got {value}")


def check_share(**values: float) -> None:
    """Refuse values outside [0, 1], and what is no number.

    Raises:
        ValueError: names the first.
    """
    for name, value in values.items():
        if not 0 <= _number(name, value) <= 1:
            raise ValueError(f"{name} must lie in [0, 1], got {value}")


def _number(name: str, value: float) -> float:
    if not hasattr(value, "__float__"):
        raise ValueError(f"{name} must be a number, got {value!r}")
    return value
