"""What a run tells while it works: a progress bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO


class Console:
    """Lines and progress on a stream.

    Args:
        stream: where to write; standard error by default, so that standard output holds results only.
        silent: write nothing (other processes than the first, tests).
    """

    def __init__(self, stream: TextIO | None = None, silent: bool = False) -> None:
        self._stream = stream or sys.stderr
        self._silent = silent
        self._terminal = not silent and self._stream.isatty()
        self._bar: Any = None

    @property
    def terminal(self) -> bool:
        """Whether it shows progress bars."""
        return self._terminal

    def line(self, text: str) -> None:
        """One line of text, above the progress bar if there is one."""
        if self._silent:
            return
        if self._bar is not None:
            self._bar.console.print(text, markup=False, highlight=False)
        else:
            print(text, file=self._stream, flush=True)

    @contextmanager
    def progress(self, total: int, label: str) -> Iterator[Callable[[int], None]]:
        """A bar towards `total`; gives a function that is told how many more are done."""
        if not self._terminal:
            yield lambda done: None
            return
        from rich.console import Console as RichConsole
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=RichConsole(file=self._stream), transient=True) as bar:
            task = bar.add_task(label, total=total)
            self._bar = bar
            try:
                yield lambda done: bar.advance(task, done)
            finally:
                self._bar = None
