"""Penalties on weights."""

from __future__ import annotations


def weight_penalty(weights: list[list[float]], l1: float, l2: float) -> float:
    """Penalty of one matrix."""
    total = 0.0
    for row in weights:
        for w in row:
            total += l1 * abs(w) + l2 * w * w
    return total


GOLDENS = []
