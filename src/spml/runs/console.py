"""Progress of a run: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from ..common.errors import escaped


class Console:
    """Lines and progress bars on a stream.

    Args:
        stream: Stream to write to; standard error by default, so that standard output holds results only.
        silent: Write nothing (for tests, and for all processes but the first).
        verbose: Print details, too.
    """

    def __init__(self, stream: TextIO | None = None, silent: bool = False, verbose: bool = False) -> None:
        self._stream = stream or sys.stderr
        self._silent = silent
        self._verbose = verbose
        self._terminal = not silent and self._stream.isatty()
        self._bar: Any = None

    @property
    def terminal(self) -> bool:
        """Whether progress bars are shown."""
        return self._terminal

    def line(self, text: str) -> None:
        """Print one line, above the progress bar if there is one."""
        if self._silent:
            return
        text = escaped(text)
        if self._bar is not None:
            self._bar.console.print(text, markup=False, highlight=False)
        else:
            print(text, file=self._stream, flush=True)

    def detail(self, text: str) -> None:
        """Print one line that only those who look into it want to see."""
        if self._verbose:
            self.line(text)

    @contextmanager
    def progress(
        self, total: int, label: str, left: Callable[[], str] | None = None
    ) -> Iterator[Callable[[int], None]]:
        """Show a progress bar. Yields a callback that advances it; with a total of 0 there is no bar.

        Args:
            total: Number of steps.
            label: Text before the bar.
            left: Called after each advance for the text after the bar; by default, that is the number of
                steps per second, and the time that the remaining ones take at this pace.
        """
        if not self._terminal or not total:
            yield lambda done: None
            return
        from rich.console import Console as RichConsole
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

        last = (TextColumn("{task.fields[left]}"),) if left else (Pace(), TimeRemainingColumn())
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), *last)
        with Progress(*columns, console=RichConsole(file=self._stream), transient=True) as bar:
            task = bar.add_task(label, total=total, left="")
            self._bar = bar
            try:
                yield lambda done: bar.update(task, advance=done, left=left() if left else "")
            finally:
                self._bar = None
