"""Servers, in a thread or in a process of their own, and Chromium."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from spml.review.serve import Site, prepare

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
# Chromium neither looks for updates nor reports anything.
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip


class Server:
    """`spml review` in a process of its own.

    Attributes:
        address: Address that it printed.
        process: The process.
    """

    def __init__(self, audit: Path, *options: str, reviewer: str = "ann") -> None:
        source = str(Path(__file__).resolve().parents[2] / "src")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "spml", "review", str(audit), "--reviewer", reviewer, *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": source},
        )
        self.address = self.process.stdout.readline().strip()
        if not self.address.startswith("http://127.0.0.1:"):
            raise RuntimeError(self.process.communicate()[1])

    def kill(self) -> None:
        """End the process as a loss of power does."""
        self.process.kill()
        self.process.communicate()

    def interrupt(self) -> tuple[int, str, str]:
        """End the process by Ctrl-C; (exit code, standard output, standard error)."""
        self.process.send_signal(signal.SIGINT)
        out, err = self.process.communicate(timeout=60)
        return self.process.returncode, out, err


@contextmanager
def process(audit: Path, *options: str, reviewer: str = "ann") -> Iterator[Server]:
    """A server in a process that is killed afterwards."""
    server = Server(audit, *options, reviewer=reviewer)
    try:
        yield server
    finally:
        server.kill()


@contextmanager
def serving(audit: Path, reviewer: str = "ann", rows: Path | None = None) -> Iterator[Site]:
    """A server in a thread, which starts at once."""
    site = prepare(audit, reviewer, rows=rows)
    thread = threading.Thread(target=site.server.run, args=([site.listener],))
    thread.start()
    try:
        yield site
    finally:
        site.server.should_exit = True
        thread.join()
        site.listener.close()
        site.review.store.close()


@contextmanager
def chromium() -> Iterator:
    """Headless Chromium, driven by Playwright, which brings no browser of its own here."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        yield browser
        browser.close()
