"""Graceful stop on SIGINT and SIGTERM."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def stop_on_signal(request_stop: Callable[[], None]) -> Iterator[None]:
    """Call a function on SIGINT or SIGTERM, so that a step can finish; a second SIGINT stops at once.

    The previous handlers are restored at the end. Outside the main thread, where Python does not allow
    handlers, signals are left alone.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(number: int, frame: FrameType | None) -> None:
        request_stop()
        signal.signal(signal.SIGINT, signal.default_int_handler)

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
