"""The page on which a sample is labelled in full, in Chromium."""

from __future__ import annotations

import numpy as np
import pytest

from spml.audit.folder import data_settings
from spml.audit.sheets import read_answers, write_sheet
from spml.config import DataConfig
from spml.review.labelling import labelled_of, write_page_labels
from tests.helpers.reviews import CLASSES, make_sample
from tests.review.browser import CHROMIUM, Page, process, serving, violations

pytest.importorskip("playwright", reason="playwright, which drives the browser, is not installed")
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here (Debian: apt-get install chromium)"),
]
FIRST = "#boxes input"


@pytest.fixture
def sheet(tmp_path):
    return make_sample(tmp_path, runs=["nowhere"])


@pytest.fixture
def page(browser, sheet):
    with serving(sheet) as server:
        page = Page(browser, server.address, first=FIRST)
        yield page
        page.close()


def ticked(page):
    return page.page.locator("#boxes label:has(:checked) span").all_text_contents()


def test_the_whole_sample_by_keyboard(page, sheet):
    """Labels by digit, by arrows and by name; what was typed is what the table holds."""
    expected = []
    for place in range(24):
        name = page.text("file")
        given = ticked(page)
        wanted = [label for bit, label in enumerate(CLASSES) if (place >> bit) & 1]
        names = page.page.locator("#boxes span").all_text_contents()
        for label in sorted(set(wanted) ^ set(given)):
            if place % 3 == 0:
                page.page.keyboard.press(str(names.index(label) + 1))
            elif place % 3 == 1:
                page.page.evaluate("document.activeElement.blur()")
                for _ in range(names.index(label) + 1):
                    page.page.keyboard.press("ArrowDown")
                page.page.keyboard.press("Space")
            else:
                page.page.keyboard.press("/")
                page.page.keyboard.type(label[:2].upper())
                page.page.keyboard.press("Enter")
                page.page.keyboard.press("Escape")
        page.press("c", f"Saved: {name} is complete with {len(wanted)} label")
        expected.append((name, [label in wanted for label in CLASSES]))
    page.wait("status", "This was the last one. Use the labels below.")
    assert page.text("complete-count") == "24 of 24"
    assert page.page.is_visible("#use")
    output, _ = write_page_labels(sheet)
    answers = read_answers(output, CLASSES)
    assert list(zip(answers.ids, answers.truth.tolist(), strict=True)) == expected


def test_quick_typing_loses_nothing_and_meets_no_unseen_photo(page):
    first, known = page.text("file"), ticked(page)
    for key in "23c23":  # the last two come before the next photo is there
        page.page.keyboard.press(key)
    page.wait("status", f"Saved: {first} is complete with 3 labels.")
    assert page.text("file") != first
    assert len(ticked(page)) in (1, 3)
    page.page.keyboard.press("ArrowLeft")
    page.wait("file", first)
    assert sorted(ticked(page)) == sorted(CLASSES)
    assert known[0] in ticked(page)


def test_undo_and_what_contradicts_the_data(page):
    name, (known,) = page.text("file"), ticked(page)
    page.press("1", f"Saved: {known}, no.")
    lost = f"{known} is known in the data, but not ticked."
    assert page.text("contradiction") == f"{lost} Your answer counts; correct the data, too, if it is wrong."
    page.press("c", f"Saved: {name} is complete with 0 labels. {lost}")
    assert page.text("contradicted") == "1"
    page.press("z", f"Undone: complete of {name}.")
    page.press("z", f"Undone: {known} of {name}.")
    assert (page.text("file"), ticked(page)) == (name, [known])
    assert page.page.is_hidden("#contradiction")
    page.press("z", "You have nothing to undo.")


def test_the_search(page):
    page.page.keyboard.press("/")
    page.page.keyboard.type("o")
    assert page.page.locator("#boxes span").all_text_contents() == ["dog"]
    page.page.keyboard.type("x")
    assert page.text("more") == "No class has “ox” in its name."
    page.page.keyboard.press("Enter")
    page.page.keyboard.press("Escape")
    assert page.page.locator("#boxes input").count() == 3
    assert len(ticked(page)) == 1


def test_kill_and_reload(browser, sheet):
    server = process(sheet)
    page = Page(browser, server.address, first=FIRST)
    first = page.text("file")
    page.press("2", "Saved: ")
    page.press("c", f"Saved: {first} is complete with 2 labels.")
    second, before = page.text("file"), ticked(page)
    server.kill()
    page.page.keyboard.press("2")
    page.wait("problem", "Not saved: the server does not answer. Earlier answers are safe.")
    assert ticked(page) == before  # the page shows what is on the disk
    page.page.keyboard.press("c")
    page.page.wait_for_timeout(200)
    assert page.text("file") == second
    page.page.close()
    with process(sheet) as again:
        page = Page(browser, again.address, first=FIRST)
        assert (page.text("file"), page.text("complete-count")) == (second, "1 of 24")
        page.page.keyboard.press("ArrowLeft")
        page.wait("file", first)
        assert len(ticked(page)) == 2
        page.press("z", f"Undone: complete of {first}.")
        page.page.reload()
        page.ready()
        assert (page.text("file"), page.text("complete-count")) == (first, "0 of 24")
        page.close()


def test_two_reviewers_and_a_conflict(browser, sheet):
    with serving(sheet) as one, serving(sheet, reviewer="ben") as two:
        ann = Page(browser, one.address, first=FIRST)
        name = ann.text("file")
        ann.press("2", "Saved: ")
        ann.press("c", "Saved: ")
        ben = Page(browser, two.address, first=FIRST)
        assert ben.text("position") == "2 of 24 samples"
        ben.page.keyboard.press("ArrowLeft")
        ben.wait("file", name)
        assert ben.text("others").startswith("ann: ")
        assert len(ticked(ben)) == 1
        ben.press("c", "Saved: ")
        assert ben.text("conflicts") == "1"
        ben.page.select_option("#show", "conflict")
        ben.wait("position", "1 of 1 sample")
        assert ben.text("others").startswith("Reviewers disagree. One of them must change the labels.")
        ben.page.locator("#show").blur()
        ben.press("2", ", yes.")
        assert (ben.text("conflicts"), ben.text("complete-count")) == ("0", "1 of 24")
        ben.page.click("#next-step summary")
        ben.page.click("#use")
        ben.wait("status", "The labels could not be used.")
        assert "is not written: 1 sample is complete" in ben.text("used")
        assert not labelled_of(sheet).exists()
        ann.close()
        ben.close()


# The layout is the same in both schemes, and the colours are at every width.
@pytest.mark.parametrize(("width", "scheme"), [(320, "light"), (1280, "dark")])
def test_axe_finds_nothing_and_nothing_is_cut_off(browser, sheet, scheme, width):
    with serving(sheet) as server:
        size = {"width": width, "height": 800}
        page = Page(browser, server.address, first=FIRST, color_scheme=scheme, viewport=size)
        page.page.wait_for_selector("#photo:not([hidden])")
        assert not violations(page)
        page.press("1", "Saved: ")
        page.press("c", "Saved: ")
        page.page.evaluate("() => { document.getElementById('next-step').open = true; }")
        assert not violations(page)
        assert page.page.evaluate("document.documentElement.scrollWidth") <= width
        right = "Math.max(...[...document.querySelectorAll('button, select, input, li, code, img')].map("
        assert page.page.evaluate(right + "(each) => each.getBoundingClientRect().right))") <= width
        page.page.keyboard.press("?")
        assert not violations(page)
        page.close()


def test_many_classes_and_rows_without_pictures(browser, tmp_path):
    classes = [f"class {number:03}" for number in range(150)]
    classes[120] = "<img src=x onerror=alert(1)> zebra"
    np.savez(
        tmp_path / "x.npz", X=np.eye(25, dtype=np.float32), Y=np.eye(25, 150, dtype=np.int8), classes=classes
    )
    config = DataConfig(path=str(tmp_path / "x.npz"))
    ids = [str(row) for row in range(25)]
    about = {"runs": [], "data": data_settings(config)}
    sheet = write_sheet(tmp_path / "s.csv", ids, [[name] for name in classes[:25]], classes, about).sheet
    (tmp_path / "texts.csv").write_text("row,text\n" + "".join(f"{row},text {row}\n" for row in range(25)))
    with serving(sheet, rows=tmp_path / "texts.csv") as server:
        page = Page(browser, server.address, first=FIRST)
        assert (page.text("placeholder"), page.text("more")) == ("0", "50 classes more: find them by name.")
        assert page.page.locator("#content dd").all_text_contents() == ["text 0"]
        assert page.page.locator("#boxes input").count() == 100
        page.page.keyboard.press("/")
        page.page.keyboard.type("zebra")
        page.page.keyboard.press("Enter")
        page.wait("status", "zebra, yes.")
        assert page.text("question") == f"2 labels ticked (not shown here: {classes[120]})"
        assert page.page.locator("#panel img").count() == 0
        page.close()


def test_single_keys_can_be_turned_off(page):
    page.page.keyboard.press("?")
    page.page.uncheck("#keys")
    page.close_help()
    page.page.keyboard.press("2")
    page.page.keyboard.press("c")
    page.page.keyboard.press("ArrowRight")
    page.wait("position", "2 of 24")
    assert page.text("complete-count") == "0 of 24"
    reached = set()
    for _ in range(20):
        page.page.keyboard.press("Tab")
        reached.add(page.page.evaluate("document.activeElement.id || document.activeElement.type"))
    assert {"show", "film", "search", "checkbox", "complete", "previous", "undo", "next"} <= reached
