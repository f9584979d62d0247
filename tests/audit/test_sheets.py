"""The table in which people write all labels of some samples."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest
from scipy.stats import chisquare

from spml.audit.sheets import check_sheet, draw_sample, read_answers, sheet_files, write_sheet
from spml.common.errors import InputError
from spml.common.files import write_checked_json


def test_the_table_and_the_files_that_belong_to_it(tmp_path):
    sheet = tmp_path / "my.sample.csv"
    ids, given = ["a, b.png", 'Zürich "2".png', "=c.png"], [["dog", "old cat"], [], ["1,5"]]
    files = write_sheet(sheet, ids, given, ["dog", "old cat", "1,5"], {"seed": 3})
    assert files == sheet_files(sheet)
    assert [path.name for path in files] == ["my.sample.csv", "my.sample.classes.txt", "my.sample.json"]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(path.name for path in files)
    with open(sheet, encoding="utf-8", newline="") as stream:
        rows = list(csv.reader(stream))
    assert rows == [
        ["file", "labels", "complete"],
        ["a, b.png", "dog|old cat", ""],
        ['Zürich "2".png', "", ""],
        ["=c.png", "1,5", ""],
    ]
    assert files.classes.read_text(encoding="utf-8").splitlines() == ["dog", "old cat", "1,5"]
    about = json.loads(files.about.read_text())
    assert (about["format"], about["seed"]) == (1, 3)


@pytest.mark.parametrize("name", ["a|b", "two\nlines"])
def test_a_class_that_can_not_be_written_leaves_nothing_behind(name, tmp_path):
    with pytest.raises(InputError, match="can't be written into a table"):
        write_sheet(tmp_path / "s.csv", ["a"], [[]], ["fine", name], {})
    assert not any(tmp_path.iterdir())


def test_what_people_wrote_is_not_replaced_by_accident(tmp_path):
    for path in sheet_files(tmp_path / "s.csv"):
        path.write_text("")
        with pytest.raises(InputError, match=f"{path.name}: already exists.*`overwrite`"):
            check_sheet(tmp_path / "s.csv", overwrite=False)
        check_sheet(tmp_path / "s.csv", overwrite=True)
        path.unlink()
    check_sheet(tmp_path / "s.csv", overwrite=False)
    with pytest.raises(InputError, match=r"must end in \.csv"):
        check_sheet(tmp_path / "s.xlsx", overwrite=True)
    with pytest.raises(InputError, match="no such folder"):
        check_sheet(tmp_path / "none" / "s.csv", overwrite=True)
    (tmp_path / "s.json").mkdir()
    with pytest.raises(InputError, match=r"s\.json: is a folder"):
        check_sheet(tmp_path / "s.csv", overwrite=True)


def test_a_table_that_was_written_for_spreadsheets_comes_back(tmp_path):
    sheet, classes = tmp_path / "s.csv", ["=cat", "'=cat", "dog"]
    write_sheet(sheet, ["-a.png", "'-a.png"], [["=cat", "dog"], ["'=cat"]], classes, {})
    about = json.loads(sheet.with_suffix(".json").read_text())
    write_checked_json(sheet.with_suffix(".json"), {**about, "spreadsheet_safe": True})
    sheet.write_text("file,labels,complete\n'-a.png,'=cat|dog,yes\n''-a.png,''=cat|=cat,yes\n")
    answers = read_answers(sheet, classes)
    assert answers.ids == ("-a.png", "'-a.png")
    assert answers.truth.tolist() == [[True, False, True], [True, True, False]]


# -- answers ---------------------------------------------------------------------------------------------

CLASSES = ("dog", "old cat", "1,5")


def write(path, text, encoding="utf-8"):
    path.write_bytes(text.encode(encoding))
    return path


def test_answers_as_people_and_spreadsheets_write_them(tmp_path):
    expected = (("a, b.png", "c.png", "Zürich.png"), [[1, 1, 0], [0, 0, 0], [0, 0, 1]])
    text = 'file,labels,complete\n"a, b.png",old cat | dog|,yes\nc.png,,YES\nZürich.png,"1,5",x\n'
    for content, encoding in (
        (text, "utf-8"),
        (text.replace("\n", "\r\n"), "utf-8-sig"),
        (
            'File;Labels;Complete;Remark\n"a, b.png";dog|old cat;1;hard\nc.png;;true;\nZürich.png;1,5;y;\n',
            "utf-8",
        ),
    ):
        answers = read_answers(write(tmp_path / "s.csv", content, encoding), CLASSES)
        assert (answers.ids, answers.truth.astype(int).tolist()) == expected
        assert answers.truth.dtype == np.bool_


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "s.csv: the file is empty"),
        ("file,labels\na,dog\n", "needs one column 'complete', but the header has file, labels"),
        ("file,labels,labels,complete\na,dog,,yes\n", "needs one column 'labels'"),
        ("file,labels,complete\n", "has no rows below its header"),
        ("file,labels,complete\na,dog,yes\n,dog,yes\n", "row 3: the name of the sample is empty"),
        ("file,labels,complete\na,dog,yes\nb,,yes\na,,yes\n", "rows 2 and 4: both are 'a'"),
        ("file,labels,complete\na,dog,yes\nb,dgo,yes\n", "row 3: 'dgo' is not a class. Did you mean dog"),
        ("file,labels,complete\na,dog;old cat,yes\n", "'dog;old cat' is not a class.*separated by [|]"),
        ("file,labels,complete\na,dog,perhaps\n", "row 2: `complete` must be yes or empty, got 'perhaps'"),
        (
            "file,labels,complete\na,dog,yes\nb,,\nc,dog,\nd,,no\n",
            "row 3: 'b' is not complete; 3 of 4 rows are not",
        ),
    ],
)
def test_tables_that_are_refused(text, words, tmp_path):
    with pytest.raises(InputError, match=words):
        read_answers(write(tmp_path / "s.csv", text), CLASSES)


def test_a_table_that_is_missing(tmp_path):
    with pytest.raises(InputError, match=r"no such file\. Name the table that spml audit sample wrote"):
        read_answers(tmp_path / "s.csv", CLASSES)


# -- the draw --------------------------------------------------------------------------------------------


def test_every_sample_is_equally_likely_at_every_position():
    draws = np.stack([draw_sample(40, 20, seed) for seed in range(2000)])
    assert all(len(set(rows)) == 20 and set(rows) <= set(range(40)) for rows in draws.tolist())
    for rows in (draws, draws[:, :5]):
        counts = np.bincount(rows.ravel(), minlength=40)
        # Counts of a draw without replacement vary less than the multinomial ones of the test.
        assert chisquare(counts).pvalue > 0.01


def test_the_draw_depends_on_the_seed_alone():
    assert draw_sample(1000, 30, 1).tolist() == draw_sample(1000, 30, 1).tolist()
    assert draw_sample(1000, 30, 1).tolist() != draw_sample(1000, 30, 2).tolist()
    # More rows are the same ones and some others: who wants to label more can go on.
    assert draw_sample(1000, 60, 1)[:30].tolist() == draw_sample(1000, 30, 1).tolist()


@pytest.mark.parametrize(
    ("samples", "rows", "words"),
    [
        (100, 19, "19 samples are too few to estimate anything: draw at least 20"),
        (1500, 1501, "1,501 samples can't be drawn from 1,500: draw fewer"),
    ],
)
def test_impossible_draws(samples, rows, words):
    with pytest.raises(InputError, match=words):
        draw_sample(samples, rows)
