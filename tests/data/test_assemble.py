"""Remarks on names, copies and splits; equal files in class folders are one sample."""

from __future__ import annotations

import shutil
import tracemalloc

import numpy as np
import pytest
import scipy.sparse

from spml.audit.folder import read_observed
from spml.common.safe import spelled
from spml.config import DataConfig
from spml.data import inspect, open_dataset, start_opening
from spml.data.assemble import folded, group_alike
from tests.helpers.records import names_of, observed_of


@pytest.fixture
def notes(table, tmp_path):
    """Notes on a CSV file with the given lines; `copies` are further names of a.png."""

    def read(*lines, copies="", **options):
        path = table(*lines)
        for name in copies.split():
            shutil.copy(tmp_path / "a.png", tmp_path / f"{name}.png")
        return " ".join(open_dataset(DataConfig(path=str(path), **options), size=4).notes)

    return read


SPLIT = ("file,label,split", "a.png,cat,train", "b.png,dog,train", "c.png,dog,val", "d.png,cat,test")
ONCE = "1 image occurs several times, byte for byte"
ALIKE = ("file,label", "a.png,Dog", "b.png,dog ", "c.png,dog", "d.png,traffic_light", "e.png,Traffic Light")
REMARKS = {
    "names": (ALIKE, "", {},
        "2 groups of class names may mean the same: 'Dog' (1) and 'dog' (2); 'Traffic Light' (1) and "
        "'traffic_light' (1). A file for data.rename merges them."),
    "a copy in a split": ((*SPLIT, "e.png,dog,train"), "e", {}, ONCE + ": a.png (train) = e.png (train)."),
    "copies in two splits": ((*SPLIT, "x.png,dog,test", "y.png,dog,train"), "x y", {},
        ONCE + ", 1 of them in several splits, which makes results there too good: a.png (train) = x.png"),
    "copies of which some are held out": (
        ("file,label", "a.png,cat", "b.png,dog", *(f"{name}.png,cat" for name in "fghijklm")),
        "f g h i j k l m", {"val_share": 0.5}, ONCE + ", 1 of them in several splits"),
}  # fmt: skip


@pytest.mark.parametrize(("lines", "copies", "options", "expected"), REMARKS.values(), ids=REMARKS)
def test_remarks(notes, lines, copies, options, expected):
    assert expected in notes(*lines, copies=copies, **options)
    usual = notes("file,label", "a.png,dog", "b.png,dogs", "c.png,Cat", "d.png,dog ")
    assert "byte for byte" not in usual
    assert "may mean" not in usual


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
    """10,000 rows with half as many classes: nowhere is there a dense matrix."""
    count = 10_000
    eye = scipy.sparse.identity(count, np.uint8, format="csr")
    scipy.sparse.save_npz(tmp_path / "x_X.npz", eye.astype(np.float32))
    scipy.sparse.save_npz(tmp_path / "x_Y.npz", scipy.sparse.vstack([eye[::2, ::2]] * 2, format="csr"))
    tracemalloc.start()
    data = open_dataset(DataConfig(path=f"{tmp_path}/x_X.npz"))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(data.splits["train"]) == 8_000
    assert peak < 45e6


@pytest.fixture
def album(tmp_path, picture):
    """Three classes; 2.png is in two of them, 3.png twice in one, under another name."""
    for name in ("beach/1.png", "beach/2.png", "cat/3.png", "cat/4.png", "dog/5.png", "dog/6.png"):
        picture(f"album/{name}")
    folder = tmp_path / "album"
    shutil.copy(folder / "beach/2.png", folder / "dog/other.png")
    shutil.copy(folder / "cat/3.png", folder / "cat/again.png")
    return folder


LABELS = {
    "beach/1.png": ["beach"],
    "beach/2.png": ["beach", "dog"],
    "cat/3.png": ["cat"],
    "cat/4.png": ["cat"],
    "dog/5.png": ["dog"],
    "dog/6.png": ["dog"],
}


def test_training_inspection_and_evaluation_agree(album):
    config = DataConfig(path=str(album))
    data, tested = open_dataset(config, size=8), open_dataset(config, size=8, purpose="evaluate")
    assert observed_of(data) == observed_of(tested) == LABELS
    notes = " ".join(data.notes)
    assert (
        "1 photograph lies in several class folders, byte for byte: one sample each, with all these labels: "
        "beach/2.png = dog/other.png. To keep a sample per file: data.same_content=keep. 1 photograph lies "
        "several times in a class folder, byte for byte: one sample each: cat/3.png = cat/again.png. To keep"
    ) in notes
    assert "occurs several times" not in notes  # the remark on equal images that are left
    assert data.skipped == (
        ("cat/again.png", "equal to cat/3.png"),
        ("dog/other.png", "equal to beach/2.png"),
    )
    inspection = inspect(config)
    assert inspection.samples == 6
    assert inspection.labels_per_sample == {1: 5, 2: 1}
    assert {c.name: (c.positive, c.training) for c in inspection.classes} == {
        "beach": (2, data.splits["train"].observed.positives_per_class()[0]),
        "cat": (2, data.splits["train"].observed.positives_per_class()[1]),
        "dog": (3, data.splits["train"].observed.positives_per_class()[2]),
    }
    assert inspection.duplicates == ()
    assert [note for note in inspection.notes if "photograph" in note] == [
        note for note in data.notes if "photograph" in note
    ]


OTHERS = {"beach/2.png": ["beach"], "cat/again.png": ["cat"], "dog/other.png": ["dog"]}


def test_settings_of_equal_files(album):
    keep = DataConfig(path=str(album), same_content="keep")
    assert observed_of(open_dataset(keep, size=8)) == LABELS | OTHERS
    assert len(inspect(keep).duplicates) == 2
    data = open_dataset(DataConfig(path=str(album), unlisted="negative"), size=8)
    assert observed_of(data) == LABELS
    assert all(truth.full for truth in data.truth.values())
    rows = [f"{name},{label}\n" for name, (label, *_) in (LABELS | OTHERS).items()]
    (album / "list.csv").write_text("".join(["file,label\n", *rows]))
    data = open_dataset(DataConfig(path=str(album / "list.csv")), size=8)
    assert observed_of(data) == LABELS | OTHERS, "tables say of each file what it means"


def test_copies_in_several_splits_stay_apart(tmp_path, picture):
    for name in ("train/a/1.png", "train/b/2.png", "train/b/3.png", "val/a/4.png"):
        picture(name)
    shutil.copy(tmp_path / "train/a/1.png", tmp_path / "train/b/5.png")
    (tmp_path / "val/b").mkdir()
    shutil.copy(tmp_path / "train/a/1.png", tmp_path / "val/b/6.png")
    data = open_dataset(DataConfig(path=str(tmp_path)), size=8)
    assert observed_of(data) == {
        "train/a/1.png": ["a", "b"],
        "train/b/2.png": ["b"],
        "train/b/3.png": ["b"],
        "val/a/4.png": ["a"],
        "val/b/6.png": ["b"],
    }
    assert "1 of them in several splits" in " ".join(data.notes)
    assert "train/a/1.png (train) = val/b/6.png (val)" in " ".join(data.notes)


def test_damaged_copies_and_rows_after_them(album):
    (album / "dog/7.png").write_bytes(b"no image")
    (album / "beach/0.png").write_bytes(b"no image")
    data = open_dataset(DataConfig(path=str(album), max_unreadable=0.5), size=8)
    assert observed_of(data) == LABELS
    assert [name for name, reason in data.skipped if "not an image" in reason] == ["beach/0.png", "dog/7.png"]
    assert [name for name, _ in inspect(DataConfig(path=str(album), max_unreadable=0.5)).unreadable] == [
        "beach/0.png",
        "dog/7.png",
    ]


def test_audits_and_statistics_agree(album):
    config = DataConfig(path=str(album))
    records = read_observed(config)
    assert names_of(records) == LABELS
    assert observed_of(start_opening(config).finish_unread()) == LABELS
    assert len(read_observed(DataConfig(path=str(album), same_content="keep")).ids) == 8


@pytest.mark.parametrize(
    "names",
    [
        ("T-shirt", "t shirt", "T_SHIRT"),
        ("\ufb01refly", "firefly"),
        ("cat", "c\u200bat"),
        ("caf\u00e9", "cafe\u0301"),
        ("dog\u2019s", "dog's"),
        ("T\u2013shirt", "t-shirt"),
        ("\u2764\ufe0f", "\u2764"),
        ("x 1-2", "X1_2"),
    ],
)
def test_spellings_of_one_name(names):
    assert len({*map(folded, names)}) == 1


def test_names_that_are_not_the_same():
    assert len(group_alike(["A-", "A", "A+", "x1-2", "x12", "x-1", "_", "-", "cats", "cat"])) == 10


def test_spellings_that_look_alike_are_told_apart():
    assert spelled("caf\u00e9") == "'caf\u00e9'"
    assert spelled("cafe\u0301") == "'cafe\\u0301'"
    assert spelled("c\u200bat") == "'c\\u200bat'"
