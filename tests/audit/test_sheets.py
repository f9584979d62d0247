"""The table in which people write all labels of some samples."""

from __future__ import annotations

import csv
import json

import pytest

from spml.audit.sheets import check_sheet, sheet_files, write_sheet
from spml.errors import InputError


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
        with pytest.raises(InputError, match=f"{path.name}: exists already.* --overwrite"):
            check_sheet(tmp_path / "s.csv", overwrite=False)
        check_sheet(tmp_path / "s.csv", overwrite=True)
        path.unlink()
    check_sheet(tmp_path / "s.csv", overwrite=False)
    with pytest.raises(InputError, match="must end in .csv"):
        check_sheet(tmp_path / "s.xlsx", overwrite=True)
    with pytest.raises(InputError, match="no such folder"):
        check_sheet(tmp_path / "none" / "s.csv", overwrite=True)
    (tmp_path / "s.json").mkdir()
    with pytest.raises(InputError, match="s.json: is a folder"):
        check_sheet(tmp_path / "s.csv", overwrite=True)
