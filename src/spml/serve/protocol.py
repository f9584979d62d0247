"""Connections that can't be kept busy by clients that send or read nothing."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

PATIENCE = 10.0
"""Seconds for the head of a request, for the pause between two requests, for the rest of a body that was
refused, and for a client to read a part of its answer."""
MAX_CONNECTIONS = 500
_BUSY = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\ncontent-length: 33\r\n"
    b'retry-after: 1\r\nconnection: close\r\n\r\n{"error":"Too many connections."}'
)


class PatientProtocol(H11Protocol):
    """HTTP/1.1 as uvicorn speaks it, with an end to every kind of waiting.

    uvicorn waits for ever for the head of a request, and for a client to read its answer. The application
    limits the time in which the body of a request must arrive.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._deadline: asyncio.TimerHandle | None = None
        self._unread = math.inf

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request, or refuse one connection too many."""
        super().connection_made(transport)
        self._watch()
        if len(self.connections) > MAX_CONNECTIONS:
            transport.write(_BUSY)
            transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take in what came. The first byte of a request begins a new wait, the others do not."""
        if self.conn.their_state is h11.IDLE and not self.conn.trailing_data[0]:
            self._stop_waiting()
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        """Wait for the next request, or the rest of this one."""
        super().on_response_complete()
        self._watch()

    def pause_writing(self) -> None:
        """Wait for the client to read."""
        super().pause_writing()
        self._watch()

    def resume_writing(self) -> None:
        """Go on: the client has read."""
        super().resume_writing()
        self._watch()

    def _watch(self) -> None:
        """Wait for the client with a deadline, unless it waits for the application."""
        answering = self.cycle is not None and not self.cycle.response_complete
        if answering and not self.flow.write_paused:
            self._stop_waiting()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(PATIENCE, self._late)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline, self._unread = None, math.inf

    def _late(self) -> None:
        """Close the connection, unless the client is reading a long answer."""
        unread = self.transport.get_write_buffer_size()
        if 0 < unread < self._unread:
            self._unread = unread
            self._deadline = self.loop.call_later(PATIENCE, self._late)
        else:
            self.transport.abort()
