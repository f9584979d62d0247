"""Make a failing input small: leave out large pieces, then smaller ones, as long as it fails as before."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from tests.hostile.fuzz.judge import Target, judge_in_time, run_batch, set_limits

TRIES, SLOW_TRIES = 2000, 30
"""Inputs that are tried to make one small, and one that ends its process or takes the limit of time."""
ENOUGH = 60.0
"""Seconds that making an input small may take, roughly."""


def shrink(data: bytes, fails: Callable[[bytes], bool], tries: int) -> bytes:
    """Leave out pieces of an input.

    Args:
        data: Input that fails.
        fails: Whether another input fails in the same way.
        tries: Largest number of inputs to try.
    """
    size = max(1, len(data) // 2)
    while True:
        start, removed = 0, False
        while start < len(data):
            if not tries:
                return data
            tries -= 1
            shorter = data[:start] + data[start + size :]
            if fails(shorter):
                data, removed = shorter, True
            else:
                start += size
        if size == 1 and not removed:
            return data
        if not removed or size > len(data):
            size = max(1, min(size, len(data)) // 2)


def shrink_file(path: Path, target: Target, kind: str, work: Path) -> str:
    """Make the input in a file small.

    Args:
        path: File with an input.
        target: What fails to read it.
        kind: Kind of the failure that is to stay.
        work: Folder for files of the processes that try inputs.

    Returns:
        All about the failure of the small input; empty if the input does not fail again.
    """
    texts: list[str] = []

    def fails_alone(data: bytes) -> bool:
        """Try an input in a process of its own."""
        failures = [failure for _, failure in run_batch(target, lambda _: data, range(1), work).failures]
        texts.extend(failure.text for failure in failures if failure.kind == kind)
        return any(failure.kind == kind for failure in failures)

    def fails(data: bytes) -> bool:
        failure = judge_in_time(target, data)[1]
        same = failure is not None and failure.kind == kind
        if same:
            path.write_bytes(data)
        return same

    start = time.monotonic()
    if not fails_alone(path.read_bytes()):
        return ""
    tries = min(TRIES, int(ENOUGH / (time.monotonic() - start)))
    if texts[-1].startswith("The process ended"):
        path.write_bytes(shrink(path.read_bytes(), fails_alone, SLOW_TRIES))
    else:
        child = os.fork()
        if not child:
            try:
                set_limits(work / "trace.txt")
                shrink(path.read_bytes(), fails, tries)
            finally:
                os._exit(0)
        os.waitpid(child, 0)  # however it ends: the file holds the smallest input so far
    fails_alone(path.read_bytes())
    return texts[-1]
