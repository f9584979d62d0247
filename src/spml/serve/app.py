"""The web application: addresses, status codes and headers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
from fastapi import FastAPI, Query, Request, Response
from fastapi.middleware.trustedhost import TrustedHostMiddleware
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..common.errors import InputError, memory_asked_for
from ..common.web import only_query, page_app, security_headers
from ..runs.predict.files import Scores
from ..version import __version__
from .bodies import FIELD, read_form, read_image
from .limits import RefusedError
from .service import Service

STATIC = Path(__file__).parent / "static"
_HEADERS = [
    (name.lower().encode(), value.encode())
    # The page shows a photo that was dropped, which has an address of the browser's own.
    for name, value in security_headers(images="'self' blob:").items()
]
_CLOSE = (b"connection", b"close")
_PATHS = ("/", "/predict", "/health", "/model", "/metrics", "/openapi.json", "/docs")
_IMAGES = f"multipart/form-data with files in the field `{FIELD}`, or an image (image/jpeg, image/png, ...)"
_FEATURES = 'application/json with {"features": [[...], ...]}'
_TEXTS = 'application/json with {"texts": ["...", ...]}'
"""Media type of a request, and its content."""
_GONE = 499
"""Status under which a request is counted whose client went away."""
_TOP_K = "Largest number of labels of a sample; without threshold, exactly so many."
_THRESHOLD = "Predict labels whose score is at least this; by default, the thresholds of the run decide."
_SCORES = "Classes whose scores are answered; auto = all up to 100 classes, otherwise the predicted ones."
_WHERE = "Answer the window of the image that speaks most for each label, for runs that score windows."
_PREDICTION = {
    "name": "photo.jpg",
    "labels": ["cat"],
    "scores": {"cat": 0.81, "dog": 0.12},
    "probabilities": {"cat": 0.93, "dog": 0.04},
}
_REFUSALS = {
    408: "The body took too long to arrive.",
    413: "Too many bytes in the request or in an image, or too many samples.",
    415: "A body of another kind than the model takes.",
    422: "A malformed body, an unknown or wrong parameter, or no sample that can be used.",
    429: "Too many samples wait. Retry-After says when to try again.",
    503: "Not answered in time, too many large requests at once, too little memory, or the server ends.",
}
T = TypeVar("T")


def make_app(service: Service, hosts: Sequence[str] | None = None) -> FastAPI:
    """Make the application of a service, which is started and closed with it.

    Args:
        service: The service.
        hosts: Names under which it is reached; None = any.
    """
    app = page_app(STATIC, lifespan=lambda _: service.running())
    app.title, app.version = "spml serve", __version__
    _add_predict(app, service)
    _add_about(app, service)

    @app.exception_handler(RefusedError)
    def refused(_: Request, error: RefusedError) -> JSONResponse:
        return JSONResponse({"error": str(error)}, error.status, error.headers)

    @app.exception_handler(InputError)
    def wrong(_: Request, error: InputError) -> JSONResponse:
        return JSONResponse({"error": str(error)}, 422)

    @app.exception_handler(HTTPException)
    def other(request: Request, error: HTTPException) -> JSONResponse:
        message = error.detail
        if error.status_code == 404:
            message = f"There is nothing at this address. POST /predict, or GET {', '.join(_PATHS[2:])} or /."
        return JSONResponse({"error": message}, error.status_code, error.headers)

    @app.exception_handler(ClientDisconnect)
    def gone(_: Request, error: ClientDisconnect) -> Response:
        return Response(status_code=_GONE)  # sent to nobody, but counted

    if hosts is not None:
        # A page of another site can't reach this one under a name of its own.
        app.add_middleware(TrustedHostMiddleware, allowed_hosts=list(hosts), www_redirect=False)
    app.add_middleware(_Observed, service=service)
    return app


def _add_predict(app: FastAPI, service: Service) -> None:
    """Add the address that takes samples."""

    @app.post(
        "/predict",
        dependencies=[only_query("top_k threshold scores where")],
        summary="Predict labels",
        responses=_predictions(),
        openapi_extra=_bodies(service),
    )
    async def predict(
        request: Request,
        top_k: Annotated[int, Query(ge=0, description=_TOP_K)] = 0,
        threshold: Annotated[float | None, Query(description=_THRESHOLD)] = None,
        scores: Annotated[Scores, Query(description=_SCORES)] = "auto",
        where: Annotated[bool, Query(description=_WHERE)] = False,
    ) -> Response:
        if where and not service.locates:
            raise RefusedError(422, "This model scores images as a whole, so it can't tell where a label is.")
        decision = service.decision
        if top_k or threshold is not None:
            decision = service.run.decision(top_k=top_k, threshold=threshold)
        stated = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        one = service.takes_images and stated.startswith("image/")
        if not one and stated != ("multipart/form-data" if service.takes_images else "application/json"):
            expected = _IMAGES if service.takes_images else _TEXTS if service.takes_texts else _FEATURES
            raise RefusedError(415, f"This model takes {expected}, not {stated[:100] or 'nothing'}.")
        service.check_room()  # before the body is read
        with _limited(request, service) as limited:
            if service.takes_images:
                read = read_image if one else read_form
                work = service.images(await read(limited, service.limits), decision, scores, where)
            else:
                work = service.rows(await limited.body(), decision, scores)
            content, useful = await _unless_gone(request, work, service.limits.answer_timeout)
        return Response(content, 200 if useful else 422, media_type="application/json")


def _add_about(app: FastAPI, service: Service) -> None:
    """Add the addresses that tell about the service."""

    @app.get(
        "/health",
        summary="Tell whether the server takes requests",
        responses={
            **_answer("It does.", {"status": "ready"}),
            503: {"description": "It has been asked to end, and answers draining."},
        },
    )
    async def health() -> JSONResponse:
        if service.draining:
            return JSONResponse({"status": "draining"}, 503)
        return JSONResponse({"status": "ready"})

    @app.get(
        "/model",
        dependencies=[only_query()],
        summary="Describe the model",
        responses=_answer("Classes, thresholds as scores, kind of samples, limits."),
    )
    def model() -> Response:
        return Response(msgspec.json.encode(service.about()), media_type="application/json")

    @app.get(
        "/metrics",
        summary="Count requests, for Prometheus",
        response_class=PlainTextResponse,
        responses=_answer("Numbers since the start.", media_type="text/plain"),
    )
    def metrics() -> Response:
        return Response(service.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    @app.get("/docs", include_in_schema=False)
    def docs() -> Response:
        return HTMLResponse((STATIC / "docs.html").read_bytes())

    @app.get("/openapi.json", include_in_schema=False)
    def schema() -> Response:
        return JSONResponse(app.openapi())


def _bodies(service: Service) -> dict[str, Any]:
    """What /openapi.json says of the body of a request for predictions, which the page /docs shows."""
    image: dict[str, Any] = {"type": "string", "format": "binary"}
    field, items = FIELD, image
    if service.takes_texts:
        field, items = "texts", {"type": "string"}
    elif not service.takes_images:
        field, items = "features", {"type": "number"}
        for size in reversed(service.shape):
            items = {"type": "array", "items": items, "minItems": size, "maxItems": size}
    several = {"type": "array", "items": items}
    schema: dict[str, Any] = {"type": "object", "required": [field], "properties": {field: several}}
    content = {"application/json": {"schema": schema}}
    if service.takes_images:
        content = {"multipart/form-data": {"schema": schema}, "image/*": {"schema": image}}
    return {"requestBody": {"required": True, "content": content}}


def _predictions() -> dict[int | str, Any]:
    """Answers to a request for predictions."""
    model = {"weights_sha256": "d2c1...", "thresholds_sha256": "90f3...", "spml": __version__}
    refusal = {"application/json": {"example": {"error": "What is wrong, and what to do."}}}
    return {
        **_answer(
            "Samples in the order in which they came, with probabilities if they are known. A sample that "
            "can't be used has an error instead.",
            {"model": model, "predictions": [_PREDICTION]},
        ),
        **{status: {"description": reason, "content": refusal} for status, reason in _REFUSALS.items()},
    }


def _answer(text: str, example: Any = None, *, media_type: str = "application/json") -> dict[int | str, Any]:
    """Answer with status 200."""
    content = {} if example is None else {"example": example}
    return {200: {"description": text, "content": {media_type: content}}}


@contextmanager
def _limited(request: Request, service: Service) -> Iterator[Request]:
    """The request, whose body is refused if it is too large, comes too slowly, or if all requests together
    hold too many bytes. Its own count until the context ends."""
    limits, held = service.limits, 0
    too_large = RefusedError(
        413, f"The request has more than {limits.max_request_bytes:,} bytes. Send less at once."
    )
    stated = request.headers.get("content-length", "")
    if stated.isdecimal() and int(stated[:20]) > limits.max_request_bytes:
        raise too_large
    end = time.monotonic() + limits.body_timeout

    async def receive() -> Message:
        nonlocal held
        try:
            message = await asyncio.wait_for(request.receive(), end - time.monotonic())
        except asyncio.TimeoutError as error:
            raise RefusedError(
                408, f"The body did not arrive within {limits.body_timeout:g} seconds."
            ) from error
        size = len(message.get("body", b""))
        if held + size > limits.max_request_bytes:
            raise too_large
        held += size
        service.held_bytes += size
        if service.held_bytes > 8 * limits.max_request_bytes:
            raise RefusedError(503, "Too many large requests at once. Try again in a second.")
        return message

    try:
        yield Request(request.scope, receive)
    finally:
        service.held_bytes -= held


async def _unless_gone(request: Request, work: Awaitable[T], timeout: float) -> T:
    """Result of some work, which is given up when the client goes away, or after a time."""

    async def disconnect() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    working, gone = asyncio.ensure_future(work), asyncio.ensure_future(disconnect())
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


def _unavailable(problem: str) -> JSONResponse:
    return JSONResponse({"error": problem}, 503)


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
            await _unavailable("The server was stopped.")(scope, receive, observed)
        except Exception as error:
            if status or memory_asked_for(error) is None:
                raise
            await _unavailable("The server has too little memory.")(scope, receive, observed)
        finally:
            if path == "/predict" and status == 200:
                self._service.answered += 1
            metrics.requests.labels(path, str(status or 500)).inc()
            metrics.seconds.labels(path).observe(time.perf_counter() - started)
