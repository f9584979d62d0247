"""L-BFGS that asks for slopes alone, and never for the value of what it minimises."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor

PAIRS = 10
"""Steps that are remembered. With 50, ours took 10 % fewer evaluations and more time."""

_FLATTER = 0.9  # a step ends where the slope along it is at most this share of that at its start
_TRIES = 20  # lengths of a step


class Minimum(NamedTuple):
    """Where `minimise` came to.

    Attributes:
        point, slope: (P,), and the gradient there.
        iterations: steps taken.
        evaluations: of the gradient.
    """

    point: Tensor
    slope: Tensor
    iterations: int
    evaluations: int


def minimise(gradient: Callable[[Tensor], Tensor], start: Tensor, *, tolerance: float, most: int) -> Minimum:
    """Follow a gradient downhill to where it vanishes, by L-BFGS with a line search on slopes.

    Many published losses hold a part of themselves constant in the derivative. Their gradient is that of no
    function, and a search that compares values gives up; where the slope along a line changes its sign from
    minus to plus is defined all the same, and for a convex function it is the minimum along that line.

    Args:
        gradient: of a point (P,).
        start: (P,), float64, scaled so that the second derivative is about 1 in all directions.
        tolerance: norm of the gradient at which to stop.
        most: evaluations, about.

    Source:
        Liu, Nocedal. On the Limited Memory BFGS Method for Large Scale Optimization. Mathematical Programming
        1989. Kafka, Wilke. Gradient-only Line Searches. arXiv:1903.09383, 2019.
    """
    point, slope = start, gradient(start)
    pairs: deque[tuple[Tensor, Tensor, float]] = deque(maxlen=PAIRS)
    iterations, evaluations = 0, 1
    # Not "while the norm is above": a norm that is NaN must end it.
    while float(slope.norm()) > tolerance and evaluations < most:
        direction = _direction(slope, pairs)
        length, there, tries = _search(gradient, point, direction, float(slope @ direction))
        evaluations += tries
        if there is None:
            if not pairs:
                break
            pairs.clear()
            continue
        step, change = length * direction, there - slope
        along = float(step @ change)
        if along > 1e-10 * float(step.norm() * change.norm()):
            pairs.append((step, change, along))
        point, slope, iterations = point + step, there, iterations + 1
    return Minimum(point, slope, iterations, evaluations)


def _direction(slope: Tensor, pairs: deque[tuple[Tensor, Tensor, float]]) -> Tensor:
    """Minus the gradient times an estimate of the inverse second derivative, which is positive definite."""
    direction, shares = -slope, []
    for step, change, along in reversed(pairs):
        shares.append(float(step @ direction) / along)
        direction = direction.sub(change, alpha=shares[-1])
    if pairs:
        _, change, along = pairs[-1]
        direction = direction * (along / float(change @ change))
    for (step, change, along), share in zip(pairs, reversed(shares), strict=True):
        direction = direction.add(step, alpha=share - float(change @ direction) / along)
    return direction


def _search(
    gradient: Callable[[Tensor], Tensor], point: Tensor, direction: Tensor, before: float
) -> tuple[float, Tensor | None, int]:
    """A length at which the slope along `direction`, `before` < 0 at its start, is nearly flat; the gradient
    there, None if no step leads down; how many lengths were tried.

    Where the slope jumps from minus to plus, as where a method rejects losses, the end is just before.
    """
    low, low_slope, low_gradient = 0.0, before, None
    high, high_slope = math.inf, math.inf
    length = 1.0
    for tries in range(1, _TRIES + 1):
        there = gradient(point + length * direction)
        slope = float(there @ direction)
        if abs(slope) <= -_FLATTER * before:
            return length, there, tries
        if slope < 0:
            low, low_slope, low_gradient = length, slope, there
        else:  # or not finite
            high, high_slope = length, slope
        if math.isinf(high):
            length = 2 * low
        elif math.isfinite(high_slope):
            share = low_slope / (low_slope - high_slope)
            length = low + (high - low) * min(max(share, 0.1), 0.9)
        else:
            length = (low + high) / 2
    return low, low_gradient, _TRIES
