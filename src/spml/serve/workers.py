"""Several processes at one port, each with its own model."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from types import FrameType
from typing import NamedTuple

from ..common.errors import SpmlError
from .metrics import FOLDER
from .settings import Settings

Work = Callable[[Settings, socket.socket, Connection], None]

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class _Worker(NamedTuple):
    process: SpawnProcess
    loaded: Connection

    def wait_until_loaded(self) -> None:
        """Wait until the process has loaded its model.

        Raises:
            SpmlError: It has ended before; what it printed says why.
        """
        try:
            self.loaded.recv()
            self.loaded.close()
        except EOFError as error:
            raise SpmlError("a worker process has ended before it had loaded the model.") from error


def serve_by_workers(
    settings: Settings, listener: socket.socket, work: Work, ready: Callable[[], None]
) -> None:
    """Serve from several processes until SIGINT or SIGTERM; a second one ends all of them at once.

    A worker that ends by accident, such as one killed for its memory, is replaced.

    Args:
        settings: Settings.
        listener: Socket that listens; it is closed when the end begins.
        work: What each process does. It sends True once it has loaded its model, serves until SIGTERM, and
            exits with 0 if it could finish its requests.
        ready: Called when all workers answer.

    Raises:
        SpmlError: A worker does not start, or could not finish its requests in time.
    """
    signals: list[int] = []
    workers: list[_Worker] = []

    def handle(number: int, frame: FrameType | None) -> None:
        signals.append(number)
        if len(signals) > 1:
            for worker in workers:
                worker.process.kill()
            os._exit(128 + number)

    before = {number: signal.signal(number, handle) for number in _SIGNALS}
    folder = tempfile.mkdtemp(prefix="spml-serve-")
    os.environ[FOLDER] = folder  # before the workers import prometheus_client
    try:
        workers += [_start(settings, listener, work) for _ in range(settings.workers)]
        _until_ready(workers, signals)
        if not signals:
            ready()
        while not signals:
            _replace_ended(workers, settings, listener, work)
        listener.close()  # otherwise connections would go on queueing up for nobody
        _finish(workers)
    finally:
        for worker in workers:
            worker.process.kill()
            worker.process.join()
        for number, handler in before.items():
            signal.signal(number, handler)
        del os.environ[FOLDER]
        shutil.rmtree(folder, ignore_errors=True)


def _start(settings: Settings, listener: socket.socket, work: Work) -> _Worker:
    context = multiprocessing.get_context("spawn")  # threads of torch do not survive a fork
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=work, args=(settings, listener, theirs), daemon=True)
    process.start()
    theirs.close()
    return _Worker(process, ours)


def _until_ready(workers: list[_Worker], signals: list[int]) -> None:
    """Wait until all workers have loaded their model, or a signal comes.

    Raises:
        SpmlError: A worker has ended.
    """
    for worker in workers:
        while not worker.loaded.poll(0.2):
            if signals:
                return
        worker.wait_until_loaded()


def _replace_ended(workers: list[_Worker], settings: Settings, listener: socket.socket, work: Work) -> None:
    """Wait a moment, and replace workers that have ended.

    Raises:
        SpmlError: One has ended before it had loaded its model.
    """
    wait([worker.process.sentinel for worker in workers], 0.2)
    for position, worker in enumerate(workers):
        code = worker.process.exitcode
        if code is None:
            continue
        if not worker.loaded.closed:
            worker.wait_until_loaded()
        print(f"A worker process has ended (exit code {code}). Starting another one.", file=sys.stderr)
        workers[position] = _start(settings, listener, work)


def _finish(workers: list[_Worker]) -> None:
    """Ask all workers to end, and wait for them.

    Raises:
        SpmlError: One did not end well.
    """
    for worker in workers:
        if worker.process.is_alive():
            worker.process.terminate()
    for worker in workers:
        worker.process.join()
    # A worker that had not loaded its model yet has taken nothing, and ends by the signal.
    fine = (0, -signal.SIGTERM)
    failed = [worker for worker in workers if worker.process.exitcode not in fine]
    if failed:
        raise SpmlError(f"{len(failed)} of {len(workers)} worker processes did not finish their requests.")
