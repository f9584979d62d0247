"""A sample that people label in full: what each reviewer gave, what all agree about, and the table of it."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest

from spml.audit.folder import data_settings
from spml.audit.sheets import read_answers, write_sheet
from spml.common.errors import InputError
from spml.config import DataConfig
from spml.review.labelling import Labelling, database_of, labelled_of, write_page_labels
from tests.helpers.reviews import CLASSES, make_sample


@pytest.fixture
def sheet(tmp_path):
    return make_sample(tmp_path)


@pytest.fixture
def page(sheet):
    page = Labelling(sheet, "ann")
    yield page
    page.store.close()


def of(page, place):
    (card,) = page.cards([page.shown()[0][place]])
    return card


def finish(page, *places):
    for place in places:
        page.complete(page.shown()[0][place], complete=True)


def test_cards_start_with_the_labels_of_the_table(page):
    samples, start = page.shown()
    assert start == 0
    assert [page.records.ids[sample] for sample in samples[:3]] == list(page.sample.ids[:3])
    assert samples != sorted(samples)
    card = of(page, 0)
    assert card.name == page.sample.ids[0]
    known = page.records.labels.to_ternary()[card.sample]
    assert card.given == np.flatnonzero(known == 1).tolist()
    assert card.refused == []
    assert (card.status, card.mine, card.others) == ("open", ("ann", False, card.given), [])
    assert card.order[0] in card.given
    assert sorted(card.order) == [0, 1, 2]
    scores = np.tile(np.float32([0.1, 0.3, 0.2]), (24, 1))
    likely = Labelling(page.sheet, "ann", scores=scores)  # the most probable classes come first
    assert of(likely, 0).order == [*card.given, *(c for c in (1, 2, 0) if c not in card.given)]
    likely.store.close()


def test_ticks_are_kept_one_by_one_and_come_back(page, sheet):
    sample, other = page.shown()[0][:2]
    for column in range(3):
        page.decide(sample, column, "yes")
    page.decide(sample, 1, "no")
    page.complete(sample, complete=True)
    again = Labelling(sheet, "ann")
    (card,) = again.cards([sample])
    assert (card.mine, card.status) == (("ann", True, [0, 2]), "complete")
    assert again.progress()[:3] == (24, 1, 1)
    assert again.shown() == (page.shown()[0], 1)
    assert again.shown("complete")[0] == [sample]
    assert other in again.shown("open")[0]
    again.store.close()
    for wrong in (lambda: page.decide(sample, 3, "yes"), lambda: page.decide(999, 0, "yes")):
        with pytest.raises(KeyError):
            wrong()


def test_undo_takes_back_ticks_and_completion(page):
    sample = page.shown()[0][0]
    given = of(page, 0).given
    absent = next(column for column in range(3) if column not in given)
    page.decide(sample, absent, "yes")
    page.complete(sample, complete=True)
    name = page.sample.ids[0]
    assert page.undo() == (sample, name, "", 1)
    assert (of(page, 0).mine.complete, of(page, 0).mine.labels) == (False, sorted([*given, absent]))
    assert page.undo() == (sample, name, CLASSES[absent], 1)
    assert of(page, 0).mine.labels == given
    assert page.undo() is None


def test_two_reviewers_share_the_work_and_their_conflicts_are_named(page, sheet):
    other = Labelling(sheet, "ben")
    first, second = page.shown()[0][:2]
    absent = next(column for column in range(3) if column not in of(page, 0).given)
    page.decide(first, absent, "yes")
    finish(page, *range(23))
    assert other.shown()[1] == 23  # the first one that nobody has completed
    assert of(other, 0).mine.labels == of(page, 0).given  # ticks of ann are not those of ben
    assert of(other, 0).others == [of(page, 0).mine]
    other.complete(second, complete=True)
    assert of(page, 1).status == "complete"
    other.complete(first, complete=True)
    assert of(page, 0).status == of(other, 0).status == "conflict"
    assert page.progress()[1:4] == (22, 0, 1)
    assert page.shown("conflict")[0] == [first]
    with pytest.raises(InputError, match=r"reviewers gave different labels to 1 sample: .*Show: conflicts"):
        write_page_labels(sheet)
    other.decide(first, absent, "yes")
    assert of(page, 0).status == "complete"
    assert write_page_labels(sheet)[0] == labelled_of(sheet)
    other.store.close()


def test_what_contradicts_the_data_is_counted_and_kept(page, sheet):
    card = of(page, 0)
    page.decide(card.sample, card.given[0], "no")
    assert page.progress().contradicted == 0  # not complete yet
    finish(page, *range(24))
    assert page.progress().contradicted == 1
    output, _ = write_page_labels(sheet)
    answers = read_answers(output, CLASSES)
    assert not answers.truth[0].any()


def test_the_labels_are_written_up_to_the_first_that_is_not_complete(page, sheet):
    before = sheet.read_bytes()
    assert write_page_labels(sheet.parent / "other.npz") == (sheet.parent / "other.npz", [])  # not of a page
    finish(page, *range(19))
    with pytest.raises(InputError, match=r"19 samples are complete from the first one on, .* at least 20"):
        write_page_labels(sheet)
    assert not labelled_of(sheet).exists()
    finish(page, 19, 20, 22)
    output, remarks = write_page_labels(sheet)
    assert output == sheet.parent / "sample.labelled.csv"
    ids = page.sample.ids
    assert remarks == [
        f"{output}: 21 samples as labelled on the page of spml review.",
        f"note: {ids[21]!r} is not complete and not used, nor 1 complete sample after it, since leaving out "
        "samples in between would bias K.",
    ]
    answers = read_answers(output, CLASSES)
    assert answers.ids == ids[:21]
    assert answers.truth.tolist() == (page.records.labels.to_ternary()[page.shown()[0][:21]] == 1).tolist()
    assert sheet.read_bytes() == before


def fill_in(sheet, changes):
    """Write labels and `complete` of some rows, as a person would in a spreadsheet."""
    with open(sheet, newline="") as stream:
        header, *rows = csv.reader(stream)
    for place, cells in changes.items():
        rows[place][1:] = cells
    with open(sheet, "w", newline="") as stream:
        csv.writer(stream).writerows([header, *rows])


def test_what_is_filled_in_by_hand_counts(sheet):
    fill_in(sheet, {0: ["bird|cat", "yes"], 1: ["dog", ""]})
    assert write_page_labels(sheet) == (sheet, [])  # without a page, the table itself is used
    page = Labelling(sheet, "ann")
    assert (of(page, 0).status, of(page, 0).others) == ("complete", [("the table", True, [0, 1])])
    assert page.shown()[1] == 1
    assert of(page, 1).mine.labels == [2]
    page.decide(of(page, 0).sample, 0, "no")  # takes the place of the table
    assert of(page, 0)[5:8] == ("complete", ("ann", True, [1]), [])
    page.store.close()


def test_a_larger_sample_keeps_the_answers(sheet, tmp_path):
    page = Labelling(sheet, "ann")
    finish(page, 0, 1)
    page.store.close()
    again = Labelling(make_sample(tmp_path, rows=30), "ann")
    assert again.progress()[:3] == (30, 2, 2)
    again.store.close()
    smaller = Labelling(make_sample(tmp_path, rows=20, skip=1), "ann")  # the first one is not drawn
    assert smaller.progress()[:3] == (20, 1, 1)
    undone = smaller.undo()
    assert (undone.name, undone.label) == (page.sample.ids[1], "")
    assert smaller.undo().sample == -1
    smaller.store.close()


def drop(suffix):
    return lambda sheet: sheet.with_suffix(suffix).unlink()


def change(**values):
    def apply(sheet):
        path = sheet.with_suffix(".json")
        about = {**json.loads(path.read_text()), **values}
        path.write_text(json.dumps({key: about[key] for key in about if key != "sha256"}))

    return apply


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (drop(".csv"), r"sample.csv: no such file. Name the table that spml audit sample wrote"),
        (drop(".json"), r"sample.json: no such file. It belongs to .*sample.csv; restore it, or draw"),
        (drop(".classes.txt"), r"sample.classes.txt: no such file. It belongs to"),
        (lambda sheet: sheet.with_suffix(".json").write_text("{"), r"sample.json or .*: is damaged \(.*Res"),
        (change(data={"path": "x.csv", "sice": 3}), "sice"),
        (change(data=None), "trained on data in memory, so the page can't find the samples.* data=PATH"),
        (lambda sheet: fill_in(sheet, {2: ["cow", ""]}), r"sample.csv: row 4: 'cow' is not a class"),
        (
            lambda sheet: sheet.write_text(sheet.read_text() + "z.png,,\n"),
            r"sample.csv: row 26: 'z.png' is not one of the samples that were drawn",
        ),
    ],
)
def test_a_sample_that_can_not_be_shown(damage, message, sheet):
    damage(sheet)
    with pytest.raises(InputError, match=message):
        Labelling(sheet, "ann")
    assert not database_of(sheet).exists()


def test_data_that_was_moved(sheet, tmp_path):
    page = Labelling(sheet, "ann")
    finish(page, 0)
    page.store.close()
    (tmp_path / "photos").rename(tmp_path / "elsewhere")
    with pytest.raises(InputError, match="no such file or folder"):
        Labelling(sheet, "ann")
    again = Labelling(sheet, "ann", data=str(tmp_path / "elsewhere" / "labels.csv"))
    assert again.progress().complete == 1
    again.store.close()


def test_answers_of_another_sample_are_refused(sheet, tmp_path):
    page = Labelling(sheet, "ann")
    finish(page, 0)
    page.store.close()
    sheet.with_suffix(".classes.txt").write_text("bird\ncat\ndog\ncow\n")
    with pytest.raises(InputError, match=r"does not have the classes that sample\.json lists"):
        Labelling(sheet, "ann")
    change(classes=["bird", "cat", "dog", "cow"])(sheet)
    for use in (lambda: Labelling(sheet, "ann"), lambda: write_page_labels(sheet)):
        with pytest.raises(InputError, match="holds decisions about other data"):
            use()


def test_known_negatives_and_features(tmp_path):
    labels = np.array([[1, -1, 0]] * 20)
    labels[3] = [0, 1, -1]
    np.savez(tmp_path / "x.npz", X=np.eye(20, dtype=np.float32), Y=labels, classes=CLASSES)
    config = DataConfig(path=str(tmp_path / "x.npz"))
    ids = [str(row) for row in reversed(range(20))]
    about = {"runs": [], "data": data_settings(config)}
    write_sheet(tmp_path / "sample.csv", ids, [["bird"]] * 20, ["cat", "dog", "bird"], about)
    (tmp_path / "texts.csv").write_text("row,text\n" + "".join(f"{row},text {row}\n" for row in range(20)))
    page = Labelling(tmp_path / "sample.csv", "ann", rows=tmp_path / "texts.csv")
    card = of(page, 16)
    # Columns are those of the sample, not of the data.
    assert (card.name, card.given, card.refused, card.content) == ("3", [0], [1], [("text", "text 3")])
    page.decide(card.sample, 1, "yes")
    finish(page, 16)
    assert page.progress().contradicted == 2  # `cat`, which the table lacks, and `dog`
    page.store.close()
