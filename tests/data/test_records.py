"""Data without its split, and with some of its rows and classes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from spml.common.errors import InputError
from spml.config import DataConfig
from spml.data import open_dataset
from spml.data.readers import read
from spml.data.records import Objects, Records, move_classes, take_rows
from spml.labels import ObservedLabels
from tests.helpers.records import sizes_of


@pytest.fixture
def features(tmp_path):
    """Function that writes 60 samples with 8 classes of falling frequency, and returns settings for them."""
    rng = np.random.default_rng(0)
    given = {
        "X": np.arange(60.0)[:, None] + np.zeros((1, 2)),
        "Y": (rng.random((60, 8)) < np.linspace(0.6, 0.05, 8)).astype(int),
        "split": np.array(["train"] * 30 + ["val"] * 10 + ["test"] * 20),
    }
    given["Y"][:, 7] = 0

    def settings(unlisted="negative", **options):
        np.savez(tmp_path / "x.npz", **given)
        return DataConfig(path=f"{tmp_path}/x.npz", unlisted=unlisted, **options)

    settings.given = given
    return settings


def test_the_split_is_ignored(features):
    config = features(split="ignore", test_share=0.25)
    assert "x.npz: the split is ignored." in read(config).notes
    data = open_dataset(config)
    assert sizes_of(data) == {"train": 36, "val": 9, "test": 15}
    rows = sorted(int(row) for part in data.splits.values() for row in part.ids)
    assert rows == list(range(60))
    assert any(int(row) < 40 for row in data.splits["test"].ids)


def test_a_folder_split_is_ignored(picture, tmp_path):
    for name in ("train/dog/1", "train/cat/2", "val/dog/3", "test/cat/4", "test/dog/5"):
        picture(f"{name}.png")
    config = DataConfig(path=str(tmp_path), split="ignore")
    assert read(config).split is None
    assert read(config).notes[-1] == "The split of the data is ignored: test 2, train 2, val 1."
    data = open_dataset(config, purpose="evaluate", size=8)
    assert len(data.splits["test"]) == 5


def test_a_protocol_keeps_its_split(features):
    with pytest.raises(InputError, match=r"data\.split=ignore contradicts data\.observe=protocol"):
        read(features(split="ignore", observe="protocol"))


def test_rows_are_drawn(features):
    assert len(read(features()).notes) == 3
    records = read(features(sample_rows=20))
    rows = [int(row) for row in records.ids]
    assert rows == sorted({*rows})
    assert len(rows) == 20
    assert (records.labels.to_multi_hot() == features.given["Y"][rows]).all()
    assert records.inputs.fetch(range(20), None)[:, 0].tolist() == rows
    assert records.split == tuple(features.given["split"][rows].tolist())
    assert records.notes[-1] == "20 of 60 samples drawn (seed 0)."
    assert read(features(sample_rows=20)).ids == records.ids
    assert read(features(sample_rows=20, sample_seed=1)).ids != records.ids
    assert len(read(features(sample_rows=100)).ids) == 60
    rest = take_rows(replace(records, protocol=records.labels), np.array([1, 5]))
    assert rest.protocol == rest.labels


def test_a_class_may_lose_its_training_samples_by_the_draw(table):
    lines = ("a.png,x,train", "b.png,y,train", "c.png,y,train", "d.png,x,val", "e.png,z,train")
    path = table("file,label,split", *lines)
    for seed in range(6):
        config = DataConfig(path=str(path), sample_rows=3, sample_seed=seed)
        records = read(config)
        assert records.classes == ("x", "y", "z")
        assert records.classes_given, "so that a class which is in the val split only is no mistake"
        assert tuple(path.name for path in records.inputs) == records.ids


def test_boxes_follow_rows_and_classes():
    boxes = Objects(np.array([0, 1, 1, 2, 2]), np.array([0, 1, 2, 2, 0]), np.arange(5) / 10, np.zeros(5))
    labels = ObservedLabels.from_ternary(np.ones((3, 3), np.int8))
    files = tuple(map(Path, "abc"))
    records = Records("x", "x", tuple("abc"), files, ("c1", "c2", "c3"), True, labels, None, objects=boxes)
    rest = take_rows(records, np.array([0, 2])).objects
    assert (rest.row.tolist(), rest.column.tolist()) == ([0, 1, 1], [0, 2, 0])
    assert rest.area.tolist() == [0, 0.3, 0.4]
    fewer = move_classes(records, np.array([0, -1, 1]), ("c1", "c3")).objects
    assert (fewer.row.tolist(), fewer.column.tolist()) == ([0, 1, 2, 2], [0, 1, 1, 0])
    assert fewer.area.tolist() == [0, 0.2, 0.3, 0.4]


def test_hiding_follows_the_draw(features):
    data = open_dataset(features(sample_rows=30, observe="single", split="ignore"))
    assert data.splits["train"].observed.single_positive
