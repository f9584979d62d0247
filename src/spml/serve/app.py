"""The web application: addresses, status codes and headers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
from fastapi import APIRouter, FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.middleware.trustedhost import TrustedHostMiddleware
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..common.errors import InputError, nearest, quoted
from ..common.web import invalid, page_router, security_headers
from ..runs.compute.prediction_files import Scores
from .multipart import FIELD, Uploads
from .refusal import RefusedError
from .service import Answer, Service, Wanted

STATIC = Path(__file__).parent / "static"
_HEADERS = [
    (name.lower().encode(), value.encode())
    # The page shows a photo that was dropped, which has an address of the browser's own.
    for name, value in security_headers(images="'self' blob:").items()
]
_CLOSE = (b"connection", b"close")
_PATHS = ("/", "/predict", "/health", "/model", "/metrics")
_OPTIONS = ("top_k", "threshold", "scores")
"""Query parameters of /predict."""
_GONE = 499
"""Status under which a request is counted whose client went away."""
T = TypeVar("T")


def make_app(service: Service, hosts: Sequence[str] | None = None) -> FastAPI:
    """Make the application of a service, which is started and closed with it.

    Args:
        service: The service.
        hosts: Names under which it is reached; None = any.
    """

    @asynccontextmanager
    async def running(_: FastAPI) -> AsyncIterator[None]:
        service.start()
        yield
        # The event loop goes on, so that the last answers are sent.
        await asyncio.to_thread(service.close)

    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, lifespan=running)
    app.include_router(page_router(STATIC))
    app.include_router(_predict(service))
    app.include_router(_about(service))

    @app.exception_handler(RefusedError)
    def refused(_: Request, error: RefusedError) -> JSONResponse:
        return JSONResponse({"error": str(error)}, error.status, error.headers)

    @app.exception_handler(InputError)
    def wrong(_: Request, error: InputError) -> JSONResponse:
        return JSONResponse({"error": str(error)}, 422)

    @app.exception_handler(RequestValidationError)
    def not_valid(_: Request, error: RequestValidationError) -> JSONResponse:
        return invalid(error)

    @app.exception_handler(HTTPException)
    def other(request: Request, error: HTTPException) -> JSONResponse:
        message = error.detail
        if error.status_code == 404:
            message = "There is nothing at this address. POST /predict, GET /health, /model, /metrics or /."
        return JSONResponse({"error": message}, error.status_code, error.headers)

    @app.exception_handler(ClientDisconnect)
    def gone(_: Request, error: ClientDisconnect) -> Response:
        return Response(status_code=_GONE)  # sent to nobody, but counted

    if hosts is not None:
        # A page of another site can't reach this one under a name of its own.
        app.add_middleware(TrustedHostMiddleware, allowed_hosts=list(hosts), www_redirect=False)
    app.add_middleware(_Observed, service=service)
    return app


def _predict(service: Service) -> APIRouter:
    """The address that takes samples."""
    router = APIRouter()

    @router.post("/predict")
    async def predict(
        request: Request,
        top_k: Annotated[int, Query(ge=0)] = 0,
        threshold: float | None = None,
        scores: Scores = "auto",
    ) -> Response:
        for name in request.query_params:
            if name not in _OPTIONS:
                raise RefusedError(422, f"unknown option {quoted(name)}. {nearest(name, _OPTIONS)}")
        decision = service.decision
        if top_k or threshold is not None:
            decision = service.run.decision(top_k=top_k, threshold=threshold)
        wanted = Wanted(decision, scores)
        _check_media_type(request, service)
        service.check_room()  # before the body is read
        with _held(service) as hold:
            if service.takes_images:
                uploads = Uploads(request.headers["content-type"], service.limits)
                async for chunk in _body(request, service, hold):
                    uploads.feed(chunk)
                work = service.images(uploads.finish(), wanted)
            else:
                body = bytearray()
                async for chunk in _body(request, service, hold):
                    body += chunk
                work = service.features(bytes(body), wanted)
            answer: Answer = await _unless_gone(request, work, service.limits.answer_timeout)
        return Response(answer.content, 200 if answer.useful else 422, media_type="application/json")

    return router


def _about(service: Service) -> APIRouter:
    """Addresses that tell about the service."""
    router = APIRouter()

    @router.get("/health")
    async def health() -> JSONResponse:
        if service.draining:
            return JSONResponse({"status": "draining"}, 503)
        return JSONResponse({"status": "ready"})

    @router.get("/model")
    def model() -> Response:
        return Response(msgspec.json.encode(service.about()), media_type="application/json")

    @router.get("/metrics")
    def metrics() -> Response:
        return Response(service.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    return router


def _check_media_type(request: Request, service: Service) -> None:
    stated = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    expected = "multipart/form-data" if service.takes_images else "application/json"
    if stated != expected:
        what = f"files in the field `{FIELD}`" if service.takes_images else '{"features": [[...], ...]}'
        raise RefusedError(415, f"This model takes {expected} with {what}, not {stated[:100] or 'nothing'}.")


class _Hold:
    """Bytes that a request holds in memory."""

    def __init__(self, service: Service) -> None:
        self._service, self.bytes = service, 0

    def add(self, size: int) -> None:
        """Count further bytes.

        Raises:
            RefusedError: All requests together hold too many.
        """
        self.bytes += size
        self._service.held_bytes += size
        if self._service.held_bytes > self._service.limits.max_held_bytes:
            raise RefusedError(503, "Too many large requests at once. Try again in a second.")


@contextmanager
def _held(service: Service) -> Iterator[_Hold]:
    hold = _Hold(service)
    try:
        yield hold
    finally:
        service.held_bytes -= hold.bytes


async def _body(request: Request, service: Service, hold: _Hold) -> AsyncIterator[bytes]:
    """The body of a request, piece by piece.

    Raises:
        RefusedError: It is too large, whether or not its length was stated, or comes too slowly.
    """
    limits = service.limits
    too_large = RefusedError(
        413, f"The request has more than {limits.max_request_bytes:,} bytes. Send less at once."
    )
    stated = request.headers.get("content-length", "")
    if stated.isdecimal() and int(stated[:20]) > limits.max_request_bytes:
        raise too_large
    end = time.monotonic() + limits.body_timeout
    size, more = 0, True
    while more:
        try:
            message = await asyncio.wait_for(request.receive(), end - time.monotonic())
        except asyncio.TimeoutError as error:
            raise RefusedError(
                408, f"The body did not arrive within {limits.body_timeout:g} seconds."
            ) from error
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        chunk, more = message.get("body", b""), message.get("more_body", False)
        size += len(chunk)
        if size > limits.max_request_bytes:
            raise too_large
        hold.add(len(chunk))
        if chunk:
            yield chunk


async def _unless_gone(request: Request, work: Awaitable[T], timeout: float) -> T:
    """Result of some work, which is given up when the client goes away, or after a time.

    Raises:
        ClientDisconnect: The client went away.
        RefusedError: The time is over.
    """
    working, gone = asyncio.ensure_future(work), asyncio.ensure_future(_disconnect(request))
    try:
        done, _ = await asyncio.wait({working, gone}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        if working in done:
            return working.result()
        if gone in done:
            raise ClientDisconnect
        raise RefusedError(503, f"The request was not answered within {timeout:g} seconds. Try again later.")
    finally:
        working.cancel()
        gone.cancel()


async def _disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


class _Observed:
    """Counts requests, adds the security headers, and answers those that the end of the server cuts off."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app, self._service = app, service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started, status = time.perf_counter(), 0
        path = scope["path"] if scope["path"] in _PATHS else "other"

        async def observed(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                present: list[Any] = list(message.get("headers", []))
                # uvicorn does not end a connection that it takes at the very moment at which it is asked to
                # end, whose client could go on until the time is over.
                ending = [_CLOSE] if self._service.draining and _CLOSE not in present else []
                message = {**message, "headers": [*present, *_HEADERS, *ending]}
            await send(message)

        metrics = self._service.metrics
        try:
            await self._app(scope, receive, observed)
        except asyncio.CancelledError:
            if status or not self._service.draining:
                raise
            self._service.cut_off += 1
            response = JSONResponse({"error": "The server was stopped."}, 503)
            await response(scope, receive, observed)
        finally:
            self._service.answered += path == "/predict" and status == 200
            metrics.requests.labels(path, str(status or 500)).inc()
            metrics.seconds.labels(path).observe(time.perf_counter() - started)
