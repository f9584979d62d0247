"""Folders of images that are read through the annotation files in them."""

from __future__ import annotations

import json
import re

import pytest

from spml.common.errors import InputError
from tests.helpers.records import opened, samples_of


def coco(names, categories=("cat", "dog")):
    """A COCO file in which image k has the category k modulo their number."""
    return json.dumps(
        {
            "images": [{"id": k, "file_name": name} for k, name in enumerate(names)],
            "categories": [{"id": k, "name": name} for k, name in enumerate(categories)],
            "annotations": [
                {"id": k, "image_id": k, "category_id": k % len(categories)} for k in range(len(names))
            ],
        }
    )


def xml(name, label):
    return f"<annotation><filename>{name}</filename><object><name>{label}</name></object></annotation>"


def content(path, **options):
    records = opened(path, **options)
    assert [str(file) for file in records.inputs] == [str(path / name) for name in records.ids]
    return samples_of(records), records


@pytest.mark.parametrize(
    ("images", "texts", "expected"),
    [
        (
            "train/1.png train/2.png valid/3.png",
            {"train/_annotations.coco.json": coco(["1.png", "2.png"]),
             "valid/_annotations.coco.json": coco(["3.png"])},
            {"train/1.png": ("cat", "train"), "train/2.png": ("dog", "train"), "valid/3.png": ("cat", "val")},
        ),
        (
            "train/images/1.png train/images/2.png val/images/3.png",
            {"train/a.json": coco(["1.png", "2.png"]), "val/a.json": coco(["3.png"])},
            {"train/images/1.png": ("cat", "train"), "train/images/2.png": ("dog", "train"),
             "val/images/3.png": ("cat", "val")},
        ),
        (
            "train/1.png train/2.png test/1.png",
            {"train/_classes.csv": "filename,cat,dog\n1.png,1,0\n2.png,1,1\n",
             "test/_classes.csv": "filename,dog,fox\n1.png,1,1\n"},
            {"train/1.png": ("cat", "train"), "train/2.png": ("dog;cat", "train"),
             "test/1.png": ("dog;fox", "test")},
        ),
        ("train/1.png train/2.png", {"train/metadata.csv": "file_name,label\n1.png,cat\n2.png,dog\n"},
         {"train/1.png": ("cat", "train"), "train/2.png": ("dog", "train")}),
        (
            "train/1.jpg train/2.jpg val/3.jpg",
            {"train/1.xml": xml("1.jpg", "cat"), "train/2.xml": xml("2.jpg", "dog"),
             "val/3.xml": xml("3.jpg", "dog")},
            {"train/1.jpg": ("cat", "train"), "train/2.jpg": ("dog", "train"), "val/3.jpg": ("dog", "val")},
        ),
        ("1.jpg 2.jpg", {"1.xml": xml("1.jpg", "cat"), "2.xml": xml("2.jpg", "dog")},
         {"1.jpg": ("cat", ""), "2.jpg": ("dog", "")}),
        ("images/1.jpg images/2.jpg",
         {"annotations/1.xml": xml("1.jpg", "cat"), "annotations/2.xml": xml("2.jpg", "dog")},
         {"images/1.jpg": ("cat", ""), "images/2.jpg": ("dog", "")}),
        ("images/1.png images/2.png", {"x.csv": "file,label\n1.png,cat\n2.png,dog\n"},
         {"images/1.png": ("cat", ""), "images/2.png": ("dog", "")}),
        (
            "images/1.png images/2.png images/3.png",
            {"train.csv": "file,label\n1.png,cat\n2.png,dog\n", "val.csv": "file,label\n3.png,dog\n"},
            {"images/1.png": ("cat", "train"), "images/2.png": ("dog", "train"),
             "images/3.png": ("dog", "val")},
        ),
        (  # the same names in both folders
            "train/1.png train/2.png val/1.png",
            {"train.csv": "file,label\n1.png,cat\n2.png,dog\n", "val.csv": "file,label\n1.png,dog\n"},
            {"train/1.png": ("cat", "train"), "train/2.png": ("dog", "train"), "val/1.png": ("dog", "val")},
        ),
        ("train/1.png train/2.png val/1.png",
         {"all.csv": "file,label\ntrain/1.png,cat\ntrain/2.png,dog\nval/1.png,dog\n"},
         {"train/1.png": ("cat", "train"), "train/2.png": ("dog", "train"), "val/1.png": ("dog", "val")}),
        (
            "images/train/1.png images/val/1.png images/val/2.png",
            {"annotations/train.json": coco(["1.png"]), "annotations/val.json": coco(["1.png", "2.png"])},
            {"images/train/1.png": ("cat", "train"), "images/val/1.png": ("cat", "val"),
             "images/val/2.png": ("dog", "val")},
        ),
    ],
)  # fmt: skip
def test_exports(folder_of, images, texts, expected):
    samples, records = content(folder_of(images, texts))
    assert samples == expected
    assert "left out" not in " ".join(records.notes)
    assert "not read" not in " ".join(records.notes)


def test_notes_name_the_files_and_the_images_that_none_of_them_names(folder_of):
    path = folder_of(
        "train/1.png train/2.png train/3.png",
        {"train/metadata.csv": "file_name,label,split\n1.png,cat,val\n2.png,dog,val\n", "train/x.svg": ""},
    )
    samples, records = content(path)
    assert samples == {"train/1.png": ("cat", "train"), "train/2.png": ("dog", "train")}
    notes = " ".join(records.notes)
    assert "train/metadata.csv was read as a table." in notes
    assert "The split in train/metadata.csv is not used: its name says train." in notes
    assert "1 image is in no annotation file and left out: train/3.png." in notes
    assert "1 file is not read: 1 .svg." in notes


def test_images_elsewhere_keep_their_names(folder_of, picture, tmp_path_factory):
    path = folder_of("1.png", {"a.csv": TABLE})
    images = tmp_path_factory.mktemp("images")
    for name in ("1.png", "2.png"):
        (images / name).write_bytes((path / "1.png").read_bytes())
    records = opened(path, images=str(images))
    assert records.ids == ("1.png", "2.png")
    assert list(records.inputs) == [images / "1.png", images / "2.png"]


def test_folders_are_the_split_only_if_they_hold_all_images(folder_of):
    table = "file,label\ntrain/1.png,cat\nval/2.png,dog\n3.png,dog\n"
    samples, records = content(folder_of("train/1.png val/2.png 3.png", {"all.csv": table}))
    assert samples == {"train/1.png": ("cat", ""), "val/2.png": ("dog", ""), "3.png": ("dog", "")}
    assert "The split is" not in " ".join(records.notes)


def test_unlisted_holds_for_classes_that_a_part_does_not_have(folder_of):
    path = folder_of(
        "train/1.png train/2.png val/3.png",
        {
            "train/a.csv": "file,label\n1.png,cat\n2.png,dog\n",
            "val/a.csv": "file,label\n3.png,dog\n",
        },
    )
    _, records = content(path)
    assert records.labels.to_ternary().tolist() == [[1, 0], [0, 1], [0, 1]]
    _, records = content(path, unlisted="negative")
    assert records.labels.to_ternary().tolist() == [[1, -1], [-1, 1], [-1, 1]]
    assert records.labels.full


@pytest.mark.parametrize(
    ("texts", "note"),
    [
        (
            {"metadata.csv": "file_name,text\ncat/1.png,a cat\n"},
            "metadata.csv is not read, because class folders give the labels. To read it instead: spml data "
            "inspect {}/metadata.csv",
        ),
        ({"broken.json": "{", "classes.csv": "id,name\n1,cat\n"}, "2 files are not read: 1 .json, 1 .csv."),
    ],
)
def test_files_next_to_class_folders_are_not_read(folder_of, texts, note):
    path = folder_of("cat/1.png dog/2.png", texts)
    samples, records = content(path)
    assert samples == {"cat/1.png": ("cat", ""), "dog/2.png": ("dog", "")}
    assert records.notes[1:] == (note.format(path),)


TABLE = "file,label\n1.png,cat\n2.png,dog\n"


@pytest.mark.parametrize(
    ("images", "texts", "message"),
    [
        ("train/1.png train/2.png test/3.png", {"train/a.csv": TABLE},
         r"test: holds 0 annotation files, but one is needed, .* Add one\.$"),
        (
            "images/1.png images/2.png", {"train.csv": TABLE, "sample_submission.csv": TABLE},
            r"holds 2 annotation files, but one .* inspect .*sample_submission\.csv or spml data "
            r"inspect .*/train\.csv",
        ),
        ("train/1.png train/2.png val/1.png val/2.png", {"all.csv": TABLE},
         r"all\.csv: row 2: there is no file '1\.png' in "),
        ("images/1.png", {"a.csv": TABLE}, r"row 3: there is no file '2\.png' in \S+/images"),
        ("1.png", {"a.csv": "file,label\n"}, r"a\.csv: has no rows"),
        ("train/1.png", {"train/a.json": '{"images": ['}, r"train/a\.json: "),
    ],
)  # fmt: skip
def test_refused(folder_of, images, texts, message):
    path = folder_of(images, texts)
    with pytest.raises(InputError) as caught:
        opened(path)
    assert re.search(message, str(caught.value)), caught.value


def test_links_out_of_the_folder_are_refused(folder_of, tmp_path_factory):
    outside = tmp_path_factory.mktemp("outside") / "secret.csv"
    outside.write_text(TABLE)
    path = folder_of("1.png 2.png", {})
    (path / "a.csv").symlink_to(outside)
    with pytest.raises(InputError, match=r"is a link to .*secret\.csv', outside the folder"):
        opened(path)
    (path / "a.csv").unlink()
    (path / "1.xml").symlink_to(outside)
    with pytest.raises(InputError, match=r"1\.xml' is a link to .*secret\.csv', outside the folder"):
        opened(path)
