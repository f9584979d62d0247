"""Columns of tables by the names that people give them."""

from __future__ import annotations

import pytest

from spml.config import DataConfig
from spml.data.tables.read import read_table
from spml.errors import InputError


def names(records):
    return dict(zip(records.ids, records.labels.to_names(records.classes), strict=True))


FILES = ("file", "File", "filename", "FILE_NAME", "image", "img", "path", "image_path", "id")
LABELS = ("label", "Labels", "tag", "tags", "Category", "categories", "class", "CLASSES", "label")


@pytest.mark.parametrize(("file", "label"), zip(FILES, LABELS, strict=True))
def test_usual_names(table, file, label):
    for delimiter in ",;\t":
        rows = [(file, label), ("a.png", "cat"), ("b.png", "dog")]
        records = read_table(table(*map(delimiter.join, rows)), DataConfig())
        assert names(records) == {"a.png": ["cat"], "b.png": ["dog"]}
        used = " ".join(records.notes)
        usual = label.lower() in ("label", "labels")
        assert (f"images are those of the column {file!r}" in used) == (file.lower() != "file")
        assert (f"labels are those of the column {label!r}" in used) == (not usual)


def test_plurals_hold_several(table):
    for label in ("tags", "categories"):
        records = read_table(table(f"path,{label}", "a.png,cat;dog", "b.png,dog"), DataConfig())
        assert names(records)["a.png"] == ["cat", "dog"]
    with pytest.raises(InputError, match="column 'tag': ambiguous"):
        read_table(table("path,tag", "a.png,cat;dog", "b.png,dog"), DataConfig())


def test_stated_columns(table):
    path = table("name,Finding Labels,file,label", "a.png,cat|dog,x,1", "b.png,dog,y,2")
    config = DataConfig(file_column="name", label_column="finding labels")
    records = read_table(path, config)
    assert names(records) == {"a.png": ["cat", "dog"], "b.png": ["dog"]}
    assert records.notes == (
        (
            "data.csv: the images are those of the column 'name', the labels are those of the column "
            "'Finding Labels'."
        ),
        "data.csv: columns that are not used: file, label.",
        (
            "data.csv: column 'Finding Labels': separated by bars, 2 classes, 1.50 labels per sample (50% of"
            " the parts also occur in other cells, 50% alone; 1 cell of 2 different ones has several)."
        ),
    )
    records = read_table(path, DataConfig(file_column="name", label_column="label"))
    assert names(records) == {"a.png": ["1"], "b.png": ["2"]}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"file_column": "nme"}, r"file_column nme: no column has this name; found: name, label\. Did you"),
        ({"file_column": "name", "label_column": "lbl"}, r"--data\.label_column lbl: .*Did you mean label\?"),
        ({}, r"no column `file` \(or `filename`, .*Pass --data\.file_column name\.$"),
    ],
)  # fmt: skip
def test_unknown_columns(table, options, message):
    with pytest.raises(InputError, match=message):
        read_table(table("name,label", "a.png,cat"), DataConfig(**options))


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("path,filename,label", "'path' and 'filename' may name the images. Pass --data.file_column path or "
                                "--data.file_column filename"),
        ("file,tags,category", "'tags' and 'category' may hold the labels. Pass --data.label_column tags or "
                               "--data.label_column category"),
        ("file,label,labels", "columns 'label' and 'labels' may hold the labels"),
        ("image,Image,label", "names a column twice: image"),
    ],
)  # fmt: skip
def test_ambiguous_columns(table, header, message):
    with pytest.raises(InputError, match=message):
        read_table(table(header, "a.png,b.png,cat"), DataConfig())


def test_a_better_name_wins(table):
    """`file` and `label` mean what they say, whatever other columns are called, as in earlier versions."""
    path = table("id,image,file,label,category,class", "9,x,a.png,cat,pet,mammal", "8,y,b.png,hen,farm,bird")
    assert names(read_table(path, DataConfig())) == {"a.png": ["cat"], "b.png": ["hen"]}
    path = table("id,image,label", "9,a.png,cat", "8,b.png,hen")
    assert names(read_table(path, DataConfig())) == {"a.png": ["cat"], "b.png": ["hen"]}


def test_classes_may_have_the_names_of_columns(table):
    path = table("file,path,class,tag,dog", "a.png,1,0,,1", "b.png,0,1,1,")
    assert read_table(path, DataConfig()).classes == ("path", "class", "tag", "dog")
    path = table("image,category,occluded", "a.png,cat,1", "b.png,dog,0")
    assert names(read_table(path, DataConfig())) == {"a.png": ["cat"], "b.png": ["dog"]}
    path = table("image,class", "a.png,0", "b.png,1")
    assert names(read_table(path, DataConfig())) == {"a.png": ["0"], "b.png": ["1"]}
    path = table("image,category,dog,hen", "a.png,pet,1,0", "b.png,farm,0,1")
    with pytest.raises(
        InputError,
        match=r"'category' may hold the labels, but the columns dog, hen hold 1 and 0.*--data\.label_column",
    ):
        read_table(path, DataConfig())
    records = read_table(path, DataConfig(label_column="category"))
    assert names(records) == {"a.png": ["pet"], "b.png": ["farm"]}


def test_names_without_suffix(table, picture):
    picture("1.5.jpg")
    records = read_table(table("image_id,label", "a,cat", "b.png,dog", "1.5,dog"), DataConfig())
    assert names(records) == {"a.png": ["cat"], "b.png": ["dog"], "1.5.jpg": ["dog"]}
    with pytest.raises(InputError, match=r"row 3: there is no file 'x' in "):
        read_table(table("id,label", "a,cat", "x,dog"), DataConfig())
