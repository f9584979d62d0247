"""`spml serve` and `spml review` in processes of their own, which are forked and so start at once."""

from __future__ import annotations

import os
import re
import signal
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from tests.helpers.processes import started


class Server:
    """A server in a process, which is killed at the end of a `with` block.

    Args:
        words: Words of the command, without `spml`.
        settings: Further arguments of `started`.

    Attributes:
        address: Address that it printed.
        port: Its port.
        process: The process of `multiprocessing`.

    Raises:
        RuntimeError: It ended with this message instead of an address.
    """

    def __init__(self, words: Sequence[str], **settings: int) -> None:
        self._stack = ExitStack()
        folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory()))
        self._out, self._err = folder / "out", folder / "err"
        self.process = self._stack.enter_context(started(words, self._out, errors=self._err, **settings))
        while not (self._out.exists() and "\n" in self._out.read_text()) and self.process.is_alive():
            time.sleep(0.01)
        self.address = self._out.read_text().partition("\n")[0]
        found = re.match(r"http://127\.0\.0\.1:(\d+)", self.address)
        if not found:
            message = self._err.read_text()
            self.kill()
            raise RuntimeError(message)
        self.port = int(found[1])

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *error: object) -> None:
        self.kill()

    def kill(self) -> None:
        """End the process as a loss of power does."""
        self._stack.close()

    def send(self, number: int) -> None:
        """Send a signal."""
        os.kill(self.process.pid, number)

    def end(self, number: int = signal.SIGTERM) -> tuple[int, str, str]:
        """Send a signal and wait; (exit code, further standard output, standard error)."""
        self.send(number)
        return self.wait()

    def wait(self) -> tuple[int, str, str]:
        """Wait for the end; (exit code, further standard output, standard error)."""
        self.process.join(60)
        return self.process.exitcode, self._out.read_text().partition("\n")[2], self._err.read_text()
