"""Writers: what is read back is what was written, and inferred labels never become given ones."""

from __future__ import annotations

import csv
import dataclasses
import json
import os
import re
import shutil
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image
from scipy.sparse import csr_matrix

import spml
from spml.cli.main import main
from spml.config import DataConfig
from spml.data.matrix import FeatureMatrix
from spml.data.readers import read
from spml.data.records import Records
from spml.data.safe import CONTROL
from spml.data.writers import Inferred, write
from spml.data.writers.inferred import known_first, read_inferred
from spml.errors import InputError, SpmlError
from spml.labels import ObservedLabels

FILES = ("a.png", "b c.png", "sub/ä,ö;ü.png", 'sub/"d".png', "sub/deep/e+f%20.png", "1")
OUTPUTS = {"csv": "out.csv", "coco": "out.json", "labelstudio": "out.json", "nan": "out.npz"}
relaxed = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("images")
    (place / "sub" / "deep").mkdir(parents=True)
    for number, name in enumerate(FILES):
        Image.new("RGB", (4, 4), (number, 0, 0)).save(place / name, format="PNG")
    return place


def images(folder, matrix, classes, split=None):
    """Records of the first images of the folder."""
    names = FILES[: len(matrix)]
    return Records(
        source="source",
        name="set",
        ids=names,
        inputs=tuple(folder / name for name in names),
        classes=tuple(classes),
        classes_given=True,
        labels=ObservedLabels.from_ternary(matrix),
        split=split,
    )


def features(matrix, classes, split=None, sparse=False):
    inputs = np.arange(len(matrix) * 6, dtype=np.float32).reshape(-1, 6) % 7
    if sparse:
        inputs[:, 1:] = 0
    return Records(
        source="source",
        name="set",
        ids=tuple(f"row {row}" for row in range(len(matrix))),
        inputs=FeatureMatrix(csr_matrix(inputs) if sparse else inputs),
        classes=tuple(classes),
        classes_given=True,
        labels=ObservedLabels.from_ternary(matrix),
        split=split,
    )


def by_sample(records):
    """What is known of each sample, by its file or name."""
    keys = records.ids
    if isinstance(records.inputs, tuple):
        keys = [os.path.realpath(path) for path in records.inputs]
    rows = records.labels.to_ternary().tolist()
    split = records.split or [None] * len(rows)
    assert len(set(keys)) == len(rows)
    return {key: (row, part) for key, row, part in zip(keys, rows, split, strict=True)}


def assert_same(found, expected):
    assert found.classes == expected.classes
    assert by_sample(found) == by_sample(expected)
    if not isinstance(expected.inputs, tuple):
        assert found.inputs.fingerprint() == expected.inputs.fingerprint()


TRICKY = (
    "a,b", "a;b", "a:b", 'say "x"', "'", "naïve", "日本", "a|b", "a b", "\\", "1", "-1", "nan", "true", "0",
    "{}", "[red]", "<b>", "=1+1", "#", "%41", "a\u00a0b", "e\u0301", "inferred:x",
)  # fmt: skip
names = st.one_of(
    st.sampled_from(TRICKY),
    st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=12).map(str.strip),
).filter(
    lambda name: (
        name
        and not CONTROL.search(name)
        and name.lower() not in ("file", "split", "label", "labels", "inferred", "inferred_negative")
    )
)
cells = st.sampled_from((-1, 0, 0, 1))
splits = st.sampled_from(("train", "train", "val", "test"))


@st.composite
def labelled(draw):
    """Class names, a ternary matrix with a positive, a split or none, and labels that were inferred."""
    classes = draw(st.lists(names, min_size=2, max_size=5, unique=True))
    count = draw(st.integers(2, len(FILES)))
    shape = st.lists(cells, min_size=len(classes), max_size=len(classes))
    matrix = np.array(draw(st.lists(shape, min_size=count, max_size=count)))
    matrix[0, 0] = 1
    split = draw(st.none() | st.lists(splits, min_size=count, max_size=count).map(tuple))
    guesses = draw(
        st.lists(st.tuples(st.integers(0, count - 1), st.integers(0, len(classes) - 1)), unique=True)
    )
    guesses.sort()
    values = [draw(st.sampled_from((1, -1))) for _ in guesses]
    scores = [draw(st.floats(0, 1) | st.just(np.nan)) for _ in guesses]
    rows, columns = zip(*guesses, strict=True) if guesses else ((), ())
    inferred = Inferred(
        np.array(rows, np.int64),
        np.array(columns, np.int64),
        np.array(values, np.int8),
        np.array(scores, float),
    )
    return classes, matrix, split, inferred


def unlisted(matrix):
    """A NaN matrix without a NaN does not say that nothing is unknown."""
    return "unknown" if (matrix == 0).any() else "negative"


@pytest.mark.parametrize("form", ["csv", "coco", "labelstudio", "nan"])
@relaxed
@given(drawn=labelled())
def test_images_come_back(folder, form, drawn):
    classes, matrix, split, inferred = drawn
    records = images(folder, matrix, classes, split)
    shutil.rmtree(folder / "annotations", ignore_errors=True)
    output = folder / OUTPUTS[form] if form != "coco" or split is None else folder
    some = inferred if len(inferred.rows) else None
    notes = write(records, output, form, some, overwrite=True)
    assert not any("--data.images" in note for note in notes)
    config = DataConfig(path=str(output))
    if form == "nan":
        config.unlisted = unlisted(matrix)
    assert_same(read(config), records)


@pytest.mark.parametrize("sparse", [False, True])
@relaxed
@given(drawn=labelled())
def test_features_come_back(tmp_path_factory, sparse, drawn):
    classes, matrix, split, inferred = drawn
    records = features(matrix, classes, split, sparse)
    output = tmp_path_factory.getbasetemp() / "features.npz"
    write(records, output, "nan", inferred, overwrite=True)
    found = read(DataConfig(path=str(output), unlisted=unlisted(matrix)))
    assert_same(found, records)
    assert found.ids == records.ids
    with np.load(output, allow_pickle=False) as file:
        assert ("X" in file) != sparse


@pytest.mark.long
@pytest.mark.parametrize("form", ["csv", "coco", "labelstudio", "nan"])
@settings(relaxed, max_examples=500)
@given(drawn=labelled())
def test_images_come_back_many_times(folder, form, drawn):
    test_images_come_back.hypothesis.inner_test(folder, form, drawn)


# -- inferred labels -------------------------------------------------------------------------------------

CLASSES = ("cat", "d;o:g", "fox")
MATRIX = np.array([[1, 0, 0], [0, -1, 1], [0, 0, 0]])
# Of (a, cat), given, (b, d;o:g), a known negative, and (b, cat), (c, d;o:g), (c, fox), which are free.
GUESSED = Inferred(
    np.array([0, 1, 1, 2, 2]),
    np.array([0, 0, 1, 1, 2]),
    np.array([-1, 1, 1, 1, -1], np.int8),
    np.array([0.1, 0.75, 0.9, np.nan, np.nan]),
)


def test_given_labels_win():
    kept = known_first(GUESSED, ObservedLabels.from_ternary(MATRIX))
    assert list(zip(kept.rows.tolist(), kept.columns.tolist(), strict=True)) == [(1, 0), (2, 1), (2, 2)]
    assert kept.values.tolist() == [1, 1, -1]
    np.testing.assert_array_equal(kept.scores, [0.75, np.nan, np.nan])


def test_inferred_labels_in_csv(folder):
    notes = write(images(folder, MATRIX, CLASSES), folder / "out.csv", "csv", GUESSED, overwrite=True)
    assert notes == ("3 inferred labels; 2 others were left out, since they are given.",)
    assert list(csv.reader((folder / "out.csv").open(encoding="utf-8"))) == [
        ["file", "cat", "d;o:g", "fox", "inferred", "inferred_negative"],
        ["a.png", "1", "", "", "", ""],
        ["b c.png", "", "-1", "1", "cat:0.75", ""],
        ["sub/ä,ö;ü.png", "", "", "", r"d\;o\:g:", "fox:"],
    ]
    assert_same(read(DataConfig(path=str(folder / "out.csv"))), images(folder, MATRIX, CLASSES))


def test_inferred_labels_in_coco(folder):
    write(images(folder, MATRIX, CLASSES), folder / "out.json", "coco", GUESSED, overwrite=True)
    document = json.loads((folder / "out.json").read_text())
    assert document["annotations"] == [
        {"id": 1, "image_id": 1, "category_id": 1},
        {"id": 2, "image_id": 2, "category_id": 3},
    ]
    assert document["inferred_annotations"] == [
        {"id": 1, "image_id": 2, "category_id": 1, "inferred": True, "score": 0.75},
        {"id": 2, "image_id": 3, "category_id": 2, "inferred": True},
    ]
    assert document["images"][1]["neg_category_ids"] == [2]
    assert document["images"][2] == {
        "id": 3, "file_name": "sub/ä,ö;ü.png", "inferred_neg_category_ids": [3],
    }  # fmt: skip


def test_inferred_labels_in_label_studio(folder):
    write(images(folder, MATRIX, CLASSES), folder / "out.json", "labelstudio", GUESSED, overwrite=True)
    tasks = json.loads((folder / "out.json").read_text())

    def choices(part):
        return [entry["value"]["choices"] for entry in part["result"]]

    assert parse_qs(urlsplit(tasks[2]["data"]["image"]).query) == {"d": ["sub/ä,ö;ü.png"]}
    assert [choices(a) for a in tasks[0]["annotations"]] == [[["cat"]]]
    assert "predictions" not in tasks[0]
    assert [choices(a) for a in tasks[1]["annotations"]] == [[["fox"]]]
    (prediction,) = tasks[1]["predictions"]
    assert (prediction["score"], prediction["model_version"], choices(prediction)) == (
        0.75,
        "spml",
        [["cat"]],
    )
    assert "annotations" not in tasks[2]
    assert "score" not in tasks[2]["predictions"][0]
    assert [task.get("meta") for task in tasks] == [
        {"classes": list(CLASSES)},
        {"known_negatives": ["d;o:g"], "inferred_scores": {"cat": 0.75}},
        {"inferred_negatives": ["fox"]},
    ]


def test_only_negatives_known_and_the_score_of_a_task(folder):
    """Somebody looked at the first image, so it is annotated; a task is as sure as its least sure label."""
    records = images(folder, [[-1, -1, -1], [1, 0, 0]], CLASSES)
    guessed = Inferred(np.array([1, 1]), np.array([1, 2]), np.ones(2, np.int8), np.array([0.9, 0.6]))
    write(records, folder / "out.json", "labelstudio", guessed, overwrite=True)
    tasks = json.loads((folder / "out.json").read_text())
    assert tasks[0]["annotations"] == [{"result": []}]
    assert tasks[1]["predictions"][0]["score"] == 0.6
    found = read(DataConfig(path=str(folder / "out.json")))
    assert found.labels.to_ternary().tolist() == [[-1, -1, -1], [1, 0, 0]]


def test_images_of_two_folders_are_named_from_the_one_above(folder, tmp_path):
    """Names of samples need not be relative to one folder, as where each split has its own."""
    made = images(folder, [[1, 0], [0, 1]], ("cat", "dog"))
    files = (tmp_path / "x" / "a.png", tmp_path / "y" / "b.png")
    for file, source in zip(files, made.inputs, strict=True):
        file.parent.mkdir()
        file.write_bytes(source.read_bytes())
    records = dataclasses.replace(made, ids=("a.png", "b.png"), inputs=files)
    (tmp_path / "z").mkdir()
    (note,) = write(records, tmp_path / "z" / "out.csv", "csv")
    assert note.endswith(f"read it with --data.images {tmp_path}")
    found = read(DataConfig(path=str(tmp_path / "z" / "out.csv"), images=str(tmp_path)))
    assert found.ids == ("x/a.png", "y/b.png")
    assert found.labels.to_ternary().tolist() == [[1, 0], [0, 1]]


def test_an_annotation_beats_an_older_known_negative(folder):
    write(images(folder, MATRIX, CLASSES), folder / "out.json", "labelstudio", overwrite=True)
    tasks = json.loads((folder / "out.json").read_text())
    tasks[1]["annotations"][0]["result"][0]["value"]["choices"] += ["d;o:g", "newt"]
    (folder / "out.json").write_text(json.dumps(tasks))
    found = read(DataConfig(path=str(folder / "out.json")))
    assert found.classes == (*CLASSES, "newt")
    assert found.labels.to_ternary().tolist() == [[1, 0, 0, 0], [0, 1, 1, 1], [0, 0, 0, 0]]


def test_inferred_labels_in_a_nan_matrix(folder):
    write(images(folder, MATRIX, CLASSES), folder / "out.npz", "nan", GUESSED, overwrite=True)
    nan = np.nan
    with np.load(folder / "out.npz", allow_pickle=False) as file:
        np.testing.assert_array_equal(file["Y"], [[1, nan, nan], [nan, 0, 1], [nan, nan, nan]])
        np.testing.assert_array_equal(file["inferred"], [[nan, nan, nan], [1, nan, nan], [nan, 1, 0]])
        np.testing.assert_array_equal(file["inferred_score"], [[nan] * 3, [0.75, nan, nan], [nan] * 3])
        assert file["classes"].tolist() == list(CLASSES)
        assert file["names"].tolist() == list(FILES[:3])
        assert "split" not in file


# -- files of predictions --------------------------------------------------------------------------------


def entries(inferred):
    return [
        (int(r), int(c), int(v), None if s != s else round(float(s), 6))
        for r, c, v, s in zip(*inferred, strict=True)
    ]


def test_predictions_as_csv_and_json_lines(folder, tmp_path):
    records = images(folder, MATRIX, ("cat", "dog", "fox"))
    rows = [
        (str(folder / "b c.png"), "cat;dog", [0.9, 0.8, 0.1]),
        ("a.png", "", [0.3, 0.2, 0.1]),
        ("elsewhere.png", "cat", [0.9, 0.2, 0.1]),
    ]
    with open(tmp_path / "p.csv", "w", newline="") as stream:
        csv.writer(stream).writerows(
            [
                ["file", "labels", "fox", "dog", "cat"],
                *([n, names, *scores[::-1]] for n, names, scores in rows),
            ]
        )
    lines = [
        {
            "file": n,
            "labels": names.split(";") if names else [],
            "scores": dict(zip(("cat", "dog", "fox"), s, strict=True)),
        }
        for n, names, s in rows
    ]
    (tmp_path / "p.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    for name in ("p.csv", "p.jsonl"):
        inferred, notes = read_inferred(tmp_path / name, records)
        assert entries(inferred) == [(1, 0, 1, 0.9), (1, 1, 1, 0.8)]
        assert [re.sub(".*jsonl|.*csv", "", note) for note in notes] == [
            ": 1 samples are not in the data, for example 'elsewhere.png'.",
            ": nothing is said of 1 of the samples.",
        ]


def test_predictions_may_name_files_from_where_one_is(folder, tmp_path, monkeypatch):
    """As `spml predict FOLDER` writes them."""
    monkeypatch.chdir(folder.parent)
    (tmp_path / "p.csv").write_text(f"file,labels,cat\n./{folder.name}/a.png,cat,0.7\n")
    inferred, _ = read_inferred(tmp_path / "p.csv", images(folder, MATRIX, ("cat", "dog", "fox")))
    assert entries(inferred) == [(0, 0, 1, 0.7)]


def test_pseudo_labels(folder, tmp_path):
    np.savez(
        tmp_path / "p.npz",
        ids=np.array(["b c.png", "a.png", "sub/ä,ö;ü.png"]),
        classes=np.array(["fox", "cat"]),
        labels=np.array([[1, -1], [0, 0], [-1, 0]], np.int8),
    )
    inferred, notes = read_inferred(tmp_path / "p.npz", images(folder, MATRIX, ("cat", "dog", "fox")))
    assert notes == ()
    assert entries(inferred) == [(1, 0, -1, None), (1, 2, 1, None), (2, 2, -1, None)]


HEAD = "file,labels,cat,dog,fox\n"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("p.txt", "", "is no file of predictions"),
        ("q.csv", None, "there is no such file"),
        ("p.csv", "", "expected the columns file, labels and one per class"),
        ("p.csv", "name,labels,cat\n", "expected the columns file, labels"),
        ("p.csv", 'file,labels,"a;b"\n', "contains a semicolon.*--format jsonl"),
        ("p.csv", HEAD, "names none of the samples of source: found none, expected, for example, 'a.png'"),
        ("p.csv", HEAD + "x.png,,0,0,0\n", "found 'x.png', expected"),
        ("p.csv", HEAD + "a.png,,0,0\n", "row 2 has 4 cells, but the header has 5"),
        ("p.csv", HEAD + "a.png,,0,0,x\n", "row 2: a score must be a number from 0 to 1, but is 'x'"),
        ("p.csv", HEAD + "a.png,,0,0,nan\n", "a score must be a number"),
        ("p.csv", HEAD + "a.png,cta,0,0,1\n", "the label 'cta' has no score. Did you mean cat"),
        ("p.csv", HEAD + "a.png,,0,0,1\na.png,,0,0,1\n", "holds 'a.png' twice"),
        ("p.csv", "file,labels,cow\na.png,cow,1\n", "has the class 'cow', which source does not have"),
        ("p.csv", HEAD + '"a.png', "is no valid CSV"),
        ("p.csv", b"file,labels,cat\n\xff", "is not UTF-8"),
        ("p.jsonl", "{", "line 1 is no JSON object"),
        ("p.jsonl", "[" * 100_000, "line 1 is no JSON object"),
        ("p.jsonl", '{"file": "a.png"}', "expected an object with file, labels and scores"),
        ("p.jsonl", '{"file": "a.png", "labels": [1], "scores": {}}', "labels must be class names"),
        ("p.jsonl", '{"file": "a.png", "labels": [], "scores": {"cat": 1e400}}', "a score must be a number"),
        ("p.npz", b"PK", "no pseudo-labels could be read"),
        ("p.npz", {"ids": ["a.png"], "classes": ["cat"]}, "no pseudo-labels could be read"),
        (
            "p.npz",
            {"ids": ["a.png"], "classes": ["cat"], "labels": [1]},
            "expected ids and classes as strings",
        ),
        ("p.npz", {"ids": ["a.png"], "classes": ["cat"], "labels": [[2]]}, "labels must be 1 .positive."),
    ],
)
def test_bad_predictions(folder, tmp_path, name, content, message):
    path = tmp_path / name
    if isinstance(content, dict):
        np.savez(path, **{key: np.array(value) for key, value in content.items()})
    elif content is not None:
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(InputError, match=message) as caught:
        read_inferred(path, images(folder, MATRIX, ("cat", "dog", "fox")))
    assert "\n" not in str(caught.value)


@relaxed
@given(content=st.binary(max_size=200), head=st.sampled_from((b"", HEAD.encode(), b'{"file": "a.png", ')))
@pytest.mark.parametrize("suffix", ["csv", "jsonl", "npz"])
def test_random_bytes_as_predictions(folder, tmp_path_factory, suffix, content, head):
    path = tmp_path_factory.getbasetemp() / f"fuzz.{suffix}"
    path.write_bytes(head + content)
    refusal = ""
    try:
        read_inferred(path, images(folder, MATRIX, CLASSES))
    except InputError as error:
        refusal = str(error)
    assert "\n" not in refusal


# -- what can't be written -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("form", "output", "classes", "message"),
    [
        ("csv", "new.csv", ("cat", " dog", "x"), "the class name ' dog' would be read back as another one"),
        ("coco", "new.json", ("cat", "", "x"), "the class name '' would be read back"),
        ("nan", "new.npz", ("cat", "a\nb", "x"), "control characters"),
        (
            "csv",
            "new.csv",
            ("cat", "Split", "x"),
            "the class 'Split' would be a column that means something else",
        ),
        ("csv", "old", CLASSES, "old: is there already. Name another file, or replace it with --overwrite"),
        ("csv", "sub", CLASSES, "sub: is a folder"),
        ("csv", "none/new.csv", CLASSES, "there is no folder .*none"),
        ("nan", "new.csv", CLASSES, "a NaN matrix is an .npz file"),
        ("labelstudio", "new.csv", CLASSES, "Label Studio reads .json"),
        ("xml", "new.xml", CLASSES, "there is no format 'xml' to write"),
    ],
)
def test_refusals(folder, form, output, classes, message):
    (folder / "old").write_text("precious")
    before = sorted(path.name for path in folder.rglob("*"))
    with pytest.raises(InputError, match=message):
        write(images(folder, MATRIX, classes), folder / output, form)
    assert sorted(path.name for path in folder.rglob("*")) == before
    assert (folder / "old").read_text() == "precious"


def test_a_class_may_be_called_inferred_where_nothing_is(folder):
    records = images(folder, MATRIX, ("inferred", "dog", "fox"))
    write(records, folder / "out.csv", "csv", overwrite=True)
    assert_same(read(DataConfig(path=str(folder / "out.csv"))), records)
    with pytest.raises(InputError, match="'inferred' would be a column"):
        write(records, folder / "out.csv", "csv", GUESSED, overwrite=True)


def test_features_are_no_images(tmp_path):
    for form in ("csv", "coco", "labelstudio"):
        with pytest.raises(InputError, match="its samples are no image files"):
            write(features(MATRIX, CLASSES), tmp_path / OUTPUTS[form], form)
    notes = write(read(DataConfig(path="digits")), tmp_path / "digits.npz", "nan")
    assert notes == (
        "The images are in no files, so only their names and labels are written.",
        "Every label is known: read it with --data.unlisted negative.",
    )


@pytest.mark.parametrize("name", ["a\\b.png", " a.png", "a\nb.png"])
def test_file_names_that_would_not_come_back(tmp_path, name):
    Image.new("RGB", (4, 4)).save(tmp_path / name, format="PNG")
    records = images(tmp_path, MATRIX[:1], CLASSES)
    records = Records(**{**vars(records), "ids": (name,), "inputs": (tmp_path / name,)})
    with pytest.raises(InputError, match="would be read back as another one"):
        write(records, tmp_path / "out.csv", "csv")


@pytest.mark.parametrize("form", ["csv", "coco", "labelstudio", "nan"])
@pytest.mark.parametrize("split", [None, ("train", "train", "test")])
def test_images_elsewhere(folder, tmp_path, form, split):
    records = images(folder, MATRIX, CLASSES, split)
    output = tmp_path / (OUTPUTS[form] if form != "coco" or split is None else "coco")
    note = write(records, output, form)[0]
    assert note.endswith(f"read it with --data.images {folder}")
    assert_same(read(DataConfig(path=str(output), images=str(folder))), records)


def test_coco_with_a_split_is_a_folder(folder, tmp_path):
    records = images(folder, MATRIX, CLASSES, ("train", "train", "val"))
    with pytest.raises(InputError, match=r"data with train, val samples is written to a folder"):
        write(records, tmp_path / "out.json", "coco")
    write(records, tmp_path / "coco", "coco")
    assert sorted(path.name for path in (tmp_path / "coco/annotations").iterdir()) == [
        "instances_train.json", "instances_val.json",
    ]  # fmt: skip
    with pytest.raises(InputError, match=r"instances_train\.json: is there already"):
        write(records, tmp_path / "coco", "coco")
    less = images(folder, MATRIX, CLASSES, ("train", "train", "train"))
    with pytest.raises(InputError, match=r"instances_val\.json: would be read as a part of this data"):
        write(less, tmp_path / "coco", "coco", overwrite=True)


def test_a_failure_keeps_what_was_there(folder, tmp_path, monkeypatch):
    (tmp_path / "out.csv").write_text("old")
    monkeypatch.setattr(os, "fsync", lambda handle: (_ for _ in ()).throw(OSError(28, "No space left")))
    with pytest.raises(SpmlError, match="No space left"):
        write(images(folder, MATRIX, CLASSES), tmp_path / "out.csv", "csv", overwrite=True)
    assert [path.name for path in tmp_path.iterdir()] == ["out.csv"]
    assert (tmp_path / "out.csv").read_text() == "old"


# -- command ---------------------------------------------------------------------------------------------


@pytest.fixture
def tagged(folder, monkeypatch):
    monkeypatch.chdir(folder)
    rows = "".join(
        f'"{name}",{label}\n' for name, label in zip(FILES[:3], ("cat", "cat;fox", "fox"), strict=True)
    )
    (folder / "tags.csv").write_text("file,labels\n" + rows)
    return folder


def test_command(tagged, capsys):
    Path("p.csv").write_text("file,labels,cat,fox\na.png,cat;fox,0.9,0.7\n")
    arguments = ["data", "convert", "tags.csv", "out.json", "--format", "coco", "--overwrite"]
    main([*arguments, "--predictions", "p.csv"])
    told = capsys.readouterr()
    assert told.out.splitlines() == [
        "out.json: 3 samples, 2 classes",
        "1 inferred labels; 1 others were left out, since they are given.",
    ]
    assert "p.csv: nothing is said of 2 of the samples." in told.err
    document = json.loads(Path("out.json").read_text())
    assert [a["category_id"] for a in document["annotations"]] == [1, 1, 2, 2]
    assert document["inferred_annotations"] == [
        {"id": 1, "image_id": 1, "category_id": 2, "inferred": True, "score": 0.7}
    ]
    assert "neg_category_ids" not in document["images"][0]


def test_command_writes_hidden_labels(tagged, capsys):
    main([
        "data", "convert", "tags.csv", "out.csv", "--format", "csv", "--overwrite",
        "--data.unlisted", "negative", "--data.observe", "single",
    ])  # fmt: skip
    assert "One positive label per sample is observed" in capsys.readouterr().err
    found = read(DataConfig(path="out.csv"))
    assert found.labels.single_positive
    assert (found.labels.to_ternary().sum(axis=1) == 1).all()


def test_predictions_of_a_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    generator = np.random.default_rng(0)
    truth = (generator.random((60, 3)) < 0.5).astype(np.float32)
    truth[np.arange(60), np.arange(60) % 3] = 1
    observed = np.where(np.eye(3)[np.arange(60) % 3] == 1, 1, np.nan)
    np.savez("x.npz", X=truth @ generator.normal(size=(3, 8)), Y=observed, classes=np.array(["a", "b", "c"]))
    spml.train("x.npz", model={"head": "ridge"}, output="run", threads=1, quiet=True)
    main(["data", "convert", "x.npz", "y.npz", "--format", "nan", "--predictions", "run"])
    predicted = spml.load("run").predict("x.npz")
    with np.load("y.npz", allow_pickle=False) as file:
        given, inferred, score = file["Y"], file["inferred"], file["inferred_score"]
        np.testing.assert_array_equal(given, observed.astype(np.float32))
        expected = np.array([[name in labels for name in "abc"] for labels in predicted.labels])
        np.testing.assert_array_equal(inferred == 1, expected & np.isnan(observed))
        assert (inferred == 1).any()
        np.testing.assert_array_equal(score[inferred == 1], predicted.scores[inferred == 1])
    assert "inferred labels" in capsys.readouterr().out


def test_predictions_of_a_run_on_images(tagged, monkeypatch):
    class Run:
        def predict(self, paths, console):
            assert [os.path.basename(path) for path in paths] == [os.path.basename(n) for n in FILES[:3]]
            scores = np.array([[0.9, 0.8], [0.2, 0.1], [0.6, 0.9]], np.float32)
            names = [["cat", "fox"], [], ["fox", "cat"]]
            return spml.Predictions(tuple(paths), ("cat", "fox"), scores, names, ("a note",))

    monkeypatch.setattr("spml.runs.api.load", lambda folder: Run())
    os.makedirs("run", exist_ok=True)
    main(["data", "convert", "tags.csv", "out.csv", "--format", "csv", "--overwrite", "--predictions", "run"])
    with open("out.csv", encoding="utf-8") as stream:
        cells = [row[-1] for row in csv.reader(stream)]
    assert cells == ["inferred", "fox:0.8", "", "cat:0.6"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["tags.csv", "new.csv", "--format", "csv", "--predictions", "no.csv"],
            "no.csv: there is no such file",
        ),
        (["tags.csv", "tags.csv", "--format", "csv"], "tags.csv: is there already"),
        (["no.csv", "new.csv", "--format", "csv"], "no.csv: no such file or folder"),
        (
            ["tags.csv", "new.csv", "--format", "csv", "--data.observe", "single"],
            "hides labels of fully labelled",
        ),
    ],
)
def test_wrong_input_ends_with_2(tagged, capsys, arguments, message):
    with pytest.raises(SystemExit) as end:
        main(["data", "convert", *arguments])
    assert end.value.code == 2
    assert message in capsys.readouterr().err
    assert not Path("new.csv").exists()


def test_prepare_tells_what_is_missing_and_how_to_go_on(tmp_path, monkeypatch, capsys):
    with pytest.raises(SystemExit) as end:
        main(["data", "prepare", "voc2012", "--root", str(tmp_path)])
    assert end.value.code == 2
    assert "is missing" in capsys.readouterr().err

    def prepare(name, root, *, download, report):
        report("train: 4,574 images, 1.46 labels per image")
        assert (name, root, download) == ("voc2012", "my data", True)
        return Path(root) / "spml-voc2012.json"

    monkeypatch.setattr("spml.data.benchmarks.prepare", prepare)
    main(["data", "prepare", "voc2012", "--root", "my data", "--download"])
    assert capsys.readouterr().out.splitlines() == [
        "train: 4,574 images, 1.46 labels per image",
        "my data/spml-voc2012.json: written. Train on it with the labels that the publications observed:",
        "  spml train 'my data/spml-voc2012.json' --data.observe protocol --output runs/voc2012",
    ]
