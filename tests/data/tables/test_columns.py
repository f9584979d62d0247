"""Columns of tables: by the names that people give them, and by the form of their cells."""

from __future__ import annotations

import pytest

from spml.common.errors import InputError
from spml.config import DataConfig
from spml.data.tables.names import is_plural, split_flag
from spml.data.tables.rows import read_table
from tests.helpers.records import names_of


def test_names_for_several():
    several = [
        "labels", "Finding Labels", "tags_en", "attribute_ids", "imageTags", "Label(s)", "tag list",
    ]  # fmt: skip
    one = [
        "label", "class", "species", "diagnosis", "genus", "status", "Finding", "primary_label", "common_name"
    ]  # fmt: skip
    assert [name for name in [*several, *one] if is_plural(name)] == several


def test_flags_of_splits():
    flags = {
        "train": ("is_train", "is_training_image", "in_train_set"),
        "val": ("isValid", "is_val"),
        "test": ("is test", "IsTest"),
        "": ("is_cat", "train", "is_trained"),
    }
    for split, names in flags.items():
        assert {*map(split_flag, names)} == {split}


READ = {
    "a stated column wins": (["name,Finding Labels,file,label", "a.png,cat|dog,x,1", "b.png,dog,y,2"],
        {"file_column": "name", "label_column": "finding labels"},
        {"a.png": ["cat", "dog"], "b.png": ["dog"]}),
    "`file` and `label` mean what they say": (
        ["id,image,file,label,category,class", "9,x,a.png,cat,pet,mammal", "8,y,b.png,hen,farm,bird"], {},
        {"a.png": ["cat"], "b.png": ["hen"]},
    ),
    "an id beside a file": (["id,image,label", "9,a.png,cat", "8,b.png,hen"], {},
        {"a.png": ["cat"], "b.png": ["hen"]}),
    "cells that are files": (["no,photo no,label", "1,a.png,cat", "2,b.png,hen"], {},
        {"a.png": ["cat"], "b.png": ["hen"]}),
    "one of two files exists": (["path,image,label", "x/a.png,a.png,cat", "x/b.png,b.png,hen"], {},
        {"a.png": ["cat"], "b.png": ["hen"]}),
    "the only column left": (["file,breed", "a.png,pug", "b.png,lab"], {},
        {"a.png": ["pug"], "b.png": ["lab"]}),
    "ids of an image are no labels": (["filename,image_id,breed", "a.png,7,pug", "b.png,8,lab"], {},
        {"a.png": ["pug"], "b.png": ["lab"]}),
    "a numbered family": (["file,tag1,tag2,tag3", "a.png,cat,,sea", "b.png,dog,cat,"], {},
        {"a.png": ["cat", "sea"], "b.png": ["cat", "dog"]}),
    "label and label_2": (["file,label,label_2", "a.png,cat,dog", "b.png,dog,"], {},
        {"a.png": ["cat", "dog"], "b.png": ["dog"]}),
    "a stated family": (["file,first,second", "a.png,cat,no dog", "b.png,dog,"],
        {"label_column": "first,second"}, {"a.png": ["cat"], "b.png": ["dog"]}),
    "class numbers": (["image,class,remark", "a.png,0,", "b.png,1,"], {}, {"a.png": ["0"], "b.png": ["1"]}),
    "a category beside a flag": (["image,category,occluded", "a.png,cat,1", "b.png,dog,0"], {},
        {"a.png": ["cat"], "b.png": ["dog"]}),
    "keywords beside flags": (
        ["file,keywords,favorite,hidden", 'a.png,"cat, sea",True,False', "b.png,dog,False,False"], {},
        {"a.png": ["cat", "sea"], "b.png": ["dog"]},
    ),
    "folders of files": (["File,RelativePath,label", "a.png,,cat", "b.png,.,dog"], {},
        {"a.png": ["cat"], "b.png": ["dog"]}),
    "measures are no classes": (
        ["file,Unnamed: 0,row,width,dog,cat", "a.png,0,20,30,1,0", "b.png,1,21,40,0,1"], {},
        {"a.png": ["dog"], "b.png": ["cat"]},
    ),
    "classes called like columns": (["file,path,class,tag,dog", "a.png,1,0,,1", "b.png,0,1,1,"], {},
        {"a.png": ["path", "dog"], "b.png": ["class", "tag"]}),
    "a vehicle is no split": (["file,train,bus", "a.png,1,0", "b.png,0,1"], {},
        {"a.png": ["train"], "b.png": ["bus"]}),
    "stated classes": (["file,dog,sex,cat", "a.png,1,1,0", "b.png,0,1,1"], {"label_column": "cat, dog"},
        {"a.png": ["dog"], "b.png": ["cat"]}),
    "stated classes with a comma": (['file,"dog, wild",sex', "a.png,1,1", "b.png,0,1"],
        {"label_column": '"dog, wild",sex'}, {"a.png": ["dog, wild", "sex"], "b.png": ["sex"]}),
    "signs": (["file,dog,cat", "a.png,+,-", "b.png,-,?"], {}, {"a.png": ["dog"], "b.png": []}),
    "numbers above one": (["file,dog,gull", "a.png,1,4", "b.png,0,7"], {"present_above": 0},
        {"a.png": ["dog", "gull"], "b.png": ["gull"]}),
    "scores above a half": (["file;dog;gull", "a.png;0,75;0,9", "b.png;0,2;1,0"], {"present_above": 0.5},
        {"a.png": ["dog", "gull"], "b.png": ["gull"]}),
    "grades as classes": (["file,grade", "a.png,0", "b.png,4"], {"label_column": "grade"},
        {"a.png": ["0"], "b.png": ["4"]}),
    "grades as presence": (["file,grade", "a.png,0", "b.png,4"],
        {"label_column": "grade", "present_above": 0}, {"a.png": [], "b.png": ["grade"]}),
    "predictions as truth": (["file,labels,scores", "a.png,cat,0.9", "b.png,dog,0.8"],
        {"label_column": "labels"}, {"a.png": ["cat"], "b.png": ["dog"]}),
    "names from Windows": (["FILE_NAME,Label", ".\\a.png,cat", ".\\b.png,dog"], {},
        {"a.png": ["cat"], "b.png": ["dog"]}),
    "lists in brackets": (["file,labels", "a.png,\"['cat', 'dog']\"", "b.png,['dog']"], {},
        {"a.png": ["cat", "dog"], "b.png": ["dog"]}),
    "names of one's own": (["no,photo no,species", "x,a.png,cat", "x,b.png,dog"],
        {"file_column": "photo no", "label_column": "species"}, {"a.png": ["cat"], "b.png": ["dog"]}),
    "a part without a split": (["file,label,fold", "a.png,cat,1", "b.png,dog,2"], {"split": "ignore"},
        {"a.png": ["cat"], "b.png": ["dog"]}),
}  # fmt: skip


@pytest.mark.parametrize(("lines", "options", "expected"), READ.values(), ids=READ)
def test_which_column_is_what(table, lines, options, expected):
    assert names_of(read_table(table(*lines), DataConfig(**options))) == expected


def label(*columns):
    return r".*or .*".join(rf"data\.label_column={column}" for column in columns)


REFUSED = {
    "classes with words instead of marks": (["file,dog,cat", "a.png,P,A", "b.png,A,P"], {},
        r"that stand for a class hold 1, 0, .*'dog' \(such as 'P', 'A'\): pass " + label("dog", "cat")),
    "unknown names": (["name,label", "x,cat"], {"file_column": "nme"},
        r"data\.file_column=nme: no column has this name; .*Did you mean name"),
    "an unknown label": (["file,label", "a.png,cat"], {"label_column": "lbl"},
        r"label_column=lbl: .*Did you mean label\?"),
    "no files": (["name,label", "x,cat", "y,dog"], {},
        r"no column `file` \(or .*If another column names the images"),
    "names of files": (["name,label", "x.png,cat"], {}, r"Pass data\.file_column=name, .*such as 'x\.png'"),
    "names without suffix": (["code,label", "a,cat", "b,dog"], {},
        r"Pass data\.file_column=code, .*such as 'a'"),
    "two files": (["path,filename,label", "a.png,b.png,x"], {},
        r"'path' and 'filename' may name .* Pass data\.file_column=path or data\.file_column=filename"),
    "two labels": (["file,tags,category", "a.png,cat,pet"], {},
        r"'tags' and 'category' may hold the labels\. Pass data\.label_column=tags or"),
    "label and labels": (["file,label,labels", "a.png,cat,pet"], {},
        "'label' and 'labels' may hold the labels"),
    "a name twice": (["file,label,Label", "a.png,cat,pet"], {},
        r"'label' and 'Label' may hold .*label_column=Label"),
    "two splits": (["file,label,set,subset", "a.png,x,val,train"], {},
        r"'set' and 'subset' may hold the split\. Pass data\.split_column=set"),
    "ranks": (["file,class,order,species", "a.png,Aves,Pass,Turdus merula"], {}, label("species", "class")),
    "breeds and facts": (["filename,breed,indoor,vaccinated", "a.png,pug,yes,no", "b.png,lab,no,no"], {},
        label("breed", "indoor,vaccinated")),
    "other marks": (["file,dog,beach,cat", "a.png,1,P,0", "b.png,0,A,1"], {},
        r"hold 1, 0, -1, x, .*" + label("dog,cat", "beach")),
    "facts about people": (["file,sex,diagnosis,malignant", "a.png,m,mole,no way", "b.png,f,scar,way"], {},
        label("diagnosis", "malignant")),
    "grades": (["file,grade", "a.png,0", "b.png,4"], {},
        r"the labels in 'grade' .*=grade; or .*present above .*=grade data\.present_above=0\.5\.$"),
    "decimal commas": (["file;dog;gull", "a.png;0,75;0,9", "b.png;0,2;1,0"], {},
        r"label_column=dog,gull data\.present_above=0\.5\.$"),
    "a class called label": (["file,label,dog", "a.png,1,0", "b.png,0,1"], {}, label("label", "label,dog")),
    "a fold": (["file,label,fold", "a.png,cat,1", "b.png,dog,2"], {},
        r"'fold' is called like .* holds '1', '2'\..*if it does not, pass data\.split=ignore"),
    "nothing": (["file,x", "a.png,", "b.png,"], {},
        r"no other column holds class names or 1, 0, .*found: file, x"),
    "probable missing labels": (["file,given,label,probability,rank", "a.png,x,y,0.9,1"], {},
        "lists labels that are probably missing.*spml review export"),
    "probable mistakes": (["file,label,confidence,rank", "a.png,x,0.9,1"], {},
        "lists given labels that look wrong.*spml review"),
    "a report": (["label,known,prior,hidden", "x,1,2,3"], {}, "is a report on classes"),
    "predictions": (["file,labels,scores", "a.png,cat,0.9"], {},
        r"spml predict.*spml data convert .*--predictions.*data\.label_column=labels"),
    "predictions with scores": (["file,labels,cat,dog", "a.png,cat,0.9,0.1"], {},
        "was written by `spml predict`"),
    "predictions with probabilities": (["file,labels,cat,probability of cat", "a.png,cat,0,1"], {},
        "was written by `spml predict`"),
    "folders of files elsewhere": (["File,RelativePath,label", "a.png,cam1,cat"], {},
        r"there is no file 'cam1/a\.png'.*folder of each file is that of the column 'RelativePath'"),
    "an id without a file": (["id,label", "a,cat", "x,dog"], {}, r"row 3: there is no file 'x' in "),
    "an unknown split": (["file,label,when", "a.png,x,dev"], {"split_column": "wen"},
        r"split_column=wen: no column has this name; .*Did you mean when"),
    "present and absent": (["file,label,present", "a.png,cat,1", "a.png,cat,1", "a.png,cat,0"], {},
        r"rows 2 and 4 both name 'a\.png', but contradict each other .*'cat'"),
    "present and marked as absent": (["file,tags", "a.png,dog;-sea", "a.png,sea", "b.png,dog"], {},
        r"rows 2 and 3 both name 'a\.png', but contradict .* about 'sea'"),
}  # fmt: skip


@pytest.mark.parametrize(("lines", "options", "message"), REFUSED.values(), ids=REFUSED)
def test_what_is_asked(table, lines, options, message):
    with pytest.raises(InputError, match=message) as caught:
        read_table(table(*lines), DataConfig(**options))
    assert str(caught.value).count("; or ") <= 2


def test_names_without_suffix(table, picture):
    picture("1.5.jpg")
    records = read_table(table("image_id,label", "a,cat", "b.png,dog", "1.5,dog"), DataConfig())
    assert names_of(records) == {"a.png": ["cat"], "b.png": ["dog"], "1.5.jpg": ["dog"]}
    picture("a.jpg")
    with pytest.raises(InputError, match=r"row 2: 'a' fits 'a\.jpg' and 'a\.png'"):
        read_table(table("id,label", "a,cat"), DataConfig())


@pytest.mark.parametrize(
    ("header", "cells", "expected"),
    [
        ("subset", "train dev eval", ("train", "val", "test")),
        ("learn_tag", "train train train", ("train", "train", "train")),
        ("Usage", "Training PublicTest PrivateTest", ("train", "val", "test")),
        ("part of", "Training valid TEST", ("train", "val", "test")),
        ("is_valid", "False True False", ("train", "val", "train")),
        ("is_training_image", "1 0 1", ("train", "test", "train")),
        ("is_train", "1 1 1", ("train", "train", "train")),
        ("test", "True False True", ("test", "train", "test")),
        ("part of", "train train train", None),
        ("part of", "train val other", None),
    ],
)
def test_a_split_under_another_name(table, header, cells, expected):
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
        notes = "".join(records.notes)
        assert "data.csv: columns that are not used: part of (text)." in notes
        assert "If one of them holds labels, name it with data.label_column." in notes


def test_stated_split_column(table):
    path = table("file,label,when,subset", "a.png,x,dev,train", "b.png,y,train,val")
    assert read_table(path, DataConfig(split_column="when")).split == ("val", "train")


def test_what_is_not_used_is_said(table):
    lines = ("a.png,cat,3.5,wet,pug,1", "b.png,dog,4.5,big,lab,0", "c.png,dog,4.5,,pug,0")
    notes = " ".join(read_table(table("file,label,score2,comment,breed,wet", *lines), DataConfig()).notes)
    assert "columns that are not used: comment (text), breed (text), score2 (numbers), wet (marks)." in notes
    assert "If one of them holds labels, name it with data.label_column." in notes
    (note,) = read_table(table("file,label,score2", "a.png,cat,3.5", "b.png,dog,4.5"), DataConfig()).notes
    assert note == "data.csv: columns that are not used: score2 (numbers)."


def test_a_column_beside_file_and_label_says_what_is_present(table):
    lines = ("a.png,cat,1", "a.png,dog,0", "b.png,cat,0", "b.png,cow,1")
    records = read_table(table("file,label,present", *lines), DataConfig())
    assert records.classes == ("cat", "cow", "dog")
    assert records.labels.to_ternary().tolist() == [[1, 0, -1], [-1, 1, 0]]
    says = "data.csv: 'present' says whether the label of a row is present (1) or absent (0)."
    assert says in records.notes
    records = read_table(table("file,label,occluded", *lines), DataConfig())
    assert names_of(records) == {"a.png": ["cat", "dog"], "b.png": ["cat", "cow"]}
    one_each = table("file,label,verified", "a.png,cat,1", "b.png,dog,0", "c.png,cat,1")
    records = read_table(one_each, DataConfig())
    assert records.labels.to_ternary().tolist() == [[1, 0], [0, 1], [1, 0]]
    assert "data.csv: columns that are not used: 'verified' (no file has several rows)." in records.notes
    for name, yes, no in (("polarity", "+", "-"), ("label_type", "positive", "negative")):
        path = table(f"file,label,{name}", f"a.png,cat,{yes}", f"b.png,dog,{yes}", f"c.png,cat,{no}")
        assert read_table(path, DataConfig()).labels.to_ternary().tolist() == [[1, 0], [0, 1], [-1, 0]]


def test_marks_as_people_write_them(table):
    lines = (
        "a.png,x,yes,WAHR,✓,1,",
        "b.png,,no,falsch,,0,X",
        "c.png, X ,Ja,1.0,✔️,1,",
        "d.png,,nein,0,☐,0,x",
    )
    records = read_table(table("file,a,b,c,d,e,f", *lines), DataConfig())
    assert records.labels.to_ternary().tolist() == [
        [1, 1, 1, 1, 1, 0],
        [0, -1, -1, 0, -1, 1],
        [1, 1, 1, 1, 1, 0],
        [0, -1, -1, -1, -1, 1],
    ]
    signs = read_table(table("file,a,b", "a.png,+,-", "b.png,-,+"), DataConfig(unlisted="negative"))
    assert signs.labels.to_ternary().tolist() == [[1, -1], [-1, 1]]
    dashes = read_table(table("file,a,b", "a.png,x,-", "b.png,-,x"), DataConfig())
    assert dashes.labels.to_ternary().tolist() == [[1, 0], [0, 1]]


def test_absent_and_doubtful_labels_of_tables(table):
    path = table("file,tags", "a.png,dog;-sea;sun", "b.png,sea;dog?", "c.png,sea")
    for unlisted, other in (("unknown", 0), ("negative", -1)):
        records = read_table(path, DataConfig(unlisted=unlisted))
        assert records.classes == ("dog", "sea", "sun")
        assert records.labels.to_ternary().tolist() == [[1, -1, 1], [0, 1, other], [other, 1, other]]


@pytest.mark.parametrize(
    ("header", "usual", "last", "message"),
    [
        ("label,score", ("cat,0", "cat,1"), "dog,0.7", r"the column 'score' holds '0\.7', but 1 and 0 in"),
        ("dog,cat", ("1,0", "1,0"), "two,0", "column 'dog' holds 'two', but a column that stands for"),
        ("dog,cat", ("1,0", "1,0"), "1,3", r"column 'cat' holds '3', .*pass data\.present_above=0\.5;"),
    ],
)
def test_a_cell_beyond_the_first_rows_that_is_no_mark(table, header, usual, last, message):
    lines = [f"{name}.png,{usual[k % 2]}" for k, name in enumerate("abcde" * 300)]
    with pytest.raises(InputError, match="row 1502: " + message):
        read_table(table(f"file,{header}", *lines, f"a.png,{last}"), DataConfig())
