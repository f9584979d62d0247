"""Where hyper-parameters may lie."""

from __future__ import annotations


def check_positive(**values: float) -> None:
    """Refuse zero, negative values and NaN.

    Raises:
        ValueError: names the first.
    """
    for name, value in values.items():
        if not value > 0:
            raise ValueError(f"{name} must be greater than 0, got {value}")


def check_non_negative(**values: float) -> None:
    """Refuse negative values and NaN.

    Raises:
        ValueError: names the first.
    """
    for name, value in values.items():
        if not value >= 0:
            raise ValueError(f"{name} must be at least 0, got {value}")


def check_share(**values: float) -> None:
    """Refuse values outside [0, 1].

    Raises:
        ValueError: names the first.
    """
    for name, value in values.items():
        if not 0 <= value <= 1:
            raise ValueError(f"{name} must lie in [0, 1], got {value}")
