"""Graceful stop on SIGINT, SIGTERM and SIGHUP."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any


def ending_signals() -> list[int]:
    """Signals that ask a process to end: SIGTERM and, unless it is ignored as under `nohup`, SIGHUP."""
    hangup = getattr(signal, "SIGHUP", None)  # Windows has none
    if hangup is None or signal.getsignal(hangup) is signal.SIG_IGN:
        return [signal.SIGTERM]
    return [signal.SIGTERM, hangup]


def ended_by_signals() -> AbstractContextManager[None]:
    """Raise `SystemExit` on SIGTERM and SIGHUP while the context lasts, so that everything is cleaned up."""

    def end(number: int, _: object) -> None:
        sys.exit(128 + number)

    return handled(ending_signals(), end)


def stop_on_signal(request_stop: Callable[[], None]) -> AbstractContextManager[None]:
    """Call a function on SIGINT, SIGTERM or SIGHUP, so that a step can finish.

    A second SIGINT stops at once.
    """

    def handle(number: int, _: object) -> None:
        request_stop()
        signal.signal(signal.SIGINT, signal.default_int_handler)

    return handled([signal.SIGINT, *ending_signals()], handle)


@contextmanager
def handled(numbers: list[int], handler: Callable[[int, Any], None]) -> Iterator[None]:
    """Handle signals while the context lasts. Outside the main thread, Python allows no handlers."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(number: int, frame: Any) -> None:
        if number == getattr(signal, "SIGHUP", None):  # a shell passes on the one that it gets itself
            signal.signal(number, signal.SIG_IGN)
        handler(number, frame)

    before = {number: signal.signal(number, handle) for number in numbers}
    try:
        yield
    finally:
        for number, previous in before.items():
            signal.signal(number, previous)
