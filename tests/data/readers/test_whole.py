"""Tables that are read at once give what they give row by row."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spml.config import DataConfig
from spml.data import list_inputs
from spml.data.names import FilesBelow, PackedNames
from spml.data.readers import places, read, whole
from spml.data.readers.file_list import read_file_list
from spml.data.readers.image_rows import Column, ImageRows
from spml.errors import InputError

pyarrow = pytest.importorskip("pyarrow")
Read = Callable[[], Any]


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """Names of empty images in two folders and next to the table."""
    names = [*(f"a/{number:02}.jpg" for number in range(9)), "b c/Ä.PNG", "b c/x.y.webp", "top.jpeg", "1.gif"]
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "link.jpg").symlink_to("top.jpeg")
    return names


def both_ways(monkeypatch: pytest.MonkeyPatch, read_it: Read) -> list[Any]:
    """What a function returns or refuses if tables are read at once, and if they are read row by row."""
    results = []
    for large in (1, 1 << 40):
        monkeypatch.setattr(whole, "LARGE", large)
        try:
            results.append(read_it())
        except InputError as error:
            results.append(str(error))
    return results


def content(path: Path, **settings: Any) -> tuple[object, ...]:
    """Everything that a table says."""
    records = read(DataConfig(path=str(path), **settings))
    labels = records.labels.fingerprint()
    return *records.ids, *records.inputs, records.classes, labels, records.split, records.notes, records.name


@pytest.mark.parametrize(
    ("suffix", "delimiter", "end", "mark"),
    [("csv", ",", "\n", ""), ("csv", ";", "\r\n", "\ufeff"), ("tsv", "\t", "\n", "\ufeff")],
)
@pytest.mark.parametrize("many", [1, 100])
def test_a_plain_table_is_read_at_once(tmp_path, files, monkeypatch, suffix, delimiter, end, mark, many):
    monkeypatch.setattr(places, "MANY", many)
    rows = [["n", " file", "labels", "split "]]
    for number, name in enumerate(files):
        labels = ["cat", " cat", "cat|dog", "", "Äpfel|cat|cow"][number % 5]
        rows.append([str(number), name, labels, ["train", " Val", "testing"][number % 3]])
    path = tmp_path / f"list.{suffix}"
    path.write_bytes((mark + end.join(map(delimiter.join, rows)) + end).encode())
    at_once, by_row = both_ways(monkeypatch, lambda: content(path))
    assert at_once == by_row
    assert at_once[: len(files)] == tuple(files)
    assert at_once[len(files) : 2 * len(files)] == tuple(tmp_path / name for name in files)
    assert at_once[-5] == ("cat", "cow", "dog", "Äpfel")
    assert at_once[-3] == tuple(["train", "val", "test"][number % 3] for number in range(len(files)))
    monkeypatch.setattr(whole, "LARGE", 1)
    monkeypatch.setattr(ImageRows, "read", None)
    monkeypatch.setattr("spml.data.readers.delimited.read_rows", None)
    assert content(path) == by_row
    names, listed = read_file_list(path, None)
    assert (names, listed) == (tuple(files), tuple(tmp_path / name for name in files))
    ids, inputs = list_inputs([str(path)])
    assert isinstance(ids, PackedNames)
    assert isinstance(inputs.paths, FilesBelow)
    assert inputs.take([3, 1]).paths == (tmp_path / files[3], tmp_path / files[1])


@pytest.mark.parametrize(
    "text",
    [
        'file,label\na/00.jpg,"cat"\na/01.jpg,dog\n',
        "file,label\na/00.jpg,cat\n\na/01.jpg,dog\n",
        "file,label\na/00.jpg,cat\n , \na/01.jpg,dog\n",
        "\nfile,label\na/00.jpg,cat\na/01.jpg,dog\n",
        "file,label\ra/00.jpg,cat\ra/01.jpg,dog\n",
        "file,label\na/00.jpg,cat\na/01.jpg,d\0og\n",
        "file,label\na/00.jpg,cat\na/01.jpg\n",
        "file,label\na/00.jpg,cat\na/01.jpg,dog,cow\n",
        "file,label\na/00.jpg,cat\n./a/01.jpg,dog\n",
        "file,label\na/00.jpg,cat\n./top.jpeg,dog\n",
        "file,label\na/00.jpg,cat\na/../top.jpeg,dog\n",
        "file,label\na/00.jpg,cat\n../top.jpeg,dog\n",
        "file,label\na/00.jpg,cat\na\\01.jpg,dog\n",
        "file,label\na/00.jpg,cat\n a/01.jpg ,dog\n",
        "file,label\na/00.jpg,cat\n\u00a0a/01.jpg,dog\n",
        "file,label\na/00.jpg,cat\na/00.jpg,dog\n",
        "file,label,split\na/00.jpg,cat,train\na/00.jpg,dog,test\n",
        "file,label,split\na/00.jpg,cat,train\na/01.jpg,dog,somewhere\n",
        "file,label\na/00.jpg,cat\na/01,dog\n",
        "file,label\na/00.jpg,cat\na/99.jpg,dog\n",
        "file,label\na/00.jpg,cat\nc/00.jpg,dog\n",
        "file,label\na/00.jpg,cat\nlink.jpg,dog\n",
        "file,label\na/00.jpg,cat\n{root}/a/01.jpg,dog\n",
        "file,label\na/00.jpg,cat\n,dog\n",
        "file,label\na/00.jpg,\na/01.jpg,\n",
        "file,label\na/00.jpg,cat\na/01.jpg,d\x07og\n",
        "file,labels\na/00.jpg,cat;dog\na/01.jpg,cat;;dog\n",
        "file,cat,dog\na/00.jpg,1,0\na/01.jpg,0,1\n",
        "file,label\n",
        "file,label",
    ],
)
@pytest.mark.parametrize("many", [1, 100])
def test_what_needs_a_second_look_is_read_row_by_row(tmp_path, files, monkeypatch, text, many):
    monkeypatch.setattr(places, "MANY", many)
    (tmp_path / "l.csv").write_text(text.replace("{root}", str(tmp_path)), newline="")
    for settings in ({}, {"missing": "skip"}, {"split": "ignore"}):
        at_once, by_row = both_ways(monkeypatch, lambda: content(tmp_path / "l.csv", **settings))  # noqa: B023
        assert at_once == by_row
    at_once, by_row = both_ways(monkeypatch, lambda: read_file_list(tmp_path / "l.csv", None))
    assert at_once == by_row


def test_text_that_is_not_utf_8(tmp_path, files, monkeypatch):
    (tmp_path / "l.csv").write_bytes(b"file,label\na/00.jpg,cat\na/01.jpg,K\xe4fer\n")
    at_once, by_row = both_ways(monkeypatch, lambda: content(tmp_path / "l.csv"))
    assert at_once == by_row
    assert "is not UTF-8" in at_once


def test_a_label_that_is_too_long(tmp_path, files, monkeypatch):
    (tmp_path / "l.csv").write_text("file,label\na/00.jpg,cat\na/01.jpg," + "x" * 200_000 + "\n")
    at_once, by_row = both_ways(monkeypatch, lambda: content(tmp_path / "l.csv"))
    assert at_once == by_row
    assert "field larger than field limit" in at_once


def test_rows_are_numbered_alike(tmp_path, files, monkeypatch):
    (tmp_path / "l.csv").write_text("file,labels\na/00.jpg,cat\na/01.jpg,dog;cat\na/02.jpg,;dog\n")
    at_once, by_row = both_ways(monkeypatch, lambda: content(tmp_path / "l.csv"))
    assert at_once == by_row
    assert "row 4" in at_once


@pytest.mark.parametrize("row_group_size", [2, 100])
def test_parquet(tmp_path, files, monkeypatch, row_group_size):
    from pyarrow import parquet

    names = files[::-1]
    labels = [["dog", None, " cat", "cat", ""][number % 5] for number in range(len(names))]
    split = [["val", "train"][number % 2] for number in range(len(names))]
    table = pyarrow.table({"n": range(len(names)), "file": names, "label": labels, "split": split})
    parquet.write_table(table, tmp_path / "l.parquet", row_group_size=row_group_size)
    at_once, by_row = both_ways(monkeypatch, lambda: content(tmp_path / "l.parquet", unlabelled="skip"))
    assert at_once == by_row
    assert at_once[: len(names)] == tuple(names)
    monkeypatch.setattr(whole, "LARGE", 1)
    monkeypatch.setattr(ImageRows, "read", None)
    assert content(tmp_path / "l.parquet", unlabelled="skip") == by_row
    assert read_file_list(tmp_path / "l.parquet", None)[0] == tuple(names)


@pytest.mark.parametrize(
    "columns",
    [
        {"file": ["a/00.jpg", None], "label": ["cat", "dog"]},
        {"file": ["a/00.jpg", "a/00.jpg"], "label": ["cat", "dog"]},
        {"file": ["a/00.jpg", "a/01.jpg"], "label": [1, 2]},
        {"file": ["a/00.jpg", "a/01.jpg"], "labels": [["cat"], ["dog", "cat"]]},
        {"file": ["a/00.jpg", "a/01.jpg"], "label": [b"cat", b"dog"]},
        {"file": ["a/00.jpg", "a/01.jpg"], "cat": [1, 0]},
    ],
)
def test_parquet_row_by_row(tmp_path, files, monkeypatch, columns):
    from pyarrow import parquet

    parquet.write_table(pyarrow.table(columns), tmp_path / "l.parquet")
    at_once, by_row = both_ways(monkeypatch, lambda: content(tmp_path / "l.parquet"))
    assert at_once == by_row


def test_random_tables(tmp_path, files, monkeypatch):
    rng = np.random.default_rng(0)
    odd = ["", " ", "\r", "\n", '"', ",", ";", "\0", "./", "..", "/", "\\", "é", "\u2028", ".jpg", "\t"]
    plain = 0
    for _ in range(150):
        chosen = rng.permutation(files)[: rng.integers(1, len(files))].tolist()
        rows = [f"{name},{rng.choice(['cat', 'dog;cow', ' cat ', ''])}" for name in chosen]
        text = "\n".join(["file,labels", *rows, ""])
        for _ in range(rng.integers(0, 2)):
            place = int(rng.integers(0, len(text)))
            text = text[:place] + str(rng.choice(odd)) + text[place + int(rng.integers(0, 2)) :]
        (tmp_path / "l.csv").write_text(text, newline="")
        monkeypatch.setattr(places, "MANY", int(rng.choice([1, 3, 100])))
        at_once, by_row = both_ways(monkeypatch, lambda: content(tmp_path / "l.csv"))
        assert at_once == by_row, text
        monkeypatch.setattr(whole, "LARGE", 1)
        if isinstance(at_once, tuple):
            plain += isinstance(read_file_list(tmp_path / "l.csv", None)[0], PackedNames)
    assert plain > 50


def test_cells_that_are_equal_without_blanks_are_one():
    column = Column.of(["cat", " cat", "dog", "cat "], np.array([1, 0, 2, 3, 2]))
    assert column.values == ["cat", "dog"]
    assert column.codes.tolist() == [0, 0, 1, 0, 1]
    assert column.first_row(1) == 2


def test_codes_are_in_the_order_of_the_rows():
    column = pyarrow.DictionaryArray.from_arrays(
        pyarrow.array([2, None, 0, 2], pyarrow.int32()), ["a", "unused", "c"]
    )
    values, codes = whole.coded(column)
    assert (values, codes.tolist()) == (["c", "", "a"], [0, 1, 2, 0])


def test_without_pyarrow_rows_are_read_one_by_one(tmp_path, files, monkeypatch):
    (tmp_path / "l.csv").write_text("file,label\na/00.jpg,cat\na/01.jpg,dog\n")
    monkeypatch.setattr(whole, "LARGE", 1)
    monkeypatch.setattr(whole, "_has_pyarrow", lambda: False)
    assert content(tmp_path / "l.csv")[:2] == ("a/00.jpg", "a/01.jpg")
    assert whole.delimited_columns(tmp_path / "l.csv", ",", ("file", "label"), [0]) is None
