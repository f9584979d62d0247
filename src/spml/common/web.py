"""What the web pages of spml share: where they listen, their files, and headers that protect their readers.

Needs FastAPI.
"""

from __future__ import annotations

import socket
from pathlib import Path

from fastapi import APIRouter, HTTPException, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse

from .errors import InputError, one_line

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


def page_router(folder: Path) -> APIRouter:
    """Routes of a page and of its files.

    Args:
        folder: Folder with index.html and other files, which are known by name: no path comes from a request.
    """
    router = APIRouter()
    files = {path.name: path for path in folder.iterdir() if path.suffix in _MEDIA_TYPES}

    @router.get("/")
    def page() -> Response:
        return static("index.html")

    @router.get("/static/{name}")
    def static(name: str) -> Response:
        if name not in files:
            raise HTTPException(404)
        return Response(files[name].read_bytes(), media_type=_MEDIA_TYPES[files[name].suffix])

    return router


def invalid(error: RequestValidationError) -> JSONResponse:
    """Answer to a request with wrong parameters.

    FastAPI would repeat what was sent, but JSON has no infinity and no half of a character.
    """
    problems = (f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
    return JSONResponse({"error": one_line("; ".join(problems))}, 422)


def listen(port: int, host: str = LOOPBACK) -> socket.socket:
    """Listen at a port.

    Args:
        port: Port; 0 = a free one.
        host: Address or name of this machine; other machines can't reach the default.

    Raises:
        InputError: The port is in use, or it or the host may not be used.
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
                f"--host {host} can't be used ({reason}). Pass an address of this machine."
            ) from error
        where = f"port {port}" if host == LOOPBACK else f"port {port} of {host}"
        raise InputError(
            f"{where} can't be used ({reason}). Pass another --port; 0 takes a free one."
        ) from error
    return listener
