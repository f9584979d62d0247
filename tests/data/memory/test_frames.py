"""DataFrames: a table of image files as in a CSV file, or columns of features."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from spml.common.errors import InputError
from spml.config import DataConfig
from spml.data import read_memory
from spml.data.readers import read
from tests.helpers.commands import refusal

pandas = pytest.importorskip("pandas", reason="pandas is not installed")

ROWS = {"file": ["b.png", "a.png", "c.png", "a.png"], "label": ["dog", "cat", "cat", "dog"]}


@pytest.fixture
def frame():
    """Makes a DataFrame."""
    return pandas.DataFrame


@pytest.fixture
def photos(picture, tmp_path, monkeypatch):
    """Working folder with three images."""
    for name in "abc":
        picture(f"{name}.png")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def same(records, expected):
    """Whether two records hold the same samples and labels."""
    return (records.ids, records.classes, records.labels, records.split) == (
        expected.ids, expected.classes, expected.labels, expected.split,
    ) and [*map(Path.resolve, records.inputs)] == [*map(Path.resolve, expected.inputs)]  # fmt: skip


@pytest.mark.parametrize(
    ("columns", "settings"),
    [
        (ROWS, {}),
        ({**ROWS, "split": ["train", "train", "val", "train"]}, {}),
        ({**ROWS, "split": ["train", "train", "val", "train"]}, {"split": "ignore"}),
        ({"image_path": ROWS["file"], "category": ROWS["label"], "size": [1, 2, 3, 4]}, {}),
        ({"place": ROWS["file"], "what": ROWS["label"]}, {"file_column": "place", "label_column": "what"}),
        ({"file": ROWS["file"][:3], "labels": ["dog;cat", "cat", None]}, {}),
        ({"file": ROWS["file"][:3], "dog": [1, 0, None], "cat": [0, 1, 1]}, {}),
        ({"file": ["a", "b", "c"], "label": ["dog", "cat", "dog"]}, {"unlisted": "negative"}),
    ],
)  # fmt: skip
def test_a_table_of_files_is_read_as_the_same_csv_file(frame, photos, columns, settings):
    pandas.DataFrame(columns).to_csv("table.csv", index=False)
    expected = read(DataConfig(path="table.csv", **settings))
    assert same(read_memory(frame(columns), None, DataConfig(**settings)), expected)


def test_lists_of_labels_are_lists(frame, photos):
    records = read_memory(
        frame({"file": ["a.png", "b.png"], "labels": [["cat", "dog"], ["dog"]]}), None, DataConfig()
    )
    assert records.labels.to_names(records.classes) == [["cat", "dog"], ["dog"]]


def test_files_may_lie_anywhere(frame, photos, monkeypatch):
    expected = read_memory(frame(ROWS), None, DataConfig())
    absolute = {**ROWS, "file": [str(photos / name) for name in ROWS["file"]]}
    assert same(read_memory(frame(absolute), None, DataConfig()), expected)
    mixed = {**ROWS, "file": ["b.png", *absolute["file"][1:]]}
    (photos / "inner").mkdir()
    monkeypatch.chdir(photos / "inner")
    assert read_memory(frame(ROWS), None, DataConfig(images=str(photos))).ids == expected.ids
    monkeypatch.chdir(photos / "inner")
    with pytest.raises(InputError, match=r"^data in memory: row 0 \(counted from 0\): there is no file"):
        read_memory(frame(mixed), None, DataConfig())
    records = read_memory(frame(absolute), None, DataConfig())
    assert records.ids == tuple(str(photos / name) for name in expected.ids)
    assert records.inputs == tuple(map(Path, records.ids))


def test_features_have_the_names_of_their_columns_and_rows(frame):
    columns = {"a": [1, 2, 3], "b": [0.5, 1.5, 2.5], "c": [True, False, True], "kind": ["x", "y", "x"]}
    records = read_memory(frame(columns), "kind", DataConfig())
    assert records.feature_names == ("a", "b", "c")
    assert records.inputs.fetch([0, 1, 2]).tolist() == [[1, 0.5, 1], [2, 1.5, 0], [3, 2.5, 1]]
    assert (records.classes, records.labels.index.tolist()) == (("x", "y"), [0, 1, 0])
    assert records.ids == ("0", "1", "2")


@pytest.mark.parametrize(
    ("columns", "y", "settings", "message"),
    [
        ({"file": ["a.png"], "width": [5]}, None, {}, "data in memory: there is no column `label` or"),
        ({"file": ["a.png"], "label": ["dog"]}, None, {"label_column": "lable"},
         "data.label_column=lable: no column has this name; found: file, label. Did you mean label?"),
        ({"a": [1.0]}, "b", {}, "y: there is no column 'b'. Known: a."),
    ],
)  # fmt: skip
def test_every_mistake_in_a_table_is_told(frame, photos, columns, y, settings, message):
    assert message in refusal(read_memory, frame(columns), y, DataConfig(**settings))


NUMBERS = pandas.DataFrame({"a": [1.0, 2.0]})


@pytest.mark.parametrize(
    ("table", "y", "message"),
    [
        (pandas.DataFrame({"a": [1.0, 2.0], "b": ["x", "y"]}, dtype=object).astype({"a": float}), [0, 1],
         "X: the column 'b' holds object, not numbers. The columns of a DataFrame are features, unless it"),
        (pandas.DataFrame({"a": [1.0, 2.0]}, index=[3, 3]), [0, 1], "X: its index has '3' 2 times, but"),
        (NUMBERS, pandas.Series([0, 1], index=[1, 0]), "ambiguous: X and y have different indexes. Pass y"),
        (NUMBERS, pandas.DataFrame({"x": ["1", "0"], "y": [0, 1]}, dtype=object),
         "y: the column 'x' holds object, not numbers. It must have one column of numbers for each class."),
    ],
)  # fmt: skip
def test_every_mistake_in_features_of_pandas_is_told(table, y, message):
    assert message in refusal(read_memory, table, y, DataConfig())


def test_features_of_pandas():
    table = pandas.DataFrame(
        {"a": pandas.array([1, None], "Int64"), "b": [1.5, 2.5]}, index=["first", "second"]
    )
    records = read_memory(table, pandas.Series(["x", "y"], index=table.index), DataConfig())
    assert (records.ids, records.labels.index.tolist()) == (("first", "second"), [0, 1])
    missing = np.isnan(records.inputs.fetch([0, 1]).numpy())
    assert missing.tolist() == [[False, False], [True, False]]
