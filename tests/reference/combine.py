"""Weighted sum of methods, without a published loss."""

from __future__ import annotations

GOLDENS: list[tuple[str, object]] = []


def weighted_sum(terms: dict[str, float], weights: dict[str, float]) -> float:
    """Sum of weight * term, by name of the method."""
    return sum(weights[name] * value for name, value in terms.items())
