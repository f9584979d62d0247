"""Markdown of a report: numbers, escaping, tables, and conversion to HTML."""

from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spml.bench.report.markdown import (
    one_line,
    p_value,
    percent,
    picture,
    plain,
    share,
    table,
    to_html,
    with_sd,
)  # fmt: skip
from tests.bench.rows import HOSTILE


class Text(HTMLParser):
    """Collects the text of each table cell and heading, and all tags."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list) -> None:
        self.tags.add(tag)
        if tag in ("th", "td", "h2"):
            self.texts.append("")

    def handle_data(self, data: str) -> None:
        if self.texts:
            self.texts[-1] += data.rstrip("\n")


def body(markdown: str, **pictures: bytes) -> str:
    return to_html("", markdown, pictures).split("<main>\n")[1].split("</main>")[0]


def test_only_the_script_of_the_page_may_run():
    text = to_html("a", "# b", {})
    (script,) = re.findall(r'<script type="module">(.*?)</script>', text, re.S)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert (
        f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'" in text
    )
    assert '<h1 id="b">b</h1>' in text


def test_numbers():
    assert (percent(0.12345), percent(-0.00001), percent(0.01, True), percent(None)) == (
        "12.35", "0.00", "+1.00", "-",
    )  # fmt: skip
    assert with_sd(0.5, float("nan")) == "50.00"
    assert (share(0.444), share(-0.001), share(None)) == ("44 %", "0 %", "-")
    assert (p_value(0.0001), p_value(0.05), p_value(None)) == ("<0.001", "0.050", "-")


def test_plain_text_is_one_escaped_line():
    assert plain("a\x1b[31m\nb") == r"a \[31m b"
    assert plain("x" * 20, limit=5) == "xxxx…"


def test_markup():
    text = "`a<b` **c `d`** \\*e\\*"
    assert body(text) == "<p><code>a&lt;b</code> <strong>c <code>d</code></strong> *e*</p>\n"
    assert body(plain(HOSTILE)) == ("<p>a|b_$%&amp;&lt;script&gt;alert(1)&lt;/script&gt;\\`*{}~^#</p>\n")


@settings(deadline=None)
@given(st.text())
def test_plain_text_is_displayed_literally(text):
    page = Text()
    page.feed(body(f"## {plain(text)}\n\n{table(['a', 'b'], [[plain(text), 'x']])}"))
    shown = one_line(text)
    shown = shown if len(shown) <= 400 else shown[:399] + "…"
    assert page.texts == [shown, "a", "b", shown, "x"]
    assert page.tags <= {"section", "h2", "div", "table", "thead", "tbody", "tr", "th", "td"}


@pytest.mark.parametrize(
    "text",
    [
        "[x](javascript:alert(1))",
        "[x](data:text/html,<script>alert(1)</script>)",
        "<script>alert(1)</script>",
        "a <img src=x onerror=alert(1)> b",
        "<details><summary><img src=x></summary>",
        "<details open onclick=alert(1)>",
        "![x](https://elsewhere.invalid/track.png)",
        "![x](figures/../../secret.png)",
        "<!-- <script> -->",
        "<?php ?>",
        "<![CDATA[<script>]]>",
    ],
)
def test_nothing_is_run_or_loaded(text):
    page = Text()
    page.feed(body(text, scores=b"<svg/>"))
    assert page.tags <= {"p"}


def test_pictures_are_embedded():
    html = body(picture("scores", plain('a "b" <c>')), scores=b"<svg/>")
    assert html == '<p><img alt="a &quot;b&quot; &lt;c&gt;" src="data:image/svg+xml;base64,PHN2Zy8+"></p>\n'


def test_details_are_folded():
    html = body(f"<details><summary>Settings (median)</summary>\n\n{table(['a'], [['1']])}\n\n</details>")
    assert html.startswith(
        '<details><summary>Settings (median)</summary>\n<div class="wide" tabindex="0"><table>'
    )
    assert html.rstrip().endswith("</details>")
