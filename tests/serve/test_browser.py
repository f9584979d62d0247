"""The page in Chromium: a photo is chosen, dropped, or reached by keyboard; rows are typed."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import urllib.request

import pytest

import spml
from tests.review.browser import CHROMIUM, chromium
from tests.serve.process import serving

pytest.importorskip("playwright", reason="playwright, which drives the browser, is not installed")
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here (Debian: apt-get install chromium)"),
]

DROP = """async ([name, bytes]) => {
  const files = new DataTransfer();
  files.items.add(new File([new Uint8Array(bytes)], name, {type: "image/png"}));
  document.body.dispatchEvent(new DragEvent("drop", {dataTransfer: files, bubbles: true, cancelable: true}));
}"""


@pytest.fixture(scope="module")
def browser():
    with chromium() as browser:
        yield browser


@pytest.fixture
def open_page(browser):
    """Opens a page; no script may fail, and nothing may be loaded from elsewhere."""
    errors = []

    def open_at(address, **options):
        page = browser.new_page(**{"viewport": {"width": 1000, "height": 800}, **options})
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda line: line.type == "error" and errors.append(line.text))
        page.on(
            "request",
            lambda request: (
                request.url.startswith((address.removesuffix("docs"), "blob:"))
                or errors.append(f"request to {request.url}")
            ),
        )
        page.goto(address)
        page.wait_for_selector("[data-ready]")
        return page

    yield open_at
    # A request that is refused is reported by the browser, too; that is how the page learns of it.
    assert [error for error in errors if "the server responded with a status of 422" not in error] == []


def test_photos_are_answered(photo_run, photos, open_page):
    path = photos / "red/01.png"
    expected = spml.load(photo_run).predict(path)
    with serving(photo_run) as (address, _):
        page = open_page(address)
        assert page.text_content("#about") == "The model knows 3 classes."
        page.set_input_files("#files", [path, photos / "blue/02.png"])
        page.wait_for_selector("article:nth-of-type(2) table")
        assert page.text_content("#status") == "2 samples answered."
        assert page.text_content("article h2") == "01.png"
        assert page.text_content("article .labels") == (", ".join(expected.labels[0]) or "No label.")
        shown = {row.query_selector("th").text_content(): row.query_selector("td:last-child").text_content()
                 for row in page.query_selector_all("article:first-of-type tr")}  # fmt: skip
        for name, probability in zip(expected.classes, expected.probabilities[0].tolist(), strict=True):
            assert float(shown[name].removesuffix(" %")) == pytest.approx(100 * probability, abs=0.06)
        width = page.eval_on_selector(
            "article img", "async image => (await image.decode(), image.naturalWidth)"
        )
        assert width == 48

        page.evaluate(DROP, ["dropped.png", list((photos / "green/03.png").read_bytes())])
        page.wait_for_selector("h2:text-is('dropped.png')")
        page.evaluate(DROP, ["<b>broken</b>.png", [1, 2, 3]])
        page.wait_for_selector("article .error")
        assert page.text_content("h2") == "<b>broken</b>.png"
        assert "not an image of a known format" in page.text_content("article .error")


def test_the_keyboard_is_enough_and_nothing_is_wider_than_a_phone(photo_run, open_page, photos):
    with serving(photo_run) as (address, _):
        page = open_page(address, viewport={"width": 320, "height": 600})
        with page.expect_file_chooser() as chooser:  # listens before any key, so that no dialog is missed
            page.keyboard.press("Tab")
            assert page.evaluate("document.activeElement.id") == "files"
            page.keyboard.press("Space")
        chooser.value.set_files(photos / "red/01.png")
        page.wait_for_selector("article table")
        assert page.evaluate("document.documentElement.scrollWidth") <= 320


def test_the_page_is_accessible(photo_run, open_page, photos):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed")
    with serving(photo_run) as (address, _):
        for scheme in ("light", "dark"):
            page = open_page(address, color_scheme=scheme, bypass_csp=True)  # axe is added as a script
            page.set_input_files("#files", photos / "red/01.png")
            page.wait_for_selector("article table")
            violations = axe.Axe().run(page).response["violations"]
            assert [each["id"] for each in violations] == []


def test_rows_are_typed(feature_run, open_page):
    with serving(feature_run) as (address, _):
        page = open_page(address)
        page.fill("#row", "0.1, 0.2 0.3;0.4\n0.5 0.6 0.7 0.8")
        page.click("button")
        page.wait_for_selector("article table")
        assert page.text_content("caption") == "Scores (not probabilities)"
        page.fill("#row", "1 2")
        page.click("button")
        page.wait_for_selector("#problem:not([hidden])")
        assert page.text_content("#problem") == "Row 0 (counted from 0) has 2 numbers; the model takes 8."


def test_a_text_is_typed(text_run, open_page):
    with serving(text_run) as (address, _):
        page = open_page(address)
        assert page.text_content("label[for=row]") == "Text of a sample"
        page.fill("#row", 'the "kitten"\npurrs')
        page.click("button")
        page.wait_for_selector("article table")
        assert page.text_content("article .labels") == "cat"


def test_the_addresses_are_shown_with_commands_that_work(
    photo_run, feature_run, text_run, photos, open_page, tmp_path
):
    for name in ("one", "two", "photo"):
        shutil.copy(photos / "red/01.png", tmp_path / f"{name}.jpg")
    samples = []
    bodies = {feature_run: {"features": [[0.5] * 8]}, text_run: {"texts": ["..."]}}
    for run in (photo_run, feature_run, text_run):
        (tmp_path / "body.json").write_text(json.dumps(bodies.get(run)))
        with serving(run) as (address, _):
            page = open_page(f"{address}/docs")
            with urllib.request.urlopen(f"{address}/openapi.json") as stream:
                described = json.load(stream)
            shown = [heading.text_content() for heading in page.query_selector_all("h2")]
            assert shown == [
                f"{method.upper()} {path}"
                for path, methods in described["paths"].items()
                for method in methods
            ]
            text = page.text_content("main")
            for parameter in described["paths"]["/predict"]["post"]["parameters"]:
                assert parameter["name"] in text
                assert parameter["description"] in text
            assert "auto, all, predicted, none; default: auto" in text
            commands = [each.text_content() for each in page.query_selector_all("pre")]
            assert run != text_run or '{"texts": ["..."]}' in commands
            commands = [command for command in commands if command.startswith("curl ")]
            assert {f"{address}{path}" for path in described["paths"]} == {
                each.split()[-1] for each in commands
            }
            for command in commands if shutil.which("curl") else []:
                curl = [*shlex.split(command), "--silent", "--fail"]
                answer = subprocess.run(curl, check=True, capture_output=True, cwd=tmp_path).stdout
                if command.endswith("/predict"):
                    samples.append(len(json.loads(answer)["predictions"]))
    assert samples in ([], [2, 1, 1, 1])


def test_the_addresses_fit_a_phone_and_are_accessible(photo_run, open_page):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed")
    with serving(photo_run) as (address, _):
        for scheme in ("light", "dark"):
            size = {"width": 375, "height": 600}
            page = open_page(f"{address}/docs", color_scheme=scheme, bypass_csp=True, viewport=size)
            assert page.evaluate("document.documentElement.scrollWidth") <= 375
            assert [each["id"] for each in axe.Axe().run(page).response["violations"]] == []
