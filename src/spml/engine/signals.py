"""Graceful stop on SIGINT, SIGTERM and SIGHUP."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager


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

    return _handled(ending_signals(), end)


def stop_on_signal(request_stop: Callable[[], None]) -> AbstractContextManager[None]:
    """Call a function on SIGINT, SIGTERM or SIGHUP, so that a step can finish.

    A second SIGINT stops at once.
    """

    def handle(number: int, _: object) -> None:
        request_stop()
        signal.signal(signal.SIGINT, signal.default_int_handler)

    return _handled([signal.SIGINT, *ending_signals()], handle)


@contextmanager
def _handled(numbers: list[int], handler: Callable[[int, object], None]) -> Iterator[None]:
    """Handle signals while the context lasts. Outside the main thread, Python allows no handlers."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, previous in before.items():
            signal.signal(number, previous)
