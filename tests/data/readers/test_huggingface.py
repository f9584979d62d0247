"""Hugging Face data sets on disk, written here with pyarrow as `datasets` writes them."""

from __future__ import annotations

import json
import pickle
import sys

import numpy as np
import pytest

from spml.common.errors import InputError, SpmlError
from spml.config import DataConfig
from spml.data import open_dataset
from spml.data.readers import Source
from spml.data.readers import huggingface as reader
from spml.data.readers.huggingface import is_huggingface, read_huggingface
from tests.helpers.huggingface import IMAGE, LIST, NAMES, PICTURES, STORED, TEXT, pa, write
from tests.helpers.records import opened

INDICES = pa.array([[0], [1, 2], [], [2], [0, 1], [1]], pa.list_(pa.int64()))
EXPECTED = [["cat"], ["dog", "cow"], [], ["cow"], ["cat", "dog"], ["dog"]]


@pytest.mark.parametrize("rows", [1, 4, 10])
@pytest.mark.parametrize("files", [1, 3])
def test_several_labels(tmp_path, rows, files):
    path = write(tmp_path / "set", INDICES, rows=rows, files=files)
    assert is_huggingface(Source(path))
    records = opened(path)
    assert records.classes == ("cat", "dog", "cow")
    assert records.classes_given
    assert records.labels.to_names(records.classes) == EXPECTED
    assert records.ids == ("0", "1", "2", "3", "4", "5")
    assert [part.read_bytes() for part in records.inputs] == [picture["bytes"] for picture in PICTURES]
    assert records.split is None
    assert records.name == "set"
    assert records.notes == (
        "set was read as a Hugging Face data set.",
        "set: images are in the column 'image', several labels in 'labels'.",
    )


def test_as_a_data_set(tmp_path):
    path = write(tmp_path / "set", INDICES)
    data = open_dataset(DataConfig(path=str(path), unlisted="negative", flip=False), size=2)
    for samples in data.splits.values():
        for row, name in enumerate(samples.ids):
            assert samples.inputs.fetch([row])[0, 0].tolist() == [[10 * int(name)] * 2] * 2
            known = samples.observed.take([row]).to_names(data.classes)[0]
            assert known == EXPECTED[int(name)]
    inputs = data.splits["train"].inputs
    assert pickle.loads(pickle.dumps(inputs)).fetch([0]).equal(inputs.fetch([0]))
    (path / "data-00000-of-00001.arrow").write_bytes(b"")
    with pytest.raises(SpmlError, match=r"arrow, bytes \d+ to \d+: the file is empty. It could be read"):
        inputs.fetch([0])


@pytest.mark.parametrize(
    ("feature", "column", "expected"),
    [
        (NAMES, pa.array([0, 2, 1, -1, None, 1], pa.int64()), [["cat"], ["cow"], ["dog"], [], [], ["dog"]]),
        (NAMES, pa.array([0, 2, 1, 1, 1, 1], pa.int8()), [["cat"], ["cow"], *[["dog"]] * 4]),
        ([NAMES], INDICES, EXPECTED),
        ({"feature": NAMES, "length": -1, "_type": "Sequence"}, INDICES, EXPECTED),
        ({"feature": NAMES, "_type": "LargeList"}, INDICES.cast(pa.large_list(pa.int64())), EXPECTED),
        (TEXT, pa.array(["b", " a ", "", None, "b", "a"]),
         [["b"], ["a"], [], [], ["b"], ["a"]]),
        ({"feature": TEXT, "_type": "List"},
         pa.array([["b", "a"], ["a"], [], None, ["b"], ["b"]]), [["a", "b"], ["a"], [], [], ["b"], ["b"]]),
    ],
)  # fmt: skip
def test_kinds_of_labels(tmp_path, feature, column, expected):
    records = read_huggingface(write(tmp_path / "set", column, {"labels": feature}), DataConfig())
    assert [sorted(names) for names in records.labels.to_names(records.classes)] == [
        sorted(names) for names in expected
    ]
    assert records.classes_given == ("dtype" not in str(feature))


def test_splits(tmp_path):
    write(tmp_path / "train", INDICES)
    write(tmp_path / "validation", INDICES.slice(0, 2))
    write(tmp_path / "test", INDICES.slice(3, 1))
    (tmp_path / "dataset_dict.json").write_text('{"splits": ["train", "validation", "test"]}')
    records = opened(tmp_path)
    assert records.split == ("train",) * 6 + ("val",) * 2 + ("test",)
    assert records.ids[5:] == ("train/5", "validation/0", "validation/1", "test/0")
    assert records.labels.to_names(records.classes) == [*EXPECTED, *EXPECTED[:2], EXPECTED[3]]
    (tmp_path / "dataset_dict.json").write_text('{"splits": ["train", "unsupervised"]}')
    with pytest.raises(InputError, match=r"the split 'unsupervised' is none of train, .*Remove it from the"):
        opened(tmp_path)
    write(tmp_path / "test", INDICES.slice(3, 1), {"labels": [{**NAMES, "names": ["a", "b", "c"]}]})
    (tmp_path / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    with pytest.raises(InputError, match=r"test/dataset_info\.json: its image and label columns or"):
        opened(tmp_path)


def test_groups(tmp_path):
    features = {"who": TEXT, "day": {"dtype": "int64", "_type": "Value"}}
    who, day = pa.array(["a", "b", None, "a", "", "b"]), pa.array([3, 3, 4, 4, 5, 5])
    path = write(tmp_path / "set", INDICES, features, files=2, who=who, day=day)
    records = opened(path, group="who")
    assert records.groups == ("a", "b", "", "a", "", "b")
    assert records.notes[2:] == ("set: unused columns: day.",)
    assert opened(path, group="day").groups == tuple("334455")
    assert opened(path).groups is None
    # A row without labels takes its group with it.
    labels = pa.array([[0], None, [1], [1], [1], [1]], pa.list_(pa.int64()))
    some = write(tmp_path / "some", labels, features, who=who, day=day)
    config = DataConfig(group="day", unlisted="negative", unlabelled="skip")
    assert read_huggingface(some, config).groups == tuple("34455")
    for group, message in (("when", "data.group=when: no column"), ("image", "'image' holds lists or")):
        with pytest.raises(InputError, match=message):
            opened(path, group=group)
    path = write(tmp_path / "set", INDICES, features, who=who)
    with pytest.raises(InputError, match="has no column 'day', or has it twice"):
        opened(path, group="day")


def test_the_only_column_of_class_labels(tmp_path):
    features = {"fine": NAMES, "labels": {"dtype": "float32", "_type": "Value"}, "note": {"_type": "Value"}}
    extra = pa.array([0, 1, 2, 0, 1, 2], pa.int64())
    path = write(tmp_path / "set", pa.array([0.5] * 6), features, fine=extra, note=pa.array(["x"] * 6))
    records = opened(path)
    assert records.labels.index.tolist() == extra.to_pylist()
    assert records.notes[2] == "set: unused columns: labels, note."
    features["other"] = NAMES
    path = write(tmp_path / "set", pa.array([0.5] * 6), features, fine=extra, other=extra)
    assert opened(path, label_column="Other").labels == records.labels
    for settings, message in (
        ({}, r"expected the labels in one column of names.*data\.label_column"),
        ({"label_column": "othr"}, r"label_column=othr: no column has this name.*Did you mean other"),
        ({"label_column": "note"}, "expected the labels in one column of names"),
        ({"file_column": "note"}, "expected one column of the type Image"),
    ):
        with pytest.raises(InputError, match=message):
            opened(path, **settings)


def test_unknown_rows_are_not_negative(tmp_path):
    path = write(tmp_path / "set", pa.array([[0], None, []], INDICES.type))
    assert opened(path).labels.to_ternary().tolist() == [[1, 0, 0], [0] * 3, [0] * 3]
    rest = opened(path, unlisted="negative")
    assert rest.ids == ("0", "2")
    assert rest.labels.to_ternary().tolist() == [[1, -1, -1], [-1] * 3]
    assert rest.skipped == (("1", "no label"),)
    assert [part.read_bytes() for part in rest.inputs] == [PICTURES[0]["bytes"], PICTURES[2]["bytes"]]
    with pytest.raises(InputError, match="1 of 3 samples has no label, so that nothing is known about it: 1"):
        opened(path, unlisted="negative", unlabelled="stop")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"labels": pa.array([[0], [3]], INDICES.type)}, r"row 1 \(counted from 0\): the label 3 is not an"),
        ({"labels": pa.array([[0], [-1, 2]], INDICES.type), "rows": 1}, "row 1 .* the label -1 is not an"),
        ({"labels": pa.array([[0.5], [1]])}, "row 0 .* the label 0.5 is not an index"),
        ({"labels": pa.array([["cat"], ["dog"]])}, "row 0 .* the label 'cat' is not an index"),
        ({"labels": pa.array([[], []], INDICES.type), "features": {"labels": [TEXT]}},
         "no sample has a label in the column 'labels'"),
        ({"labels": INDICES.slice(0, 0)}, "has no rows"),
        ({"features": {"labels": {**NAMES, "names": ["a", "a"]}}}, "expected at least one class name"),
        ({"features": {"labels": {**NAMES, "names": []}}}, "expected at least one class name"),
        ({"features": {"labels": {"_type": "ClassLabel"}}}, "'labels': there is no field `names`"),
        ({"features": {"labels": {**NAMES, "names": [1]}}}, r"'labels'\.names\[0\]: expected a string"),
        ({"features": {"image": {"_type": "Audio"}}}, "expected one column of the type Image; found: "),
        ({"features": {"labels": 3}}, "expected the labels in one column of names"),
        ({"pictures": [{"bytes": None, "path": "/etc/passwd"}] * 2}, "row 0 .* holds no image. .*names of"),
        ({"pictures": [PICTURES[0], None]}, "row 1 .* holds no image"),
        ({"pictures": pa.array([b"x", b"y"])}, "the image column holds binary, not encoded images"),
        ({"pictures": pa.array([{"bytes": "x"}] * 2)}, "image column holds struct<bytes: string>, not enc"),
        ({"options": pa.ipc.IpcWriteOptions(compression="zstd")}, "holds compressed data or dictionaries"),
        ({"options": pa.ipc.IpcWriteOptions(compression="lz4")}, "holds compressed data or dictionaries"),
        ({"note": pa.array(["x", "y"]).dictionary_encode()}, "holds compressed data or dictionaries"),
    ],
)  # fmt: skip
def test_bad_sets(tmp_path, changes, message):
    with pytest.raises(InputError, match=message):
        read_huggingface(write(tmp_path / "set", **{"labels": INDICES.slice(0, 2), **changes}), DataConfig())


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("state.json", '{"_data_files": [{"filename": "x.arrow"}]}', "there is no file 'x.arrow'"),
        ("state.json", '{"_data_files": [3]}', r"_data_files\[0\]: expected an object, got an integer"),
        ("state.json", '{"_data_files": [], "_indices_data_files": [{"filename": "i"}]}', "flatten_indices"),
        ("state.json", '{"x": ' + "[" * 100_000, "nested too deeply"),
        ("dataset_info.json", "{}", "there is no field `features`"),
        ("dataset_info.json", json.dumps({"features": {"photo": IMAGE, "labels": LIST}}),
         "has no column 'photo', or has it twice"),
        ("dataset_dict.json", '{"splits": ["train", "../test"]}', "the split '../test' is none of"),
        ("dataset_dict.json", '{"splits": ["train"]}', r"train/dataset_info\.json: is not a file"),
        ("dataset_dict.json", '{"splits": []}', "has no rows"),
        ("data-00000-of-00001.arrow", "", "can't be read as an Arrow stream.*Save the data set again"),
        ("data-00000-of-00001.arrow", "ARROW1" + "x" * 100, "can't be read as an Arrow stream"),
    ],
)  # fmt: skip
def test_bad_files(tmp_path, name, content, message):
    path = write(tmp_path / "set", INDICES)
    (path / name).write_text(content)
    with pytest.raises(InputError, match=message):
        opened(path)


def test_offsets_that_lead_elsewhere(tmp_path):
    """Damaged offsets are detected before they are used."""
    path = write(tmp_path / "set", INDICES, rows=10)
    file = path / "data-00000-of-00001.arrow"
    sizes = np.cumsum([0, *(len(picture["bytes"]) for picture in PICTURES)]).astype(np.int32)
    data = file.read_bytes()
    assert data.count(sizes.tobytes()) == 1
    for position, value in ((3, 1 << 30), (3, -5), (6, 1 << 20), (1, int(sizes[2]) + 1)):
        wrong = sizes.copy()
        wrong[position] = value
        file.write_bytes(data.replace(sizes.tobytes(), wrong.tobytes()))
        with pytest.raises(InputError, match="can't be read as an Arrow stream"):
            opened(path)


def test_image_parts_are_those_of_the_rows(tmp_path):
    path = write(tmp_path / "set", INDICES, rows=10)
    file = path / "data-00000-of-00001.arrow"
    whole = pa.py_buffer(file.read_bytes())
    column = pa.ipc.open_stream(pa.BufferReader(whole)).read_next_batch().column("image")
    parts = reader._image_parts(column.slice(2, 3), whole, file, 0)
    assert [part.read_bytes() for part in parts] == [picture["bytes"] for picture in PICTURES[2:5]]
    elsewhere = pa.array([{"bytes": bytes(5000), "path": None}], STORED)
    with pytest.raises(InputError, match="images lie outside the file"):
        reader._image_parts(elsewhere, whole.slice(0, 10), file, 0)


def test_without_pyarrow(tmp_path, monkeypatch):
    path = write(tmp_path / "set", INDICES)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InputError, match=r"set: reading this needs .* pip install pyarrow pandas"):
        opened(path)
