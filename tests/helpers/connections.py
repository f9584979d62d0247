"""Clients that open connections and send nothing, or half of something."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager


@contextmanager
def connections(port: int, number: int, begin: bytes = b"") -> Iterator[list[socket.socket]]:
    """Connections that stay open on this side, each with the begin of a request."""
    with ExitStack() as stack:
        opened = []
        for _ in range(number):
            opened.append(stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=20)))
            opened[-1].sendall(begin)
        yield opened


def is_open(connection: socket.socket) -> bool:
    """Whether the other side has not closed a connection."""
    connection.setblocking(False)
    try:
        return bool(connection.recv(1))
    except BlockingIOError:
        return True
    except ConnectionResetError:
        return False
