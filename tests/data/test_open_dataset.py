"""From a path to a data set: recognition, splits, hidden labels, skipped images."""

from __future__ import annotations

import os
from dataclasses import replace

import numpy as np
import pytest

from spml.common.errors import InputError
from spml.config import DataConfig
from spml.data import Augment, open_dataset, open_inputs, start_opening
from spml.data.names import FilesBelow
from tests.helpers.records import observed_of, sizes_of


@pytest.fixture
def features(tmp_path):
    def write(name="x.npz", rows=40, **arrays):
        generator = np.random.default_rng(0)
        labels = generator.integers(0, 2, (rows, 3))
        given = {
            "X": generator.normal(size=(rows, 5)),
            "Y": labels,
            "classes": np.array(["a", "b", "c"]),
            **arrays,
        }
        np.savez(tmp_path / name, **given)
        return str(tmp_path / name), given

    return write


def test_hidden_labels_and_truth(features):
    path, given = features()
    config = DataConfig(path=path, unlisted="negative", observe="single", observe_seed=4)
    data = open_dataset(config)
    kept = int((given["Y"].sum(axis=1) > 0).sum())
    assert kept < 40
    assert len(data.splits["train"]) + len(data.splits["val"]) == kept
    assert len(data.splits["val"]) == round(0.2 * kept)
    assert f"{40 - kept} samples with no known label were left out" in " ".join(data.notes)
    assert data.splits["train"].observed.single_positive
    for name, samples in data.splits.items():
        rows = [int(row) for row in samples.ids]
        assert (data.truth[name].to_multi_hot() == given["Y"][rows]).all()
        assert np.allclose(samples.inputs.fetch(range(len(rows)), None), given["X"][rows])
    again = open_dataset(replace(config, split_seed=1))
    assert again.splits["val"].ids != data.splits["val"].ids
    assert observed_of(again) == observed_of(data), "the split must not change what is observed"
    assert observed_of(open_dataset(replace(config, observe_seed=5))) != observed_of(data)
    draws = [open_dataset(replace(config, observe_seed=seed, test_share=0.3)) for seed in range(3)]
    assert len({data.splits["test"].ids for data in draws}) == 1, "what is hidden must not change the test"


def test_truth_is_there_for_fully_labelled_data_only(features):
    path, _ = features()
    assert open_dataset(DataConfig(path=path)).truth == {}
    full = open_dataset(DataConfig(path=path, unlisted="negative"))
    assert set(full.truth) == {"train", "val"}
    assert len(full.splits["train"]) == 32, "rows without a positive are known to be negative, so they stay"
    partial, _ = features("p.npz", Y=np.where(np.arange(120).reshape(40, 3) % 7 == 0, -1, 1))
    assert open_dataset(DataConfig(path=partial)).splits["train"].observed.full
    ternary, _ = features("t.npz", Y=np.arange(120).reshape(40, 3) % 3 - 1)
    assert open_dataset(DataConfig(path=ternary, unlisted="negative")).truth == {}


def test_a_split_has_truth_if_all_of_it_is_known(features):
    labels = np.where(np.arange(120).reshape(40, 3) % 4 == 0, 1, -1)
    labels[:20] = np.maximum(labels[:20], 0)
    path, _ = features("m.npz", Y=labels, test=np.arange(40) >= 20)
    data = open_dataset(DataConfig(path=path))
    assert set(data.truth) == {"test"}
    np.testing.assert_array_equal(data.truth["test"].to_ternary(), labels[20:])


def test_test_rows_without_label_stay(features):
    labels = np.tile([[1, 0, 1], [0, 1, 0], [0, 0, 0]], (10, 1))
    path, _ = features(rows=30, Y=labels, test=np.arange(30) >= 15)
    data = open_dataset(DataConfig(path=path, unlisted="negative", observe="single"))
    assert sizes_of(data) == {"train": 8, "val": 2, "test": 15}
    assert (data.truth["test"].to_multi_hot() == labels[15:]).all()


def test_given_validation_split_is_kept(features):
    split = np.array(["train"] * 30 + ["val"] * 6 + ["test"] * 4)
    path, _ = features(split=split, Y=np.ones((40, 3), int))
    data = open_dataset(DataConfig(path=path))
    assert data.splits["val"].ids == tuple(str(row) for row in range(30, 36))
    assert not any("held out" in note for note in data.notes)


ONES = np.ones((40, 3), int)


@pytest.mark.parametrize(
    ("arrays", "settings", "purpose", "message"),
    [
        ({"Y": 0 * ONES}, {}, "train", "no sample has a known positive"),
        ({"Y": ONES[:, :1], "classes": ["a"]}, {}, "train", "there is only one class, 'a'"),
        ({"test": ONES[:, 0]}, {}, "train", "no training sample is left"),
        ({}, {"observe": "single"}, "train", "unknown. If every true label is listed, pass data.unlisted"),
        ({"Y": np.full((40, 3), np.nan)}, {}, "evaluate", "none of its 40 samples can be used"),
    ],
)
def test_data_that_does_not_suit_its_purpose(features, arrays, settings, purpose, message):
    path, _ = features(**arrays)
    with pytest.raises(InputError) as caught:
        open_dataset(DataConfig(path=path, **settings), purpose=purpose)
    assert message in str(caught.value)


def test_class_of_the_test_set_only(table):
    path = table("file,label,split", "a.png,cat,train", "b.png,dog,train", "c.png,cow,test", "d.png,cat,val")
    with pytest.raises(InputError, match=r"csv: c\.png in the test split has the label 'cow', which no"):
        open_dataset(DataConfig(path=str(path)), size=8)
    data = open_dataset(DataConfig(path=str(path)), size=8, purpose="evaluate")
    assert {name: samples.ids for name, samples in data.splits.items()} == {
        "train": ("a.png", "b.png"), "val": ("d.png",), "test": ("c.png",),
    }  # fmt: skip
    alone = table("file,label", "a.png,cat", "b.png,cat")  # one class, and too few samples to hold any out
    data = open_dataset(DataConfig(path=str(alone), unlisted="negative"), size=8, purpose="evaluate")
    assert sizes_of(data) == {"test": 2} == {"test": len(data.truth["test"])}


def test_unreadable_images(tmp_path, picture):
    def opened(**options):
        config = {"unlisted": "negative", "observe": "single", "max_unreadable": 0.2, **options}
        return open_dataset(DataConfig(path=str(tmp_path), **config), size=8)

    for place in range(19):
        picture(f"{'cat' if place % 2 else 'dog'}/{place:02}.jpg", (64, 64))
    damaged, large = tmp_path / "cat/05.jpg", picture("dog/18.jpg", (80, 80))
    clean = {name: labels for name, labels in observed_of(opened()).items() if name != "cat/05.jpg"}
    damaged.write_bytes(damaged.read_bytes()[:-100])
    with pytest.raises(InputError, match=r"1 of 19 images can't be used, .*max_unreadable = 0.01") as caught:
        opened(max_unreadable=0.01)
    assert "cat/05.jpg (damaged: image file is truncated" in str(caught.value)
    data = opened()
    assert [name for name, _ in data.skipped] == ["cat/05.jpg"]
    assert any("1 of 19 images can't be used; skipped: cat/05.jpg (damaged" in note for note in data.notes)
    assert observed_of(data) == clean
    data = opened(max_pixels=6000)
    assert (
        dict(data.skipped)[f"dog/{large.name}"] == "80 x 80 = 6,400 pixels, more than data.max_pixels = 6,000"
    )
    assert sum(sizes_of(data).values()) == 17


def test_size_flip_and_report(tmp_path, picture, caplog):
    caplog.set_level("INFO", "spml")
    for name in "abcdef":
        picture(f"{'cat' if name in 'abc' else 'dog'}/{name}.png")
    data = open_dataset(DataConfig(path=str(tmp_path), size=12), size=8)
    assert caplog.messages == [f"{tmp_path}: checking 6 images"]
    train = data.splits["train"].inputs
    assert train.fetch([0], None).shape == (1, 3, 12, 12)
    assert any(not train.fetch([0], Augment(0, epoch)).equal(train.fetch([0], None)) for epoch in range(9))
    still = open_dataset(DataConfig(path=str(tmp_path), flip=False), size=8).splits["train"].inputs
    assert all(still.fetch([0], Augment(0, epoch)).equal(still.fetch([0], None)) for epoch in range(9))


def test_opening_in_two_halves_gives_the_same_data(tmp_path, picture, caplog):
    caplog.set_level("INFO", "spml")
    for name in "abcdef":
        picture(f"{'cat' if name in 'abc' else 'dog'}/{name}.png")
    (tmp_path / "cat/broken.png").write_bytes(b"")
    config = DataConfig(path=str(tmp_path), unlisted="negative", observe="single", max_unreadable=0.2)
    opening = start_opening(config)
    assert (opening.name, opening.classes) == (tmp_path.name, ("cat", "dog"))
    assert (opening.kind, opening.width, opening.decoded) == ("image", 3, True)
    assert caplog.messages == [], "no image has been decoded yet"
    for size, interpolation in ((8, "bilinear"), (20, "bicubic")):
        data = opening.finish(size=size, interpolation=interpolation)
        checked = len(caplog.messages)
        expected = open_dataset(config, size=size, interpolation=interpolation)
        assert data.fingerprint() == expected.fingerprint()
        del caplog.records[checked:]
        assert (data.notes, data.skipped) == (expected.notes, expected.skipped)
        assert (opening.kind, opening.width, opening.decoded) == (data.kind, data.width, data.decoded)
        assert data.splits["train"].inputs.fetch([0], None).shape == (1, 3, size, size)
    assert caplog.messages == [f"{tmp_path}: checking 7 images"], "images are checked once"


BOTH = pytest.mark.parametrize(
    "call", [lambda path: open_dataset(DataConfig(path=path)), lambda path: open_inputs([path])]
)


@BOTH
@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("", "No data given. Pass data.path"),
        ("nowhere/at/all", "no such file or folder. There is no folder nowhere/at either"),
        ("{}/dta.csv", r"dta\.csv: no such file or folder\. Did you mean data\.csv\?"),
        ("{}/" + "x" * 5000, "can't be opened|no such file"),
        ("{}/fifo", r"^/.*/fifo: is a device or a pipe, but must be a file or a folder\.$"),
        ("{}/\x1b[31m", r"^'/.*\\x1b\[31m': the name holds a control character\. Rename it\.$"),
    ],
)
def test_bad_paths(tmp_path, path, message, call):
    (tmp_path / "data.csv").write_text("")
    (tmp_path / "\x1b[31m").write_text("file,label\n")
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(InputError, match=message):
        call(path.format(tmp_path))


def test_inputs_for_prediction(tmp_path, picture):
    for name in ("in/b.png", "in/sub/a.jpg", "in/.hidden/c.png", "in/.x.png", "one.png"):
        picture(name)
    (tmp_path / "in" / "notes.txt").write_text("x")
    (tmp_path / "in" / "broken.png").write_bytes(b"broken")
    one, folder = f"{tmp_path}/one.png", f"{tmp_path}/in"
    ids, inputs, notes = open_inputs([one, folder, one], size=8)
    assert ids == (one, f"{folder}/b.png", f"{folder}/sub/a.jpg")
    assert isinstance(open_inputs([folder])[1].paths, FilesBelow), "no Python object per file of a folder"
    assert inputs.fetch(range(3), None).shape == (3, 3, 8, 8)
    assert inputs.fetch([1], Augment(0, 0)).equal(
        open_inputs([f"{folder}/b.png"], size=8)[1].fetch([0], None)
    )
    assert notes[:2] == (
        f"{folder}: 1 file is not read: 1 .txt.",
        f"{folder}: 2 hidden, system or linked entries are left out: .hidden, .x.png.",
    )
    assert len(notes) == 3
    assert notes[2].startswith(f"Skipped 1 image: {folder}/broken.png (not an image of a known format")


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ([], "Nothing to predict"),
        (["empty"], "empty: holds no image"),
        (["x.png"], r"No usable image among 1 file: .*x\.png \(not an image"),
        (["x.npz", "x.png"], r"x\.npz: a \.npz file must be given alone"),
    ],
)
def test_bad_inputs_for_prediction(tmp_path, features, names, message):
    path, given = features()
    (tmp_path / "empty").mkdir()
    (tmp_path / "x.png").write_bytes(b"broken")
    with pytest.raises(InputError, match=message):
        open_inputs([f"{tmp_path}/{name}" for name in names])
    ids, inputs, notes = open_inputs([path])
    assert (len(ids), notes) == (40, ())
    assert np.allclose(inputs.fetch([3], None), given["X"][[3]])


def test_samples_without_a_label_are_left_out_and_listed(features, table):
    labels = np.full((40, 3), np.nan)
    labels[:, 0] = 1
    labels[20:, 1] = 0
    labels[::2, 2] = 1
    labels[[3, 17, 30, 31]] = np.nan
    split = np.array(["train"] * 30 + ["test"] * 10)
    path, _ = features(Y=labels, split=split)
    data = open_dataset(DataConfig(path=path))
    assert data.skipped == tuple((name, "no label") for name in ("3", "17", "30", "31"))
    assert (
        "4 of 40 samples have no label, so that nothing is known about them: 3, 17, 30, ...; left out."
        in (data.notes)
    )
    assert len(data.splits["test"]) == 8, "test samples, too"
    assert len(data.splits["train"]) + len(data.splits["val"]) == 28
    with pytest.raises(InputError, match=r"4 of 40 samples have no label.*3, 17, 30.*data\.unlabelled=skip"):
        open_dataset(DataConfig(path=path, unlabelled="stop"))
    assert len(open_dataset(DataConfig(path=path), purpose="evaluate").splits["test"]) == 8
    path = table("file,labels", "a.png,x;y", "b.png,", "c.png,y", "d.png,x", "e.png,x")
    data = open_dataset(DataConfig(path=str(path)), size=8)
    assert data.skipped == (("b.png", "no label"),)
    for policy in ("skip", "stop"):
        full = open_dataset(DataConfig(path=str(path), unlisted="negative", unlabelled=policy), size=8)
        assert full.skipped == (), "an empty list of labels says that none applies"
        assert sum(map(len, full.splits.values())) == 5
