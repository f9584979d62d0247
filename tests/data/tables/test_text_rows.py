"""Texts in columns of tables and of DataFrames."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from spml.common.errors import InputError
from spml.config import DataConfig
from spml.data import list_inputs, list_samples, read_memory, start_opening
from spml.data.texts import MOST_CHARACTERS, Texts, decoded

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


def opened(path, text, **settings):
    return start_opening(DataConfig(path=str(path), text=text, **settings)).records


def test_rows_are_texts_and_columns_are_joined(table):
    records = opened(table, "title, abstract")
    assert records.ids == ("a", "b", "d")
    assert list(records.inputs) == ["Cats purr\nThey sleep", "Dogs bärk", "Cows moo\nloud"]
    assert records.labels.to_names(records.classes) == [["cat"], ["dog"], ["cow"]]
    assert records.split == ("train", "train", "test")
    assert records.skipped == (("c", "no text"),)
    assert "t.csv: the texts are those of title, abstract." in records.notes
    assert "1 sample without text left out: 'c'." in records.notes
    assert list(opened(table, "abstract").ids) == ["a", "d"]


def test_without_an_id_rows_are_named_by_their_number(table):
    table.write_text(ROWS.replace("id,", "key,", 1), encoding="utf-8")
    assert tuple(opened(table, "title").ids) == ("2", "3", "5")
    assert tuple(opened(table, "title", file_column="key").ids) == ("a", "b", "d")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("titel", "data.text=titel: no column has this name; found: id, title.*Did you mean title"),
        ("year", "the column 'year' holds numbers, not text. Leave it out"),
        (
            "title,picture",
            "'picture' holds names of image files, such as 'a.jpg'.*file_column=picture",
        ),
        ("empty", "the column 'empty' holds nothing in its first rows"),
    ],
)
def test_columns_that_hold_no_text_are_refused(tmp_path, text, message):
    path = tmp_path / "t.csv"
    path.write_text("id,title,year,picture,empty,label\na,Cats,2001,a.jpg,,x\nb,Dogs,2002,b.png,,y\n")
    with pytest.raises(InputError, match=message):
        opened(path, text)


def test_lists_are_no_text():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"words": [["a", "b"], ["c"]], "label": ["x", "y"]})
    with pytest.raises(InputError, match=r"the column 'words' holds lists, not text. Join their entries"):
        read_memory(frame, None, DataConfig(text="words"))


def test_rows_of_one_name_must_have_the_same_text(table):
    table.write_text(ROWS + "a,Cats purr,They sleep,2001,dog,train\n", encoding="utf-8")
    merged = opened(table, "title,abstract")
    assert merged.labels.to_names(merged.classes)[0] == ["cat", "dog"]
    table.write_text(ROWS + "a,Other,,2001,dog,train\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"rows 2 and 6 both name 'a', with different texts.*file_column"):
        opened(table, "title,abstract")


def test_other_data_and_other_encodings_are_refused(tmp_path):
    latin = tmp_path / "latin.csv"
    latin.write_bytes("id,title,label\na,Bär,x\nb,Hund,y\n".encode("cp1252"))
    with pytest.raises(InputError, match=r"is not UTF-8: byte 0xe4 .*iconv -f CP1252"):
        opened(latin, "title")
    np.savez(tmp_path / "x.npz", X=np.eye(3), Y=np.eye(3), classes=np.array(["a", "b", "c"]))
    with pytest.raises(InputError, match=r"data.text=title names columns of a table, but this is"):
        opened(tmp_path / "x.npz", "title")
    empty = tmp_path / "empty.csv"
    empty.write_text("id,title,body,label\na, ,x,k\nb,,,m\n")
    with pytest.raises(InputError, match="'title' holds nothing"):
        opened(empty, "title")


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
