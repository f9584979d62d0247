"""A review that is open, and the data that it fits."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from spml.audit.folder import WrongLabel
from spml.common.errors import InputError
from spml.review.progress import Selection
from spml.review.session import Review, open_data
from tests.helpers import write_image
from tests.helpers.reviews import CLASSES, audit_of, make_audit

ALL = Selection()


@pytest.fixture
def review(audit):
    review = Review(audit, "ann")
    yield review
    review.store.close()


def of(review, sample, selection=ALL):
    (card,) = review.cards([sample], selection)
    return card


def test_cards_hold_the_given_labels_and_the_selected_part_of_the_list_by_rank(review):
    first = of(review, 0)
    assert (first.name, first.given) == ("a.png", ["cat"])
    assert [(CLASSES[each.column], each.probability, each.status) for each in first.suggestions] == [
        ("dog", 0.9, "undecided"),
        ("bird", 0.2, "undecided"),
    ]
    assert review.listed_per_class("missing") == [3, 2, 3]
    with pytest.raises(KeyError):
        review.cards([6], ALL)  # g.png is not on the list
    assert [each.column for each in of(review, 0, Selection(0)).suggestions] == [0]
    assert [each.column for each in of(review, 2, Selection(minimum=0.65)).suggestions] == [1]
    assert sorted(review.shown(Selection(0))[0]) == [0, 3, 4]


def test_samples_by_rank_with_the_first_undecided_one(review):
    samples = review.shown(ALL)[0]
    assert samples[:4] == [0, 1, 2, 3]
    assert sorted(samples) == [0, 1, 2, 3, 4, 5]
    review.decide(0, 2, "yes", ALL)
    assert review.shown(ALL)[1] == 0  # one entry of a.png is left
    review.decide(0, 0, "no", ALL)
    assert review.shown(ALL) == (samples, 1)
    assert review.shown(ALL, "undecided")[0] == samples[1:]
    assert review.shown(ALL, "decided")[0] == [0]
    assert review.shown(ALL, "conflict") == ([], 0)


def test_an_answer_is_kept_with_its_check(review):
    order = review.lists["missing"].order(ALL)
    check = int(order.checks[4])
    entries = review.lists["missing"].entries
    assert review.decide(int(entries.rows[check]), int(entries.columns[check]), "no", ALL).random_check
    assert not review.decide(0, 2, "yes", ALL).random_check
    assert of(review, 0).suggestions[0].status == "yes"
    assert of(review, 0).suggestions[0].answers[0].reviewer == "ann"
    assert review.progress(ALL)[1:3] == (1, 1)
    with pytest.raises(InputError, match=r"'cat' is given in 'a.png' already, and not on a list. Nothing"):
        review.decide(0, 1, "yes", ALL)
    for sample, column in ((6, 0), (0, 3), (0, -1)):
        with pytest.raises(KeyError):
            review.decide(sample, column, "yes", ALL)


def test_an_added_label_is_shown_and_changes_no_number(review):
    before = review.progress(ALL)
    review.decide(1, 0, "yes", ALL)  # b.png, bird
    card = of(review, 1)
    assert [each.column for each in card.suggestions] == [1]
    assert [(each.column, each.probability, each.status) for each in card.further] == [(0, None, "yes")]
    assert review.progress(ALL) == before
    assert of(review, 1, Selection(1)).further == card.further
    review.undo()
    assert of(review, 1).further == []


def test_answers_to_many_samples_are_kept_and_undone_in_one_step(review):
    decisions = review.decide_all([0, 2, 5], 2, "no", ALL)
    assert [(each.file, each.label) for each in decisions] == [(f"{name}.png", "dog") for name in "acf"]
    assert review.progress(ALL).no == 3
    with pytest.raises(InputError, match=r"'dog' is given in 'b\.png' already"):
        review.decide_all([0, 1], 2, "yes", ALL)
    assert review.progress(ALL).no == 3
    assert review.undo() == (5, "f.png", "dog", 3)
    assert review.progress(ALL).no == 0


def test_both_lists_share_the_answers(tmp_path):
    wrong = [WrongLabel("e.png", "dog", 0.1, 1), WrongLabel("a.png", "cat", 0.3, 2)]
    review, chosen = Review(make_audit(tmp_path, wrong=wrong), "ann"), Selection(list="wrong")
    assert review.shown(chosen) == ([4, 0], 0)
    assert review.listed_per_class("wrong") == [0, 1, 1]
    review.decide(4, 2, "no", chosen)
    assert review.progress(chosen)[:4] == (2, 0, 1, 0)
    assert review.progress(ALL).no == 0
    assert of(review, 4, chosen).suggestions[0].status == "no"
    assert [each.status for each in of(review, 4).further] == ["no"]
    with pytest.raises(KeyError):
        review.cards([1], chosen)
    review.store.close()


def test_undo_names_what_it_took_back(review):
    assert review.undo() is None
    review.decide(1, 1, "yes", ALL)
    review.decide(1, 1, "no", ALL)
    assert review.undo() == (1, "b.png", "cat", 1)
    assert of(review, 1).suggestions[0].status == "yes"
    review.undo()
    assert of(review, 1).suggestions[0].status == "undecided"
    assert review.progress(ALL).yes == 0


def test_two_reviewers_see_each_other_and_overwrite_nothing(review, audit):
    other = Review(audit, "ben")
    review.decide(1, 1, "yes", ALL)
    other.decide(1, 1, "no", ALL)
    for each in (review, other):
        (suggestion,) = of(each, 1).suggestions
        assert suggestion.status == "conflict"
        assert [(one.reviewer, one.answer) for one in suggestion.answers] == [("ann", "yes"), ("ben", "no")]
        assert each.progress(ALL).conflicts == 1
        assert each.shown(ALL, "conflict")[0] == [1]
    other.undo()
    assert of(review, 1).suggestions[0].status == "yes"
    orders = [each.lists["missing"].order(ALL).samples.tolist() for each in (review, other)]
    assert orders[0] == orders[1]
    other.store.close()


def test_answers_outlive_a_new_audit_with_a_shorter_list(review, audit):
    config = open_data(audit)[0].about.config
    review.decide(1, 1, "yes", ALL)
    review.decide(0, 2, "yes", ALL)
    audit_of(config, audit, {"b.png": ("dog", {"cat": 0.8})})
    again = Review(audit, "ann")
    assert again.progress(ALL)[:2] == (1, 1)
    assert again.undo() == (0, "a.png", "dog", 1)
    assert again.undo() == (1, "b.png", "cat", 1)
    again.store.close()


def test_data_that_was_moved_is_named(audit, tmp_path):
    (tmp_path / "photos").rename(tmp_path / "elsewhere")
    with pytest.raises(InputError, match="no such file or folder"):
        open_data(audit)
    assert open_data(audit, str(tmp_path / "elsewhere" / "labels.csv"))[1].ids[0] == "a.png"


def edit(audit, change) -> Path:
    table = audit.parent / "photos" / "labels.csv"
    table.write_text(change(table.read_text()))
    return table


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text.replace("a.png,cat\n", ""),
         "it has 6 samples now, and had 7. 'a.png' is gone. Run"),
        (lambda text: text.replace("g.png,cat\n", ""),
         "it has 6 samples now, and had 7. Run spml audit again"),
        (lambda text: text.replace("g.png,cat", "g.png,cow"), "its classes are others now. Run spml audit"),
        (lambda text: text.replace("g.png,cat", "g.png,dog"),
         "names or known labels of samples are others now"),
    ],
)  # fmt: skip
def test_data_that_was_changed_is_named(audit, change, message):
    table = edit(audit, change)
    with pytest.raises(InputError, match=message) as error:
        open_data(audit)
    assert str(error.value).startswith(str(table))


def test_a_database_of_another_audit_is_refused(review, audit, tmp_path):
    write_image(tmp_path / "other" / "photos" / "z.png")
    other = make_audit(tmp_path / "other", {"z.png": ("dog", {"cat": 0.5}), "a.png": ("cat", {})})
    review.decide(1, 1, "yes", ALL)
    shutil.copy(audit / "review.sqlite", other / "review.sqlite")
    with pytest.raises(InputError, match="holds decisions about other data"):
        Review(other, "ann")
