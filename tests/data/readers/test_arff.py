"""ARFF files as Mulan and MEKA write them, and every way to get one wrong."""

from __future__ import annotations

import pytest

from spml.common.errors import InputError
from spml.config import DataConfig
from spml.data import open_dataset
from spml.data.readers.arff import read_arff

HEADER = """% a comment with 'quotes
@relation 'two words'

@ATTRIBUTE width REAL
@attribute 'the colour' {red, 'dark blue', "it\\'s"}
@attribute note string
@attribute "big"	{no,yes}
@attribute cat {0,1}
@attribute 'traffic light' {0,1}
@data
"""
XML = """<?xml version="1.0" encoding="utf-8"?>
<labels xmlns="http://mulan.sourceforge.net/labels">
<label name="traffic light"><label name="cat"></label></label>
</labels>
"""


@pytest.fixture
def save(tmp_path):
    def write(text, name="data.arff", xml=None):
        if xml is not None:
            (tmp_path / name).with_suffix(".xml").write_text(xml)
        (tmp_path / name).write_text(text)
        return tmp_path / name

    return write


def dense(records):
    return records.inputs.fetch(range(len(records.inputs))).tolist()


def test_dense_rows(save):
    rows = """1.5,red,'a, b',no,0,1
% another comment
-2e1 , 'dark blue' , x, yes, 1, 0

3,"it's",?,no,?,1
"""
    records = read_arff(save(HEADER + rows, xml=XML), DataConfig())
    assert records.classes == ("cat", "traffic light")
    assert records.classes_given
    assert dense(records) == [[1.5, 0, 0, 0], [-20, 1, 0, 1], [3, 0, 1, 0]]
    assert records.labels.to_ternary().tolist() == [[-1, 1], [1, -1], [0, 1]]
    assert records.ids == ("0", "1", "2")
    assert records.feature_names == ("width", "the colour=dark blue", "the colour=it's", "big=yes")
    assert records.split is None
    assert records.name == "data"
    assert records.notes == (
        "data.arff: 2 of 6 attributes are labels, as data.xml says.",
        "data.arff: one feature per value except the first for 1 nominal attribute.",
        "data.arff: unused attributes, which are text: note.",
        "data.arff: labels are 1 (positive), 0 (negative) and blank (unknown).",
    )


def test_sparse_rows_are_the_same_as_dense_ones(save):
    plain = HEADER + "1.5,red,x,no,0,1\n0,'dark blue',y,yes,1,0\n0,red,z,no,0,0\n7,\"it's\",z,no,1,1\n"
    sparse = HEADER + "{0 1.5, 2 x, 5 1}\n{1 'dark blue',2 y,3 yes, 4 1}\n{ }\n{4 1, 5 1, 0 7, 1 \"it's\"}\n"
    for unlisted, absent in (("unknown", 0), ("negative", -1)):
        config = DataConfig(unlisted=unlisted)
        one = read_arff(save(plain, "one.arff", XML), config)
        other = read_arff(save(sparse, "other.arff", XML), config)
        assert dense(one) == dense(other)
        assert one.labels == other.labels
        assert one.inputs.fingerprint() == other.inputs.fingerprint()
        assert one.labels.to_ternary().tolist() == [[absent, 1], [1, absent], [absent, absent], [1, 1]]
        assert one.notes[-1] == f"one.arff: labels are 1 (positive) and 0 ({unlisted})."


MEKA = """@relation 'Some Name: {option}'
@attribute l1 {{0,1}}
@attribute l2 {{0,1}}
@attribute x numeric
@attribute l3 {{0,1}}
@attribute l4 {{0,1}}
@data
1,0,.5,0,1
0,1,.25,1,1
0,0,-1,1,0
"""


@pytest.mark.parametrize(
    ("option", "columns", "classes", "first"),
    [
        ("-C 2", 0, ("l1", "l2"), [0.5, 0, 1]),
        ("-C -2", 0, ("l3", "l4"), [1, 0, 0.5]),
        ("-C 2 -split-number 2", 0, ("l1", "l2"), [0.5, 0, 1]),
        ("-C 2", -1, ("l4",), [1, 0, 0.5, 0]),
        ("nothing", 1, ("l1",), [0, 0.5, 0, 1]),
    ],
)
def test_labels_first_or_last(save, option, columns, classes, first):
    records = read_arff(save(MEKA.format(option=option)), DataConfig(label_columns=columns))
    assert records.classes == classes
    assert dense(records)[0] == first
    assert records.split == (("train", "train", "test") if "number" in option else None)
    assert ("data.label_columns says" in records.notes[0]) == bool(columns)


@pytest.mark.parametrize(
    ("option", "training"),
    [
        ("-split-number 1", 1),
        ("-split-number 3", None),
        ("-split-number 0", None),
        ("-split-percentage 34", 1),  # 1.02 of 3 rows
        ("-split-percentage 50", 2),  # halves are rounded up, as MEKA does
        ("-split-percentage 83.3", 2),
        ("-split-percentage 83.4", None),  # 2.502: all three
        ("-split-number 1 -split-percentage 66.6", 2),  # which MEKA prefers
    ],
)
def test_splits_that_meka_states(save, option, training):
    records = read_arff(save(MEKA.format(option=f"-C 2 {option}")), DataConfig())
    assert records.split == (("train",) * training + ("test",) * (3 - training) if training else None)
    (note,) = (note for note in records.notes if "rows are for training" in note)
    assert (f"the first {training} rows are for training" in note) == bool(training)
    assert ("there is no split" in note) == (training is None)


def test_label_values(save):
    """{-1, 1}, words, numbers, and a first value that is not 0, which sparse rows leave out."""
    text = """@relation x
@attribute a {-1,1}
@attribute b {yes,no}
@attribute c numeric
@attribute x numeric
@data
{3 1}
{0 1, 1 no, 2 1, 3 2}
{1 ?, 3 4}
"""
    with pytest.raises(InputError, match="the labels are 1, 0, -1 and blank, so 0 or -1"):
        read_arff(save(text), DataConfig(label_columns=3))
    records = read_arff(save(text.replace("?", "no")), DataConfig(label_columns=3))
    assert records.labels.to_ternary().tolist() == [[-1, 1, 0], [1, 0, 1], [-1, 0, 0]]
    assert records.notes[-1].endswith("1 (positive), -1 (negative) and 0 (unknown).")
    text = text.replace("{-1,1}", "{1,0}")
    records = read_arff(save(text), DataConfig(label_columns=3))
    assert records.labels.to_ternary().tolist() == [[1, 1, -1], [1, -1, 1], [1, 0, -1]]


def test_nominal_features_of_0_and_1(save):
    """As numbers, in whatever order @attribute lists them; the first of the list is what sparse rows omit."""
    text = """@relation 'x: -C 1'
@attribute l {0,1}
@attribute a {1,0}
@attribute b {0,1}
@attribute c {yes,no}
@attribute d {0,1,2}
@data
"""
    rows = "1,1,0,yes,0\n0,0,1,no,2\n1,0,0,yes,1\n"
    sparse = "{0 1}\n{1 0, 2 1, 3 no, 4 2}\n{0 1, 1 0, 4 1}\n"
    expected = [[1, 0, 0, 0, 0], [0, 1, 1, 0, 1], [0, 0, 0, 1, 0]]
    assert dense(read_arff(save(text + rows), DataConfig())) == expected
    read = read_arff(save(text + sparse), DataConfig())
    assert dense(read) == expected
    assert read.feature_names == ("a", "b", "c=no", "d=1", "d=2")


def test_train_and_test_file(save):
    train = save(MEKA.format(option="x"), "set-train.arff", "")
    (train.with_name("set-train.xml")).unlink()
    train.with_name("set.xml").write_text('<labels><label name="l1"/><label name="l2"/></labels>')
    alone = read_arff(train, DataConfig())
    assert (alone.split, alone.name) == (None, "set")
    save(MEKA.format(option="y").replace(".25", ".75"), "set-test.arff")
    records = read_arff(train, DataConfig())
    assert records.split == ("train",) * 3 + ("test",) * 3
    assert [row[0] for row in dense(records)] == [0.5, 0.25, -1, 0.5, 0.75, -1]
    assert records.classes == ("l1", "l2")
    assert records.notes[1] == "set-train.arff: the test rows are those of set-test.arff."
    test = read_arff(train.with_name("set-test.arff"), DataConfig())
    assert (test.split, len(test.ids)) == (None, 3)
    save(MEKA.format(option="y").replace("l4", "other"), "set-test.arff")
    with pytest.raises(InputError, match=r"set-test\.arff: its attributes differ from those of set-train"):
        read_arff(train, DataConfig())


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("@data", "", "line 8: expected @attribute, .* @relation or @data, found '1,0,.5,0,1'"),
        ("1,0,.5,0,1\n0,1,.25,1,1\n0,0,-1,1,0\n", "", "has no row"),
        ("x numeric", "x numbers", "line 4: the type of 'x' is 'numbers'. Known are numeric"),
        ("x numeric", "", "line 4: expected @attribute, a name and a type"),
        ("x numeric", "x {a,b", "line 4: expected distinct values between braces, found '{a,b'"),
        ("x numeric", "x {a,a}", "line 4: expected distinct values"),
        ("x numeric", "x {a,'b}", "line 4: expected a cell, quotes closed, found \"'b\""),
        ("x numeric", "l1 numeric", "line 4: the name 'l1' was used before"),
        ("l1 {0,1}", "l1 {a,b}", "line 8: the label 'l1' is '1', not 0, 1 or ?"),
        ("-C 2", "-C 5", "-C in @relation makes 5 of 5 attributes labels"),
        ("-C 2", "-D 2", "neither data.xml in the same folder.*data.label_columns=N"),
        ("0,1,.25,1,1", "0,1,.25,1", "line 9: 4 cells, but there are 5 attributes"),
        ("0,1,.25,1,1", "0,1,'a,1,1", "line 9: expected a cell, quotes closed, found \"'a,1,1\""),
        ("0,1,.25,1,1", "0,1,'.25',1,1,", "line 9: 6 cells, but there are 5 attributes"),
        ("0,1,.25,1,1", "0,1,?,1,1", "line 9: 'x' is missing"),
        ("0,1,.25,1,1", "0,1,a,1,1", "line 9: 'x' is 'a', not a number"),
        ("0,1,.25,1,1", "0,1,,1,1", "line 9: 'x' is '', not a number"),
        ("0,1,.25,1,1", "0,1,nan,1,1", "X holds nan at row 1, column 0"),
        ("0,1,.25,1,1", "0,1,.25,2,1", "line 9: 'l3' is '2', which @attribute does not list"),
        ("0,1,.25,1,1", "0,2,.25,1,1", "line 9: the label 'l2' is '2', not 0, 1 or ?"),
        ("0,1,.25,1,1", "0,,.25,1,1", "line 9: the label 'l2' is '', not 0"),
        ("0,1,.25,1,1", "{1 1, 9 1}", "line 9: attribute 9 has no value, occurs twice or is not below 5"),
        ("0,1,.25,1,1", "{1 1, 1 0}", "line 9: attribute 1 has no value, occurs twice or"),
        ("0,1,.25,1,1", "{1 1, x}", "line 9: expected the number of an attribute and its value, found ' x'"),
        ("0,1,.25,1,1", "{1 }", "line 9: attribute 1 has no value"),
        ("0,1,.25,1,1", "{-1 1}", "line 9: expected the number of an attribute"),
        ("0,1,.25,1,1", "{1 1", "line 9: a row that begins with { must end with }"),
        ("0,1,.25,1,1", "{1 1}, {5}", "line 9: expected the number of an attribute"),
        ("0,1,.25,1,1", "0,1,\0,1,1", "line 9 holds a NUL byte"),
    ],
)  # fmt: skip
def test_bad_files(save, old, new, message):
    text = MEKA.format(option="-C 2")
    assert old in text
    with pytest.raises(InputError, match=message) as caught:
        open_dataset(DataConfig(path=str(save(text.replace(old, new)))))
    assert "data.arff" in str(caught.value)


@pytest.mark.parametrize(
    ("xml", "message"),
    [
        ('<labels><label name="l9"/></labels>', r"data\.xml: 'l9' is not an attribute of data\.arff"),
        ("<labels></labels>", "data.xml makes 0 of 5 attributes labels"),
        ("<labels><label name='l1'></labels>", "is not valid XML: mismatched tag"),
        ("", "is not valid XML: no element found"),
        ('<!DOCTYPE labels SYSTEM "labels.dtd"><labels/>', "has a document type or entities"),
        (
            '<!DOCTYPE x [<!ENTITY a "l1">]><labels><label name="&a;"/></labels>',
            "has a document type or entities",
        ),
        ('<?xml version="1.0" encoding="no such"?><labels/>', "data.xml: (is not valid XML|can't be read)"),
    ],
)
def test_bad_lists_of_labels(save, xml, message):
    with pytest.raises(InputError, match=message):
        read_arff(save(MEKA.format(option="-C 2"), xml=xml), DataConfig())


def test_a_file_without_features(save):
    path = save("@relation 'x: -C 1'\n@attribute l {0,1}\n@attribute s string\n@data\n1,abc\n0,d\n")
    with pytest.raises(InputError, match=r"data\.arff: has no feature\."):
        read_arff(path, DataConfig())


def test_deep_xml_is_no_problem(save):
    xml = "<a>" * 100_000 + '<label name="l1"/>' + "</a>" * 100_000
    assert read_arff(save(MEKA.format(option="x"), xml=xml), DataConfig()).classes == ("l1",)
