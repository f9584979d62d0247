"""The web application of a page: its files, its data and answers as JSON, and pictures of samples.

Only requests with the secret token in their address are answered, and only under the names of this machine.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import shlex
import socket
import subprocess
import sys
import threading
import webbrowser
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from fastapi import Depends, FastAPI, HTTPException, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.middleware.trustedhost import TrustedHostMiddleware
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import ClientDisconnect

from ..common.errors import InputError, SpmlError
from ..common.phrases import counted
from ..common.web import (
    LOCAL_NAMES,
    LOOPBACK,
    PATIENCE,
    PatientServer,
    listen,
    only_query,
    page_app,
    security_headers,
)
from ..data.images.decoding import UnreadableImageError
from .contents import CACHE, Picture, Pictures
from .labelling import Labelling
from .labelling import Show as ShowSamples
from .progress import LEAST_CHECKS, ListName, OrderName, Selection
from .session import Review, Show
from .store import Answer

MOST_CARDS = 200
"""Samples that one request may be about."""
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
    page = "index.html" if isinstance(review, Review) else "sample.html"
    app = page_app(STATIC, prefix=f"/{token}", page=page)
    if isinstance(review, Review):
        _add_lists(app, f"/{token}/api", review, pictures)
    else:
        _add_sample(app, f"/{token}/api", review, pictures)
    _add_pictures(app, f"/{token}", review, pictures)

    @app.middleware("http")
    async def guard(request: Request, respond: Callable[[Request], Awaitable[Response]]) -> Response:
        refused = await _refused(request, token)
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


async def _refused(request: Request, token: str) -> tuple[int, str] | None:
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
    try:
        await asyncio.wait_for(request.body(), PATIENCE)  # which is kept
    except (asyncio.TimeoutError, ClientDisconnect):
        return 408, f"The request did not arrive within {PATIENCE:g} seconds."
    return None


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


class _Body(BaseModel):
    """Body of a request: fields of their types and no others."""

    model_config = ConfigDict(strict=True, extra="forbid")


class Decide(_Body):
    """One answer to a label of some samples."""

    samples: Annotated[list[int], Field(min_length=1, max_length=MOST_CARDS)]
    column: int
    answer: Answer


class DecideOne(_Body):
    """Whether a sample has a label."""

    sample: int
    column: int
    answer: Literal["yes", "no"]


class Complete(_Body):
    """Whether all labels of a sample are given."""

    sample: int
    complete: bool


Samples = Annotated[list[int], Query(max_length=MOST_CARDS)]
_SELECTION = "column minimum list order"


def _selection(
    column: int | None = None,
    minimum: Annotated[float, Query(ge=0, le=1)] = 0.0,
    name: Annotated[ListName, Query(alias="list")] = "missing",
    order: OrderName = "rank",
) -> Selection:
    return Selection(column, minimum, name, order)


Chosen = Annotated[Selection, Depends(_selection)]


def _once(quotes: int) -> Any:
    """Dependency that refuses a body with a field twice, of which JSON would take the last.

    Args:
        quotes: Quotes of a valid body: two of each name and each text.
    """

    async def check(request: Request) -> None:
        if (await request.body()).count(b'"') > quotes:
            problem = "a field is given more than once. Expected one value."
            raise RequestValidationError([{"loc": ("body",), "msg": problem}])

    return Depends(check)


def _plain(value: Any) -> Any:
    """A value with objects in place of the named tuples in it, which JSON would make lists of."""
    if hasattr(value, "_asdict"):
        return {name: _plain(part) for name, part in value._asdict().items()}
    return [_plain(part) for part in value] if isinstance(value, (list, tuple)) else value


@contextmanager
def _or_404() -> Iterator[None]:
    """Answer 404 where a request names a sample or class that is not there."""
    try:
        yield
    except LookupError as error:
        raise HTTPException(404) from error


def _add_lists(app: FastAPI, prefix: str, review: Review, pictures: Pictures) -> None:
    """Add the addresses of what the page of an audit's lists shows, and of the answers that it sends."""

    @app.get(f"{prefix}/about", dependencies=[only_query()])
    def about() -> dict[str, Any]:
        return {
            "name": review.records.name,
            "reviewer": review.reviewer,
            "classes": review.records.classes,
            "listed": {name: review.listed_per_class(name) for name in ("missing", "wrong")},
            "images": pictures.available,
            "order": review.order,
            "least_checks": LEAST_CHECKS,
            "warnings": review.about.warnings,
            "how": review.about.how,
            "next": next_commands(review),
        }

    @app.get(f"{prefix}/queue", dependencies=[only_query(f"{_SELECTION} show")])
    def queue(chosen: Chosen, show: Show = "all") -> dict[str, Any]:
        samples, start = review.shown(chosen, show)
        return {"samples": samples, "start": start, "progress": _plain(review.progress(chosen))}

    @app.get(f"{prefix}/cards", dependencies=[only_query(_SELECTION, lists="samples")])
    def cards(samples: Samples, chosen: Chosen) -> Any:
        with _or_404():
            return _plain(review.cards(samples, chosen))

    @app.post(f"{prefix}/decide", dependencies=[only_query(_SELECTION), _once(8)])
    def decide(given: Decide, chosen: Chosen) -> dict[str, Any]:
        with _or_404():
            review.decide_all(given.samples, given.column, given.answer, chosen)
        cards = review.cards(given.samples, chosen)
        return {"cards": _plain(cards), "progress": _plain(review.progress(chosen))}

    @app.post(f"{prefix}/undo", dependencies=[only_query(_SELECTION)])
    def undo(chosen: Chosen) -> dict[str, Any]:
        return {"undone": _plain(review.undo()), "progress": _plain(review.progress(chosen))}


def _add_sample(app: FastAPI, prefix: str, labelling: Labelling, pictures: Pictures) -> None:
    """Add the addresses of what the page of a sample shows, and of the answers that it sends."""
    command, running = use_command(labelling), threading.Lock()

    def state(sample: int) -> dict[str, Any]:
        (card,) = labelling.cards([sample])
        return {"card": _plain(card), "progress": _plain(labelling.progress())}

    @app.get(f"{prefix}/about", dependencies=[only_query()])
    def about() -> dict[str, Any]:
        return {
            "name": labelling.records.name,
            "reviewer": labelling.reviewer,
            "classes": labelling.sample.classes,
            "images": pictures.available,
            "ordered": labelling.ordered,
            "next": [f"spml {shlex.join(command)}"],
        }

    @app.get(f"{prefix}/queue", dependencies=[only_query("status")])
    def queue(status: ShowSamples = "all") -> dict[str, Any]:
        samples, start = labelling.shown(status)
        return {"samples": samples, "start": start, "progress": _plain(labelling.progress())}

    @app.get(f"{prefix}/cards", dependencies=[only_query(lists="samples")])
    def cards(samples: Samples) -> Any:
        with _or_404():
            return _plain(labelling.cards(samples))

    @app.post(f"{prefix}/decide", dependencies=[only_query(), _once(8)])
    def decide(given: DecideOne) -> dict[str, Any]:
        with _or_404():
            labelling.decide(given.sample, given.column, given.answer)
        return state(given.sample)

    @app.post(f"{prefix}/complete", dependencies=[only_query(), _once(4)])
    def complete(given: Complete) -> dict[str, Any]:
        with _or_404():
            labelling.complete(given.sample, complete=given.complete)
        return state(given.sample)

    @app.post(f"{prefix}/undo", dependencies=[only_query()])
    def undo() -> dict[str, Any]:
        return {"undone": _plain(labelling.undo()), "progress": _plain(labelling.progress())}

    @app.post(f"{prefix}/use", dependencies=[only_query()])
    def use() -> Any:
        if not running.acquire(blocking=False):
            return JSONResponse({"error": "The labels are being used already. Wait for the end."}, 409)
        try:
            # In a process of its own: it takes memory that the page does not need, and may fail without it.
            done = subprocess.run(
                [sys.executable, "-m", "spml", *command], capture_output=True, text=True, check=False
            )
        finally:
            running.release()
        return {"code": done.returncode, "text": (done.stdout + done.stderr).strip()}


def use_command(labelling: Labelling) -> list[str]:
    """Words of the command, after `spml`, that learns from the labels."""
    return ["audit", "use", str(labelling.sheet), *labelling.sample.runs]


def next_commands(review: Review) -> list[str]:
    """Commands that write the answers as labels, and train with them."""
    form = "csv" if isinstance(review.records.inputs, Sequence) else "nan"
    source = Path(review.records.source)
    folder = source if source.is_dir() else source.parent
    output = str(folder / ("reviewed.csv" if form == "csv" else "reviewed.npz"))
    export = ["review", "export", str(review.store.path.parent), output, "--format", form]
    return [f"spml {shlex.join(export)}", f"spml {shlex.join(['train', output])}"]


# -- serving it on this machine until it is interrupted --------------------------------------------------


class Site(NamedTuple):
    """A page that is ready to be served."""

    address: str  # with the secret token
    server: PatientServer  # its `run` takes the listener
    listener: socket.socket  # listens already
    review: Review | Labelling
    pictures: bool  # whether the samples have pictures


def open_site(review: Review | Labelling, *, port: int = 0) -> Site:
    """Listen at a port for the page of a review. From now on browsers wait for the server to run.

    Args:
        review: Lists under review, or a sample that is labelled in full.
        port: Port to listen at; 0 = a free one.

    Raises:
        InputError: The port is in use.
    """
    max_pixels = review.about.config.max_pixels if isinstance(review, Review) else review.max_pixels
    pictures = Pictures(review.records, review.store.path.parent / CACHE, max_pixels)
    token = secrets.token_urlsafe(24)
    server = PatientServer(create_app(review, pictures, token), shutdown_timeout=3)
    listener = listen(port)
    address = f"http://{LOOPBACK}:{listener.getsockname()[1]}/{token}/"
    return Site(address, server, listener, review, pictures.available)


def serve(site: Site, *, browser: bool) -> None:
    """Serve a page until Ctrl-C or SIGTERM.

    Args:
        site: The page.
        browser: Whether to open it in the browser.
    """
    review = site.review
    if isinstance(review, Review):
        missing, wrong = (len(review.lists[name].entries.rows) for name in ("missing", "wrong"))
        work = f"{counted(missing, 'entry', 'entries')} to review"
        if wrong:
            work += f", and {counted(wrong, 'given label')} that may be wrong,"
        next_step = f"Write them as labels: {next_commands(review)[0]}"
    else:
        work = f"{counted(len(review.sample.ids), 'sample')} to label in full"
        next_step = f"Use them: spml {shlex.join(use_command(review))}"
    with site.server.taking_signals(), contextlib.closing(review.store), site.listener:
        work += f" as {review.reviewer}"
        print(f"{site.address}\n{work}. Ctrl-C stops: every answer is on disk.", flush=True)
        if not (site.pictures or review.contents.available):
            print(
                "The samples are shown by name only. rows=FILE shows the columns of a table with them, such "
                "as their text.",
                flush=True,
            )
        if browser:
            webbrowser.open(site.address)
        site.server.run(sockets=[site.listener])
    print(f"\nThe answers are in {review.store.path}.")
    print(next_step)
