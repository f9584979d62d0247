"""Servers of web pages: their connections and the limits of these, and what all pages share.

Needs FastAPI and uvicorn.
"""

from __future__ import annotations

import asyncio
import math
import os
import signal
import socket
import sys
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import h11
import uvicorn
from fastapi import Depends, FastAPI, HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.types import ASGIApp, Lifespan, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from .errors import InputError, nearest, one_line, quoted
from .signals import ending_signals, handled

# -- connections -----------------------------------------------------------------------------------------
#
# Needs uvicorn.


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

        async def only_http_1(scope: Scope, receive: Receive, send: Send) -> None:
            if scope.get("http_version", "1.1") in ("1.0", "1.1"):
                await app(scope, receive, send)
            else:
                await JSONResponse({"error": "This server speaks HTTP/1.1."}, 505)(scope, receive, send)

        config = uvicorn.Config(
            only_http_1,
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

    def taking_signals(self) -> AbstractContextManager[None]:
        """End cleanly at SIGINT, SIGTERM and SIGHUP while the context lasts, also before `run` has begun."""
        return handled([signal.SIGINT, *ending_signals()], self.handle_exit)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Finish what was taken at the first signal, and end at once at the second.

        uvicorn would raise the signal again in the end, so that the exit code is not 0.
        """
        if self.should_exit:
            os._exit(128 + signal.Signals(sig))
        self.should_exit = True

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


# -- pages -----------------------------------------------------------------------------------------------
#
# Needs FastAPI.


LOOPBACK = "127.0.0.1"
LOCAL_NAMES = (LOOPBACK, "localhost")
"""Names of this machine under which a page that only this machine can reach is opened."""
_MEDIA_TYPES = {
    ".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml",
}  # fmt: skip


def security_headers(*, images: str = "'self'") -> dict[str, str]:
    """Headers by which a page loads and runs nothing but its own files, and is kept nowhere.

    Args:
        images: Where pictures may come from, as in a content-security policy.
    """
    return {
        "Content-Security-Policy": f"default-src 'none'; script-src 'self'; style-src 'self'; "
        f"img-src {images}; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        "Cache-Control": "no-store",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
    }


def only_query(names: str = "", lists: str = "") -> Any:
    """Dependency that refuses query parameters that an address does not have, and repeated ones.

    FastAPI would ignore the former, and take the last one of the latter.

    Args:
        names: Parameters of the address, separated by spaces.
        lists: Further ones, which may be repeated.
    """
    single, several = names.split(), lists.split()

    async def check(request: Request) -> None:
        given = [name for name, _ in request.query_params.multi_items()]
        for name in given:
            if name not in (*single, *several):
                known = nearest(name, (*single, *several)) if single else "This address takes none."
                problem = f"unknown parameter {quoted(name)}. {known}"
            elif name in single and given.count(name) > 1:
                problem = f"{name} is given {given.count(name)} times. Expected one value."
            else:
                continue
            raise RequestValidationError([{"loc": ("query",), "msg": problem}])

    return Depends(check)


def page_app(
    folder: Path, *, prefix: str = "", page: str = "index.html", lifespan: Lifespan[FastAPI] | None = None
) -> FastAPI:
    """Application that serves a page and its files, and answers wrong parameters with one line.

    Args:
        folder: Folder of the page and its files, which are known by name: no path comes from a request.
        prefix: First part of the addresses.
        page: File in it that is served as the page.
        lifespan: What is started and ended with the server.
    """
    # A redirect would repeat the name under which the client came.
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, lifespan=lifespan, redirect_slashes=False)
    files = {path.name: path for path in folder.iterdir() if path.suffix in _MEDIA_TYPES}

    @app.get(f"{prefix}/", include_in_schema=False)
    def first() -> Response:
        return static(page)

    @app.get(prefix + "/static/{name}", include_in_schema=False)
    def static(name: str) -> Response:
        if name not in files:
            raise HTTPException(404)
        return Response(files[name].read_bytes(), media_type=_MEDIA_TYPES[files[name].suffix])

    @app.exception_handler(StarletteHTTPException)
    def refused(_: Request, error: StarletteHTTPException) -> JSONResponse:
        return JSONResponse({"error": error.detail}, error.status_code, error.headers)

    @app.exception_handler(RequestValidationError)
    def invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        # FastAPI would repeat what was sent, but JSON has no infinity and no half of a character.
        problems = (f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
        return JSONResponse({"error": one_line("; ".join(problems))}, 422)

    return app


def listen(port: int, host: str = LOOPBACK) -> socket.socket:
    """Listen at a port.

    Args:
        port: Port; 0 = a free one.
        host: Address or name of this machine; other machines can't reach the default.
    """
    listener = None
    try:
        family = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][0]
        # With the protocol stated, asyncio turns off Nagle's algorithm, which delays answers.
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        # A port that was left a moment ago is free.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen()
    except (OSError, OverflowError, UnicodeError) as error:
        if listener:
            listener.close()
        reason = getattr(error, "strerror", None) or error
        if isinstance(error, (socket.gaierror, UnicodeError)):
            raise InputError(
                f"host={host} can't be used ({reason}). Pass an address of this machine."
            ) from error
        where = f"port {port}" if host == LOOPBACK else f"port {port} of {host}"
        raise InputError(
            f"{where} can't be used ({reason}). Pass another `port`; 0 takes a free one."
        ) from error
    return listener
