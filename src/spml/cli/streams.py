"""Standard streams that can't be written: closed, on a full disk, or read by a process that went away."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO, cast

from ..common.errors import visible

_READER_WENT_AWAY = 141
"""Exit code that a shell shows for a process that SIGPIPE ended, such as `cat` in `cat x | head -1`."""


@contextmanager
def guarded_streams(name: str) -> Iterator[None]:
    """Run a command, and end the process if its standard output can't be written.

    A process that reads the output may go away, as `head` does: then the exit code is 141 and nothing is
    said. Otherwise, one line on standard error says why, and the exit code is 1. Standard error holds no
    results: lines that can't be written there are dropped, so that closing a terminal does not end training.

    Args:
        name: Name of the command, for the message.

    Raises:
        SystemExit: Standard output can't be written.
    """
    before = sys.stdout, sys.stderr
    # Without a stream, Python has None in its place. A file opened for reading fails when it is written to.
    output, messages = sys.stdout or open(os.devnull), sys.stderr or open(os.devnull, "w")  # noqa: SIM115
    sys.stdout = cast(TextIO, _Guarded(output, _lose))
    sys.stderr = cast(TextIO, _Guarded(messages, lambda error: None))
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except _OutputLost as lost:
        # What is still in the buffer would fail again when the interpreter ends.
        with open(os.devnull, "w") as nowhere, contextlib.suppress(OSError):
            os.dup2(nowhere.fileno(), output.fileno())
        if lost.cause.errno == errno.EPIPE:
            sys.exit(_READER_WENT_AWAY)
        reason = lost.cause.strerror or "it is closed"
        print(f"{name}: standard output can't be written ({reason}).", file=sys.stderr)
        sys.exit(1)
    finally:
        sys.stdout, sys.stderr = before


class _OutputLost(BaseException):
    """Raised when standard output can't be written.

    It is not an `OSError`, because code that handles errors of files would catch it.
    """

    def __init__(self, cause: OSError) -> None:
        self.cause = cause


class _Guarded:
    """A stream that tells `fail` of errors in writing instead of raising them.

    On a terminal, hidden characters are shown; what a program or a file reads stays as it is.
    """

    def __init__(self, stream: TextIO, fail: Callable[[OSError], None]) -> None:
        self._stream, self._fail, self._terminal = stream, fail, stream.isatty()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        try:
            return self._stream.write(visible(text) if self._terminal else text)
        except OSError as error:
            self._fail(error)
            return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError as error:
            self._fail(error)


def _lose(cause: OSError) -> None:
    raise _OutputLost(cause) from cause
