"""Hyper-parameters that change from epoch to epoch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, TypeAlias

Scheduled: TypeAlias = float | Sequence[float]
ScheduledOrAuto: TypeAlias = float | Literal["auto"] | Sequence[float | Literal["auto"]]

SHAPES = ("linear", "constant", "cosine", "exponential")


def ends(name: str, value: ScheduledOrAuto, auto: float | None = None) -> tuple[float, float]:
    """Return the first and the last value of a hyper-parameter, given as a number or as [start, end].

    Args:
        name: Name of the hyper-parameter, for the message.
        value: Value of the hyper-parameter.
        auto: Number that `auto` stands for; None = `auto` is refused.

    Raises:
        ValueError: The value is neither a number nor two numbers.
    """
    pair = [value, value] if isinstance(value, (int, float, str)) else list(value)
    numbers = [auto if end == "auto" and auto is not None else end for end in pair]
    if len(numbers) != 2 or not all(isinstance(end, (int, float)) for end in numbers):
        kind = "a number" if auto is None else "a number, auto"
        raise ValueError(f"{name} must be {kind} or [start, end], got {value!r}")
    return float(numbers[0]), float(numbers[1])


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
