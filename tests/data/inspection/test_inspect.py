"""`spml.data.inspect`: every count against data in which it is known."""

from __future__ import annotations

import json
from contextlib import nullcontext

import numpy as np
import pytest
from PIL import Image

from spml.common.errors import InputError
from spml.config import DataConfig
from spml.data import inspect, open_dataset
from spml.data.inspection import LabelMeans, count_positives, label_means
from spml.labels import ObservedLabels
from tests.helpers import write_odd_photos


@pytest.fixture
def photos(tmp_path):
    return write_odd_photos(tmp_path)


def test_equal_samples_with_different_labels(tmp_path):
    nan = np.nan
    for last, differ in (([1, 0, nan], False), ([1, nan, nan], True), ([1, 1, nan], True), ([1, 0, 1], True)):
        labels = np.array([[1, 0, nan]] * 3 + [last])
        np.savez(tmp_path / "x.npz", X=np.ones((4, 2)), Y=labels, classes=np.array(["a", "b", "c"]))
        (group,) = inspect(DataConfig(path=str(tmp_path / "x.npz"))).duplicates
        assert (group.ids, group.labels_differ) == (("0", "1", "2", "3"), differ)


def test_a_table_of_images(photos):
    inspection = inspect(DataConfig(path=str(photos), max_unreadable=0.5))
    assert (inspection.name, inspection.kind, inspection.samples) == ("data", "image", 6)
    assert (inspection.extent, inspection.nothing_known) == ("partial", 0)
    assert inspection.splits == {"train": 4, "val": 1, "test": 1}
    counts = {c.name: (c.positive, c.negative, c.unknown, dict(c.by_split)) for c in inspection.classes}
    assert counts == {
        "horse": (3, 0, 3, {"train": 2, "val": 1, "test": 0}),
        "Traffic Light": (3, 0, 3, {"train": 3, "val": 0, "test": 0}),
        "traffic_light": (1, 1, 4, {"train": 0, "val": 0, "test": 1}),
        "horses": (0, 2, 4, {"train": 0, "val": 0, "test": 0}),
    }
    assert inspection.mean_labels == pytest.approx(7 / 6)
    assert inspection.without_positive["train"] == ("traffic_light", "horses")
    assert inspection.without_positive["val"] == ("Traffic Light", "traffic_light", "horses")
    assert inspection.rare == ("horse", "Traffic Light", "traffic_light")
    assert any("4 columns stand for a class" in note for note in inspection.notes)
    groups = [(d.ids, d.splits, d.across, d.labels_differ) for d in inspection.duplicates]
    assert groups == [
        (("a.png", "copy.png"), ("train", "test"), True, True),
        (("c.png", "same.png"), ("train", "train"), False, False),
    ]
    ((file, reason),) = inspection.unreadable
    assert file == "broken.png"
    assert reason.startswith("not an image of a known format")
    assert inspection.width == (10, 20, 30)
    assert inspection.height == (10, 30, 40)
    assert inspection.features is None
    assert dict(inspection.examples) == {
        "a.png": ("horse",),
        "b.png": ("horse", "Traffic Light"),
        "c.png": ("Traffic Light",),
        "same.png": ("Traffic Light",),
        "copy.png": ("traffic_light",),
    }
    assert inspection.thumbnails.shape == (5, 3, 160, 160)
    assert "thumbnails" not in inspection.to_dict()
    assert inspection.to_dict()["width"] == [10, 20, 30]
    assert inspection.to_dict()["labels_per_sample"] == {"1": 5, "2": 1}


def test_rare_classes_and_zeros_of_both_signs(tmp_path):
    labels = np.zeros((30, 3), np.uint8)
    labels[:20, 0], labels[:10, 1], labels[:9, 2] = 1, 1, 1
    matrix = np.eye(30)
    matrix[1] = -0.0
    matrix[2] = 0
    np.savez(tmp_path / "x.npz", X=matrix, Y=labels, classes=np.array(["a", "b", "c"]))
    inspection = inspect(DataConfig(path=str(tmp_path / "x.npz")))
    assert inspection.rare == ("c",)
    assert [group.ids for group in inspection.duplicates] == [("1", "2")]


def test_sizes_are_those_of_the_upright_images_that_can_be_used(tmp_path, picture):
    exif = Image.Exif()
    exif[0x0112] = 6
    picture("cat/1.jpg", (40, 20), exif=exif)
    picture("dog/1.jpg", (40, 20))
    path = picture("cat/2.png", (50, 20))
    path.write_bytes(path.read_bytes()[:-30])
    for name in ("cat/3.png", "dog/2.png"):
        (tmp_path / name).write_bytes(b"")
    inspection = inspect(DataConfig(path=str(tmp_path), max_unreadable=0.6))
    assert (inspection.width, inspection.height) == ((20, 30, 40), (20, 30, 40))
    assert len(inspection.unreadable) == 3
    assert inspection.duplicates == ()


def test_rows_are_right_beyond_the_first_block(tmp_path, picture, monkeypatch):
    monkeypatch.setattr("spml.data.inspection.BLOCK", 2)
    for number in range(5):
        picture(f"cat/{number}.png", (10 + number, 10))
        picture(f"dog/{number}.png", (20 + number, 10))
    (tmp_path / "cat" / "3.png").write_bytes(b"")
    inspection = inspect(DataConfig(path=str(tmp_path)))
    assert inspection.unreadable == (("cat/3.png", "the file is empty"),)
    assert inspection.width == (10, 20, 24)
    assert inspection.duplicates == ()


def test_classes_take_turns_with_examples(tmp_path, picture):
    """The most frequent class has as many examples as another one; the rest fill up what is left."""
    for number in range(20):
        picture(f"cat/{number:02}.png")
    for number in range(3):
        picture(f"dog/{number}.png", (9, 9 + number))
    (tmp_path / "cat" / "01.png").write_bytes(b"")
    names = [name for name, _ in inspect(DataConfig(path=str(tmp_path), same_content="keep")).examples]
    cats = [f"cat/{number:02}.png" for number in (0, 2, 3, 4, 5, 6, 7, 8, 9)]
    assert names == [*cats, "dog/0.png", "dog/1.png", "dog/2.png"]
    for number in range(3, 20):
        picture(f"dog/{number}.png", (9, 9 + number))
    names = [name for name, _ in inspect(DataConfig(path=str(tmp_path), same_content="keep")).examples]
    assert sum(name.startswith("cat") for name in names) == 6


def test_what_training_would_see_or_refuse(photos):
    inspection = inspect(DataConfig(path=str(photos)))
    assert "1 of 6 images can't be used, more than data.max_unreadable = 0.01" in inspection.refused
    assert "broken.png (not an image" in inspection.refused
    assert all(c.training is None for c in inspection.classes)

    tolerant = inspect(DataConfig(path=str(photos), max_unreadable=0.5))
    assert tolerant.refused == ""
    assert any(note.startswith("2 classes have no known positive in training") for note in tolerant.training)

    lines = photos.read_text().splitlines()
    photos.write_text("\n".join([lines[0], *(line.replace("train", "test") for line in lines[1:6])]))
    untrained = inspect(DataConfig(path=str(photos)))
    assert "no training sample is left" in untrained.refused
    assert untrained.samples == 5


def test_hidden_and_held_out_labels_are_counted_apart(tmp_path):
    labels = np.tile([[1, 1, 0], [0, 1, 1]], (50, 1))
    np.savez(tmp_path / "x.npz", X=np.arange(200).reshape(100, 2), Y=labels)
    inspection = inspect(DataConfig(path=str(tmp_path / "x.npz"), unlisted="negative", observe="single"))
    assert [c.positive for c in inspection.classes] == [50, 100, 50]
    assert sum(c.training for c in inspection.classes) == 80, (
        "one positive of each sample that is not held out"
    )
    assert inspection.splits == {"all": 100}
    with pytest.raises(InputError, match="observe_share"):
        inspect(DataConfig(path="nowhere", observe="fraction", observe_share=2.0))


def test_feature_sets(tmp_path):
    matrix = np.array([[0, 7, 2.0], [4, 7, 0], [0, 7, 2], [-1, 7, 0]], np.float32)
    np.savez(
        tmp_path / "x.npz",
        X=matrix,
        Y=np.array([[1, np.nan], [0, 1], [np.nan, 1], [np.nan, np.nan]]),
        classes=np.array(["7", "b"]),
        split=np.array(["train", "train", "test", "train"]),
        names=np.array(["r", "s", "t", "u"]),
    )
    inspection = inspect(DataConfig(path=str(tmp_path / "x.npz")))
    assert inspection.width is None
    f = inspection.features
    assert (f.width, f.constant) == (3, (1,))
    assert f.density == pytest.approx(8 / 12)
    assert (f.smallest, f.largest) == (-1, 7)
    assert [(d.ids, d.across) for d in inspection.duplicates] == [(("r", "t"), True)]
    assert inspection.nothing_known == 1
    assert inspection.thumbnails is None


def test_numbers_that_are_not_finite_are_refused(tmp_path):
    matrix = np.arange(12, dtype=np.float64).reshape(4, 3)
    matrix[1, 0], matrix[1, 2], matrix[3, 1] = np.nan, -np.inf, 1e300
    matrix[:, 1] = np.nan
    np.savez(tmp_path / "x.npz", X=matrix, Y=np.eye(4, 2), classes=np.array(["a", "b"]))
    inspection = inspect(DataConfig(path=str(tmp_path / "x.npz")))
    assert (inspection.features.smallest, inspection.features.largest) == (-np.inf, 11)
    assert inspection.features.constant == ()
    assert "X holds nan at row 0, column 1" in inspection.refused
    json.dumps(inspection.to_dict(), allow_nan=False)


def test_sparse_features_give_the_same_report_as_dense_ones(tmp_path):
    from scipy.sparse import csr_matrix

    generator = np.random.default_rng(0)
    matrix = generator.integers(0, 2, (60, 5)).astype(np.float32)
    labels = np.eye(60, 3, dtype=np.uint8)
    labels[3:, 1] = 1
    csr = csr_matrix(matrix)
    np.savez(tmp_path / "dense.npz", X=matrix, Y=labels)
    np.savez(
        tmp_path / "sparse.npz",
        **{"data": csr.data, "indices": csr.indices, "indptr": csr.indptr, "shape": csr.shape, "Y": labels},
    )
    dense, sparse = (inspect(DataConfig(path=str(tmp_path / f"{name}.npz"))) for name in ("dense", "sparse"))
    assert sparse.features == dense.features
    assert sparse.duplicates == dense.duplicates
    assert sum(len(d.ids) for d in dense.duplicates) > 10


def test_embedded_digits():
    inspection = inspect(DataConfig(path="digits"))
    assert (inspection.kind, inspection.extent) == ("image", "full")
    assert inspection.width == (40, 40, 40)
    assert inspection.thumbnails.shape == (12, 1, 40, 40)
    assert inspection.duplicates == ()
    assert inspection.splits == {"train": 4000, "val": 1000, "test": 1000}
    assert inspection.training[0].startswith(
        "digits: train 4,000, val 1,000, test 1,000 samples; 10 classes; fully labelled"
    )


def test_progress_counts_every_sample(photos, monkeypatch):
    counts = []

    def progress(total, label):
        counts.append(total)
        return nullcontext(counts.append)

    monkeypatch.setattr("spml.data.inspection.progress", progress)
    inspect(DataConfig(path=str(photos)))
    assert counts == [6, 6]


def test_counts_are_those_of_dense_matrices():
    generator = np.random.default_rng(0)
    truth, observed = generator.integers(0, 2, (200, 9)), generator.integers(-1, 2, (200, 9))
    given = ObservedLabels.from_ternary(observed)
    counts = count_positives(given, ObservedLabels.from_multi_hot(truth, unlisted="negative"))
    assert counts.observed.tolist() == (observed == 1).sum(0).tolist()
    assert counts.hidden.tolist() == ((truth == 1) & (observed != 1)).sum(0).tolist()
    assert counts.wrong.tolist() == ((truth == 0) & (observed == 1)).sum(0).tolist()
    alone = count_positives(given, None)
    assert alone.observed.tolist() == counts.observed.tolist()
    assert (alone.hidden, alone.wrong) == (None, None)


@pytest.fixture
def features(tmp_path):
    """Four training samples with 2, 3, 1 and 2 positives of five classes; two more of each other split."""
    labels = np.array([
        [1, 1, 0, 0, 0], [1, 1, 1, 0, 0], [0, 0, 0, 1, 0], [0, 0, 0, 1, 1],
        [1, 0, 0, 0, 0], [0, 1, 1, 0, 0], [1, 1, 1, 1, 1], [0, 0, 0, 0, 1],
    ])  # fmt: skip
    split = np.array(["train"] * 4 + ["val"] * 2 + ["test"] * 2)
    np.savez(tmp_path / "x.npz", X=np.arange(16.0).reshape(8, 2), Y=labels, split=split)
    return tmp_path / "x.npz"


SINGLE = {"unlisted": "negative", "observe": "single"}


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (SINGLE, LabelMeans(4, 2.0, 3.0, 1.0, 0.0, 1.0, 0.0)),
        ({**SINGLE, "observe_all_negatives": True}, LabelMeans(4, 2.0, 3.0, 1.0, 3.0, 1.0, 0.0)),
        # Each wrong positive hides one true label more.
        ({**SINGLE, "observe_noise": 0.999999}, LabelMeans(4, 2.0, 3.0, 1.0, 0.0, 2.0, 1.0)),
        ({}, LabelMeans(4, None, None, 2.0, 0.0, None, None)),
    ],
)
def test_means_of_labels(features, settings, expected):
    means = label_means(open_dataset(DataConfig(path=str(features), **settings)))
    assert means["train"] == expected
    if settings == SINGLE:
        assert means["val"] == LabelMeans(2, 1.5, 3.5, 1.0, 0.0, 0.5, 0.0)
        assert means["test"] == LabelMeans(2, 3.0, 2.0, 1.0, 0.0, 2.0, 0.0)


def test_the_report_has_them(features, tmp_path):
    inspection = inspect(DataConfig(path=str(features), unlisted="negative", observe="single"))
    assert inspection.label_means["val"] == LabelMeans(2, 1.5, 3.5, 1.0, 0.0, 0.5, 0.0)
    inspection.write(tmp_path)
    document = json.loads((tmp_path / "inspect.json").read_text())
    assert document["label_means"]["train"] == {
        "samples": 4, "positives": 2.0, "negatives": 3.0, "observed_positives": 1.0,
        "observed_negatives": 0.0, "hidden_positives": 1.0, "wrong_positives": 0.0,
    }  # fmt: skip
    refused = inspect(DataConfig(path=str(features), observe="single"))
    assert refused.refused
    assert refused.label_means == {}
