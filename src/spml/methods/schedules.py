"""Hyper-parameters that change from epoch to epoch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

Scheduled: TypeAlias = float | Sequence[float]

SHAPES = ("linear", "constant", "cosine", "exponential")


def ends(name: str, value: Scheduled) -> tuple[float, float]:
    """Return the first and the last value of a hyper-parameter, given as a number or as [start, end].

    Raises:
        ValueError: The value is neither a number nor two numbers.
    """
    pair = [value, value] if isinstance(value, (int, float)) else value
    if isinstance(pair, str) or len(pair) != 2 or not all(isinstance(end, (int, float)) for end in pair):
        raise ValueError(f"{name} must be a number or [start, end], got {value!r}")
    return float(pair[0]), float(pair[1])


def at(start: float, end: float, fraction: float, shape: str) -> float:
    """Return the value of a schedule.

    Args:
        start: First value.
        end: Last value.
        fraction: Position in the schedule, from 0 to 1.
        shape: `linear`; `constant`, the end value throughout; `cosine`, half a cosine, slow at both ends;
            `exponential`, fast at first, 1 - exp(-5 f) scaled to end at 1.

    Raises:
        ValueError: The shape is unknown.
    """
    if shape == "constant":
        return end
    if shape == "linear":
        share = fraction
    elif shape == "cosine":
        share = (1 - math.cos(math.pi * fraction)) / 2
    elif shape == "exponential":
        share = math.expm1(-5 * fraction) / math.expm1(-5)
    else:
        raise ValueError(f"schedule must be one of {', '.join(SHAPES)}, got {shape!r}")
    return start + (end - start) * share
