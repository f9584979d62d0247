"""CSV files: what is understood, and every way to get one wrong."""

from __future__ import annotations

import codecs

import pytest

from spml.config import DataConfig
from spml.data.readers.table import read_table, recognise_separator
from spml.errors import InputError


def names(records):
    return dict(zip(records.ids, records.labels.to_names(records.classes), strict=True))


def test_one_label(table):
    records = read_table(
        table("file,label", "a.png,cat", "b.png, traffic light ", "", "c.png,cat"), DataConfig()
    )
    assert records.classes == ("cat", "traffic light")
    assert names(records) == {"a.png": ["cat"], "b.png": ["traffic light"], "c.png": ["cat"]}
    assert records.labels.single_positive
    assert records.split is None
    assert records.notes == ()
    assert records.name == "data"


def test_order_case_bom_and_unused_columns(table):
    path = table(
        "Split,Width,LABEL,File", "Train,3,cat,a.png", "valid,4,dog,sub/../b.png", "TEST,5,dog,./c.png"
    )
    path.write_bytes(codecs.BOM_UTF8 + path.read_bytes())
    records = read_table(path, DataConfig())
    assert records.ids == ("a.png", "b.png", "c.png")
    assert records.split == ("train", "val", "test")
    assert records.notes == ("data.csv: columns that are not used: width.",)


@pytest.mark.parametrize(
    ("header", "row", "separator"),
    [
        ("file,labels", "a.png,dog;cat", "semicolons"),
        ("file,labels", "a.png,dog|cat", "bars"),
        ("file,labels", 'a.png,"dog, cat"', "commas"),
        ("file;labels", "a.png;dog,cat", "commas"),
        ("file\tlabels", "a.png\tdog , cat", "commas"),
    ],
)
def test_separators_are_recognised(table, header, row, separator):
    delimiter = header[4]
    records = read_table(table(header, row, f"b.png{delimiter}big cow"), DataConfig())
    assert names(records) == {"a.png": ["cat", "dog"], "b.png": ["big cow"]}
    assert f"data.csv: labels are separated by {separator} (recognised)." in records.notes
    if delimiter != ",":
        assert "columns are separated by" in records.notes[0]


def test_stated_separator(table):
    lines = ("file,labels", "a.png,cat dog", "b.png,cow")
    with pytest.raises(
        InputError, match=r"can't be told whether 'cat dog' is one label or several.*--data.separator"
    ):
        read_table(table(*lines), DataConfig())
    records = read_table(table(*lines), DataConfig(separator=" "))
    assert records.classes == ("cat", "cow", "dog")
    assert records.notes == ("data.csv: labels are separated by spaces (stated).",)
    assert read_table(table(*lines), DataConfig(separator=";")).classes == ("cat dog", "cow")
    assert read_table(table("file,labels", "a.png,x::y", "b.png,y"), DataConfig(separator="::")).classes == (
        "x",
        "y",
    )


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["cat", "dog"], ""),
        (["cat dog", "cat", "dog"], " "),
        (["cat dog", "dog bird", "cat"], " "),
        (["chair diningtable", "chair", "sofa chair", "sofa", "diningtable sofa"], " "),
        (["traffic light;car", "car"], ";"),
        (["traffic light", "car"], InputError),
        (["dog house", "dog", "cat"], InputError),
        (["traffic light", "traffic sign", "stop sign", "car"], InputError),
        (["cat dog"], InputError),
        (["cat;dog", "dog, puppy"], InputError),
    ],
)
def test_recognise_separator(cells, expected):
    if expected is InputError:
        with pytest.raises(InputError, match="can't be told"):
            recognise_separator(cells, "x.csv")
    else:
        assert recognise_separator(cells, "x.csv") == expected


def test_one_label_that_looks_like_several_is_noted(table):
    records = read_table(table("file,label", "a.png,cat;dog", "b.png,dog"), DataConfig())
    assert records.classes == ("cat;dog", "dog")
    assert "so 'cat;dog' is one class name" in records.notes[0]


def test_rows_without_label(table):
    lines = ("file,labels", "a.png,cat;dog", "b.png,", "c.png,dog")
    with pytest.raises(InputError, match=r"row 3: 'b\.png' has no label.*--data\.unlisted negative"):
        read_table(table(*lines), DataConfig())
    records = read_table(table(*lines), DataConfig(unlisted="negative"))
    assert records.labels.to_ternary().tolist() == [[1, 1], [-1, -1], [-1, 1]]
    assert records.labels.full


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "the file is empty. Expected the columns `file` and `label`"),
        (["file,label"], "has a header but no rows"),
        (["image,label", "a.png,cat"], "row 1 has no column `file`; found: image, label. Expected"),
        (["file,class", "a.png,cat"], "row 1 has no column `label` or `labels`; found: file, class"),
        (["a.png,cat", "b.png,dog"], "row 1 has no column `file`; found: a.png, cat"),
        (["file:label", "a.png:cat"], "row 1 has no column `file`; found: file:label"),
        (["file,label,label", "a.png,cat,dog"], "names a column twice"),
        (["file,label,labels", "a.png,cat,dog"], "names a column twice"),
        (["file,label", "a.png,cat,dog"], "row 2 has 3 cells, but the header has 2"),
        (["file,label", "a.png,cat", "", "b.png"], "row 4 has 1 cells, but the header has 2"),
        (["file,label", '"a.png,cat'], "is no valid CSV near line 2"),
        (["file,label", "a.png,cat", ",dog"], "row 3: the cell `file` is empty"),
        (["file,label", "a.png,"], "row 2: 'a.png' has no label"),
        (["file,label", "a.png,cat", "b.png,dog", "a.png,cat"], "rows 2 and 4 both name 'a.png'. Remove one"),
        (
            ["file,label", "a.png,cat", "./a.png,dog"],
            "rows 2 and 3 .* different labels.*`labels`: a.png,cat;dog",
        ),
        (["file,labels", "a.png,cat;dog", "a.png,dog;cat"], "rows 2 and 3 both name 'a.png'. Remove one"),
        (["file,labels", "a.png,cat;;dog"], "row 2: 'cat;;dog' has an empty label"),
        (
            ["file,label", "a.png,cat", "x.png,dog", "y.png,dog"],
            r"row 3: there is no file 'x.png'.*2 files are missing",
        ),
        (["file,label", "../a.png,cat"], "row 2: '../a.png' lies outside the folder"),
        (["file,label", "a/../../a.png,cat"], "row 2: .* lies outside the folder"),
        (["file,label", "..\\a.png,cat"], "row 2: .* lies outside the folder"),
        (["file,label", "/etc/passwd,cat"], "row 2: '/etc/passwd' lies outside the folder"),
        (["file,label", "C:\\a.png,cat"], "row 2: .* lies outside the folder"),
        (
            ["file,label,split", "a.png,cat,train", "b.png,dog,tset"],
            "row 3: the split is 'tset', but must be one of",
        ),
        (["file,label,split", "a.png,cat,"], "row 2: the split is ''"),
    ],
)
def test_bad_tables(table, lines, message):
    with pytest.raises(InputError, match=message) as caught:
        read_table(table(*lines), DataConfig())
    assert "data.csv" in str(caught.value)
    assert caught.value.exit_code == 2


def test_all_labels_empty(table):
    with pytest.raises(InputError, match="no row has a label"):
        read_table(table("file,label", "a.png,"), DataConfig(unlisted="negative"))


def test_other_encodings(table):
    path = table("file,label", "a.png,kätzchen", "b.png,hund", encoding="latin-1")
    with pytest.raises(InputError, match=r"not UTF-8: byte 0xe4 at position 18, line 2\. .*iconv -f LATIN1"):
        read_table(path, DataConfig())
    path = table("file,label", "a.png,kätzchen", encoding="utf-16")
    with pytest.raises(InputError, match=r"not UTF-8: byte 0xff at position 0, line 1.*iconv -f UTF-16"):
        read_table(path, DataConfig())
    records = read_table(table("file,label", "a.png,kätzchen", "b.png,犬"), DataConfig())
    assert records.classes == ("kätzchen", "犬")


def test_name_of_a_file_called_labels(table):
    path = table("file,label", "a.png,cat", "b.png,dog")
    moved = path.rename(path.with_name("labels.csv"))
    assert read_table(moved, DataConfig()).name == moved.parent.name
