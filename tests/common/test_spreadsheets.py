"""Names in CSV files that a spreadsheet would run as formulas."""

from __future__ import annotations

import csv

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from spml.common.files import write_rows
from spml.common.spreadsheets import are_guarded, csv_cells, csv_text, guarded, unguarded

NAMES = st.text(st.sampled_from("=+-@＝\t\r\n';,ab1"), max_size=8)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("=1+1", "'=1+1"),
        ("+cat", "'+cat"),
        ("-cat.jpg", "'-cat.jpg"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("＝1", "'＝1"),
        ("\tcat", "'\tcat"),
        ("\rcat", "'\rcat"),
        ("'=1", "''=1"),
        ("a;=b;c", "a;'=b;c"),
        ("cat", "cat"),
        ("a=b-c", "a=b-c"),
        ("'cat'", "'cat'"),
        ("-0.25", "-0.25"),
        ("-1e-05", "-1e-05"),
        ("-1.jpg", "'-1.jpg"),
    ],
)
def test_starts_of_formulas_are_guarded(text, expected):
    assert guarded(text) == expected
    assert unguarded(expected) == text


@given(NAMES)
@example("'-1")
@example("-1")
@example("\t=x")
def test_every_name_comes_back(name):
    safe = guarded(name)
    assert unguarded(safe) == name
    numbers = {"-1", "-11", "-111"}
    assert name in numbers or not safe.startswith(("=", "+", "@", "＝", "\t", "\r", "\n"))
    assert not any(mark + sign in safe for mark in ";,\t" for sign in "=+-@＝")


def written(path, safe, rows, caplog):
    caplog.clear()
    caplog.set_level("INFO", "spml")
    with csv_cells(safe):
        assert are_guarded() == bool(safe)
        write_rows(path, ["=a", "b"], rows)
    with open(path, newline="", encoding="utf-8") as stream:
        return list(csv.reader(stream)), caplog.messages


ROWS = [["@b", -1.5], ["c", "-2"], ["+d", None]]


def test_names_stay_raw_and_a_note_says_so(tmp_path, caplog):
    rows, lines = written(tmp_path / "t.csv", False, ROWS, caplog)
    assert rows == [["=a", "b"], ["@b", "-1.5"], ["c", "-2"], ["+d", ""]]
    assert lines == [
        "note: in the CSV or TSV files, 3 cells begin as a formula does, the first is '=a'; a spreadsheet "
        "would run it: pass `spreadsheet_safe` to put ' before them."
    ]
    assert written(tmp_path / "t.csv", None, ROWS, caplog)[1][0].endswith("run it: do not open them there.")
    assert written(tmp_path / "t.csv", False, [], caplog)[1][0].startswith(
        "note: in the CSV or TSV files, 1 cell begins"
    )


def test_names_are_guarded_on_demand(tmp_path, caplog):
    rows, lines = written(tmp_path / "t.csv", True, ROWS, caplog)
    assert rows == [["'=a", "b"], ["'@b", "-1.5"], ["c", "-2"], ["'+d", ""]]
    assert lines == []
    assert not are_guarded()


def test_cells_that_hold_no_names_are_left_alone():
    with csv_cells(True):
        assert csv_text([["=a", "=b", "=c"]], "\t", names=2) == "'=a\t'=b\t=c\n"
