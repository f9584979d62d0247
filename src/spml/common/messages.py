"""What the package says while it works: lines of the logger "spml", and progress bars.

Modules say lines with `log.info`, details with `log.debug`, and show long work with `progress`. Nothing
appears unless somebody listens: the command line and `spml.train` call `shown`, others add a handler to the
logger.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from .errors import escaped

log = logging.getLogger("spml")
log.addHandler(logging.NullHandler())  # without a handler, Python would print warnings itself

Advance = Callable[[int], None]
"""Called with the number of steps that were done since the last call."""


class _Display(logging.Handler):
    """Writes lines to a stream, above the progress bar if one is on the terminal."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self.stream, self.terminal = stream, stream.isatty()
        self.bar: Any = None
        self.users = 0

    def emit(self, record: logging.LogRecord) -> None:
        text = escaped(record.getMessage())
        if self.bar is not None:
            self.bar.console.print(text, markup=False, highlight=False)
        else:
            print(text, file=self.stream, flush=True)


_display: _Display | None = None
_lock = threading.Lock()


@contextmanager
def shown(stream: TextIO | None = None, *, verbose: bool = False) -> Iterator[None]:
    """Show lines and progress bars while the block runs. Blocks may be nested: each line is shown once.

    Args:
        stream: Stream to write to; standard error by default, so that standard output holds results only.
        verbose: Show details, too.
    """
    global _display
    with _lock:
        if _display is None:
            _display = _Display(stream or sys.stderr or open(os.devnull, "w"))  # noqa: SIM115
            log.addHandler(_display)
        display, level = _display, log.level
        display.users += 1
        log.setLevel(logging.DEBUG if verbose else logging.INFO)
    try:
        yield
    finally:
        with _lock:
            log.setLevel(level)
            display.users -= 1
            if not display.users:
                log.removeHandler(display)
                _display = None


@contextmanager
def muted() -> Iterator[None]:
    """Show nothing while the block runs: all processes of a run but the first."""
    disabled, log.disabled = log.disabled, True
    try:
        yield
    finally:
        log.disabled = disabled


def bars_are_shown() -> bool:
    """Whether progress bars appear: lines are shown, on a terminal."""
    return _display is not None and _display.terminal and not log.disabled


@contextmanager
def progress(total: int, label: str) -> Iterator[Advance]:
    """Show a progress bar with the number of steps per second, and the time that the remaining ones take at
    this pace. Yields a callback that advances it; with a total of 0 there is no bar.

    Args:
        total: Number of steps.
        label: Text before the bar.
    """
    display = _display
    if display is None or display.bar is not None or not bars_are_shown() or not total:
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        ProgressColumn,
        Task,
        TextColumn,
        TimeRemainingColumn,
    )
    from rich.text import Text

    class Pace(ProgressColumn):
        def render(self, task: Task) -> Text:
            speed = task.speed or 0.0
            return Text(f"{speed:,.{0 if speed >= 10 else 1}f}/s" if speed else "")

    text = TextColumn("{task.description}")
    columns = (text, BarColumn(), MofNCompleteColumn(), Pace(), TimeRemainingColumn())
    console = Console(file=display.stream)
    # Runs of a comparison are minutes apart, so the pace is that of the last ten minutes.
    with Progress(*columns, console=console, transient=True, speed_estimate_period=600) as bar:
        task = bar.add_task(label, total=total)
        display.bar = bar
        try:
            yield lambda done: bar.update(task, advance=done)
        finally:
            display.bar = None
