"""Serve the page of a review on this machine until it is interrupted."""

from __future__ import annotations

import contextlib
import secrets
import socket
import webbrowser
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import uvicorn

from ..common.phrases import counted
from ..common.web import LOOPBACK, listen
from .app import create_app
from .pictures import CACHE, Pictures
from .session import Review, open_data


class Site(NamedTuple):
    """A page that is ready to be served.

    Attributes:
        address: Address with the secret token.
        server: Server, whose `run` takes the listener.
        listener: Socket that listens already.
        review: List under review.
        pictures: Whether the samples have pictures.
    """

    address: str
    server: uvicorn.Server
    listener: socket.socket
    review: Review
    pictures: bool


def prepare(
    folder: Path,
    reviewer: str,
    *,
    port: int = 0,
    data: str = "",
    by_class: bool = False,
    rows: Path | None = None,
) -> Site:
    """Open a review, and listen at a port. From now on browsers wait for the server to run.

    Args:
        folder: Folder of the audit.
        reviewer: Name under which answers are kept.
        port: Port to listen at; 0 = a free one.
        data: Path of the data, if it was moved since the audit.
        by_class: Show the best entry of every class first, then the second of every class, and so on.
        rows: Table with further columns of the samples, as in `Contents`.

    Raises:
        InputError: The audit, the data, the table or the database can't be used, or the port is in use.
    """
    opened = open_data(folder, data)
    review = Review(folder, opened, reviewer, by_class=by_class, rows=rows)
    pictures = Pictures(opened.records, folder / CACHE, opened.audit.about.config.max_pixels)
    token = secrets.token_urlsafe(24)
    app = create_app(review, pictures, token)
    settings = uvicorn.Config(
        app, log_level="warning", access_log=False, server_header=False, timeout_graceful_shutdown=3
    )
    listener = listen(port)
    address = f"http://{LOOPBACK}:{listener.getsockname()[1]}/{token}/"
    return Site(address, uvicorn.Server(settings), listener, review, pictures.available)


def serve(site: Site, *, browser: bool, report: Callable[[str], None]) -> None:
    """Serve a page until Ctrl-C.

    Args:
        site: The page.
        browser: Whether to open it in the browser.
        report: Receives what people should know, the address first.
    """
    review = site.review
    entries = counted(len(review.entries.rows), "entry", "entries")
    report(
        f"{site.address}\n{entries} to review as {review.reviewer}. Ctrl-C stops: every answer is on disk."
    )
    if not (site.pictures or review.contents.available):
        report(
            "The samples are shown by name only. --rows FILE shows the columns of a table with them, such as "
            "their text."
        )
    if browser:
        webbrowser.open(site.address)
    # uvicorn stops cleanly, then raises the interrupt again.
    with contextlib.closing(review.store), site.listener, contextlib.suppress(KeyboardInterrupt):
        site.server.run(sockets=[site.listener])
    folder = review.store.path.parent
    report(f"\nThe answers are in {review.store.path}.")
    report(f"Write them as labels: spml review export {folder} OUTPUT --format csv")
