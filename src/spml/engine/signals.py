"""SIGINT and SIGTERM as a request to stop."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def stop_on_signal(ask_to_stop: Callable[[], None]) -> Iterator[None]:
    """SIGINT and SIGTERM call `ask_to_stop`, so that a step can finish; a second SIGINT stops at once.

    Afterwards the handlers are those of before. Outside of the main thread nothing is changed: Python allows
    handlers there only.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(number: int, frame: FrameType | None) -> None:
        ask_to_stop()
        signal.signal(signal.SIGINT, signal.default_int_handler)

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
