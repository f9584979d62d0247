"""A weighted sum of methods; there is no published loss of its own."""

from __future__ import annotations

GOLDENS: list[tuple[str, object]] = []


def weighted_sum(terms: dict[str, float], weights: dict[str, float]) -> float:
    """Sum of weight * term, by name of the method."""
    return sum(weights[name] * value for name, value in terms.items())
