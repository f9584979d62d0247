"""The page in Chromium: mouse, keyboard, narrow, dark, accessible, and safe against a kill."""

from __future__ import annotations

import numpy as np
import pytest

from spml.config import DataConfig
from spml.review.merged import reviewed
from tests.helpers.reviews import PHOTOS, audit_of, make_audit
from tests.review.browser import CHROMIUM, Page, process, serving, violations

pytest.importorskip("playwright", reason="playwright, which drives the browser, is not installed")
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here (Debian: apt-get install chromium)"),
]


@pytest.fixture
def server(audit):
    with serving(audit) as server:
        yield server


@pytest.fixture
def page(browser, server):
    page = Page(browser, server.address)
    yield page
    page.close()


def test_answers_by_mouse(page, audit):
    assert page.text("given") == "Given: cat"
    assert page.text("file") == "a.png"
    assert page.page.locator(".suggestion .label").all_text_contents() == ["dog", "bird"]
    assert page.page.locator(".probability").all_text_contents() == ["90 %", "20 %"]
    page.page.click(".suggestion:has-text('bird') [data-answer=no]")
    page.wait("status", "Saved: bird, no.")
    assert page.answers() == {"dog": None, "bird": "no"}
    page.page.click(".suggestion:has-text('dog') [data-answer=yes]")
    page.wait("file", "b.png")
    assert page.text("decided") == "2 of 8"
    assert page.text("yes") == "1"
    page.page.click("#previous")
    page.wait("file", "a.png")
    assert page.answers() == {"dog": "yes", "bird": "no"}
    assert reviewed(audit)[0].labels.to_ternary()[0].tolist() == [-1, 1, 1]


def test_the_names_of_classes_are_a_second_opinion(browser, tmp_path):
    audit = make_audit(tmp_path, by_name={"dog": "yes", "bird": "no"})
    with serving(audit) as server:
        page = Page(browser, server.address)
        shown = page.page.locator(".probability").all_text_contents()
        assert shown == ["90 %, and by its name", "20 %, but not by its name"]
        page.close()


def test_everything_by_keyboard(page, audit):
    page.press("y", "Saved: dog, yes.")
    page.press("n", "Saved: bird, no.")
    assert page.text("file") == "b.png"
    page.press("u", "Saved: cat, unsure.")
    assert page.text("file") == "c.png"
    page.page.keyboard.press("ArrowDown")
    page.press("y", "Saved: dog, yes.")
    assert page.answers() == {"cat": None, "dog": "yes"}
    page.page.keyboard.press("ArrowRight")
    page.wait("file", "d.png")
    page.page.keyboard.press("ArrowLeft")
    page.wait("file", "c.png")
    page.page.keyboard.press("?")
    assert page.page.is_visible("#help")
    page.page.keyboard.press("y")  # no answer while the help is open
    page.close_help()
    assert page.text("decided") == "4 of 8"
    assert reviewed(audit)[0].labels.to_ternary()[:3].tolist() == [[-1, 1, 1], [0, 0, 1], [1, 0, 1]]


@pytest.mark.parametrize(
    ("where", "shown"),
    [("0.5 0.25 0.25 0.5", (0.5, 0.25, 0.25, 0.5)), ("0.9 0.4 0.1 0.1", (0.75, 0.325, 0.25, 0.25))],
)
def test_the_window_of_a_label_is_outlined(browser, tmp_path, where, shown):
    """Under the pointer, or by a key; on the photo, which does not fill its frame, and not tiny."""
    audit = make_audit(tmp_path, size=(60, 40), where=where)
    with serving(audit) as server:
        page = Page(browser, server.address)
        page.page.wait_for_selector("#photo", state="visible")
        assert page.page.is_hidden("#window")
        page.page.hover(".suggestion:has-text('bird')")
        page.page.wait_for_selector("#window", state="visible")
        photo, window = (page.page.locator(name).bounding_box() for name in ("#photo", "#window"))
        scale = min(photo["width"] / 60, photo["height"] / 40)
        width, height = 60 * scale, 40 * scale
        left = photo["x"] + (photo["width"] - width) / 2
        top = photo["y"] + (photo["height"] - height) / 2
        found = [window[name] for name in ("x", "y", "width", "height")]
        x, y, w, h = shown
        expected = [left + x * width, top + y * height, w * width, h * height]
        np.testing.assert_allclose(found, expected, atol=1)
        page.page.hover("h1")
        page.page.wait_for_selector("#window", state="hidden")
        page.page.keyboard.press("w")
        page.page.wait_for_selector("#window", state="visible")
        page.page.keyboard.press("w")
        page.page.wait_for_selector("#window", state="hidden")
        page.close()


def test_undo_goes_back_to_the_question(page):
    page.press("y", "Saved: dog, yes.")
    page.press("n", "Saved: bird, no.")
    page.press("y", "Saved: cat, yes.")
    assert page.text("file") == "c.png"
    page.press("z", "Undone: the answer on cat of b.png.")
    assert (page.text("file"), page.answers()) == ("b.png", {"cat": None})
    page.press("z", "Undone: the answer on bird of a.png.")
    assert page.text("file") == "a.png"
    assert page.answers() == {"dog": "yes", "bird": None}
    page.press("z", "Undone: the answer on dog")
    page.press("z", "You have no answer to undo.")
    assert page.text("decided") == "0 of 8"


def test_the_next_question_is_said(page):
    page.press("y", "Saved: dog, yes. Next: bird in a.png?")
    page.press("n", "Saved: bird, no. Next: cat in b.png?")


def test_the_end_says_what_was_passed_over(page):
    for place in range(2, 7):
        page.page.keyboard.press("ArrowRight")
        page.wait("position", f"{place} of 6 samples")
    page.press("y", "This is the end of the list. Earlier questions without an answer: 7.")


def test_to_the_end_and_with_exact_numbers(page, audit):
    seen = []
    for _ in range(8):
        seen.append(page.text("file"))
        before = page.text("decided")
        page.page.keyboard.press("y" if page.text("file") in "a.png c.png" else "n")
        page.page.wait_for_function(
            "text => document.getElementById('decided').textContent !== text", arg=before
        )
    page.wait("status", "Everything is decided.")
    assert sorted(set(seen)) == sorted(name for name, (_, others) in PHOTOS.items() if others)
    assert page.text("precision") == "50 %"
    assert page.text("expected") == "0"
    assert reviewed(audit)[1][0] == "4 known positives and 4 known negatives from the review."


def test_kill_and_reload(browser, audit):
    server = process(audit)
    page = Page(browser, server.address)
    page.press("y", "Saved: dog, yes.")
    page.press("n", "Saved: bird, no.")
    server.kill()
    page.page.keyboard.press("y")
    page.page.wait_for_selector("#problem:not([hidden])")
    assert page.text("problem").startswith("Not saved: the server does not answer. Earlier answers are safe.")
    assert (page.text("file"), page.answers()) == ("b.png", {"cat": None})  # the page did not go on
    page.page.close()
    with process(audit) as again:
        page = Page(browser, again.address)
        assert (page.text("file"), page.text("decided")) == ("b.png", "2 of 8")
        page.press("z", "Undone: the answer on bird of a.png.")
        page.page.reload()
        page.ready()
        assert (page.text("file"), page.text("decided")) == ("a.png", "1 of 8")
        assert page.answers() == {"dog": "yes", "bird": None}
        page.close()


def test_a_second_reviewer_and_a_conflict(browser, server, audit):
    ann = Page(browser, server.address)
    ann.press("y", "Saved: dog, yes.")
    with serving(audit, reviewer="ben") as other:
        ben = Page(browser, other.address)
        assert ben.text("decided") == "1 of 8"
        assert ben.page.locator(".others").all_text_contents() == ["ann said yes"]
        assert ben.answers() == {"dog": None, "bird": None}  # of ben
        ben.page.keyboard.press("ArrowUp")
        ben.press("n", "Saved: dog, no.")
        assert ben.text("left-out") == "of 1 decided, 1 conflict"
        ben.page.select_option("#show", "conflict")
        ben.wait("position", "1 of 1 sample")
        assert ben.answers()["dog"] == "no"
        ben.close()
    ann.close()


def test_filters(page):
    page.page.select_option("#column", label="bird (3)")
    page.wait("position", "1 of 3 samples")
    assert page.text("decided") == "0 of 3"
    assert page.page.locator(".suggestion .label").all_text_contents() == ["bird"]
    page.page.select_option("#minimum", "0.5")
    page.wait("position", "1 of 1 sample")
    assert (page.text("file"), page.text("decided")) == ("d.png", "0 of 1")
    page.page.locator("#minimum").blur()
    page.press("y", "Everything is decided.")
    page.page.select_option("#show", "undecided")
    page.wait("status", "No entry matches the filters.")
    assert not page.page.is_visible("#photo")
    page.page.select_option("#show", "decided")
    page.wait("file", "d.png")
    page.page.wait_for_selector("#photo:not([hidden])")


def test_a_photo_that_went_missing_has_a_placeholder(browser, server, audit):
    (audit.parent / "photos" / "b.png").unlink()
    page = Page(browser, server.address)
    page.page.keyboard.press("ArrowRight")
    page.wait("placeholder", "No picture. b.png: can't be read: No such file or directory")
    assert page.page.is_visible("#placeholder")
    assert not page.page.is_visible("#photo")
    page.press("y", "Saved: cat, yes.")
    page.page.wait_for_selector("#photo:not([hidden])")
    assert not page.page.is_visible("#placeholder")
    assert all("404" in error for error in page.errors)
    page.page.close()


def test_rows_without_pictures(browser, tmp_path):
    np.savez(tmp_path / "x.npz", X=np.eye(4, dtype=np.float32), Y=np.eye(4), classes=["a", "b", "c", "d"])
    listed = {"2": ("c", {"b": 0.9}), "0": ("a", {"b": 0.5})}
    audit = audit_of(DataConfig(path=str(tmp_path / "x.npz")), tmp_path / "audit", listed)
    with serving(audit) as server:
        page = Page(browser, server.address)
        assert (page.text("placeholder"), page.text("given")) == ("2", "Given: c")
        assert page.text("question") == "Does it also have …"
        page.press("y", "Saved: b, yes.")
        assert page.text("placeholder") == "0"
        page.close()


@pytest.mark.parametrize("width", [320, 768, 1280])
def test_no_width_needs_horizontal_scrolling(browser, tmp_path, width):
    long = {"a" * 60 + ".png": ("cat", {"d" * 50: 0.9, "bird": 0.5}), "b.png": ("d" * 50, {"cat": 0.4})}
    audit = make_audit(tmp_path, {**long, "c.png": ("bird", {})})
    with serving(audit) as server:
        page = Page(browser, server.address, viewport={"width": width, "height": 640})
        assert page.page.evaluate("document.documentElement.scrollWidth") <= width
        # Nothing is cut off at the right either.
        right = "Math.max(...[...document.querySelectorAll('button, select, .suggestion, img')].map("
        right += "(each) => each.getBoundingClientRect().right))"
        assert page.page.evaluate(right) <= width
        page.press("y", "Saved: ddd")
        page.close()


def test_the_photo_stays_in_sight_on_a_narrow_page(browser, server):
    page = Page(browser, server.address, viewport={"width": 320, "height": 640})
    page.page.wait_for_selector("#photo:not([hidden])")
    page.page.keyboard.press("ArrowDown")
    page.page.locator("#next").scroll_into_view_if_needed()
    box = page.page.locator("#photo").bounding_box()
    assert 0 <= box["y"] < 640 - 100
    page.close()


def test_dark_mode(browser, server):
    def brightness(page, what):
        colour = page.page.evaluate(f"getComputedStyle(document.body).{what}")
        return sum(map(int, colour.removeprefix("rgb(").rstrip(")").split(",")))

    light = Page(browser, server.address, color_scheme="light")
    dark = Page(browser, server.address, color_scheme="dark")
    assert brightness(light, "backgroundColor") > 600
    assert brightness(dark, "backgroundColor") < 150
    assert brightness(light, "color") < 150
    assert brightness(dark, "color") > 600
    light.close()
    dark.close()


# The layout is the same in both schemes, and the colours are at every width.
@pytest.mark.parametrize(("width", "scheme"), [(320, "light"), (1280, "dark")])
def test_axe_finds_nothing(browser, server, scheme, width):
    page = Page(browser, server.address, color_scheme=scheme, viewport={"width": width, "height": 900})
    page.page.wait_for_selector("#photo:not([hidden])")
    assert not violations(page)
    for key in "ynu":
        page.press(key, "Saved")
        page.page.keyboard.press("ArrowLeft")
    assert not violations(page)
    page.page.keyboard.press("?")
    assert not violations(page)
    page.close()


def test_rows_with_text_and_features(browser, tmp_path):
    np.savez(
        tmp_path / "x.npz", X=np.diag([2.0, 3.0, 4.0]).astype(np.float32), Y=np.eye(3),
        classes=["a", "b", "c"], feature_names=["red", "green", "blue"],
    )  # fmt: skip
    (tmp_path / "texts.csv").write_text(f"row,text\n0,<b>first</b> {'very ' * 400}long\n2,third\n")
    listed = {"0": ("a", {"b": 0.9, "c": 0.8}), "2": ("c", {"a": 0.7})}
    audit = audit_of(DataConfig(path=str(tmp_path / "x.npz")), tmp_path / "audit", listed)
    with serving(audit, rows=tmp_path / "texts.csv") as server:
        page = Page(browser, server.address, viewport={"width": 320, "height": 640})
        assert page.page.locator("#content dt").all_text_contents() == ["text", "red"]
        first, red = page.page.locator("#content dd").all_text_contents()
        assert first.startswith("<b>first</b> very very")
        assert red == "2"
        assert page.page.evaluate("document.documentElement.scrollWidth") <= 320
        assert not violations(page)
        page.press("y", "Saved: b, yes.")
        page.press("n", "Saved: c, no.")
        page.wait("file", "2")
        assert page.page.locator("#content dd").all_text_contents() == ["third", "4"]
        page.close()


def test_focus_is_visible_and_stays_on_the_answer(page):
    page.page.focus(".suggestion[aria-current] [data-answer=no]")
    page.page.keyboard.press("Tab")
    width = page.page.evaluate("getComputedStyle(document.activeElement).outlineWidth")
    assert width == "3px"
    page.page.keyboard.press("Shift+Tab")
    page.page.keyboard.press("Enter")
    page.wait("status", "Saved: dog, no.")
    focused = "[document.activeElement.dataset.answer, document.activeElement.dataset.question]"
    assert page.page.evaluate(focused) == ["no", "1"]


def test_all_controls_are_reached_by_tab(page):
    reached = []
    for _ in range(30):
        page.page.keyboard.press("Tab")
        reached.append(
            page.page.evaluate("document.activeElement.id || document.activeElement.dataset.answer")
        )
    wanted = {
        "open-help",
        "column",
        "minimum",
        "show",
        "film",
        "yes",
        "no",
        "unsure",
        "previous",
        "undo",
        "next",
    }
    assert wanted <= set(reached)


def test_single_keys_can_be_turned_off(page):
    page.page.keyboard.press("?")
    page.page.uncheck("#keys")
    page.close_help()
    page.page.keyboard.press("y")
    page.page.keyboard.press("ArrowRight")
    page.wait("file", "b.png")
    assert page.text("decided") == "0 of 8"
    page.page.reload()
    page.ready()
    page.page.keyboard.press("y")
    page.page.keyboard.press("ArrowRight")
    page.wait("file", "b.png")
    assert page.text("decided") == "0 of 8"


def test_keys_are_for_the_page_as_soon_as_the_help_is_closed(page):
    page.page.keyboard.press("?")
    page.page.focus("#keys")
    # The browser moves the focus out of a closed dialog some time later; the key comes before that.
    pressed = "new KeyboardEvent('keydown', {key: 'ArrowRight', bubbles: true})"
    page.page.evaluate(f"() => document.getElementById('keys').dispatchEvent({pressed})")
    assert page.text("file") == "a.png"
    page.page.evaluate(
        "() => { const keys = document.getElementById('keys'); document.getElementById('help').close(); "
        f"keys.dispatchEvent({pressed}); }}"
    )
    page.wait("file", "b.png")


def test_names_of_the_data_are_text(browser, tmp_path):
    name = "<img src=x onerror=alert(1)>"
    audit = make_audit(tmp_path, {"a.png": (name, {"cat": 0.9}), "b.png": ("cat", {name: 0.8})})
    with serving(audit, reviewer="<b>ann</b>") as server:
        page = Page(browser, server.address)
        assert page.text("given") == f"Given: {name}"
        page.press("y", "Saved: cat, yes.")
        assert page.page.locator(".label").all_text_contents() == [name]
        assert page.page.locator("#panel img").count() == 0
        page.close()


def test_only_visible_photos_of_ten_thousand_are_in_the_document(browser, tmp_path):
    photos = {f"{row:05}.png": ("cat", {"dog": 1 - row / 10_001}) for row in range(10_000)}
    audit = make_audit(tmp_path, {**photos, "z.png": ("dog", {})}, size=(12, 12))
    with serving(audit) as server:
        page = Page(browser, server.address)
        assert page.text("position") == "1 of 10,000 samples"
        cells = page.page.locator("#film [role=option]")
        assert cells.count() < 60
        page.page.evaluate("document.getElementById('film').scrollTop = 1e9")
        page.page.wait_for_function(
            "() => document.getElementById('cell-9999')?.querySelector('img').naturalWidth"
        )
        assert cells.count() < 60
        page.page.click("#cell-9999")
        page.wait("position", "10,000 of 10,000 samples")
        page.page.focus("#film")
        page.page.keyboard.press("Home")
        page.wait("position", "1 of 10,000 samples")
        assert len(list((audit / "thumbnails").iterdir())) < 300
        page.close()


def test_a_lost_connection_is_forgotten_when_it_is_back(browser, server):
    page = Page(browser, server.address)
    page.page.route("**/api/**", lambda route: route.abort())
    page.page.keyboard.press("y")
    page.page.wait_for_selector("#problem:not([hidden])")
    page.page.unroute("**/api/**")
    page.wait("status", "The server answers again. Your last answer was not saved")
    assert page.page.is_hidden("#problem")
    page.press("y", "Saved: dog, yes.")
    page.page.close()  # the console has reported the lost requests


def test_a_telephone_shows_the_photo_first(browser, server):
    """The header takes at most a fifth of the screen, and the next photo begins at its top."""
    page = Page(browser, server.address, viewport={"width": 375, "height": 667})
    height = "document.querySelector('header').getBoundingClientRect().height"
    assert page.page.evaluate(height) <= 667 / 5
    assert page.page.is_hidden("#filters")
    page.page.click("#open-filters")
    assert page.page.is_visible("#filters")
    page.page.click("#open-filters")
    page.page.evaluate("scrollTo(0, 1000)")
    page.page.click("#next")
    page.wait("position", "2 of")
    page.page.wait_for_function("Math.abs(document.getElementById('stage').getBoundingClientRect().top) <= 2")
    page.close()


def test_buttons_show_where_and_enlarge(browser, server):
    page = Page(browser, server.address)
    page.page.wait_for_selector("#zoom:not([hidden])")
    before = page.page.locator("#photo").bounding_box()["width"]
    page.page.click("#zoom")
    assert page.page.locator("#photo").bounding_box()["width"] == pytest.approx(2.5 * before)
    assert page.page.get_attribute("#zoom", "aria-pressed") == "true"
    page.page.keyboard.press("x")
    assert page.page.locator("#photo").bounding_box()["width"] == pytest.approx(before)
    page.close()


def test_least_sure_first(browser, audit):
    with process(audit, "--order", "unsure") as started:
        page = Page(browser, started.address)
        assert page.page.input_value("#order") == "unsure"
        page.page.select_option("#order", "rank")
        page.wait("file", "a.png")
        page.close()
