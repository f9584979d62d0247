"""The page of an audit in Chromium: wrong labels, added labels, the grid, and the next command."""

from __future__ import annotations

import numpy as np
import pytest

from spml.audit.folder import WrongLabel
from spml.config import DataConfig
from spml.review.merged import reviewed
from tests.helpers.reviews import audit_of, make_audit
from tests.review.browser import CHROMIUM, Page, process, serving, violations

pytest.importorskip("playwright", reason="playwright, which drives the browser, is not installed")
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here (Debian: apt-get install chromium)"),
]
WRONG = [WrongLabel("e.png", "dog", 0.1, 1), WrongLabel("a.png", "cat", 0.3, 2)]


@pytest.fixture
def audit(tmp_path):
    return make_audit(tmp_path, wrong=WRONG)


@pytest.fixture
def page(browser, audit):
    with serving(audit) as server:
        page = Page(browser, server.address)
        yield page
        page.close()


def labels_of(audit):
    return reviewed(audit)[0].labels.to_ternary().tolist()


def test_given_labels_that_may_be_wrong(page, audit):
    page.page.select_option("#list", "wrong")
    page.wait("title", "Given labels that may be wrong")
    page.wait("file", "e.png")
    page.page.locator("#list").blur()
    assert page.text("question") == "Does it really show …"
    assert page.page.locator(".probability").all_text_contents() == ["confidence 10 %"]
    assert page.page.is_hidden("#minimum-filter")
    assert page.text("expected") == "–"
    page.press("n", "Saved: dog, no. Next: cat in a.png?")
    assert page.text("yes") == "1"  # a mistake that was found
    page.press("y", "Everything is decided.")
    assert page.text("precision") == "50 %"
    assert not violations(page)
    assert [labels_of(audit)[row] for row in (0, 4)] == [[0, 1, 0], [0, 0, -1]]
    assert "1 given label was wrong, and known negatives now." in reviewed(audit)[1]
    page.page.select_option("#list", "missing")
    page.wait("title", "Missing labels")
    page.wait("decided", "0 of 8")


def test_a_label_that_is_not_on_the_list_is_added(page, audit):
    page.page.keyboard.press("ArrowRight")
    page.wait("file", "b.png")
    page.page.keyboard.press("a")
    page.page.keyboard.type("cow")
    page.page.keyboard.press("Enter")
    page.wait("status", "There is no class cow. Choose one of the 3 classes.")
    page.page.fill("#add-label", "DOG")
    page.page.keyboard.press("Enter")
    page.wait("problem", "'dog' is given in 'b.png' already, and not on a list. Nothing was saved.")
    page.page.fill("#add-label", "Bird")
    page.page.keyboard.press("Enter")
    page.wait("status", "Saved: bird, yes, in b.png.")
    assert page.page.is_hidden("#problem")
    assert page.answers() == {"cat": None, "bird": "yes"}
    assert page.text("decided") == "0 of 8"  # the numbers are about the list
    assert labels_of(audit)[1] == [1, 0, 1]
    page.press("z", "Undone: the answer on bird of b.png.")
    assert page.answers() == {"cat": None}
    errors, page.errors = page.errors, []
    assert len(errors) == 1
    assert "409" in errors[0]


def grid_of(page, label):
    if page.page.is_visible("#open-filters"):
        page.page.click("#open-filters")
    page.page.select_option("#column", label=label)
    page.page.wait_for_selector("main[aria-busy=false]")
    page.page.locator("#column").blur()
    page.page.keyboard.press("g")
    page.page.wait_for_selector(".tile")


def tiles(page):
    """Label and mark of each tile."""
    return page.page.evaluate(
        "() => [...document.querySelectorAll('.tile')].map((each) => "
        "`${each.getAttribute('aria-label')}${each.getAttribute('aria-pressed') === 'true' ? ' *' : ''}`)"
    )


def test_a_grid_of_one_class_by_keyboard(page, audit):
    grid_of(page, "bird (3)")
    assert page.text("grid-title") == "bird: 1 to 3 of 3"
    assert tiles(page) == ["d.png, undecided", "e.png, undecided", "a.png, undecided"]
    page.press("u", "Saved: bird, unsure, for 1 sample.")  # the one with the focus
    page.page.keyboard.press("ArrowRight")
    page.page.keyboard.press("Space")
    page.page.keyboard.press("End")
    page.page.keyboard.press("Space")
    assert tiles(page) == ["d.png, unsure", "e.png, undecided *", "a.png, undecided *"]
    assert page.page.locator("#bulk [data-answer=no]").inner_text() == "✗ No to 2 marked"
    page.press("n", "Saved: bird, no, for 2 samples.")
    assert tiles(page) == ["d.png, unsure", "e.png, no", "a.png, no"]
    assert page.text("decided") == "3 of 3"
    assert labels_of(audit)[4] == [-1, 0, 1]
    page.press("z", "Undone: 2 answers on bird.")
    assert tiles(page) == ["d.png, unsure", "e.png, undecided", "a.png, undecided"]
    page.page.click("#bulk [data-answer=yes]")
    page.wait("status", "Saved: bird, yes, for 2 samples.")
    assert tiles(page) == ["d.png, unsure", "e.png, yes", "a.png, yes"]
    assert page.page.is_disabled("#bulk [data-answer=yes]")
    page.page.keyboard.press("g")
    page.page.wait_for_selector("main[aria-busy=false]")
    assert page.answers() == {"bird": "unsure"}
    assert labels_of(audit)[0] == [1, 1, 0]


def test_the_grid_takes_the_class_of_the_question(page):
    page.page.keyboard.press("ArrowRight")
    page.wait("file", "b.png")
    page.page.keyboard.press("g")
    page.wait("grid-title", "cat: 1 to 2 of 2")
    page.page.select_option("#column", "")
    page.page.wait_for_selector("#single", state="visible")
    assert page.page.is_hidden("#grid")


@pytest.mark.parametrize(("width", "scheme"), [(320, "light"), (1280, "dark")])
def test_a_grid_of_hundreds_with_windows(browser, tmp_path, width, scheme):
    photos = {f"{row:03}.png": ("cat", {"dog": 1 - row / 1000}) for row in range(230)}
    audit = make_audit(tmp_path, {**photos, "z.png": ("dog", {})}, where="0.5 0.25 0.25 0.5")
    with serving(audit) as server:
        page = Page(browser, server.address, viewport={"width": width, "height": 800}, color_scheme=scheme)
        grid_of(page, "dog (230)")
        assert page.page.locator(".tile").count() == 200
        page.page.wait_for_function("() => document.querySelector('.tile img').naturalWidth")
        image, window = (
            page.page.locator(f".tile {each}").first.bounding_box() for each in ("img", ".window")
        )
        expected = [image["x"] + 0.5 * image["width"], image["y"] + 0.25 * image["height"]]
        np.testing.assert_allclose([window["x"], window["y"]], expected, atol=1)
        np.testing.assert_allclose(window["height"], 0.5 * image["height"], atol=1)
        assert page.page.evaluate("document.documentElement.scrollWidth") <= width
        assert not violations(page)
        page.page.click("#bulk [data-answer=no]")
        page.wait("status", "Saved: dog, no, for 200 samples.")
        page.page.click("#grid-next")
        page.wait("grid-title", "dog: 201 to 230 of 230")
        page.page.click("#bulk [data-answer=yes]")
        page.wait("status", "Saved: dog, yes, for 30 samples.")
        assert page.text("decided") == "230 of 230"
        assert page.text("yes") == "30"
        assert not violations(page)
        page.close()


def test_a_kill_between_bulk_answers(browser, audit):
    server = process(audit)
    page = Page(browser, server.address)
    grid_of(page, "dog (3)")
    page.page.click("#bulk [data-answer=yes]")
    page.wait("status", "Saved: dog, yes, for 3 samples.")
    server.kill()
    page.page.keyboard.press("z")
    page.wait("problem", "Not saved: the server does not answer.")
    assert all(tile.endswith("yes") for tile in tiles(page))
    page.page.close()
    with process(audit) as again:
        page = Page(browser, again.address)
        assert page.text("decided") == "3 of 8"
        page.press("z", "Undone: 3 answers on dog.")  # in one step, after a restart, too
        assert page.text("decided") == "0 of 8"
        page.close()


def test_two_reviewers_in_a_grid(browser, audit):
    with serving(audit) as first, serving(audit, reviewer="ben") as second:
        ann, ben = Page(browser, first.address), Page(browser, second.address)
        for page, answer in ((ann, "yes"), (ben, "no")):
            grid_of(page, "cat (2)")
            page.page.keyboard.press("Home")
            page.press("y" if answer == "yes" else "n", f"Saved: cat, {answer}, for 1 sample.")
        assert tiles(ben)[0] == "b.png, in conflict"
        ann.close()
        ben.close()


def test_rows_without_pictures_in_a_grid(browser, tmp_path):
    np.savez(tmp_path / "x.npz", X=np.eye(3, dtype=np.float32), Y=np.eye(3), classes=["a", "b", "c"])
    (tmp_path / "texts.csv").write_text("row,text\n0,first\n1,second\n2,third\n")
    listed = {"0": ("a", {"b": 0.9}), "2": ("c", {"b": 0.7})}
    audit = audit_of(DataConfig(path=str(tmp_path / "x.npz")), tmp_path / "audit", listed)
    with serving(audit, rows=tmp_path / "texts.csv") as server:
        page = Page(browser, server.address)
        grid_of(page, "b (2)")
        assert page.page.locator(".face").all_text_contents() == ["0\ntext: first", "2\ntext: third"]
        page.close()


def test_the_next_commands_are_shown_at_the_end(page, audit):
    assert page.page.is_hidden("#commands")
    for label, count in (("bird", 3), ("cat", 2), ("dog", 3)):
        grid_of(page, f"{label} ({count})")
        page.page.click("#bulk [data-answer=yes]")
        page.wait("status", f"Saved: {label}, yes, for {count} samples.")
        page.page.keyboard.press("g")
        page.page.wait_for_selector("#single", state="visible")
    page.page.wait_for_selector("#commands", state="visible")
    output = audit.parent / "photos" / "reviewed.csv"
    commands = page.page.locator("#commands code").all_text_contents()
    assert commands == [f"spml review export {audit} {output} --format csv", f"spml train {output}"]
    assert not violations(page)
