"""A limit to the time of a training. What would exceed it is left out, and a line says so."""

from __future__ import annotations

import math
import time

from .messages import log


class Budget:
    """Time that a training may take, counted from now.

    A part that has begun is finished, so a training may take longer than the limit.

    Args:
        minutes: The limit; 0 = none.
    """

    def __init__(self, minutes: float = 0.0) -> None:
        self._minutes = minutes
        self._end = time.monotonic() + 60 * minutes if minutes else math.inf

    @property
    def minutes_left(self) -> float:
        """Minutes that are left, at least a second; 0 if there is no limit."""
        return max(self._end - time.monotonic(), 1.0) / 60 if self._minutes else 0.0

    def allows(self, part: str, seconds: float = 0.0) -> bool:
        """Whether there is time for a part of the training. If not, a line says that it is left out.

        Args:
            part: What is left out.
            seconds: Time that it is expected to take.
        """
        if seconds < self._end - time.monotonic():
            return True
        log.info(f"minutes={self._minutes:g}: no time is left for {part}")
        return False
