"""Connections to the servers of web pages: their number, and an end to every kind of waiting for a client.

Needs uvicorn.
"""

from __future__ import annotations

import asyncio
import math
import socket
import sys
from functools import partial
from typing import Any

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from ..errors import InputError

PATIENCE = 10.0
"""Seconds for the head of a request, for the pause between two requests, for the rest of a body that was
refused, and for a client to read a part of its answer."""
MAX_CONNECTIONS = 500
_AT_ONCE = 4
"""Connections that are accepted in one turn of the event loop, three turns before they are counted."""
_LEAST = 5 * _AT_ONCE
"""Files that must be left for connections that are not counted yet."""
_WAITING = 2048
"""Connections that wait in the system to be accepted."""
_BUSY = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\ncontent-length: 33\r\n"
    b'retry-after: 1\r\nconnection: close\r\n\r\n{"error":"Too many connections."}'
)


class PatientServer(uvicorn.Server):
    """uvicorn, with a limit to the number of connections and to the time that each may wait for its client.

    Args:
        app: The application.
        shutdown_timeout: Seconds in which requests may finish once the server is asked to end.

    Raises:
        InputError: The process may open too few files for any connection.
    """

    def __init__(self, app: ASGIApp, shutdown_timeout: float) -> None:
        self.limit = _Limit()
        config = uvicorn.Config(
            app,
            http=partial(PatientProtocol, limit=self.limit),  # type: ignore[arg-type]
            ws="none",
            lifespan="on",
            log_level="error",
            access_log=False,
            server_header=False,
            backlog=_AT_ONCE,
            timeout_keep_alive=math.ceil(PATIENCE),
            timeout_graceful_shutdown=shutdown_timeout,  # type: ignore[arg-type]
        )
        super().__init__(config)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to accept connections. asyncio lets no more of them wait than it accepts at once."""
        await super().startup(sockets)
        for listener in sockets or ():
            listener.listen(_WAITING)


class _Limit:
    """Number of connections that may be open.

    It is `MAX_CONNECTIONS`, or half of the further files that the process may open: a request opens one, too.
    """

    def __init__(self) -> None:
        self.most, self._said = MAX_CONNECTIONS, False
        self.idle: dict[PatientProtocol, None] = {}
        """Connections without a request in flight, the one that is idle for longest first."""
        if sys.platform == "win32":  # where connections are not files
            return
        import resource

        with socket.socket() as probe:
            used = probe.fileno()
        wanted = used + 2 * MAX_CONNECTIONS
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft == resource.RLIM_INFINITY or soft >= wanted:
            return
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        self.most = (soft - used) // 2
        if self.most < _LEAST:
            raise InputError(
                f"{soft} open files (`ulimit -n`) leave too few for connections. Raise the limit to "
                f"{wanted}, or to {used + 2 * _LEAST} at least."
            )

    def say(self) -> None:
        """Say, the first time, that all connections are in use."""
        if not self._said:
            self._said = True
            reason = "" if self.most == MAX_CONNECTIONS else ", as many as `ulimit -n` leaves room for"
            text = f"{self.most} connections are open{reason}. From now on, a further one ends the one that"
            print(f"{text} has been idle for longest.", file=sys.stderr, flush=True)


class PatientProtocol(H11Protocol):
    """HTTP/1.1 as uvicorn speaks it, with an end to every kind of waiting.

    uvicorn waits for ever for the head of a request, and for a client to read its answer. The application
    limits the time in which the body of a request must arrive.
    """

    def __init__(self, *arguments: Any, limit: _Limit, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._limit = limit
        self._deadline: asyncio.TimerHandle | None = None
        self._unread = math.inf

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request. If too many connections are open, end one."""
        super().connection_made(transport)
        self._watch()
        if len(self.connections) > self._limit.most:
            self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        super().connection_lost(exc)
        self._stop_waiting()

    def data_received(self, data: bytes) -> None:
        """Take in what came. The first byte of a request begins a new wait, the others do not."""
        if self.conn.their_state is h11.IDLE and not self.conn.trailing_data[0]:
            self._stop_waiting()
        super().data_received(data)
        self._watch()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP. After an answer, uvicorn would log an error."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            self.transport.close()

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

    @property
    def _answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _make_room(self) -> None:
        """End the connection that is idle for longest; this one if all others have a request in flight."""
        self._limit.say()
        longest = next(iter(self._limit.idle))
        if longest is self:
            self.transport.write(_BUSY)
            self.transport.close()
        else:
            longest.transport.abort()
        # Its file is closed in the next turn.
        self.connections.discard(longest)
        del self._limit.idle[longest]

    def _watch(self) -> None:
        """Wait for the client with a deadline, unless it waits for the application."""
        if self._answering:
            self._limit.idle.pop(self, None)
        else:
            self._limit.idle.setdefault(self)
        if self._answering and not self.flow.write_paused:
            self._stop_waiting()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(PATIENCE, self._late)

    def _stop_waiting(self) -> None:
        self._limit.idle.pop(self, None)
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
