"""Shared parts of the web pages: where they listen, their files, and headers that protect their readers.

Needs FastAPI.
"""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

from fastapi import Depends, FastAPI, HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.types import Lifespan

from ..errors import InputError, nearest, one_line, quoted

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
