"""Several labels in one cell: separators, lists in brackets, and notes on cells that look like lists."""

from __future__ import annotations

import numpy as np
import pytest

from spml.config import DataConfig
from spml.data.readers.separators import list_separator, split_list
from spml.data.readers.table import read_table


def names(records):
    return dict(zip(records.ids, records.labels.to_names(records.classes), strict=True))


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("['cat', 'dog']", ("cat", "dog")),
        ('["cat", "traffic light, red"]', ("cat", "traffic light, red")),
        ("['cat' 'dog']", ("cat", "dog")),
        ("[cat, dog]", ("cat", "dog")),
        ("[ ]", ()),
        ("['it''s']", ("it", "s")),
        ("[\"dog's\", 'x']", ("dog's", "x")),
        ("", ()),
        (("a", "b"), ("a", "b")),
    ],
)
def test_split_list(cell, expected):
    assert split_list(cell) == expected


def test_lists_in_brackets(table):
    lines = ("file,labels", "a.png,\"['cat', 'dog']\"", "b.png,['cat']", "c.png,[]")
    records = read_table(table(*lines), DataConfig(unlisted="negative"))
    assert names(records) == {"a.png": ["cat", "dog"], "b.png": ["cat"], "c.png": []}
    assert records.notes == ("data.csv: labels are lists in brackets.",)
    lines = ("file,label", *lines[1:])
    records = read_table(table(*lines), DataConfig())
    assert "so \"['cat', 'dog']\" is one class name" in records.notes[0]
    assert "pass --data.separator ','" in records.notes[0]
    records = read_table(table(*lines), DataConfig(separator=","))
    assert names(records) == {"a.png": ["cat", "dog"], "b.png": ["cat"], "c.png": []}


@pytest.mark.parametrize("separator", [";", "|", ","])
def test_note_on_one_label_that_looks_like_several(table, separator):
    lines = ("file,label", f'a.png,"cat{separator}dog"', "b.png,dog")
    records = read_table(table(*lines), DataConfig())
    assert records.classes == (f"cat{separator}dog", "dog")
    assert records.notes == (
        f"data.csv: the column is 'label', so 'cat{separator}dog' is one class name. If such a cell holds "
        f"several labels, pass --data.separator '{separator}' or call the column `labels`.",
    )
    records = read_table(table(*lines), DataConfig(separator=separator))
    assert names(records) == {"a.png": ["cat", "dog"], "b.png": ["dog"]}


@pytest.mark.parametrize(
    ("cells", "counts", "expected"),
    [
        (["cat", "dog"], [5, 5], ""),
        (["cat", "mouse, grey"], [9, 1], ""),
        (["cat", "mouse, grey"], [8, 2], ","),
        (["cat", "a;b"], [999, 1], ";"),
        (["cat;", ";", "|x"], [1, 1, 1], ""),
        (["traffic light"], [4], ""),
        (["cat", ("a;b",)], [1, 1], ""),
    ],
)
def test_list_separator(cells, counts, expected):
    assert list_separator(cells, np.array(counts)) == expected
