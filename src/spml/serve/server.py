"""A process that serves a run until it is asked to end."""

from __future__ import annotations

import logging
import math
import multiprocessing
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from ipaddress import ip_address
from multiprocessing.connection import Connection, wait
from types import FrameType

import uvicorn

from ..common.errors import InputError, SpmlError
from ..common.phrases import counted
from ..common.web import LOCAL_NAMES, listen
from .app import make_app
from .protocol import PATIENCE, PatientProtocol
from .service import Service
from .settings import Settings
from .workers import serve_by_workers


def serve(settings: Settings, report: Callable[[str], None]) -> None:
    """Serve a run until SIGINT or SIGTERM; a second one ends the process at once.

    Args:
        settings: Settings.
        report: Receives what people should know, the address first.

    Raises:
        InputError: The run or a number does not suit, or the port is in use.
        SpmlError: Requests could not be finished in time, or worker processes keep ending.
    """
    service = settings.open()  # of several processes, each loads its own; here it shows mistakes
    if settings.workers > 1 and service.run.spec.is_own:
        raise InputError(
            f"{settings.run}: its backbone is a network of your own, which other processes don't have: leave "
            "out --workers."
        )
    listener = listen(settings.port, settings.host)
    with listener:
        lines = _announcement(settings, service, listener)
        if settings.workers > 1:
            del service
            serve_by_workers(settings, listener, _work, lambda: report(lines))
            report("Stopped.")
            return
        report(lines)
        make_server(settings, service).run([listener])
    report(f"Stopped: {counted(service.answered, 'request')} answered.")
    if service.cut_off:
        raise SpmlError(
            f"{counted(service.cut_off, 'request was', 'requests were')} not finished within "
            f"--shutdown_timeout {settings.shutdown_timeout:g} seconds."
        )


def make_server(settings: Settings, service: Service, *, patient: bool = False) -> uvicorn.Server:
    """Make a server whose `run` takes sockets, and returns after a signal or once `should_exit` is set.

    Args:
        settings: Settings.
        service: The service, which is started and closed with the server.
        patient: Finish what was taken even after a second signal.
    """
    # It warns of each malformed body, which is the matter of the client.
    logging.getLogger("python_multipart").setLevel(logging.ERROR)
    config = uvicorn.Config(
        make_app(service, _names(settings.host)),
        http=PatientProtocol,
        ws="none",
        lifespan="on",
        log_level="error",
        access_log=False,
        server_header=False,
        timeout_keep_alive=math.ceil(PATIENCE),
        timeout_graceful_shutdown=settings.shutdown_timeout,  # type: ignore[arg-type]
    )
    return _Server(config, service, patient)


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host in LOCAL_NAMES


def _names(host: str) -> list[str] | None:
    """Names under which requests are answered; None = any."""
    if not is_loopback(host):
        return None
    # Starlette knows an address of IPv6 with its brackets, or cuts it at the first colon before 1.0.
    return [*LOCAL_NAMES, host, *((f"[{host}]", "[") if ":" in host else ())]


def _announcement(settings: Settings, service: Service, listener: socket.socket) -> str:
    """What people should know when the server starts."""
    port = listener.getsockname()[1]
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    kind = "photos" if service.takes_images else f"rows of {service.width} features"
    classes = counted(len(service.run.classes), "class", "classes")
    lines = [
        f"http://{host}:{port}/",
        f"{settings.run}: {classes}, takes {kind}. Ctrl-C stops.",
    ]
    if not is_loopback(settings.host):
        lines.append("Anyone who can reach this port may use it: there is no password and no encryption.")
    return "\n".join(lines)


class _Server(uvicorn.Server):
    """Server that finishes what it has taken at the first signal, and ends at once at the second."""

    def __init__(self, config: uvicorn.Config, service: Service, patient: bool) -> None:
        super().__init__(config)
        self._service, self._patient = service, patient

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Take a signal. uvicorn would raise it again in the end, so that the exit code is not 0."""
        if self.should_exit and not self._patient:
            os._exit(128 + signal.Signals(sig))
        self.should_exit = self._service.draining = True


def _work(settings: Settings, listener: socket.socket, loaded: Connection) -> None:
    """Serve in a process of its own.

    A signal to the group of processes, such as Ctrl-C, comes here twice: the first process passes it on.
    That process kills its workers at its own second signal, so that a second one means nothing here.
    """
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
