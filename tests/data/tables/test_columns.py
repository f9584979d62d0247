"""Columns of tables by the names that people give them."""

from __future__ import annotations

import pytest

from spml.common.errors import InputError
from spml.config import DataConfig
from spml.data.tables.read import read_table


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
        "data.csv: columns that are not used: file (text), label (numbers).",
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
        ("image,Image,label", "'image' and 'Image' may name the images. Pass --data.file_column image or "),
        ("file,label,Label", "'label' and 'Label' may hold the labels. Pass --data.label_column label or "),
        ("file,label,split,Split", "'split' and 'Split' may hold the split. Pass --data.split_column "),
    ],
)  # fmt: skip
def test_ambiguous_columns(table, header, message):
    with pytest.raises(InputError, match=message):
        read_table(table(header, "a.png,b.png,cat" + ",train" * (header.count(",") - 2)), DataConfig())


def test_a_better_name_wins(table):
    """`file` and `label` mean what they say, whatever other columns are called."""
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
    path = table("image,class,remark", "a.png,0,", "b.png,1,")
    assert names(read_table(path, DataConfig())) == {"a.png": ["0"], "b.png": ["1"]}
    path = table("image,class,dog", "a.png,x,", "b.png,,")
    with pytest.raises(InputError, match=r"'class' may .* it and the columns dog hold .*class,dog\.$"):
        read_table(path, DataConfig())
    assert read_table(path, DataConfig(label_column="class,dog")).classes == ("class", "dog")
    path = table("image,category,dog,hen", "a.png,pet,1,0", "b.png,farm,0,1")
    with pytest.raises(
        InputError,
        match=r"'category' may hold the labels, but the columns dog, hen hold marks .* classes: .*dog,hen\.$",
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


@pytest.mark.parametrize(
    ("header", "cells", "expected"),
    [
        ("subset", "train val test", ("train", "val", "test")),
        ("learn_tag", "train train train", ("train", "train", "train")),
        ("part of", "Training valid TEST", ("train", "val", "test")),
        ("is_valid", "False True False", ("train", "val", "train")),
        ("is_train", "1 0 1", ("train", "test", "train")),
        ("is_train", "1 1 1", None),
        ("part of", "train train train", None),
        ("part of", "train val other", None),
    ],
)
def test_a_split_under_another_name_is_recognised_by_its_values(table, header, cells, expected):
    lines = [
        f"{name}.png,{label},{cell}" for name, label, cell in zip("abc", "xyx", cells.split(), strict=True)
    ]
    path = table(f"file,label,{header}", *lines)
    records = read_table(path, DataConfig())
    assert records.split == expected
    if expected:
        assert any(f"the split is that of the column '{header}' (" in note for note in records.notes)
        assert read_table(path, DataConfig(split="ignore")).split is None
    else:
        assert f"data.csv: columns that are not used: {header} (" in "".join(records.notes)


def test_stated_split_column(table):
    path = table("file,label,when,subset", "a.png,x,dev,train", "b.png,y,train,val")
    assert read_table(path, DataConfig(split_column="when")).split == ("val", "train")
    with pytest.raises(InputError, match=r"split_column wen: no column has this name; .*Did you mean when"):
        read_table(path, DataConfig(split_column="wen"))
    with pytest.raises(
        InputError, match=r"the columns 'set' and 'subset' may hold the split\. Pass --data\.spl"
    ):
        read_table(table("file,label,set,subset", "a.png,x,val,train", "b.png,y,train,val"), DataConfig())


def test_a_column_beside_file_and_label_says_what_is_present(table):
    lines = ("a.png,cat,1", "a.png,dog,0", "b.png,cat,0", "b.png,cow,1")
    records = read_table(table("file,label,present", *lines), DataConfig())
    assert records.classes == ("cat", "cow", "dog")
    assert records.labels.to_ternary().tolist() == [[1, 0, -1], [-1, 1, 0]]
    assert (
        "data.csv: 'present' says whether the label of a row is present (1) or absent (0)." in records.notes
    )
    records = read_table(table("file,label,occluded", *lines), DataConfig())
    assert names(records) == {"a.png": ["cat", "dog"], "b.png": ["cat", "cow"]}
    one_each = table("file,label,verified", "a.png,cat,1", "b.png,dog,0", "c.png,cat,1")
    assert read_table(one_each, DataConfig()).labels.to_ternary().tolist() == [[1, 0], [0, 1], [1, 0]]
    many = [f"{name}.png,cat,{k % 2}" for k, name in enumerate("abcde" * 300)]
    with pytest.raises(InputError, match=r"row 1502: the column 'score' holds '0\.7', but 1 and 0 in other"):
        read_table(table("file,label,score", *many, "a.png,dog,0.7"), DataConfig())
    with pytest.raises(
        InputError, match=r"rows 2 and 4 both name 'a\.png', but contradict each other .*'cat'"
    ):
        read_table(table("file,label,present", "a.png,cat,1", "a.png,cat,1", "a.png,cat,0"), DataConfig())


def test_columns_of_classes_that_the_user_names(table):
    path = table("file,dog,sex,cat", "a.png,1,1,0", "b.png,0,1,1")
    assert read_table(path, DataConfig()).classes == ("dog", "sex", "cat")
    records = read_table(path, DataConfig(label_column="cat, dog"))
    assert records.classes == ("cat", "dog")
    assert records.labels.to_ternary().tolist() == [[0, 1], [1, 0]]
    assert "data.csv: columns that are not used: sex (numbers)." in records.notes


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (
            ["filename,breed,indoor", "a.png,pug,yes", "b.png,lab,no", "c.png,pug,yes"],
            r"the columns indoor hold .*, but 'breed' holds 2 different words that repeat \('pug', 'lab'\)\. "
            r"If these are the labels, pass data\.label_column breed; .* data\.label_column indoor\.$",
        ),
        (
            ["file,dog,cat,cow", "a.png,there,1,1", "b.png,away,1,", "c.png,there,,1"],
            r"'dog' holds 2 different words that repeat \('there', 'away'\)",
        ),
        (["file,class_id", "a.png,3", "b.png,7.0", "c.png,3"], r"as --data\.label_column class_id \(2 diff"),
        (["file,breed", "a.png,pug", "b.png,lab", "c.png,pug"], r"as --data\.label_column breed \(2 diff"),
        (
            ["Image Index,Finding", "a.png,pug", "b.png,lab", "c.png,pug"],
            r"Pass --data\.file_column 'Image Index', and the column .*label_column Finding \(2 diff",
        ),
        (["image_url,label", "http://x.org/a.png,cat"], "'image_url' holds addresses, but only files"),
        (["a.png,cat", "b.png,dog"], r"has no header: its first row is a\.png, cat\. Add a line"),
        (["f1,f2,label", "0.1,3,x", "0.2,4,y"], r"If the rows are features .* save them as an \.npz file"),
        (["file,dog,gull", "a.png,1,4", "b.png,0,7", "c.png,1,12", "d.png,1,0", "e.png,0,9", "a.png,1,5"],
         "the column 'gull' holds numbers, hardly any of them 0"),
        (["file,dog,cat", "a.png,3,-1", "b.png,0,1"], "'dog' holds numbers above 1, .* but others hold -1"),
    ],
)  # fmt: skip
def test_what_is_asked(table, lines, message):
    with pytest.raises(InputError, match=message):
        read_table(table(*lines), DataConfig())


def test_marks_as_people_write_them(table):
    lines = (
        "a.png,x,yes,WAHR,✓,3,",
        "b.png,,no,falsch,,0,X",
        "c.png, X ,Ja,1.0,✔️,12,",
        "d.png,,nein,0,☐,0,x",
    )
    records = read_table(table("file,a,b,c,d,e,f", *lines), DataConfig())
    assert records.labels.to_ternary().tolist() == [
        [1, 1, 1, 1, 1, 0], [0, -1, -1, 0, -1, 1], [1, 1, 1, 1, 1, 0], [0, -1, -1, -1, -1, 1],
    ]  # fmt: skip
    assert "data.csv: a number above 1 in such a column is a count, so the class is present." in records.notes


def test_measures_are_no_classes(table):
    lines = [
        f"{name}.png,{k},{k + 20},{w},1,{k % 2}"
        for k, (name, w) in enumerate(zip("abcde", "34567", strict=True))
    ]
    records = read_table(table("file,Unnamed: 0,row,width,dog,cat", *lines), DataConfig())
    assert records.classes == ("dog", "cat")
    assert (
        "data.csv: columns that are not used: Unnamed: 0 (numbers), row (numbers), width (numbers)."
        in records.notes
    )


def test_a_class_that_is_called_label(table):
    path = table("file,label,dog", "a.png,1,0", "b.png,0,1", "c.png,1,1")
    with pytest.raises(
        InputError, match=r"'label' may .* it and the columns dog hold marks .*label_column label,dog\.$"
    ):
        read_table(path, DataConfig())
    assert read_table(path, DataConfig(label_column="label,dog")).classes == ("label", "dog")
    assert read_table(path, DataConfig(label_column="label")).classes == ("0", "1")
    lines = ("a.png,cat,1", "b.png,dog,0", "c.png,cat,1")
    assert read_table(table("file,label,occluded", *lines), DataConfig()).classes == ("cat", "dog")
