"""The web application of a review: one page, its data as JSON, and pictures by the number of a sample.

Only requests with the secret token in their address are answered, and only under the names of this machine.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Depends, FastAPI, HTTPException, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.middleware.trustedhost import TrustedHostMiddleware
from fastapi.responses import JSONResponse
from pydantic import BaseModel

from ..common.errors import SpmlError
from ..common.web import LOCAL_NAMES, invalid, page_router, security_headers
from ..data.images.decoding import UnreadableImageError
from .pictures import Picture, Pictures
from .progress import LEAST_CHECKS
from .queue import Selection
from .session import Card, Review, Show
from .store import Answer

MOST_CARDS = 200
"""Cards that one request may ask for."""
STATIC = Path(__file__).parent / "static"
HEADERS = security_headers()  # no referrer: the address holds the token


class Decide(BaseModel):
    """Answer to an entry."""

    sample: int
    column: int
    answer: Answer


def create_app(review: Review, pictures: Pictures, token: str) -> FastAPI:
    """Make the application.

    Args:
        review: List under review.
        pictures: Pictures of its samples.
        token: Secret first part of every address.
    """
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    app.include_router(page_router(STATIC), prefix=f"/{token}")
    app.include_router(_data(review, pictures), prefix=f"/{token}/api")
    app.include_router(_pictures(review, pictures), prefix=f"/{token}")

    @app.middleware("http")
    async def guard(request: Request, respond: Callable[[Request], Awaitable[Response]]) -> Response:
        given = request.scope["path"].lstrip("/").split("/")[0]
        if secrets.compare_digest(given.encode(), token.encode()):
            response = await respond(request)
        else:
            problem = "Open the address that spml review printed: it holds a secret that this one lacks."
            response = JSONResponse({"error": problem}, 403)
        for name, value in HEADERS.items():
            response.headers.setdefault(name, value)
        return response

    # Added last, so that it comes first: a page of another site can't reach this one under a name of its own.
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=list(LOCAL_NAMES), www_redirect=False)

    @app.exception_handler(RequestValidationError)
    def refuse(_: Request, error: RequestValidationError) -> JSONResponse:
        return invalid(error)

    @app.exception_handler(SpmlError)
    def failure(_: Request, error: SpmlError) -> JSONResponse:
        return JSONResponse({"error": str(error)}, 503)

    return app


def _selection(column: int | None = None, minimum: Annotated[float, Query(ge=0, le=1)] = 0.0) -> Selection:
    return Selection(column, minimum)


Chosen = Annotated[Selection, Depends(_selection)]


def _data(review: Review, pictures: Pictures) -> APIRouter:
    """What the page shows, and the answers that it sends."""
    router = APIRouter()

    @router.get("/about")
    def about() -> dict[str, Any]:
        return {
            "name": review.records.name,
            "reviewer": review.reviewer,
            "classes": review.records.classes,
            "listed": review.listed_per_class(),
            "images": pictures.available,
            "least_checks": LEAST_CHECKS,
            "warnings": review.about.warnings,
            "how": review.about.how,
        }

    @router.get("/queue")
    def queue(chosen: Chosen, show: Show = "all") -> dict[str, Any]:
        return {**review.shown(chosen, show)._asdict(), "progress": _progress(review, chosen)}

    @router.get("/cards")
    def cards(
        samples: Annotated[list[int], Query(max_length=MOST_CARDS)], chosen: Chosen
    ) -> list[dict[str, Any]]:
        try:
            return [_card(card) for card in review.cards(samples, chosen)]
        except KeyError as error:
            raise HTTPException(404) from error

    @router.post("/decide")
    def decide(given: Decide, chosen: Chosen) -> dict[str, Any]:
        try:
            review.decide(given.sample, given.column, given.answer, chosen)
        except KeyError as error:
            raise HTTPException(404) from error
        (card,) = review.cards([given.sample], chosen)
        return {"card": _card(card), "progress": _progress(review, chosen)}

    @router.post("/undo")
    def undo(chosen: Chosen) -> dict[str, Any]:
        undone = review.undo()
        return {"undone": undone and undone._asdict(), "progress": _progress(review, chosen)}

    return router


def _pictures(review: Review, pictures: Pictures) -> APIRouter:
    """Pictures by the number of a sample; no name of a file ever comes from a request."""
    router = APIRouter()

    @router.get("/photo/{sample}")
    def photo(sample: int) -> Response:
        return answer(pictures.photo, sample)

    @router.get("/thumbnail/{sample}")
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

    return router


def _progress(review: Review, chosen: Selection) -> dict[str, Any]:
    progress = review.progress(chosen)
    return {
        **progress._asdict(),
        "precision": progress.precision and progress.precision._asdict(),
        "expected": progress.expected._asdict(),
    }


def _card(card: Card) -> dict[str, Any]:
    suggestions = [
        {**each._asdict(), "answers": [answer._asdict() for answer in each.answers]}
        for each in card.suggestions
    ]
    return {**card._asdict(), "suggestions": suggestions}
