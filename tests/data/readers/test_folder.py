"""Image folders, where the name of a folder is the label."""

from __future__ import annotations

import pytest

from spml.config import DataConfig
from spml.data import open_dataset
from spml.data.readers.folder import read_folder
from spml.errors import InputError


def test_classes_ids_and_hold_out(tmp_path, picture):
    for name in (
        "dog/1.png",
        "dog/sub/2.jpg",
        "dog/3.png",
        "cat/1.JPG",
        "cat/2.png",
        ".hidden/1.png",
        "cat/.x.png",
    ):
        picture(name)
    (tmp_path / "cat" / "Thumbs.txt").write_text("not an image")
    data = open_dataset(DataConfig(path=str(tmp_path)), size=8)
    assert data.classes == ("cat", "dog")
    assert data.name == tmp_path.name
    assert {name: len(samples) for name, samples in data.splits.items()} == {"train": 4, "val": 1}
    seen = {
        sample: row
        for samples in data.splits.values()
        for sample, row in zip(samples.ids, samples.observed.to_ternary().tolist(), strict=True)
    }
    assert seen == {
        "cat/1.JPG": [1, 0],
        "cat/2.png": [1, 0],
        "dog/1.png": [0, 1],
        "dog/3.png": [0, 1],
        "dog/sub/2.jpg": [0, 1],
    }
    assert data.splits["train"].observed.single_positive
    assert data.truth == {}
    assert data.kind == "image"
    assert data.decoded
    left_out = "1 file that is not an image, or in no class folder, was left out, such as Thumbs.txt."
    assert left_out in data.notes


def test_hidden_files_and_folders_are_ignored(tmp_path, picture):
    for name in ("cat/1.png", "dog/1.png", "dog/.thumbs/2.png", "dog/.3.png", ".bin/4.png", "cat/a/.b/5.png"):
        picture(name)
    assert read_folder(tmp_path, DataConfig()).ids == ("cat/1.png", "dog/1.png")


def test_unlisted_negative_makes_it_fully_labelled(tmp_path, picture):
    for name in ("dog/1.png", "dog/2.png", "cat/1.png"):
        picture(name)
    data = open_dataset(DataConfig(path=str(tmp_path), unlisted="negative"), size=8)
    assert set(data.truth) == {"train", "val"}
    assert all(labels.full for labels in data.truth.values())
    assert data.splits["train"].observed.full


def test_split_folders(tmp_path, picture):
    for name in (
        "train/dog/1.png",
        "train/cat/1.png",
        "Validation/cat/1.png",
        "test/dog/2.png",
        "test/dog/3.png",
    ):
        picture(name)
    data = open_dataset(DataConfig(path=str(tmp_path)), size=8)
    assert data.classes == ("cat", "dog")
    assert {name: samples.ids for name, samples in data.splits.items()} == {
        "train": ("train/cat/1.png", "train/dog/1.png"),
        "val": ("Validation/cat/1.png",),
        "test": ("test/dog/2.png", "test/dog/3.png"),
    }


def test_a_class_may_be_called_train(tmp_path, picture):
    for name in ("train/1.png", "bus/1.png", "bus/2.png"):
        picture(name)
    assert open_dataset(DataConfig(path=str(tmp_path)), size=8).classes == ("bus", "train")


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ([], "holds no folder with images. Expected one folder per class"),
        (["1.png"], "holds no folder with images"),
        (["cat/1.png", "cat/2.png"], "there is only one class, 'cat'"),
        (["cat/1.png", "dog/readme.txt"], "dog: holds no image"),
        (
            ["train/cat/1.png", "val/cat/1.png", "extra/cat/1.png"],
            "has both folders named as splits and 'extra'",
        ),
        (
            ["train/cat/1.png", "train/dog/1.png", "val/cow/7.png"],
            r"val/cow/7\.png in the val split has the label 'cow'",
        ),
        (["val/cat/1.png", "test/dog/1.png"], "no training sample is left|no training sample has"),
    ],
)
def test_bad_folders(tmp_path, picture, files, message):
    for name in files:
        if name.endswith(".txt"):
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text("")
        else:
            picture(name)
    with pytest.raises(InputError, match=message):
        open_dataset(DataConfig(path=str(tmp_path)), size=8)


def test_a_table_next_to_one_folder_is_suggested(tmp_path, picture):
    picture("images/1.png")
    (tmp_path / "labels.csv").write_text("file,label\n")
    with pytest.raises(
        InputError, match=r"only one folder with images, 'images'. Or did you mean .*labels\.csv"
    ):
        open_dataset(DataConfig(path=str(tmp_path)))


@pytest.mark.parametrize("name", ["cat\n", "c\udcffat", "c\u2028at"])
def test_names_that_cannot_be_written(tmp_path, picture, name):
    picture("dog/1.png")
    picture("cat/1.png").parent.rename(tmp_path / name)
    with pytest.raises(InputError, match=r"the name '.*\\.*' holds a line break, .* not UTF-8. Rename it"):
        open_dataset(DataConfig(path=str(tmp_path)))
    (tmp_path / name).rename(tmp_path / "cat")
    (tmp_path / "cat" / "1.png").rename(tmp_path / "cat" / f"{name}.png")
    with pytest.raises(InputError, match=r"the name '.*\\.*\.png' holds a line break"):
        open_dataset(DataConfig(path=str(tmp_path)))
