"""Remarks on equal images, names that may mean the same class, and classes that a split lacks."""

from __future__ import annotations

import shutil
import tracemalloc

import numpy as np
import pytest
import scipy.sparse

from spml.config import DataConfig
from spml.data import open_dataset


@pytest.fixture
def notes(table, tmp_path):
    """Notes on a CSV file with the given lines; `copies` are further names of a.png."""

    def read(*lines, copies="", **options):
        path = table(*lines)
        for name in copies.split():
            shutil.copy(tmp_path / "a.png", tmp_path / f"{name}.png")
        return " ".join(open_dataset(DataConfig(path=str(path), **options), size=4).notes)

    return read


def test_names_of_classes(notes):
    lines = (
        "file,label",
        "a.png,Dog",
        "b.png,dog ",
        "c.png,dog",
        "d.png,traffic_light",
        "e.png,Traffic Light",
    )
    assert (
        "2 groups of class names may mean the same: 'Dog' (1) and 'dog' (2); 'Traffic Light' (1) and "
        "'traffic_light' (1). `spml data inspect --propose_names FILE` writes a file" in notes(*lines)
    )
    assert "may mean" not in notes("file,label", "a.png,dog", "b.png,dogs", "c.png,Cat", "d.png,dog ")


def test_equal_images(notes):
    lines = ("file,label,split", "a.png,cat,train", "b.png,dog,train", "c.png,dog,val", "d.png,cat,test")
    assert "byte for byte" not in notes(*lines)
    text = notes(*lines, "e.png,dog,train", copies="e")
    assert "1 image occurs several times, byte for byte: a.png (train) = e.png (train)." in text
    text = notes(*lines, "x.png,dog,test", "y.png,dog,train", copies="x y")
    assert (
        "1 image occurs several times, byte for byte, 1 of them in several splits, which makes results there "
        "too good: a.png (train) = x.png (test)." in text
    )


def test_equal_images_in_what_is_held_out(notes):
    names = "fghijklm"
    text = notes("file,label", "a.png,cat", "b.png,dog", *[f"{name}.png,cat" for name in names],
                 copies=" ".join(names), val_share=0.5)  # fmt: skip
    assert "1 image occurs several times, byte for byte, 1 of them in several splits" in text
    assert "(train)" in text
    assert "(val)" in text


def test_images_with_the_same_name_in_two_splits_may_differ(tmp_path, picture):
    """Folders often have such names; only the content counts."""
    for width, split in enumerate(("train", "test"), start=20):
        for height, label in enumerate(("cat", "dog"), start=20):
            for number in range(3):
                picture(f"{split}/{label}/{number}.png", (width, height))
    data = open_dataset(DataConfig(path=str(tmp_path)), size=4)
    assert not any("byte for byte" in note for note in data.notes)
    shutil.copy(tmp_path / "train/cat/0.png", tmp_path / "test/dog/1.png")
    data = open_dataset(DataConfig(path=str(tmp_path)), size=4)
    assert any("train/cat/0.png" in note and "test/dog/1.png (test)" in note for note in data.notes)


def test_classes_that_one_split_has(tmp_path):
    labels = np.array([[1, 0, 1, 0], [0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0]])
    given = {"X": np.eye(6), "Y": labels, "classes": np.array(["a", "b", "c", "never"])}
    np.savez(tmp_path / "x.npz", **given, split=np.array(["train", "train", "val", "val", "test", "test"]))
    text = " ".join(open_dataset(DataConfig(path=f"{tmp_path}/x.npz")).notes)
    assert "can't be evaluated" not in text
    labels[4:] = [[0, 0, 0, 0], [1, 0, 0, 0]]
    np.savez(tmp_path / "x.npz", **given, split=np.array(["train", "train", "val", "val", "test", "test"]))
    for unlisted in ("unknown", "negative"):
        text = " ".join(open_dataset(DataConfig(path=f"{tmp_path}/x.npz", unlisted=unlisted)).notes)
        assert (
            "2 classes with known positives in training but none in the test split can't be evaluated there: "
            "'b', 'c'." in text
        )
        assert "val split" not in text
    np.savez(tmp_path / "x.npz", **given)
    assert "can't be evaluated" not in " ".join(
        open_dataset(DataConfig(path=f"{tmp_path}/x.npz", val_share=0.1)).notes
    )


def test_many_classes_need_little_memory(tmp_path):
    """20,000 rows with half as many classes: nowhere is there a dense matrix."""
    count = 20_000
    eye = scipy.sparse.identity(count, np.uint8, format="csr")
    scipy.sparse.save_npz(tmp_path / "x_X.npz", eye.astype(np.float32))
    scipy.sparse.save_npz(tmp_path / "x_Y.npz", scipy.sparse.vstack([eye[::2, ::2]] * 2, format="csr"))
    tracemalloc.start()
    data = open_dataset(DataConfig(path=f"{tmp_path}/x_X.npz"))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(data.splits["train"]) == 16_000
    assert peak < 60e6
