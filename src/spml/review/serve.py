"""Serve the page of a review on this machine until it is interrupted."""

from __future__ import annotations

import contextlib
import secrets
import socket
import webbrowser
from collections.abc import Callable
from pathlib import Path

import uvicorn

from ..data.phrases import counted
from ..errors import InputError
from .app import create_app
from .pictures import CACHE, Pictures
from .session import Review, open_data

HOST = "127.0.0.1"


def serve(
    folder: Path, reviewer: str, *, port: int, data: str, browser: bool, report: Callable[[str], None]
) -> None:
    """Serve the page until Ctrl-C.

    Args:
        folder: Folder of the audit.
        reviewer: Name under which answers are kept.
        port: Port to listen at; 0 = a free one.
        data: Path of the data, if it was moved since the audit.
        browser: Whether to open the page in the browser.
        report: Receives one line for people at a time, the address first.

    Raises:
        InputError: The audit, the data or the database can't be used, or the port is in use.
    """
    opened = open_data(folder, data)
    review = Review(folder, opened, reviewer)
    pictures = Pictures(opened.records, folder / CACHE, opened.audit.about.config.max_pixels)
    token = secrets.token_urlsafe(24)
    with contextlib.closing(review.store), listen(port) as listener:
        app = create_app(review, pictures, token)
        address = f"http://{HOST}:{listener.getsockname()[1]}/{token}/"
        entries = counted(len(review.entries.rows), "entry", "entries")
        report(f"{address}\n{entries} to review as {reviewer}. Stop with Ctrl-C: every answer is on disk.")
        if browser:
            webbrowser.open(address)
        server = uvicorn.Server(
            uvicorn.Config(
                app, log_level="warning", access_log=False, server_header=False, timeout_graceful_shutdown=3
            )
        )
        # uvicorn stops cleanly, then raises the interrupt again.
        with contextlib.suppress(KeyboardInterrupt):
            server.run(sockets=[listener])
        report(f"\nThe answers are in {review.store.path}.")
    report(f"Write them as labels: spml review export {folder} OUTPUT --format csv")


def listen(port: int) -> socket.socket:
    """Listen at a port of this machine, which other machines can't reach.

    Raises:
        InputError: The port is in use, or may not be used.
    """
    listener = socket.socket()
    listener.setsockopt(
        socket.SOL_SOCKET, socket.SO_REUSEADDR, 1
    )  # a port that was left a moment ago is free
    try:
        listener.bind((HOST, port))
        listener.listen()
    except (OSError, OverflowError) as error:
        listener.close()
        reason = getattr(error, "strerror", None) or error
        raise InputError(
            f"port {port} can't be used ({reason}). Pass another --port, or leave it out for a free one."
        ) from error
    return listener
