"""Connections that can't be kept busy by clients that send or read nothing."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

PATIENCE = 10.0
"""Seconds for the headers of a request, for the pause between two requests, for the rest of a body that was
refused, and for an answer to be read."""
MAX_CONNECTIONS = 500
_BUSY = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\ncontent-length: 33\r\n"
    b'retry-after: 1\r\nconnection: close\r\n\r\n{"error":"Too many connections."}'
)


class PatientProtocol(H11Protocol):
    """HTTP/1.1 as uvicorn speaks it, with an end to every kind of waiting.

    uvicorn waits for ever for the headers of a request, and for a client to read its answer. The application
    limits the time in which the body of a request must arrive.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._for_request: asyncio.TimerHandle | None = None
        self._for_reader: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the headers of the first request, or refuse one connection too many."""
        super().connection_made(transport)
        self._wait_for_request()
        if len(self.connections) > MAX_CONNECTIONS:
            transport.write(_BUSY)
            transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the timers."""
        self._stop_waiting_for_request()
        self.resume_writing()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take in what came; once the headers are complete, the application has the say."""
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_waiting_for_request()

    def on_response_complete(self) -> None:
        """Wait for the next request, or the rest of this one."""
        self._wait_for_request()
        super().on_response_complete()

    def pause_writing(self) -> None:
        """Wait for the client to read."""
        super().pause_writing()
        if self._for_reader is None:
            self._for_reader = self.loop.call_later(PATIENCE, self.transport.abort)

    def resume_writing(self) -> None:
        """Go on: the client reads."""
        if self._for_reader is not None:
            self._for_reader.cancel()
            self._for_reader = None
        super().resume_writing()

    def _wait_for_request(self) -> None:
        self._stop_waiting_for_request()
        self._for_request = self.loop.call_later(PATIENCE, self.transport.abort)

    def _stop_waiting_for_request(self) -> None:
        if self._for_request is not None:
            self._for_request.cancel()
            self._for_request = None
