"""Tables in CSV and TSV: every layout that is understood, and the message for every mistake."""

from __future__ import annotations

import codecs

import pytest

from spml.common.errors import InputError
from spml.config import DataConfig
from spml.data.tables import formats as delimited
from spml.data.tables.rows import read_table
from tests.helpers.records import names_of


def test_one_label(table):
    records = read_table(
        table("file,label", "a.png,cat", "b.png, traffic light ", "", "c.png,cat"), DataConfig()
    )
    assert records.classes == ("cat", "traffic light")
    assert names_of(records) == {"a.png": ["cat"], "b.png": ["traffic light"], "c.png": ["cat"]}
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
    assert records.notes == ("data.csv: columns that are not used: Width (numbers).",)


@pytest.mark.parametrize(
    ("header", "row", "separator"),
    [
        ("file,labels", "a.png,dog;cat", "semicolons"),
        ("file,label", "a.png,dog|cat", "bars"),
        ("file,labels", 'a.png,"dog, cat"', "commas"),
        ("file;labels", "a.png;dog,cat", "commas"),
        ("file\tTag(s)", "a.png\tdog , cat", "commas"),
        ("file|label", "a.png|dog;cat", "semicolons"),
    ],
)
def test_separators_are_recognised(table, header, row, separator):
    delimiter = header[4]
    others = [
        f"{name}.png{delimiter}{label}" for name, label in (("b", "big cow"), ("c", "dog"), ("d", "cat"))
    ]
    records = read_table(table(header, row, *others), DataConfig())
    assert names_of(records) == {
        "a.png": ["cat", "dog"],
        "b.png": ["big cow"],
        "c.png": ["dog"],
        "d.png": ["cat"],
    }
    column = header[5:]
    how = f"data.csv: column '{column}': separated by {separator}, 3 classes, 1.25 labels per sample ("
    assert any(note.startswith(how) for note in records.notes)
    if delimiter != ",":
        assert "columns are separated by" in records.notes[0]


def test_stated_separator(table):
    lines = ("file,labels", "a.png,cat dog", "b.png,cow")
    records = read_table(table(*lines), DataConfig(separator=" "))
    assert records.classes == ("cat", "cow", "dog")
    assert records.notes == (
        "data.csv: column 'labels': separated by spaces, 3 classes, 1.50 labels per sample (stated).",
    )
    assert read_table(table(*lines), DataConfig(separator=";")).classes == ("cat dog", "cow")


def test_cells_that_can_not_be_read(table):
    lines = ("file,labels", "a.png,cat;dog", "b.png,cat;;dog", "c.png,dog")
    for unlisted, absent in (("unknown", 0), ("negative", -1)):
        records = read_table(table(*lines), DataConfig(unlisted=unlisted))
        assert records.labels.to_ternary().tolist() == [[1, 1], [0, 0], [absent, 1]]
        assert (
            records.notes[1]
            == "data.csv: column 'labels': 1 cell can't be read as separated by semicolons and counts as"
            f" without a label, such as 'cat;;dog' ({table()}: row 3)."
        )
    with pytest.raises(InputError, match=r"1 cell can't be read .*row 3.*pass data.unlabelled=skip"):
        read_table(table(*lines), DataConfig(unlabelled="stop"))
    with pytest.raises(InputError, match=r"no row has a label\. data.csv: .*'cat;;dog'"):
        read_table(table("file,labels", "a.png,cat;;dog"), DataConfig(separator=";"))


def test_rows_without_label(table):
    lines = ("file,labels", "a.png,cat;dog", "b.png,", "c.png,dog")
    records = read_table(table(*lines), DataConfig())
    assert records.labels.to_ternary().tolist() == [[1, 1], [0, 0], [0, 1]]
    assert "2 classes, 1.50 labels per sample" in " ".join(records.notes)
    records = read_table(table(*lines), DataConfig(unlisted="negative"))
    assert records.labels.to_ternary().tolist() == [[1, 1], [-1, -1], [-1, 1]]
    assert records.labels.full


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "the file is empty, or .* Expected the columns `file` and `label`"),
        (["file,label"], "has no rows. Expected the columns"),
        (["file", "a.png"],
         "there is no column `label` or `labels`, and no other column holds .* found: file. Expected"),
        (["file:label", "a.png:cat"], "the header has no column `file` .*found: file:label"),
        (["file,label,label", "a.png,cat,dog"], "names a column twice"),
        (["file,label", 'a.png,"c\x07at"'], r"row 2: the class name 'c\\x07at' holds control characters"),
        (["file,label", "a.png," + "x" * 2000], r"the class name 'xxx.*' is empty or too long"),
        (['picture of,"la\nbel"', "z,cat"], r"found: picture of, 'la\\nbel'\."),
        (["file,label", "a.png,cat,dog"],
         "row 2 has 3 cells, but the header has 2: 'a.png', 'cat', 'dog'. Put"),
        (["file,label", "a.png,cat", "", "b.png"], "row 4 has 1 cell, but the header has 2: 'b.png'"),
        (["file,label", '"a.png,cat'], "not valid CSV near line 2: .* Is a quote"),
        (["file,label", "a.png,cat", "b.png," + "x" * 200_000],
         "not valid CSV near line 3: field larger than field limit"),
        (["file,label", "a.png,cat", ",dog"], "row 3: the name of a file is empty"),
        (["file,label", "a.png,"], r"no row has a label\. At least one row must have one\.$"),
        (["file,labels,cat,dog,season", "a.png,,1,0,summer"],
         r"no row has a label\..*columns that are not used: season \(text\), cat \(marks\), dog \(marks\)"),
        (["file,label,split", "a.png,cat,train", "b.png,dog,test", "./a.png,cat,test"],
         "rows 2 and 4 both name 'a.png', with different splits, 'train' and 'test'. A sample has one"),
        (["file,label", "a.png,cat", "x.png,dog", "y.png,dog"],
         r"row 3: there is no file 'x.png' in .* \(2 of 3 files are missing: 'x\.png', 'y\.png'\)\. That"),
        (["file,label", "../a.png,cat"], "row 2: '../a.png' lies outside the folder"),
        (["file,label,split", "a.png,cat,train", "b.png,dog,tset"],
         r"'split' is called like .*'train', 'tset'.*write train, val or test"),
        (["file,label,split", "a.png,cat,train", "b.png,dog,"], "row 3: the split is ''"),
    ],
)  # fmt: skip
def test_bad_tables(table, lines, message):
    with pytest.raises(InputError, match=message) as caught:
        read_table(table(*lines), DataConfig())
    assert "data.csv" in str(caught.value)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("rows", "unlisted", "expected", "meaning"),
    [
        (["1,,0", ",1,", "0,0,1"], "unknown", [[1, 0, -1], [0, 1, 0], [-1, -1, 1]], "0 (negative) and blank"),
        (["1,,0", ",1,", "0,0,1"], "negative", [[1, 0, -1], [0, 1, 0], [-1, -1, 1]], "has no effect."),
        (["yes, NaN,no", "nan, YES ,", "No,false,True"], "unknown",
         [[1, 0, -1], [0, 1, 0], [-1, -1, 1]], "1 (positive), 0 (negative) and blank (unknown)."),
        (["1.0,0.0,1", "0,1,0", "0,0,0"], "unknown", [[1, 0, 1], [0, 1, 0], [0, 0, 0]], "0 (unknown)."),
        (["1,0,1", "0,1,0", "0,0,0"], "negative", [[1, -1, 1], [-1, 1, -1], [-1, -1, -1]], "0 (negative)."),
        (["1,,1", ",1,", ",,"], "unknown", [[1, 0, 1], [0, 1, 0], [0, 0, 0]], "blank (unknown)."),
        (["1,,1", ",1,", ",,"], "negative", [[1, -1, 1], [-1, 1, -1], [-1, -1, -1]], "blank (negative)."),
        (["1,-1,0", "0,1,0", "0,0,1"], "unknown", [[1, -1, 0], [0, 1, 0], [0, 0, 1]], "and 0 (unknown)."),
        (["1,-1,", ",1,", ",,1"], "unknown", [[1, -1, 0], [0, 1, 0], [0, 0, 1]], "and blank (unknown)."),
        (["1,-1,1", "-1,1,1", "1,1,1"], "unknown", [[1, -1, 1], [-1, 1, 1], [1, 1, 1]], "-1 (negative)."),
    ],
)  # fmt: skip
def test_one_column_per_class(table, rows, unlisted, expected, meaning):
    more = ("a.png,train,7,x", "b.png,val,7,x", "c.png,test,7,x")
    lines = map(",".join, zip(rows, more, strict=True))
    records = read_table(table("Cat,dog,big cow,FILE,split,width,", *lines), DataConfig(unlisted=unlisted))
    assert records.classes == ("Cat", "dog", "big cow")
    assert records.classes_given
    assert records.ids == ("a.png", "b.png", "c.png")
    assert records.split == ("train", "val", "test")
    assert records.labels.to_ternary().tolist() == expected
    assert records.notes[0] == "data.csv: columns that are not used: width (numbers)."
    assert records.notes[1].startswith(
        "data.csv: 3 columns stand for a class (Cat, dog, big cow): 1 (positive)"
    )
    assert records.notes[1].endswith(meaning) or meaning in records.notes[1]


def test_rows_of_one_file_in_columns_of_classes_are_merged(table):
    path = table("file,cat,dog,cow", "a.png,1,,0", "b.png,0,1,", "a.png,,1,0", "a.png,,,")
    records = read_table(path, DataConfig())
    assert records.ids == ("a.png", "b.png")
    assert records.labels.to_ternary().tolist() == [[1, 1, -1], [-1, 1, 0]]
    assert (
        "1 file has several rows, whose labels were merged, such as a.png (rows 2 and 4)" in records.notes[1]
    )


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["file,cat,dog", "a.png,1,0", "b.png,-1,"], "the labels are 1, 0, -1 and blank"),
        (["file,cat,dog", "a.png,1,0", "b.png,0,1", "c.png,two,1", "d.png,1,1", "e.png,maybe,0"],
         "row 4: column 'cat' holds 'two', 'maybe', but a column that stands for a class"),
        (["file,cat,dog", "a.png,,", "b.png,,"], "no other column holds class names"),
        (['file,cat,"d\tog"', "a.png,1,0"], r"the class name 'd\\tog' holds control characters"),
        (["file,width", "a.png,5", "b.png,7"], "no other column holds class names or .*found: file, width"),
        (["file,cat,dog", "a.png,1,", "a.png,0,1"],
         "rows 2 and 3 both name 'a.png', but contradict .* 'cat'"),
    ],
)  # fmt: skip
def test_bad_columns_of_classes(table, lines, message):
    with pytest.raises(InputError, match=message):
        read_table(table(*lines), DataConfig())


def test_rows_of_one_file_are_merged(table):
    lines = ("file,label", "a.png,cat", "b.png,dog", "./b.png,cat", "a.png,dog", "a.png,cow", "a.png,cat")
    for unlisted, absent in (("unknown", 0), ("negative", -1)):
        records = read_table(table(*lines), DataConfig(unlisted=unlisted))
        assert (records.ids, records.classes) == (("a.png", "b.png"), ("cat", "cow", "dog"))
        assert records.labels.to_ternary().tolist() == [[1, 1, 1], [1, absent, 1]]
        assert records.notes == (
            "data.csv: 2 files have several rows, whose labels were merged, such as b.png (rows 3 and 4), "
            "a.png (rows 2 and 5), a.png (rows 2 and 6).",
        )
    lines = ("file,labels", "a.png,cat;dog", "b.png,dog", "a.png,cow")
    assert names_of(read_table(table(*lines), DataConfig()))["a.png"] == ["cat", "cow", "dog"]
    with pytest.raises(InputError, match=r"rows 2 and 4 both name 'a\.png', .*different labels.*cat;cow;dog"):
        read_table(table(*lines), DataConfig(unlisted="negative"))
    same = ("file,labels", "a.png,cat;dog", "b.png,dog", "a.png,dog;cat")
    assert read_table(table(*same), DataConfig(unlisted="negative")).ids == ("a.png", "b.png")


def test_folder_of_images(table, tmp_path):
    path = table("file,label", "a.png,cat", "b.png,dog")
    (tmp_path / "lists").mkdir()
    moved = path.rename(tmp_path / "lists" / "data.csv")
    records = read_table(moved, DataConfig(images=str(tmp_path)))
    assert records.inputs == (tmp_path / "a.png", tmp_path / "b.png")
    assert records.ids == ("a.png", "b.png")


LINES = b"file,label\na.png,cat\n"
DAMAGED = {
    "a NUL byte": (LINES + b"b.png,d\0g", r"data\.csv: line 3 holds a NUL byte.*UTF-16"),
    "UTF-16 without its mark": (LINES.decode().encode("utf-16-le"),
        r"line 1 holds a NUL byte.*iconv -f UTF-16LE -t UTF-8 data\.csv"),
    "half a character": (LINES + "b.png,kä".encode()[:-1], "not UTF-8: byte 0xc3 at position 28, line 3"),
    "a byte far from the beginning": (codecs.BOM_UTF8 + LINES + 150_000 * b"a.png,cat\n" + b"a.png,\xff\n",
        "byte 0xff at position 1500030, line 150003"),
    "half of UTF-16": ("file,label\na.png,kätzchen".encode("utf-16")[:-1], "is damaged UTF-16"),
}  # fmt: skip


@pytest.mark.parametrize(("content", "message"), DAMAGED.values(), ids=DAMAGED)
def test_damaged_text(tmp_path, content, message):
    (tmp_path / "data.csv").write_bytes(content)
    with pytest.raises(InputError, match=message):
        read_table(tmp_path / "data.csv", DataConfig())


def test_name_of_a_file_called_labels(table):
    path = table("file,label", "a.png,cat", "b.png,dog")
    moved = path.rename(path.with_name("labels.csv"))
    assert read_table(moved, DataConfig()).name == moved.parent.name


def test_a_first_line_that_states_the_separator(table):
    path = table("sep=;", "file;label", "a.png;cat", "b.png;dog;x")
    path.write_bytes(codecs.BOM_UTF8 + path.read_bytes())
    with pytest.raises(InputError, match="row 4 has 3 cells, but the header has 2"):
        read_table(path, DataConfig())
    path = table("sep=|", "file|label", "a.png|cat;dog", "b.png|dog", "c.png|cat")
    assert names_of(read_table(path, DataConfig()))["a.png"] == ["cat", "dog"]


def test_the_first_broken_row_is_refused(table):
    lines = ["file,label", *[f"{name}.png,cat" for name in "abcde"] * 400]
    lines[1300] += ",limited"
    message = r"row 1301 has 3 cells, but the header has 2: .*Put a cell .* on_bad_lines=\"skip\"\)\.to_csv"
    with pytest.raises(InputError, match=message):
        read_table(table(*lines), DataConfig())


def test_words_for_missing_values_and_numbers(table):
    lines = ("a.png,3.0", "b.png,unknown", "c.png,3", "d.png,N/A", "e.png,7.0")
    records = read_table(table("file,label", *lines), DataConfig())
    assert names_of(records) == {"a.png": ["3"], "b.png": [], "c.png": ["3"], "d.png": [], "e.png": ["7"]}
    assert records.notes == (
        "data.csv: column 'label': whole numbers are one class however they are written: '3.0' is '3', '7.0' "
        "is '7'.",
        "data.csv: column 'label': 2 words for a missing value read as blank: 'unknown', 'N/A'; to keep such "
        "a word as a class, pass data.rename={'unknown': 'unknown'}.",
    )
    kept = read_table(table("file,label", *lines), DataConfig(rename={"unknown": "unknown"}))
    assert names_of(kept) == {**names_of(records), "b.png": ["unknown"]}


@pytest.mark.parametrize("chunk", [2, 3, 4, 5, 7, 1000])
def test_lines_are_the_same_however_they_are_read(tmp_path, monkeypatch, chunk):
    monkeypatch.setattr(delimited, "_CHUNK", chunk)
    lines = ["file,label\r\n", "a.png,x\u2028y\r", "\n", "\r\n", "b.png,\x0b\n", "c.png,犬"]
    path = tmp_path / "data.csv"
    path.write_bytes(("\ufeff" + "".join(lines)).encode())
    assert [*delimited.read_lines(path)] == [lines[0], "a.png,x\u2028y\r\n", *lines[3:]]


def test_a_name_keeps_its_blanks_when_its_folder_is_written_with_dots(table, picture):
    picture(" a.png")
    records = read_table(table("file,label", "./ a.png,cat", "./b.png,dog", "b.png,cat"), DataConfig())
    assert names_of(records) == {" a.png": ["cat"], "b.png": ["cat", "dog"]}
    assert all(path.is_file() for path in records.inputs)
