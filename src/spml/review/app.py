"""The web application of a page: its files, its data as JSON, and pictures by the number of a sample.

Only requests with the secret token in their address are answered, and only under the names of this machine.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from pathlib import Path

from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.middleware.trustedhost import TrustedHostMiddleware
from fastapi.responses import JSONResponse
from starlette.requests import ClientDisconnect

from ..common.errors import InputError, SpmlError
from ..common.web.connections import PATIENCE
from ..common.web.pages import LOCAL_NAMES, page_app, security_headers
from ..data.images.decoding import UnreadableImageError
from . import list_api, sample_api
from .contents import Picture, Pictures
from .labelling import Labelling
from .session import Review

MOST_BYTES = 10_000
"""Length of the body of a request; that of an answer has about 50, that of 200 answers at once 2,000."""
STATIC = Path(__file__).parent / "static"
HEADERS = security_headers()  # no referrer: the address holds the token


def create_app(review: Review | Labelling, pictures: Pictures, token: str) -> FastAPI:
    """Make the application.

    Args:
        review: Lists under review, or a sample that is labelled in full.
        pictures: Pictures of its samples.
        token: Secret first part of every address.
    """
    if isinstance(review, Review):
        app = page_app(STATIC, prefix=f"/{token}")
        list_api.add(app, f"/{token}/api", review, pictures)
    else:
        app = page_app(STATIC, prefix=f"/{token}", page="sample.html")
        sample_api.add(app, f"/{token}/api", review, pictures)
    _add_pictures(app, f"/{token}", review, pictures)

    @app.middleware("http")
    async def guard(request: Request, respond: Callable[[Request], Awaitable[Response]]) -> Response:
        refused = _refused(request, token)
        if refused is None and not await _arrives(request):
            refused = 408, f"The request did not arrive within {PATIENCE:g} seconds."
        response = JSONResponse({"error": refused[1]}, refused[0]) if refused else await respond(request)
        for name, value in HEADERS.items():
            response.headers.setdefault(name, value)
        return response

    # Added last, so that it comes first: a page of another site can't reach this one under a name of its own.
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=list(LOCAL_NAMES), www_redirect=False)

    @app.exception_handler(SpmlError)
    def failure(_: Request, error: SpmlError) -> JSONResponse:
        # An answer that contradicts what is known is the reader's to change; damage and a full disk are not.
        return JSONResponse({"error": str(error)}, 409 if isinstance(error, InputError) else 503)

    return app


def _refused(request: Request, token: str) -> tuple[int, str] | None:
    """Status and reason with which a request is refused before anything is done; None if it is not."""
    given = request.scope["path"].lstrip("/").split("/")[0]
    if not secrets.compare_digest(given.encode(), token.encode()):
        return 403, "Open the address that spml review printed: it holds a secret that this one lacks."
    headers = request.headers
    own = f"http://{headers['host']}"
    if request.method == "POST" and headers.get("origin", own) != own:
        return 403, "Answers are taken from this page only, not from one of another address."
    length = headers.get("content-length", "0")
    if "transfer-encoding" in headers or not length.isdecimal() or int(length[:20]) > MOST_BYTES:
        return 413, f"A request has at most {MOST_BYTES:,} bytes, and says in advance how many."
    return None


async def _arrives(request: Request) -> bool:
    """Whether the body of a request, which is kept, arrives in time."""
    try:
        await asyncio.wait_for(request.body(), PATIENCE)
    except (asyncio.TimeoutError, ClientDisconnect):
        return False
    return True


def _add_pictures(app: FastAPI, prefix: str, review: Review | Labelling, pictures: Pictures) -> None:
    """Add pictures by the number of a sample; no name of a file ever comes from a request."""

    @app.get(prefix + "/photo/{sample}")
    def photo(sample: int) -> Response:
        return answer(pictures.photo, sample)

    @app.get(prefix + "/thumbnail/{sample}")
    def thumbnail(sample: int) -> Response:
        return answer(pictures.thumbnail, sample)

    def answer(make: Callable[[int], Picture], sample: int) -> Response:
        if not pictures.available or not 0 <= sample < len(review.records.ids):
            raise HTTPException(404)
        try:
            found = make(sample)
        except UnreadableImageError as error:
            return JSONResponse({"error": f"{review.records.ids[sample]}: {error}"}, 404)
        headers = {"Cache-Control": "private, max-age=3600"}
        return Response(found.data, media_type=found.media_type, headers=headers)
