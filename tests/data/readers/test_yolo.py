"""YOLO exports: where the text files lie, names of classes, splits, and mistakes."""

from __future__ import annotations

import pytest

from spml.common.errors import InputError
from tests.helpers.records import opened, samples_of

BOX = " .5 .5 .2 .2\n"


@pytest.mark.parametrize(
    ("images", "texts", "expected"),
    [
        (
            "images/train/1.png images/val/2.png",
            {"data.yaml": "names: [cat, dog]\nnc: 2", "labels/train/1.txt": "1" + BOX + "0" + BOX + "1" + BOX,
             "labels/val/2.txt": "0 .1 .1 .2 .2 .3 .3\n\n"},
            {"images/train/1.png": ("cat;dog", "train"), "images/val/2.png": ("cat", "val")},
        ),
        (
            "train/images/1.png valid/images/2.png",
            {"data.yaml": "names:\n  0: cat\n  1: dog\n", "train/labels/1.txt": "1" + BOX,
             "valid/labels/2.txt": "0" + BOX},
            {"train/images/1.png": ("dog", "train"), "valid/images/2.png": ("cat", "val")},
        ),
        (
            "images/images/1.png images/images/2.png",
            {"data.yaml": "names: [cat, dog]", "images/labels/1.txt": "0" + BOX,
             "images/labels/2.txt": "1" + BOX},
            {"images/images/1.png": ("cat", ""), "images/images/2.png": ("dog", "")},
        ),
        (
            "1.png 2.png 3.png", {"classes.txt": "cat\ndog\n", "1.txt": "0" + BOX, "2.txt": ""},
            {"1.png": ("cat", ""), "2.png": ("", ""), "3.png": ("", "")},
        ),
    ],
)  # fmt: skip
def test_layouts(folder_of, images, texts, expected):
    records = opened(folder_of(images, texts))
    assert samples_of(records) == expected
    assert records.classes == ("cat", "dog")
    assert records.classes_given
    assert "not read" not in " ".join(records.notes)


def test_notes_and_unlisted(folder_of):
    path = folder_of(
        "images/1.png images/2.png", {"data.yaml": "names: [cat, dog]", "labels/1.txt": "0" + BOX}
    )
    assert opened(path).notes == (
        f"{path.name} was read as a YOLO export.",
        "1 object of 2 classes.",
        "1 image has no text file, so no known label: images/2.png.",
    )
    ternary = opened(path, unlisted="negative").labels.to_ternary().tolist()
    assert ternary == [[1, -1], [-1, -1]]


@pytest.mark.parametrize(
    ("images", "texts", "message"),
    [
        ("images/1.png", {"labels/1.txt": "2" + BOX}, "1.txt: line 1: begins with '2', which is not the n"),
        ("images/1.png", {"labels/1.txt": "0" + BOX + "dog" + BOX}, "line 2: begins with 'dog', .*, 0 to 1"),
        ("images/1.png", {"labels/1.txt": "-1" + BOX}, "begins with '-1'"),
        ("images/1.png", {"labels/1.txt": "\n"}, "none of its 1 image has a text file with an object"),
        ("images/1.png", {"labels/1.txt": "0" + BOX, "data.yaml": "names: cat"}, "has no names of classes"),
        ("images/1.png", {"labels/1.txt": "0" + BOX, "data.yaml": "names: [yes, no]"}, "has no names of cl"),
        ("images/1.png", {"labels/1.txt": "0" + BOX, "data.yaml": "names: [a, a]"}, "entry 1 repeats 'a'"),
        (
            "images/train/1.png images/2.png", {"labels/train/1.txt": "0" + BOX},
            r"'images/2\.png' lies in no folder named train, val or test, while other images do",
        ),
    ],
)  # fmt: skip
def test_mistakes(folder_of, images, texts, message):
    path = folder_of(images, {"data.yaml": "names: [cat, dog]", **texts})
    with pytest.raises(InputError, match=message):
        opened(path)


def test_names_without_labels_are_no_export(folder_of):
    path = folder_of("cat/1.png dog/2.png", {"classes.txt": "cat\ndog\n"})
    assert samples_of(opened(path)) == {"cat/1.png": ("cat", ""), "dog/2.png": ("dog", "")}
