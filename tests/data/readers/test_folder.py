"""Image folders, where the name of a folder is the label."""

from __future__ import annotations

import re
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spml.common.errors import InputError
from spml.config import DataConfig
from spml.data import open_dataset
from spml.data.readers.folder import read_folder
from tests.helpers.records import observed_of, opened, samples_of, sizes_of


def test_classes_ids_and_hold_out(tmp_path, folder_of):
    images = "dog/1.png dog/sub/2.jpg dog/3.png cat/1.JPG cat/2.png .hidden/1.png cat/.x.png"
    config = DataConfig(path=str(folder_of(images, {"cat/Thumbs.txt": "not an image"})))
    data = open_dataset(config, size=8)
    assert data.classes == ("cat", "dog")
    assert data.name == tmp_path.name
    assert sizes_of(data) == {"train": 4, "val": 1}
    assert observed_of(data) == {
        "cat/1.JPG": ["cat"],
        "cat/2.png": ["cat"],
        "dog/1.png": ["dog"],
        "dog/3.png": ["dog"],
        "dog/sub/2.jpg": ["dog"],
    }
    assert data.splits["train"].observed.single_positive
    assert data.truth == {}
    full = open_dataset(replace(config, unlisted="negative"), size=8)
    assert set(full.truth) == {"train", "val"}
    assert all(samples.observed.full for samples in full.splits.values())
    assert data.kind == "image"
    assert data.decoded
    assert "1 file is not read: 1 .txt." in data.notes
    note = "2 hidden, system or linked entries are left out: .hidden, cat/.x.png."
    assert note in data.notes
    assert "1 folder inside class folders: dog/sub. Their names are not used as classes" in " ".join(
        data.notes
    )


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


def content(path):
    """Label and split of each sample of a folder, its classes, and its notes as one text."""
    records = read_folder(path, DataConfig())
    assert [str(file) for file in records.inputs] == [str(path / name) for name in records.ids]
    return samples_of(records), records.classes, " ".join(records.notes)


@pytest.mark.parametrize(
    ("files", "expected", "note"),
    [
        (
            ["Training Set/a/1.png", "Training Set/b/2.png", "Validation Set/a/3.png", "test2017/b/4.png"],
            {"Training Set/a/1.png": ("a", "train"), "Training Set/b/2.png": ("b", "train"),
             "Validation Set/a/3.png": ("a", "val"), "test2017/b/4.png": ("b", "test")},
            "Splits: Training Set as train, Validation Set as val, test2017 as test",
        ),
        (["a/1.png", "b/2.png", "3.png"], {"a/1.png": ("a", ""), "b/2.png": ("b", "")},
         r"1 image is in no class folder and left out: 1 in the folder itself, such as 3\.png"),
        (["train/a/1.png", "train/b/2.png", "train/3.png", "val/a/4.png", "val/b/.keep", "test/"],
         {"train/a/1.png": ("a", "train"), "train/b/2.png": ("b", "train"), "val/a/4.png": ("a", "val")},
         r"left out: 1 in train, such as train/3\.png\. test holds no image\."),
        (
            ["animals/cat/1.png", "animals/dog/2.png", "plants/rose/3.png"],
            {"animals/cat/1.png": ("animals", ""), "animals/dog/2.png": ("animals", ""),
             "plants/rose/3.png": ("plants", "")},
            r"3 folders inside class folders: animals/cat, animals/dog, plants/rose\. .* not used as classes"
            r".*such as .*/animals\)",
        ),
        (["a/a/1.png", "b/images/2.png"], {"a/a/1.png": ("a", ""), "b/images/2.png": ("b", "")}, "^$"),
        (
            ["train/dog/1.png", "train/cat/1.png", "Validation/cat/1.png", "test/dog/2.png"],
            {"train/cat/1.png": ("cat", "train"), "train/dog/1.png": ("dog", "train"),
             "Validation/cat/1.png": ("cat", "val"), "test/dog/2.png": ("dog", "test")}, "Validation as val",
        ),
        (["cat/1.png", "dog/1.png", "dog/.thumbs/2.png", "dog/.3.png", ".bin/4.png", "cat/a/.b/5.png"],
         {"cat/1.png": ("cat", ""), "dog/1.png": ("dog", "")}, "hidden"),
        (["train/1.png", "bus/2.png"], {"bus/2.png": ("bus", ""), "train/1.png": ("train", "")},
         "The folder train is a class"),
        (["train_station/1.png", "test_tube/2.png"],
         {"test_tube/2.png": ("test_tube", ""), "train_station/1.png": ("train_station", "")}, "^$"),
        (
            ["wren/1.png", "robin/2.png", "robin,wren/3.png", "black wren/4.png"],
            {"black wren/4.png": ("black wren", ""), "robin/2.png": ("robin", ""),
             "robin,wren/3.png": ("robin,wren", ""), "wren/1.png": ("wren", "")},
            "^The folder name 'robin,wren' looks like several labels, but is one class[^!]*in a table.$",
        ),
        (["a/1.png", "b/2.png", ".\n/3.png"], {"a/1.png": ("a", ""), "b/2.png": ("b", "")},
         r"^1 hidden, system or linked entry is left out: \.\\n\.$"),
        (["a/1.png", "b/2.png", "__MACOSX/a/._1.png", "a/@eaDir/1.png/t.png", "b/Thumbs.db"],
         {"a/1.png": ("a", ""), "b/2.png": ("b", "")},
         r"1 \.db\. 2 hidden, system or linked entries are left out: __MACOSX, a/@eaDir\."),
    ],
)  # fmt: skip
def test_layouts(tmp_path, picture, files, expected, note):
    for name in files:
        write(tmp_path, picture, name)
    samples, classes, notes = content(tmp_path)
    assert samples == expected
    assert classes == tuple(sorted({label for label, _ in expected.values()}))
    assert re.search(note, notes), notes


def write(folder, picture, name):
    """Write an image, another file, or an empty folder."""
    if name.endswith((".png", ".jpg")) and "/._" not in name:
        picture(name)
    elif name.endswith("/"):
        (folder / name).mkdir(parents=True)
    else:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x")


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ("train/a/1.png train/b/2.png val/3.png val/4.png",
         r"val: holds 2 images but no folder with images\. .* Or move val elsewhere\.$"),
        ("seg_train/seg_train/a/1.png seg_train/seg_train/b/2.png seg_test/seg_test/a/3.png",
         r"seg_test: holds only the folder 'seg_test', .* Move its folders to .*seg_test"),
        ("archive/PetImages/Cat/1.png archive/PetImages/Dog/2.png archive/README.md",
         r": holds only the folder 'archive', with the class folders\. Pass .*archive"),
        ("images/a/1.png images/b/2.png", r": holds only the folder 'images', with the class folders\. Pass"),
        ("train/images/a/1.png train/images/b/2.png val/images/a/3.png",
         r"train: holds only the folder 'images'"),
        ("train/a/1.png train/b/2.png val/images/3.png val/val_annotations.txt", r"val: images is no class"),
        ("a/1.png b/2.png test/3.png", r"test: is named as a split, but lies next .*, call it test_class\."),
        ("seg_train/a/1.png seg_test/b/2.png seg_pred/3.png",
         "splits and 'seg_pred'. .* other folders elsewh"),
        ("train/1.png val/2.png", "train: holds 1 image but no folder with images"),
        ("trainA/1.png trainB/2.png testA/3.png testB/4.png", "testA: holds 1 image but no folder"),
        ("images/1.png masks/2.png", r"images is no class\. Expected one folder per class"),
        ("train/images/1.png train/masks/2.png val/a/1.png", "train: images is no class"),
        ("train/a/1.png val/a/2.png a/3.png", "has both folders named as splits and 'a'"),
        ("train/a/1.png train/b/2.png b/3.png", "has both folders named as splits and 'b'"),
        ("a/1.png b/2.heic.cr2", r"b: holds no image\. Add .* is not read: 1 \.cr2\."),
        ("1.png 2.png", r"start from the names of the classes: data\.classes=FILE"),
        ("", "holds no folder with images. Expected one folder per class"),
        ("1.png", "holds 1 image but no folder with images"),
        ("cat/1.png cat/2.png", "there is only one class, 'cat'"),
        ("cat/1.png dog/readme.txt",
         "dog: holds no image. Add images of this class or remove the folder. 1 file is not read: 1 .txt"),
        ("train/cat/1.png train/dog/1.png val/cow/7.png",
         r"val/cow/7\.png in the val split has the label 'cow'"),
        ("val/cat/1.png test/dog/1.png", "no training sample is left|no training sample has"),
    ],
)  # fmt: skip
def test_refused_layouts(tmp_path, picture, files, message):
    for name in files.split():
        write(tmp_path, picture, name)
    with pytest.raises(InputError, match=message):
        open_dataset(DataConfig(path=str(tmp_path)), size=8)


@pytest.mark.parametrize(
    ("images", "name", "text", "message"),
    [
        ("0.png 1.png", "0.txt", "1girl, solo", r"0\.txt is a text file, .* tags of an image"),
        ("images/0.png", "labels/0.txt", "0 .5 .5 1 1\n",
         r"labels/0\.txt is of a YOLO export\. .*data\.yaml"),
        ("0.png", "0.json", '{"imagePath": "0.png", "shapes": []}', "0.json is LabelMe's JSON of one image"),
        ("data/0.png", "labels.json", '{"classes": [], "labels": {}}', "labels.json is FiftyOne's list"),
        ("p/0.png q/0.png", "p/p.json", '{"labels": [], "projection": ""}', r"^(?!.*BigEarthNet)|p: "),
    ],
)  # fmt: skip
def test_labels_next_to_images_that_are_not_read(tmp_path, picture, images, name, text, message):
    for each in images.split():
        picture(each)
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(text)
    if name.startswith("p/"):  # a file in one class folder does not matter, one in each does
        assert read_folder(tmp_path, DataConfig()).classes == ("p", "q")
        (tmp_path / "q" / "q.json").write_text(text)
        message = "p/p.json is BigEarthNet's JSON of one patch"
    with pytest.raises(InputError, match=message):
        read_folder(tmp_path, DataConfig())


def test_links_to_folders(tmp_path, picture):
    for name in ("a/1.png", "store/b/2.png", "store/b/c/3.png"):
        picture(name)
    (tmp_path / "b").symlink_to("store/b")
    (tmp_path / "a" / "up").symlink_to("..")
    samples, _, notes = content(tmp_path)
    assert list(samples) == ["a/1.png", "b/2.png", "b/c/3.png", "store/b/2.png", "store/b/c/3.png"]
    assert "1 hidden, system or linked entry is left out: a/up." in notes
    (tmp_path / "d").symlink_to("/etc")
    with pytest.raises(InputError, match="d' is a link to '/etc', outside the folder"):
        read_folder(tmp_path, DataConfig())


TEXTS = {
    "x.csv": "file,label\n1.png,a\n2.png,b\n",
    "x.xml": "<annotation/>",
    "x.json": "{}",
    "x.txt": "0 1 1",
}
folder_names = st.sampled_from(
    ["a", "b", "c,a", "train", "Training", "val", "test", "seg_train", "seg_test", "images", "__MACOSX"]
)
trees = st.lists(
    st.tuples(st.lists(folder_names, max_size=4), st.sampled_from(["1.png", "2.png", "3.png", *TEXTS])),
    min_size=1,
    max_size=8,
)


@given(trees)
@settings(max_examples=60, deadline=None)
def test_no_image_is_lost_without_a_note(tree):
    with tempfile.TemporaryDirectory() as name:
        path = Path(name)
        images = set()
        for folders, file in tree:
            place = path.joinpath(*folders)
            place.mkdir(parents=True, exist_ok=True)
            (place / file).write_text(TEXTS.get(file, "image"))
            if file.endswith(".png") and "__MACOSX" not in folders:
                images.add((place / file).relative_to(path).as_posix())
        try:
            records = opened(name)
        except InputError:
            return
        left_out = [
            int(number)
            for note in records.notes
            for number in re.findall(r"^(\d+) images? (?:is|are) in no [^.]* left out", note)
        ]
        assert {*records.ids} <= images
        assert len(records.ids) + sum(left_out) == len(images), records.notes
