"""Processes that serve a run until they are asked to end: one, or several at one port."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import ip_address
from multiprocessing.connection import wait
from multiprocessing.context import SpawnProcess
from multiprocessing.synchronize import Event
from pathlib import Path
from types import FrameType

from fastapi import FastAPI

from ..common.errors import InputError, SpmlError
from ..common.phrases import counted
from ..common.signals import ending_signals, handled
from ..common.web import LOCAL_NAMES, PatientServer, listen
from ..runs.run import load
from .app import make_app
from .limits import Limits
from .metrics import FOLDER
from .service import Service


@dataclass(frozen=True)
class Settings:
    """Settings of a server; those without a remark are arguments of `spml.serve.create_app`."""

    run: Path  # folder
    host: str  # address to listen at
    port: int  # 0 = a free one
    workers: int = 1  # processes, each with its own model
    shutdown_timeout: float = 30.0  # seconds in which requests may finish once the server is asked to end
    batch_size: int = 32
    decoders: int = 2
    threads: int = 1
    device: str = "auto"
    limits: Limits = Limits()  # noqa: RUF009 (immutable)

    def __post_init__(self) -> None:
        if self.workers < 1:
            raise InputError(f"`workers` must be at least 1, got {self.workers}.")
        if not 0 < self.shutdown_timeout < float("inf"):
            raise InputError(f"`shutdown_timeout` must be greater than 0, got {self.shutdown_timeout:g}.")

    def open(self) -> Service:
        """Load the run; a folder that holds none, or a number out of its domain, is an `InputError`."""
        names = ("batch_size", "decoders", "threads", "device")
        return Service(load(self.run), self.limits, **{name: getattr(self, name) for name in names})


def serve(settings: Settings) -> None:
    """Serve a run until SIGINT or SIGTERM; a second one ends the process at once.

    Args:
        settings: Settings.

    Raises:
        InputError: The run or a number does not suit, or the port is in use.
        SpmlError: Requests could not be finished in time, or worker processes keep ending.
    """
    service = settings.open()  # of several processes, each loads its own; here it shows mistakes
    if settings.workers > 1 and service.run.spec.is_own:
        raise InputError(
            f"{settings.run}: its backbone is a network of your own, which other processes don't have: leave "
            "out `workers`."
        )
    listener = listen(settings.port, settings.host)
    with listener:
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        kind = service.kind
        classes = counted(len(service.run.classes), "class", "classes")
        lines = f"http://{host}:{listener.getsockname()[1]}/\n"
        lines += f"{settings.run}: {classes}, takes {kind}. Ctrl-C stops."
        if not is_loopback(settings.host):
            lines += "\nAnyone who can reach this port may use it: there is no password and no encryption."
        if settings.workers > 1:
            del service
            _serve_by_workers(settings, listener, lambda: print(lines, flush=True))
            print("Stopped.")
            return
        server = make_server(settings, service)
        with server.taking_signals():
            print(lines, flush=True)
            server.run([listener])
    print(f"Stopped: {counted(service.answered, 'request')} answered.")
    if service.cut_off:
        raise SpmlError(
            f"{counted(service.cut_off, 'request was', 'requests were')} not finished within "
            f"shutdown_timeout={settings.shutdown_timeout:g} seconds."
        )


def make_server(settings: Settings, service: Service, *, patient: bool = False) -> Server:
    """Make a server whose `run` takes sockets, and returns after a signal or once `should_exit` is set.

    Args:
        settings: Settings.
        service: The service, which is started and closed with the server.
        patient: Finish what was taken even after a second signal.
    """
    # It warns of each malformed body, which is the matter of the client.
    logging.getLogger("python_multipart").setLevel(logging.ERROR)
    host, hosts = settings.host, None
    if is_loopback(host):
        # Starlette knows an address of IPv6 with its brackets, or cuts it at the first colon before 1.0.
        hosts = [*LOCAL_NAMES, host, *((f"[{host}]", "[") if ":" in host else ())]
    return Server(make_app(service, hosts), settings.shutdown_timeout, service, patient)


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host in LOCAL_NAMES


class Server(PatientServer):
    """Server that says at the first signal that it takes no more requests."""

    def __init__(self, app: FastAPI, shutdown_timeout: float, service: Service, patient: bool) -> None:
        super().__init__(app, shutdown_timeout)
        self._service, self._patient = service, patient

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Take a signal; a patient server finishes what it has taken even after a second one."""
        if not (self._patient and self.should_exit):
            super().handle_exit(sig, frame)
        self._service.draining = True


def _serve_by_workers(settings: Settings, listener: socket.socket, ready: Callable[[], None]) -> None:
    """Serve from several processes until SIGINT or SIGTERM; a second one ends all of them at once.

    A worker that ends by accident, such as one killed for its memory, is replaced. `ready` is called when all
    workers answer.
    """
    signals: list[int] = []
    context = multiprocessing.get_context("spawn")  # threads of torch do not survive a fork
    workers: dict[SpawnProcess, Event] = {}  # with what is set once a process has loaded its model
    folder = tempfile.TemporaryDirectory(prefix="spml-serve-", ignore_cleanup_errors=True)

    def handle(number: int, _: object) -> None:
        signals.append(number)
        if len(signals) > 1:
            for worker in workers:
                worker.kill()
            folder.cleanup()
            os._exit(128 + number)

    os.environ[FOLDER] = folder.name  # before the workers import prometheus_client
    with folder, handled([signal.SIGINT, *ending_signals()], handle):
        try:
            said = False
            while not signals:
                while len(workers) < settings.workers:
                    loaded = context.Event()
                    process = context.Process(target=_work, args=(settings, listener, loaded), daemon=True)
                    process.start()
                    workers[process] = loaded
                wait([worker.sentinel for worker in workers], 0.2)
                if not said and all(loaded.is_set() for loaded in workers.values()):
                    ready()
                    said = True
                for worker in [worker for worker in workers if worker.exitcode is not None]:
                    if not workers.pop(worker).is_set():  # what it printed says why
                        raise SpmlError("a worker process has ended before it had loaded the model.")
                    code = worker.exitcode
                    print(
                        f"A worker process has ended (exit code {code}). Starting another one.",
                        file=sys.stderr,
                    )
            listener.close()  # otherwise connections would go on queueing up for nobody
            for worker in workers:
                if worker.is_alive():
                    worker.terminate()
            for worker in workers:
                worker.join()
            # A worker that had not loaded its model yet has taken nothing, and ends by the signal.
            failed = sum(worker.exitcode not in (0, -signal.SIGTERM) for worker in workers)
            if failed:
                raise SpmlError(f"{failed} of {len(workers)} worker processes did not finish their requests.")
        finally:
            for worker in workers:
                worker.kill()
                worker.join()
            del os.environ[FOLDER]


def _work(settings: Settings, listener: socket.socket, loaded: Event) -> None:
    """Serve in a process of its own.

    A signal to the group of processes, such as Ctrl-C, comes here twice: the first process passes it on.
    That process kills its workers at its own second signal, so that a second one means nothing here.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform != "win32":
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def end_with_parent() -> None:  # which may have been killed
        wait([parent.sentinel])
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=end_with_parent, daemon=True).start()
    try:
        service = settings.open()
        server = make_server(settings, service, patient=True)
    except SpmlError as error:
        sys.exit(f"worker: {error}")
    loaded.set()
    server.run([listener])
    sys.exit(1 if service.cut_off else 0)
