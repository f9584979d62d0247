"""Splits: their names, and hold-outs of data without a split."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from spml.common.errors import InputError
from spml.config import DataConfig
from spml.data import open_dataset, splits
from spml.data.splits import compound_split_name, hold_out, split_name
from spml.labels import ObservedLabels
from tests.helpers.records import sizes_of


def held_out(labels, share=0.2, seed=0, part="val"):
    """Number of known positives of each class, and how many of them are held out."""
    mask = hold_out(labels, share, seed, part)
    return mask, labels.positives_per_class(), labels.take(np.flatnonzero(mask)).positives_per_class()


def several(count, classes, seed=0):
    """Labels with one to three positives per sample, of which some classes are rare."""
    rng = np.random.default_rng(seed)
    columns = np.minimum(rng.zipf(1.4, (count, 3)), classes) - 1
    dense = np.zeros((count, classes), np.int8)
    np.put_along_axis(dense, columns, 1, axis=1)
    return ObservedLabels.from_multi_hot(dense)


def test_hold_out():
    labels = ObservedLabels.from_index(np.arange(1000) % 4, 4)
    mask = hold_out(labels, 0.2, 0)
    assert mask.sum() == 200
    assert (hold_out(labels, 0.2, 0) == mask).all()
    assert (hold_out(labels, 0.2, 1) != mask).any()
    assert mask[:500].sum() == pytest.approx(100, abs=30)
    two = ObservedLabels.from_index([0] * 13, 2)
    assert hold_out(two, 0.2, 0).sum() == 3, "round(2.6)"
    others = hold_out(ObservedLabels.from_index(np.arange(100) % 7, 7), 0.2, 0, stratify=False)
    assert (
        hold_out(ObservedLabels.from_index(np.zeros(100, int), 2), 0.2, 0, stratify=False) == others
    ).all()
    assert np.flatnonzero(others)[:5].tolist() == [6, 20, 29, 33, 43]  # as in earlier versions
    assert hold_out(two.take([0, 1]), 0.2, 0).sum() == 1
    with pytest.raises(InputError, match="1 training sample is too few to hold out 20%"):
        hold_out(two.take([0]), 0.2, 0)


@pytest.mark.parametrize("share", [0.1, 0.2, 0.5])
def test_every_class_gives_its_share(share):
    index = np.repeat(np.arange(6), [500, 200, 37, 9, 4, 2])
    mask, total, held = held_out(ObservedLabels.from_index(index, 6), share)
    assert mask.sum() == round(share * len(index))
    assert (np.abs(held - share * total) <= 1).all()


def test_fractions_of_samples_add_up_over_rare_classes():
    """Of 100 classes with two samples each, a fifth of the samples: 40 classes give one."""
    mask, _, held = held_out(ObservedLabels.from_index(np.arange(200) % 100, 100))
    assert mask.sum() == 40
    assert sorted(held.tolist()) == [0] * 60 + [1] * 40


def test_the_last_sample_of_a_class_is_never_held_out():
    index = [0] * 10 + list(range(1, 21))
    _, _, held = held_out(ObservedLabels.from_index(index, 21), 0.3)
    assert held.tolist() == [9] + [0] * 20, "round(.3 * 30) from the only class that can give"
    mask, _, _ = held_out(ObservedLabels.from_index(index, 21), 0.5)
    assert mask.sum() == 9, "15 are asked for"
    with pytest.raises(InputError, match="none of the 3 training samples can be held out for the test"):
        hold_out(ObservedLabels.from_index([0, 1, 2], 3), 0.4, 0, "test")


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("share", [0.05, 0.2, 0.6, 0.9])
def test_several_labels_per_sample(share, seed):
    labels = several(400, 60, seed)
    mask, total, held = held_out(labels, share, seed)
    assert (held[total > 0] < total[total > 0]).all()
    if share <= 0.6:
        assert mask.sum() == round(share * 400)
    if share == 0.2:
        drawn = np.random.default_rng(seed).permutation(400)[:80]
        chance = labels.take(drawn).positives_per_class()
        assert np.abs(held - share * total).mean() < 0.7 * np.abs(chance - share * total).mean()


def test_samples_without_a_known_positive_are_a_stratum():
    dense = np.zeros((100, 2), np.int8)
    dense[:50, 0] = dense[:10, 1] = 1
    for labels in (ObservedLabels.from_multi_hot(dense), ObservedLabels.from_multi_hot(dense[:, :1])):
        mask = hold_out(labels, 0.2, 3)
        assert mask.sum() == 20
        assert mask[50:].sum() == 10


def test_overlapping_classes_do_not_lose_their_last_sample():
    """Both classes have the same two samples, of which a share of 3/4 may take one only."""
    dense = np.zeros((8, 3), np.int8)
    dense[:2, :2] = 1
    dense[2:, 2] = 1
    mask, total, held = held_out(ObservedLabels.from_multi_hot(dense), 0.75)
    assert (held < total).all()
    assert mask.sum() == 6


@pytest.mark.parametrize("seed", range(4))
def test_classes_take_turns_as_in_slow_loops(seed):
    """Sechidis et al.: the class with the fewest samples left gives its share of them, then the next one."""
    labels, share = several(80, 12, seed), 0.3
    ties = np.random.default_rng(seed).permutation(12)
    rows = [np.flatnonzero(row).tolist() for row in labels.to_multi_hot()]
    free, chosen, wanted, drawn = set(range(80)), set(), 0.0, 0
    while left := Counter(c for sample in free for c in rows[sample]):
        column = min(left, key=lambda c: (left[c], ties[c]))
        have = [sample for sample in range(80) if column in rows[sample]]
        candidates = [sample for sample in have if sample in free]
        quota = min(max(0.0, share * len(have) - len(chosen.intersection(have))), len(candidates))
        wanted += quota
        number = min(max(math.floor(wanted + 0.5) - drawn, math.floor(quota)), math.ceil(quota))
        drawn += number
        chosen.update(candidates[:number])
        free.difference_update(have)
    of_class = [labels.positive_rows(column) for column in range(12)]
    result = splits._choose_by_class(labels.to_csr(), of_class, share, ties)
    assert np.flatnonzero(result).tolist() == sorted(chosen)


def test_many_samples_of_many_classes():
    rng = np.random.default_rng(0)
    index = rng.choice(1000, 200_000, p=(weights := 1 / np.arange(1, 1001)) / weights.sum())
    mask, total, held = held_out(ObservedLabels.from_index(index, 1000))
    assert mask.sum() == 40_000
    assert np.abs(held - 0.2 * total).max() <= 1


def test_split_names():
    assert [split_name(text) for text in (" Train", "VALID", "validation", "dev", "testing", "", "x")] == [
        "train", "val", "val", "val", "test", None, None,
    ]  # fmt: skip


def save(path, **arrays):
    rng = np.random.default_rng(0)
    labels = (rng.random((50, 3)) < 0.5).astype(np.uint8)
    labels[:, 0] = 1
    np.savez(path, X=rng.normal(size=(50, 4)).astype(np.float32), Y=labels, **arrays)
    return str(path)


def test_three_parts_of_the_requested_sizes(tmp_path):
    path = save(tmp_path / "x.npz")
    config = DataConfig(path=path, unlisted="negative", test_share=0.3, val_share=0.2)
    data, again, other = map(open_dataset, (config, config, replace(config, split_seed=1)))
    assert sizes_of(data) == {"train": 28, "val": 7, "test": 15}
    assert len({name for samples in data.splits.values() for name in samples.ids}) == 50
    for name, samples in data.splits.items():
        assert again.splits[name].ids == samples.ids != other.splits[name].ids
    assert "test" in data.truth
    assert "test" not in open_dataset(replace(config, test_share=0)).splits
    with pytest.raises(InputError, match=r"too few to hold out 100% for the test.*data.test_share"):
        open_dataset(replace(config, test_share=0.995))
    save(tmp_path / "x.npz", test=np.arange(50) < 5)
    with pytest.raises(InputError, match=r"test samples of its own.*leave it out"):
        open_dataset(config)


def test_the_two_draws_are_pinned_and_differ():
    """Another draw would change the splits of existing data."""
    labels = ObservedLabels.from_index(np.arange(12) % 3, 3)
    assert np.flatnonzero(hold_out(labels, 0.3, 0)).tolist() == [4, 6, 10, 11]
    assert np.flatnonzero(hold_out(labels, 0.3, 0, "test")).tolist() == [2, 3, 4, 9]
    assert np.flatnonzero(hold_out(several(12, 4), 0.3, 0)).tolist() == [1, 4, 8, 10]
    assert hold_out(labels, 0.01, 0).sum() == 1, "at least one sample is held out"


def test_validation_is_stratified_by_what_is_observed_and_the_test_by_what_is_true(tmp_path):
    """The one observed label of class 1 stays in training, although seven samples have the class."""
    truth = np.ones((40, 2), int)
    truth[7:, 1] = 0
    np.savez(tmp_path / "x.npz", X=np.eye(40), Y=truth)
    config = DataConfig(path=f"{tmp_path}/x.npz", unlisted="negative", val_share=0.5, test_share=0.25)
    for seed in range(8):
        data = open_dataset(replace(config, observe="single", observe_seed=seed, split_seed=seed))
        test = data.truth["test"].positives_per_class()
        assert test.tolist() in ([10, 1], [10, 2])
        observed = sum(data.splits[name].observed.positives_per_class() for name in ("train", "val"))
        assert (observed[1] > 0) == (data.splits["train"].observed.positives_per_class()[1] > 0)
        unseen = "1 class has no known positive in training and can't be learned: 1."
        assert (unseen in data.notes) == (observed[1] == 0)


def test_note_if_fewer_can_be_held_out(tmp_path):
    np.savez(tmp_path / "x.npz", X=np.eye(8), Y=np.eye(7, dtype=int)[[0, 0, 1, 2, 3, 4, 5, 6]])
    data = open_dataset(DataConfig(path=f"{tmp_path}/x.npz", val_share=0.5))
    assert len(data.splits["val"]) == 1
    assert (
        "50% of the training samples are held out for validation (seed 0). They are 1 instead of 4: each of "
        "the others is the last one of a class." in data.notes
    )


def test_unseen_classes(table):
    lines = ("file,label,split", "a.png,cat,train", "b.png,dog,train", "c.png,cat,val", "d.png,dog,val")
    assert "can't be learned" not in " ".join(open_dataset(DataConfig(path=str(table(*lines)))).notes)
    wide = ("file,cat,dog,cow,split", "a.png,1,,,train", "b.png,,1,,train", "c.png,1,1,1,val")
    data = open_dataset(DataConfig(path=str(table(*wide))))
    assert "1 class has no known positive in training and can't be learned: cow." in data.notes


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("train", ("train", "")),
        ("Validation Set", ("val", "")),
        ("val2017", ("val", "")),
        ("test_images", ("test", "")),
        ("TrainImages", ("train", "")),
        ("trainset", ("train", "")),
        ("seg_train", ("train", "seg")),
        ("instances_val2017", ("val", "instances")),
        ("train_station", ("train", "station")),
        ("testtube", None),
        ("train_val", None),
        ("dataset", None),
        ("", None),
    ],
)
def test_compound_names(text, expected):
    assert compound_split_name(text) == expected
