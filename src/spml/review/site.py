"""Serve the page of a review on this machine until it is interrupted."""

from __future__ import annotations

import contextlib
import secrets
import shlex
import socket
import webbrowser
from typing import NamedTuple

from ..common.phrases import counted
from ..common.web import LOOPBACK, PatientServer, listen
from .app import create_app, next_commands, use_command
from .contents import CACHE, Pictures
from .labelling import Labelling
from .session import Review


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
