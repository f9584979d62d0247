"""Graceful stop on SIGINT, SIGTERM and SIGHUP."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


def ending_signals() -> list[int]:
    """Signals that ask a process to end: SIGTERM and, unless it is ignored as under `nohup`, SIGHUP."""
    hangup = getattr(signal, "SIGHUP", None)  # Windows has none
    if hangup is None or signal.getsignal(hangup) is signal.SIG_IGN:
        return [signal.SIGTERM]
    return [signal.SIGTERM, hangup]


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Raise `SystemExit` on SIGTERM and SIGHUP while the context lasts, so that everything is cleaned up.

    Outside the main thread, signals are left alone.
    """

    def end(number: int, _: object) -> None:
        sys.exit(128 + number)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, end) for number in ending_signals()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def stop_on_signal(request_stop: Callable[[], None]) -> Iterator[None]:
    """Call a function on SIGINT, SIGTERM or SIGHUP, so that a step can finish; a second SIGINT stops at once.

    The previous handlers are restored at the end. Outside the main thread, where Python does not allow
    handlers, signals are left alone.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(number: int, frame: FrameType | None) -> None:
        request_stop()
        signal.signal(signal.SIGINT, signal.default_int_handler)

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, *ending_signals())}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
