"""Servers in a thread or in a process of their own, and clients that speak HTTP badly."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from spml.common.web import listen
from spml.serve.limits import Limits
from spml.serve.server import Settings, make_server
from tests.helpers.servers import Server

PART = b'--b\r\nContent-Disposition: form-data; name="images"; filename="a"\r\n\r\n'
"""Begin of a body with the boundary `b`, up to the content of an image."""


def process(run: Path, *options: str, **settings: int) -> Server:
    """`spml serve` in a process."""
    return Server(["serve", str(run), "--port", "0", "--device", "cpu", *options], **settings)


@contextmanager
def serving(run: Path, *, host: str = "127.0.0.1", delay: float = 0.0, **limits) -> Iterator[tuple[str, int]]:
    """Address and port of a server in a thread, whose model takes `delay` seconds longer."""
    settings = Settings(run, host, 0, device="cpu", limits=Limits(**limits))
    service = settings.open()
    score = service._batcher._score
    service._batcher._score = lambda samples: (time.sleep(delay), score(samples))[1]
    server = make_server(settings, service)
    listener = listen(0, host)
    port = listener.getsockname()[1]
    thread = threading.Thread(target=server.run, args=([listener],))
    thread.start()
    try:
        yield f"http://{f'[{host}]' if ':' in host else host}:{port}", port
    finally:
        server.should_exit = True
        thread.join()


def talk(port: int, *pieces: bytes, pause: float = 0.0, seconds: float = 20.0) -> bytes:
    """Send pieces of a request, and return everything that comes back until the server closes."""
    with socket.create_connection(("127.0.0.1", port), timeout=seconds) as connection:
        try:
            for piece in pieces:
                connection.sendall(piece)
                time.sleep(pause)
        except OSError:
            pass  # the server has closed; what it said before can be read
        received = b""
        try:
            while piece := connection.recv(65536):
                received += piece
        except ConnectionResetError:
            pass
        return received


def head(length: int | None, *, kind: str = "multipart/form-data; boundary=b") -> bytes:
    """Head of a request to /predict."""
    stated = "Transfer-Encoding: chunked" if length is None else f"Content-Length: {length}"
    return f"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\n{stated}\r\n\r\n".encode()


def begun(length: int) -> bytes:
    """Head of a request with rows, which the server answers with status 100 once it waits for the body."""
    top = head(length, kind="application/json")
    return top.replace(b"\r\n\r\n", b"\r\nExpect: 100-continue\r\n\r\n")
