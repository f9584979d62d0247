"""Wanted names of classes."""

from __future__ import annotations

import numpy as np
import pytest

from spml.common.errors import InputError
from spml.config import DataConfig
from spml.data import read_memory, read_names, write_names
from spml.data.records import Objects, Records
from spml.data.rename import rename_classes
from spml.labels import ObservedLabels
from tests.helpers.records import names_of, opened


def stated(tmp_path, text, name="names.csv", encoding="utf-8"):
    path = tmp_path / name
    path.write_bytes(text.encode(encoding))
    return read_names(path)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("given,wanted\nDog,dog\nnull,\n", {"Dog": "dog", "null": ""}),
        ("Dog,dog\nnull,\n", {"Dog": "dog", "null": ""}),
        ("\ufeffGiven;Wanted\n\nDog; dog \n", {"Dog": "dog"}),
        ('"cat, dog","cats ""and"" dogs"\nDog,dog\n', {"cat, dog": 'cats "and" dogs', "Dog": "dog"}),
        ("a,b\nb,c\na,b\n", {"a": "b", "b": "c"}),
        (" dog,dog\nx,given\nold,new\n", {" dog": "dog", "x": "given", "old": "new"}),
        ("a\tb\nc\td\n", {"a": "b", "c": "d"}),
    ],
)
def test_files_of_names(tmp_path, text, expected):
    assert stated(tmp_path, text) == expected
    write_names(tmp_path / "again.csv", expected)
    assert read_names(tmp_path / "again.csv") == expected
    with pytest.raises(InputError, match=r"none\.csv"):
        read_names(tmp_path / "none.csv")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "has no names"),
        ("given,wanted\n", "has no names"),
        ("a,b\nc\n", "row 2 has 1 cell, but must have two"),
        ("a,b\nc,d,e\n", "row 2 has 3 cells, but must have two.*in quotes"),
        ("a,b\n,d\n", "row 2: the given name, in the first column, is empty"),
        ("a,b\nx,y\na,c\n", "rows 1 and 3 have different wanted names for 'a': 'b' and 'c'"),
        ('a,"b\x01"\n', "row 1: the class name .* holds control characters"),
        ('a,"b\n', "is not valid CSV"),
    ],
)
def test_mistakes_are_named_with_their_row(tmp_path, text, words):
    with pytest.raises(InputError, match=words):
        stated(tmp_path, text)


def test_merged_labels_boxes_and_protocol():
    ternary = [[1, 0, -1, 0], [-1, 0, 0, 1], [0, 0, 0, -1], [-1, 1, 0, 0]]
    labels = ObservedLabels.from_ternary(ternary)
    boxes = Objects(
        np.array([0, 1, 3]), np.array([0, 3, 1]), np.array([0.1, 0.2, 0.3]), np.array([1.0, 2, 3])
    )
    records = Records(
        "x", "x", ("1", "2", "3", "4"), (), ("Dog", "dog", "cat", "null"), True, labels, None,
        objects=boxes, protocol=labels,
    )  # fmt: skip
    renamed = rename_classes(records, DataConfig(rename={"Dog": "hound", "dog": "hound", "null": ""}))
    assert renamed.classes == ("hound", "cat")
    assert renamed.labels.to_ternary().tolist() == [[1, -1], [-1, 0], [0, 0], [1, 0]]
    assert renamed.protocol == renamed.labels
    assert [part.tolist() for part in renamed.objects] == [[0, 3], [0, 0], [0.1, 0.3], [1, 3]]
    assert renamed.notes == (
        "data.rename: 2 class names changed: 'Dog' is 'hound', 'dog' is 'hound'; 3 classes became 2.",
        "data.rename: 1 class left out with 1 label: 'null'.",
    )


@pytest.mark.parametrize(
    ("names", "given", "rename", "classes", "index"),
    [
        ("bac", True, {"a": "b", "b": "a", "x": "y"}, ("a", "b", "c"), [0, 1, 2]),
        ("abc", False, {"a": "z"}, ("b", "c", "z"), [2, 0, 1]),
    ],
)
def test_names_are_looked_up_once_and_order_stays(names, given, rename, classes, index):
    labels = ObservedLabels.from_index([0, 1, 2], 3)
    records = Records("x", "x", ("1", "2", "3"), (), tuple(names), given, labels, None)
    renamed = rename_classes(records, DataConfig(rename=rename))
    assert (renamed.classes, renamed.labels.index.tolist()) == (classes, index)
    unused = "Given names of data.rename that do not occur in x: 'x'. "
    assert renamed.notes[-1].startswith(unused) == ("x" in rename)
    assert "became" not in " ".join(renamed.notes)
    with pytest.raises(InputError, match=r"x: data.rename leaves out every class"):
        rename_classes(records, DataConfig(rename={"a": "", "b": "", "c": ""}))


@pytest.mark.parametrize("unlisted", ["unknown", "negative"])
def test_a_table_is_read_as_if_it_had_the_wanted_names(table, unlisted, tmp_path):
    rename = tmp_path / "names.csv"
    rename.write_text("given,wanted\nDog,dog\nNone,zilch\n3.0,three\nunknown,\n")
    dirty = table("file,label", "a.png,Dog", "b.png,dog", "c.png,None", "d.png,3.0", "e.png,unknown")
    found = opened(dirty, rename=str(rename), unlisted=unlisted)
    clean = table("file,label", "a.png,dog", "b.png,dog", "c.png,zilch", "d.png,three", "e.png,")
    expected = opened(clean, unlisted=unlisted)
    assert found.classes == expected.classes == ("dog", "three", "zilch")
    assert found.labels == expected.labels
    assert "data.rename: 1 class left out with 1 label: 'unknown'." in found.notes


def test_data_in_memory():
    x = np.zeros((4, 2), np.float32)
    config = DataConfig(rename={"Dog": "dog", "none": "nothing"})
    records = read_memory(x, ["Dog", "none", "cat", "dog"], config)
    assert records.labels.to_names(records.classes) == [["dog"], ["nothing"], ["cat"], ["dog"]]
    matrix = np.eye(4, dtype=int)[:, :3]
    records = read_memory(x, matrix, config, classes=["Dog", "cat", "dog"])
    assert records.classes == ("dog", "cat")
    assert records.labels.to_multi_hot().tolist() == [[1, 0], [0, 1], [1, 0], [0, 0]]
    swap = DataConfig(rename={"cat": "dog", "dog": "cat"})
    assert read_memory(x, matrix[:, :2], swap, known=["cat", "dog"]).classes == ("cat", "dog")
    with pytest.raises(InputError, match=r"data.rename: names must be text, got 1: 'a'"):
        read_memory(x, matrix, DataConfig(rename={1: "a"}))


@pytest.mark.parametrize("text", ["none", "negative:cat", "column:seen", "Negative", ""])
def test_other_meanings_of_unlisted_labels_are_refused(text):
    with pytest.raises(
        InputError, match=r"must be unknown or negative, got .* write a column per class with -1"
    ):
        DataConfig(unlisted=text)


def test_class_folders(folder_of):
    path = folder_of("Dog/1.png dog/2.png cat/3.png", {})
    records = opened(path, rename={"Dog": "dog"})
    assert names_of(records) == {"Dog/1.png": ["dog"], "cat/3.png": ["cat"], "dog/2.png": ["dog"]}
