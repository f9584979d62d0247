"""What every page that somebody opens in a browser must keep."""

from __future__ import annotations

from pathlib import Path

import pytest


def check_report(path: Path) -> None:
    """Check that a report fits a computer and a phone, and that axe finds nothing, dark or light."""
    from tests.review.browser import CHROMIUM, chromium

    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed").Axe()
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed")
    with chromium() as browser:
        # The layout is the same in both schemes, and the colours are at every width.
        for width, scheme in ((1280, "light"), (375, "dark")):
            size = {"width": width, "height": 800}
            page = browser.new_page(viewport=size, color_scheme=scheme, bypass_csp=True)  # axe is a script
            page.goto(path.resolve().as_uri())
            page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            cut = (
                "[...document.querySelectorAll('.wide')].filter((e) => e.scrollWidth > e.clientWidth).length"
            )
            if width == 1280:
                assert page.evaluate(cut) == 0
            found = axe.run(page).response["violations"]
            assert [(each["id"], each["nodes"][0]["html"]) for each in found] == []
            page.close()
