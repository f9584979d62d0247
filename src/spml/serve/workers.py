"""Several processes at one port, each with its own model."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from types import FrameType
from typing import NamedTuple

from ..errors import SpmlError
from .metrics import FOLDER
from .settings import Settings

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


def serve_by_workers(settings: Settings, listener: socket.socket, ready: Callable[[], None]) -> None:
    """Serve from several processes until SIGINT or SIGTERM; a second one ends all of them at once.

    A worker that ends by accident, such as one killed for its memory, is replaced.

    Args:
        settings: Settings.
        listener: Socket that listens; it is closed when the end begins.
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
        workers += [_start(settings, listener) for _ in range(settings.workers)]
        _until_ready(workers, signals)
        if not signals:
            ready()
        while not signals:
            _replace_ended(workers, settings, listener)
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


def _start(settings: Settings, listener: socket.socket) -> _Worker:
    context = multiprocessing.get_context("spawn")  # threads of torch do not survive a fork
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(settings, listener, theirs), daemon=True)
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


def _replace_ended(workers: list[_Worker], settings: Settings, listener: socket.socket) -> None:
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
        workers[position] = _start(settings, listener)


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


def _work(settings: Settings, listener: socket.socket, loaded: Connection) -> None:
    """Serve in a process of its own.

    A signal to the group of processes, such as Ctrl-C, comes here twice: the first process passes it on.
    That process kills its workers at its own second signal, so that a second one means nothing here.
    """
    from .server import make_server

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None
    threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()
    try:
        service = settings.open()
    except SpmlError as error:
        sys.exit(f"worker: {error}")
    loaded.send(True)
    make_server(settings, service, patient=True).run([listener])
    sys.exit(1 if service.cut_off else 0)


def _end_with(sentinel: int) -> None:
    """End this process when its parent has been killed."""
    wait([sentinel])
    os.kill(os.getpid(), signal.SIGTERM)
