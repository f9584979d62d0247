"""Writers: what is read back is what was written, and inferred labels never become given ones."""

from __future__ import annotations

import csv
import dataclasses
import json
import shutil
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spml.common.errors import InputError
from spml.common.safe import CONTROL
from spml.config import DataConfig
from spml.data.readers import read
from spml.data.readers.digits import make_digits
from spml.data.tables.names import LABEL_COLUMNS, has_other_meaning
from spml.data.writers import (
    Inferred,
    find_writer,
    image_names,
    named_from,
    write,
    writers,
)  # fmt: skip
from spml.data.writers.samples import leave_out_known
from spml.labels import ObservedLabels
from tests.data.writers.samples import (
    CLASSES,
    FILES,
    GUESSED,
    MATRIX,
    OUTPUTS,
    assert_same,
    feature_records,
    image_records,
    relaxed,
)  # fmt: skip
from tests.helpers.records import opened


def test_every_writer_is_tested_here():
    assert list(writers()) == sorted(OUTPUTS)
    assert find_writer("nan").suffix == ".npz"
    with pytest.raises(InputError, match=r"unknown format 'cooc'\. Did you mean coco"):
        find_writer("cooc")


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
        and name.lower() not in ("file", "split", "inferred", "inferred_negative")
        # A class of such a name without any positive is taken for an empty column of labels.
        and not any(name.lower() in each for each in LABEL_COLUMNS)
        and not has_other_meaning(name)
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


@pytest.mark.parametrize("form", OUTPUTS)
@relaxed
@given(drawn=labelled())
def test_images_come_back(folder, form, drawn):
    classes, matrix, split, inferred = drawn
    records = image_records(folder, matrix, classes, split)
    shutil.rmtree(folder / "annotations", ignore_errors=True)
    output = folder / OUTPUTS[form] if form != "coco" or split is None else folder
    notes = write(records, output, form, inferred if len(inferred.rows) else None, overwrite=True)
    assert not any("--data.images" in note for note in notes)
    config = DataConfig(path=str(output))
    if form == "nan":
        config.unlisted = unlisted(matrix)
    assert_same(read(config), records)


@pytest.mark.parametrize("form", OUTPUTS)
@pytest.mark.parametrize("split", [None, ("train", "val", "test")])
def test_the_current_folder(folder, monkeypatch, form, split):
    records = image_records(folder, MATRIX, CLASSES, split)
    shutil.rmtree(folder / "annotations", ignore_errors=True)
    monkeypatch.chdir(folder)
    name = OUTPUTS[form] if form != "coco" or split is None else "."
    assert not any("--data.images" in note for note in write(records, Path(name), form, overwrite=True))
    for path in (name, f"./{name}", f"../{folder.name}/{name}", str(folder / name)):
        read_back = read(DataConfig(path=path))
        assert_same(read_back, records)
        assert all(file.is_file() for file in read_back.inputs)
    with pytest.raises(InputError, match=r"/: is no place for a file\. Name a file or a folder\."):
        write(records, Path("/"), "coco")


@pytest.mark.parametrize("sparse", [False, True])
@relaxed
@given(drawn=labelled())
def test_features_come_back(tmp_path_factory, sparse, drawn):
    classes, matrix, split, inferred = drawn
    records = feature_records(matrix, classes, split, sparse)
    output = tmp_path_factory.getbasetemp() / "features.npz"
    write(records, output, "nan", inferred, overwrite=True)
    read_back = opened(output, unlisted=unlisted(matrix))
    assert_same(read_back, records)
    assert read_back.ids == records.ids
    with np.load(output, allow_pickle=False) as file:
        assert ("X" in file) != sparse


def test_given_labels_win():
    further = leave_out_known(GUESSED, ObservedLabels.from_ternary(MATRIX))
    assert list(zip(further.rows.tolist(), further.columns.tolist(), strict=True)) == [(1, 0), (2, 1), (2, 2)]
    assert further.values.tolist() == [1, 1, -1]
    np.testing.assert_array_equal(further.scores, [0.75, np.nan, np.nan])


def test_inferred_labels_in_csv(folder):
    notes = write(image_records(folder, MATRIX, CLASSES), folder / "out.csv", "csv", GUESSED, overwrite=True)
    assert notes == ("3 inferred labels written, 2 left out in favour of given labels.",)
    assert list(csv.reader((folder / "out.csv").open(encoding="utf-8"))) == [
        ["file", "cat", "d;o:g", "fox", "inferred", "inferred_negative"],
        ["a.png", "1", "", "", "", ""],
        ["b c.png", "", "-1", "1", "cat:0.75", ""],
        ["sub/ä,ö;ü.png", "", "", "", r"d\;o\:g:", "fox:"],
    ]
    assert_same(opened(folder / "out.csv"), image_records(folder, MATRIX, CLASSES))


def test_inferred_labels_in_coco(folder):
    write(image_records(folder, MATRIX, CLASSES), folder / "out.json", "coco", GUESSED, overwrite=True)
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
    write(image_records(folder, MATRIX, CLASSES), folder / "out.json", "labelstudio", GUESSED, overwrite=True)
    tasks = json.loads((folder / "out.json").read_text())

    def choices(part):
        return [entry["value"]["choices"] for entry in part["result"]]

    assert parse_qs(urlsplit(tasks[2]["data"]["image"]).query) == {"d": ["sub/ä,ö;ü.png"]}
    assert [choices(a) for a in tasks[0]["annotations"]] == [[["cat"]]]
    assert "predictions" not in tasks[0]
    assert [choices(a) for a in tasks[1]["annotations"]] == [[["fox"]]]
    (prediction,) = tasks[1]["predictions"]
    assert (prediction["score"], prediction["model_version"]) == (0.75, "spml")
    assert choices(prediction) == [["cat"]]
    assert "annotations" not in tasks[2]
    assert prediction["result"][0]["meta"] == {"scores": {"cat": 0.75}}
    assert "score" not in tasks[2]["predictions"][0]
    assert "meta" not in tasks[2]["predictions"][0]["result"][0]
    assert [task.get("meta") for task in tasks] == [
        {"classes": list(CLASSES)},
        {"known_negatives": ["d;o:g"]},
        {"inferred_negatives": ["fox"]},
    ]


def test_only_negatives_known_and_the_score_of_a_task(folder):
    """A person looked at the first image, so it is annotated. The least certain label gives the score."""
    records = image_records(folder, [[-1, -1, -1], [1, 0, 0]], CLASSES)
    guessed = Inferred(np.array([1, 1]), np.array([1, 2]), np.ones(2, np.int8), np.array([0.9, 0.6]))
    write(records, folder / "out.json", "labelstudio", guessed, overwrite=True)
    tasks = json.loads((folder / "out.json").read_text())
    assert tasks[0]["annotations"] == [{"result": []}]
    (prediction,) = tasks[1]["predictions"]
    assert prediction["score"] == 0.6
    assert [part["meta"] for part in prediction["result"]] == [{"scores": {"d;o:g": 0.9, "fox": 0.6}}]
    read_back = opened(folder / "out.json")
    assert read_back.labels.to_ternary().tolist() == [[-1, -1, -1], [1, 0, 0]]


def test_images_of_two_folders_are_named_from_the_one_above(folder, tmp_path):
    """Names of samples need not be relative to one folder, as where each split has its own."""
    made = image_records(folder, [[1, 0], [0, 1]], ("cat", "dog"))
    files = (tmp_path / "x" / "a.png", tmp_path / "y" / "b.png")
    for file, source in zip(files, made.inputs, strict=True):
        file.parent.mkdir()
        file.write_bytes(source.read_bytes())
    records = dataclasses.replace(made, ids=("a.png", "b.png"), inputs=files)
    (tmp_path / "z").mkdir()
    (note,) = write(records, tmp_path / "z" / "out.csv", "csv")
    assert note.endswith(f"read it with data.images={tmp_path}")
    read_back = opened(tmp_path / "z" / "out.csv", images=str(tmp_path))
    assert read_back.ids == ("x/a.png", "y/b.png")
    assert read_back.labels.to_ternary().tolist() == [[1, 0], [0, 1]]


def test_an_annotation_beats_an_older_known_negative(folder):
    write(image_records(folder, MATRIX, CLASSES), folder / "out.json", "labelstudio", overwrite=True)
    tasks = json.loads((folder / "out.json").read_text())
    tasks[1]["annotations"][0]["result"][0]["value"]["choices"] += ["d;o:g", "newt"]
    (folder / "out.json").write_text(json.dumps(tasks))
    read_back = opened(folder / "out.json")
    assert read_back.classes == (*CLASSES, "newt")
    assert read_back.labels.to_ternary().tolist() == [[1, 0, 0, 0], [0, 1, 1, 1], [0, 0, 0, 0]]


def test_inferred_labels_in_a_nan_matrix(folder):
    write(image_records(folder, MATRIX, CLASSES), folder / "out.npz", "nan", GUESSED, overwrite=True)
    nan = np.nan
    with np.load(folder / "out.npz", allow_pickle=False) as file:
        np.testing.assert_array_equal(file["Y"], [[1, nan, nan], [nan, 0, 1], [nan, nan, nan]])
        np.testing.assert_array_equal(file["inferred"], [[nan, nan, nan], [1, nan, nan], [nan, 1, 0]])
        np.testing.assert_array_equal(file["inferred_score"], [[nan] * 3, [0.75, nan, nan], [nan] * 3])
        assert file["classes"].tolist() == list(CLASSES)
        assert file["names"].tolist() == list(FILES[:3])
        assert "split" not in file


@pytest.mark.parametrize(
    ("form", "output", "classes", "message"),
    [
        ("csv", "new.csv", ("cat", " dog", "x"), "the class name ' dog' would change when it is read back"),
        ("coco", "new.json", ("cat", "", "x"), "the class name '' would change"),
        ("nan", "new.npz", ("cat", "a\nb", "x"), "control characters"),
        ("csv", "new.csv", ("cat", "Split", "x"), "the class 'Split' would be a column with another mea"),
        ("csv", "old", CLASSES, r"old: already exists\. Replace it \(`overwrite`\), or name another"),
        ("csv", "sub", CLASSES, "sub: is a folder"),
        ("csv", "none/new.csv", CLASSES, "none: no such folder. Make it"),
        ("nan", "new.csv", CLASSES, "a NaN matrix needs a file name that ends in .npz"),
        ("labelstudio", "new.csv", CLASSES, "Label Studio JSON needs a file name that ends in .json"),
        ("xml", "new.xml", CLASSES, "unknown format 'xml'"),
    ],
)
def test_refusals(folder, form, output, classes, message):
    (folder / "old").write_text("precious")
    before = sorted(path.name for path in folder.rglob("*"))
    with pytest.raises(InputError, match=message):
        write(image_records(folder, MATRIX, classes), folder / output, form)
    assert sorted(path.name for path in folder.rglob("*")) == before
    assert (folder / "old").read_text() == "precious"


def test_features_are_not_images(tmp_path):
    for form in ("csv", "coco", "labelstudio"):
        with pytest.raises(InputError, match="these samples are not image files"):
            write(feature_records(MATRIX, CLASSES), tmp_path / OUTPUTS[form], form)
    notes = write(make_digits(20, 5, 5), tmp_path / "digits.npz", "nan")
    assert notes == (
        "The images are not in files of their own, so only their names and labels are written.",
        "Every label is known: read it with data.unlisted=negative.",
    )


@pytest.mark.parametrize("form", OUTPUTS)
@pytest.mark.parametrize("split", [None, ("train", "train", "test")])
@pytest.mark.parametrize("above", [False, True])
def test_images_elsewhere(folder, tmp_path, form, split, above):
    """Names are relative to the folder of the data, or to a root that is stated."""
    records = image_records(folder, MATRIX, CLASSES, split)
    output = tmp_path / (OUTPUTS[form] if form != "coco" or split is None else "coco")
    root = folder.parent if above else folder
    note = write(named_from(records, root) if above else records, output, form)[0]
    assert note.startswith(f"File names are relative to {root}" if above else "The images do not lie below")
    assert note.endswith(f": read it with data.images={root}")
    read_back = opened(output, images=str(root))
    assert_same(read_back, records)
    names = {f"{folder.name}/{name}" if above else name for name in FILES[:3]}
    assert {*read_back.ids} == names
    if form == "labelstudio":  # which has its own root, LABEL_STUDIO_LOCAL_FILES_DOCUMENT_ROOT
        addresses = [task["data"]["image"] for task in json.loads(output.read_text())]
        assert {parse_qs(urlsplit(address).query)["d"][0] for address in addresses} == names
    inside = image_names(named_from(records, folder), folder)
    assert inside == (list(FILES[:3]), ()), "a root that is the folder of the output needs no note"


@pytest.mark.parametrize("name", ["a\\b.png", " a.png", "a\nb.png"])
def test_file_names_that_would_change_are_refused(tmp_path, name):
    records = image_records(tmp_path, MATRIX[:1], CLASSES)
    records = dataclasses.replace(records, ids=(name,), inputs=(tmp_path / name,))
    with pytest.raises(InputError, match="would change when it is read back"):
        write(records, tmp_path / "out.csv", "csv")


def test_a_class_may_be_called_inferred_if_no_label_is(folder):
    records = image_records(folder, MATRIX, ("inferred", "dog", "fox"))
    write(records, folder / "out.csv", "csv", overwrite=True)
    assert_same(opened(folder / "out.csv"), records)
    with pytest.raises(InputError, match="'inferred' would be a column"):
        write(records, folder / "out.csv", "csv", GUESSED, overwrite=True)


def test_coco_with_a_split_is_a_folder(folder, tmp_path):
    records = image_records(folder, MATRIX, CLASSES, ("train", "train", "val"))
    with pytest.raises(InputError, match=r"data with train, val samples is written to a folder"):
        write(records, tmp_path / "out.json", "coco")
    write(records, tmp_path / "coco", "coco")
    assert sorted(path.name for path in (tmp_path / "coco/annotations").iterdir()) == [
        "instances_train.json", "instances_val.json",
    ]  # fmt: skip
    with pytest.raises(InputError, match=r"instances_train\.json: already exists"):
        write(records, tmp_path / "coco", "coco")
    less = image_records(folder, MATRIX, CLASSES, ("train", "train", "train"))
    with pytest.raises(InputError, match=r"instances_val\.json: would be read as a part of this data"):
        write(less, tmp_path / "coco", "coco", overwrite=True)


def test_names_of_features_come_back(tmp_path):
    np.savez(tmp_path / "x.npz", X=np.eye(2), Y=np.eye(2), classes=["a", "b"], feature_names=["red", "green"])
    write(opened(tmp_path / "x.npz"), tmp_path / "y.npz", "nan")
    assert opened(tmp_path / "y.npz").feature_names == ("red", "green")


def test_a_root_relative_to_the_current_folder_and_with_a_space(folder, tmp_path, monkeypatch):
    (tmp_path / "my photos").mkdir()
    (tmp_path / "my photos" / "a.png").write_bytes((folder / "a.png").read_bytes())
    records = image_records(tmp_path / "my photos", MATRIX[:1], CLASSES)
    monkeypatch.chdir(tmp_path)
    names, notes = image_names(named_from(records, tmp_path / "my photos" / ".."), tmp_path / "elsewhere")
    assert names == ["my photos/a.png"]
    names, notes = image_names(named_from(records, (tmp_path / "my photos").relative_to(tmp_path)), tmp_path)
    assert names == ["a.png"]
    assert notes == (
        f"File names are relative to my photos: read it with data.images='{tmp_path}/my photos'",
    )


def test_roots_that_are_refused(folder, tmp_path):
    records = image_records(folder, MATRIX, CLASSES)
    outside = dataclasses.replace(records, inputs=tuple(tmp_path / folder.name / name for name in FILES[:3]))
    sibling = tmp_path / folder.name[:-1]  # a path that begins like that of the images
    sibling.mkdir()
    for made, root, message in (
        (records, folder / "none", r"root=.*none: is not a folder\. Name a folder that holds all images"),
        (records, folder / "sub", rf"2 images lie outside this .*, such as .*a\.png'.* such as {folder}\."),
        (outside, sibling, "3 images lie outside this folder"),
        (feature_records(MATRIX, CLASSES), folder, r"samples are not image files, .* without `root`\."),
    ):
        with pytest.raises(InputError, match=message):
            named_from(made, root)
