"""Tables in JSON Lines."""

from __future__ import annotations

import json

import pytest

from spml.common.errors import InputError
from spml.config import DataConfig
from spml.data.tables.formats import open_json_lines
from spml.data.tables.rows import read_file_list, read_table
from tests.helpers.records import names_of


@pytest.fixture
def lines(tmp_path, picture):
    """Function that writes a file of some objects, one per line, and an image for each of a, b, c."""

    def write(*rows: object):
        for name in "abc":
            picture(f"{name}.png")
        path = tmp_path / "metadata.jsonl"
        path.write_text("".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows))
        return path

    return write


def test_lists_and_text(lines):
    rows = [
        {"file_name": "a.png", "labels": ["cat", "big, dog"], "size": [3, 4], "meta": {"x": 1}},
        {"file_name": "b.png", "labels": []},
        "",
        {"file_name": "c.png", "labels": "cat", "split": "val"},
    ]
    with pytest.raises(InputError, match=r"row 1 \(line of the file\): the split is ''"):
        read_table(lines(*rows), DataConfig())
    records = read_table(lines(*rows), DataConfig(split="ignore"))
    assert names_of(records) == {"a.png": ["big, dog", "cat"], "b.png": [], "c.png": ["cat"]}
    assert read_file_list(lines(*rows), None)[0] == ("a.png", "b.png", "c.png")


def test_keys_on_later_lines_and_nested_ones(lines):
    rows = [{"file": f"{'abc'[k % 3]}.png", "cat": 1, "meta": {"x": k}} for k in range(1500)]
    records = read_table(lines(*rows, {"file": "b.png", "dog": 1}), DataConfig())
    assert records.classes == ("cat", "dog")
    assert records.labels.to_ternary().tolist() == [[1, 0], [1, 1], [1, 0]]
    assert records.notes[0] == "metadata.jsonl: keys that hold objects are not read: meta."


def test_a_column_per_class(lines):
    path = lines({"file": "a.png", "cat": True, "dog": None}, {"file": "b.png", "cat": False, "dog": 1})
    assert read_table(path, DataConfig()).labels.to_ternary().tolist() == [[1, 0], [-1, 1]]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"file": "a.png", "label": "cat"}, "{"], r"line 2 is not a JSON object: .*; found '\{'\. Exp"),
        (["[" * 100_000], "line 1 is not a JSON object"),
        ([{"meta": {"x": 1}}], "no line holds an object with text, numbers or lists"),
        ([], "no line holds an object"),
        (
            [{"file": "a.png", "accept": ["cat"], "answer": "accept"}],
            r"the labels in 'accept' \(lists\): pass data\.label_column=accept\.$",
        ),
        ([{"file": "x.png", "label": "cat"}], r"row 1 \(line of the file\): there is no file 'x.png'"),
    ],
)
def test_what_is_refused(lines, rows, message):
    with pytest.raises(InputError, match=message):
        read_table(lines(*rows), DataConfig())


def test_nested_values(tmp_path):
    path = tmp_path / "x.jsonl"
    rows = [{"file": f"{k}.png", "label": "cat", "meta": {"k": k} if k else None} for k in range(4)]
    rows.append({"file": {"name": "4.png"}, "label": "dog"})
    path.write_text("\n".join(map(json.dumps, rows)))
    table = open_json_lines(path)
    assert table.names == ("file", "label")
    assert [cells for _, cells in table.rows([1])] == [("cat",)] * 4 + [("dog",)]
    with pytest.raises(InputError, match=r"x.jsonl: line 5: 'file' is .*'4.png'.*, but must be text"):
        list(table.rows([0]))
