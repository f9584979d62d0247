"""Names in CSV files that a spreadsheet would run as formulas."""

from __future__ import annotations

import csv

import pytest

from spml.common.files import write_rows
from spml.common.spreadsheets import csv_text, note_formulas, unguarded


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("'=1+1", "=1+1"),
        ("'-cat.jpg", "-cat.jpg"),
        ("'\uff1d1", "\uff1d1"),
        ("'\tcat", "\tcat"),
        ("''=1", "'=1"),
        ("a;'=b;c", "a;=b;c"),
        ("'cat'", "'cat'"),
        ("-0.25", "-0.25"),
    ],
)
def test_guards_of_earlier_versions_are_removed(text, expected):
    assert unguarded(text) == expected


ROWS = [["@b", -1.5], ["c", "-2"], ["+d", None]]


def test_names_stay_raw_and_a_note_says_so(tmp_path, caplog):
    caplog.set_level("INFO", "spml")
    with note_formulas():
        write_rows(tmp_path / "t.csv", ["=a", "b"], ROWS)
    with open(tmp_path / "t.csv", newline="", encoding="utf-8") as stream:
        assert list(csv.reader(stream)) == [["=a", "b"], ["@b", "-1.5"], ["c", "-2"], ["+d", ""]]
    assert caplog.messages == [
        "note: in the CSV or TSV files, 3 cells begin as a formula does, the first is '=a'; a spreadsheet "
        "would run it: do not open them there."
    ]


@pytest.mark.parametrize("name", ["-1", "-1e-05", "a=b-c", "cat"])
def test_numbers_and_other_names_are_not_noted(caplog, name):
    caplog.set_level("INFO", "spml")
    with note_formulas():
        assert csv_text([[name]]) == f"{name}\n"
    assert not caplog.messages


def test_cells_that_hold_no_names_are_not_counted(caplog):
    caplog.set_level("INFO", "spml")
    with note_formulas():
        assert csv_text([["=a", "=b", "=c"]], "\t", names=2) == "=a\t=b\t=c\n"
    assert "2 cells begin" in caplog.messages[0]
