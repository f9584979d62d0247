"""Servers, in a thread or in a process of their own, and Chromium."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from spml.review.app import Site, open_site
from spml.review.labelling import Labelling
from spml.review.session import Review
from tests.helpers.servers import Server

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
# Chromium neither looks for updates nor reports anything.
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip


def process(audit: Path, *options: str, reviewer: str = "ann", **settings: int) -> Server:
    """`spml review` in a process."""
    return Server(["review", str(audit), "--reviewer", reviewer, *options], **settings)


@contextmanager
def serving(path: Path, reviewer: str = "ann", **options) -> Iterator[Site]:
    """A server in a thread, which starts at once; of an audit, or of a sample to label in full."""
    site = open_site((Labelling if path.suffix == ".csv" else Review)(path, reviewer, **options))
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


class Page:
    """A page of the browser, which must not report an error.

    Attributes:
        page: Playwright's page.
        errors: Errors of scripts, of the security policy, and requests to other hosts.
    """

    def __init__(self, browser, address, *, first="#suggestions [aria-current]", **options):
        self.page = browser.new_page(**{"viewport": {"width": 1280, "height": 800}, **options})
        self.errors: list[str] = []
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", lambda line: line.type == "error" and self.errors.append(line.text))
        self.page.on("request", self._check)
        self.address, self.first = address, first
        self.page.goto(address)
        self.ready()

    def _check(self, request):
        if not request.url.startswith(("http://127.0.0.1:", "data:")):
            self.errors.append(f"request to {request.url}")

    def ready(self):
        self.page.wait_for_selector(self.first)

    def text(self, name):
        return self.page.text_content(f"#{name}")

    def wait(self, name, text):
        self.page.wait_for_function(
            "([name, text]) => document.getElementById(name).textContent.includes(text)", arg=[name, text]
        )

    def press(self, key, status):
        """Press a key, and wait until the page says what it did."""
        self.page.keyboard.press(key)
        self.wait("status", status)

    def close_help(self):
        """Close the help by keyboard; the browser takes a moment."""
        self.page.keyboard.press("Escape")
        self.page.wait_for_selector("#help", state="hidden")

    def answers(self):
        """Pressed buttons of the sample that is shown, by label."""
        return self.page.evaluate(
            "() => Object.fromEntries([...document.querySelectorAll('.suggestion')].map((each) => ["
            "each.querySelector('.label').textContent, "
            "each.querySelector('[aria-pressed=true]')?.dataset.answer]))"
        )

    def close(self):
        self.page.close()
        assert not self.errors


def violations(page):
    """Violations that axe reports on a page."""
    import pytest

    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed").Axe()
    # Axe waits for animations of colour to end before it measures contrast.
    page.page.wait_for_timeout(200)
    results = axe.run(page.page)
    assert len(results.response["passes"]) > 20
    return results.generate_report() if results.violations_count else ""
