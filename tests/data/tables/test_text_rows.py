"""Texts in columns of tables and of DataFrames."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from spml.common.errors import InputError
from spml.config import DataConfig
from spml.data import list_inputs, list_samples, read_memory
from spml.data.texts import MOST_CHARACTERS, Texts, decoded
from tests.helpers.records import opened

ROWS = (
    "id,title,abstract,year,label,split\n"
    "a,Cats purr,They sleep,2001,cat,train\n"
    "b,Dogs bärk,,2002,dog,train\n"
    "c,,,2003,cat,train\n"
    "d,Cows moo,loud,2004,cow,test\n"
)


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(ROWS, encoding="utf-8")
    return path


def test_rows_are_texts_and_columns_are_joined(table):
    records = opened(table, text="title, abstract")
    assert records.ids == ("a", "b", "d")
    assert list(records.inputs) == ["Cats purr\nThey sleep", "Dogs bärk", "Cows moo\nloud"]
    assert records.labels.to_names(records.classes) == [["cat"], ["dog"], ["cow"]]
    assert records.split == ("train", "train", "test")
    assert records.skipped == (("c", "no text"),)
    assert "t.csv: the texts are those of title, abstract." in records.notes
    assert "1 sample without text left out: 'c'." in records.notes
    assert list(opened(table, text="abstract").ids) == ["a", "d"]
    table.write_text(ROWS + "a,Cats purr,They sleep,2001,dog,train\n", encoding="utf-8")
    merged = opened(table, text="title,abstract")
    assert merged.labels.to_names(merged.classes)[0] == ["cat", "dog"]


def test_without_an_id_rows_are_named_by_their_number(table):
    table.write_text(ROWS.replace("id,", "key,", 1), encoding="utf-8")
    assert tuple(opened(table, text="title").ids) == ("2", "3", "5")
    assert tuple(opened(table, text="title", file_column="key").ids) == ("a", "b", "d")


HEAD = b"id,title,year,picture,empty,label\n"
REFUSED = {
    "no such column": (b"a,Cats,2001,a.jpg,,x\n", "titel",
        "data.text=titel: no column has this name; found: id, title.*Did you mean title"),
    "numbers": (b"a,Cats,2001,a.jpg,,x\n", "year", "'year' holds numbers, not text. Name a column"),
    "files": (b"a,Cats,2001,a.jpg,,x\nb,Dogs,2002,b.png,,y\n", "title,picture",
        "'picture' holds names of files, not text.*to learn from images, leave data.text out"),
    "nothing": (b"a,Cats,2001,a.jpg,,x\n", "empty", "the column 'empty' holds nothing in its first rows"),
    "blanks": (b"a, ,2001,a.jpg,,x\nb,,2002,b.png,,y\n", "title", "'title' holds nothing"),
    "a text and a blank": (b"a,Cats,,,,x\na,,,,,y\n", "title",
        r"rows 2 and 3 both name 'a', with different texts.*file_column"),
    "two texts": (b"a,Cats,,,,x\na,Dogs,,,,y\n", "title",
        r"rows 2 and 3 both name 'a', with different texts.*file_column"),
    "Latin-1": ("a,Bär,,,,x\n".encode("cp1252"), "title", "is not UTF-8: byte 0xe4 .*iconv -f CP1252"),
}  # fmt: skip


@pytest.mark.parametrize(("rows", "text", "message"), REFUSED.values(), ids=REFUSED)
def test_columns_that_hold_no_text_are_refused(tmp_path, rows, text, message):
    (tmp_path / "t.csv").write_bytes(HEAD + rows)
    with pytest.raises(InputError, match=message):
        opened(tmp_path / "t.csv", text=text)


def test_other_data_is_refused(tmp_path):
    np.savez(tmp_path / "x.npz", X=np.eye(3), Y=np.eye(3), classes=np.array(["a", "b", "c"]))
    with pytest.raises(InputError, match=r"data.text=title names columns of a table, but this is"):
        opened(tmp_path / "x.npz", text="title")
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"words": [["a", "b"], ["c"]], "label": ["x", "y"]})
    with pytest.raises(InputError, match=r"the column 'words' holds lists, not text. Name a column of text"):
        read_memory(frame, None, DataConfig(text="words"))


def test_texts_to_predict(table):
    report = []
    names, inputs = list_inputs([str(table)], DataConfig(text="title"), report=report.append)
    assert (tuple(names), list(inputs)) == (("a", "b", "d"), ["Cats purr", "Dogs bärk", "Cows moo"])
    assert report == ["1 sample without text left out: 'c'."]
    with pytest.raises(InputError, match="the model takes texts: give one table"):
        list_inputs([str(table.parent)], DataConfig(text="title"))
    names, inputs = list_samples(["one", "two words"], "title")
    assert (tuple(names), list(inputs)) == (("0", "1"), ["one", "two words"])
    with pytest.raises(InputError, match="where a text is expected"):
        list_samples(np.zeros((2, 3)), "title")


def test_frames_with_labels_apart():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"t": ["Cats", "Dogs"], "u": ["purr", None]}, index=["p", "q"])
    records = read_memory(frame, ["cat", "dog"], DataConfig(text="t,u"))
    assert (tuple(records.ids), list(records.inputs)) == (("p", "q"), ["Cats\npurr", "Dogs"])
    with pytest.raises(InputError, match="X: 1 text is empty, such as that of 'q'"):
        read_memory(frame, ["cat", "dog"], DataConfig(text="u"))


def test_texts_become_bytes_and_are_told_apart_by_their_content():
    texts = Texts.of(["Bär", "", "a\0b", "x" * (MOST_CHARACTERS + 1), "\ud800"])
    assert (texts[2], len(texts[3]), texts[4]) == ("a?b", MOST_CHARACTERS, "?")
    batch = texts.take([0, 1, 2]).fetch([2, 0, 1])
    assert batch.tolist() == [[97, 63, 98, 0], [66, 195, 164, 114], [0, 0, 0, 0]]
    assert decoded(batch) == ["a?b", "Bär", ""]
    assert texts.identities()[0].tobytes() == hashlib.sha256("text Bär".encode()).digest()
    assert Texts.of(["a", "b"]).fingerprint() != Texts.of(["ab"]).fingerprint()
