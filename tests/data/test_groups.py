"""Groups: no part has a part of one, whatever their sizes; reading them; mistakes in them."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from spml.common.errors import InputError
from spml.config import DataConfig
from spml.data import inspect, open_dataset
from spml.data.groups import deal_groups, group_codes, group_names
from spml.data.memory import read_memory
from spml.data.readers import read
from spml.data.splits import hold_out
from spml.data.writers import write
from spml.labels import ObservedLabels
from tests.helpers.records import opened


def drawn(seed, count=600, largest=25, classes=20):
    """Labels of samples, of which some classes are rare, and groups of random sizes in random order."""
    rng = np.random.default_rng(seed)
    labels = np.zeros((count, classes), np.int8)
    np.put_along_axis(labels, np.minimum(rng.zipf(1.4, (count, 3)), classes) - 1, 1, axis=1)
    sizes = rng.integers(1, largest + 1, count)
    groups = rng.permutation(np.repeat(np.arange(count), sizes)[:count])
    return ObservedLabels.from_multi_hot(labels), groups


def each_in_one_part(groups, parts):
    return all(len(np.unique(parts[groups == group])) == 1 for group in np.unique(groups))


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("largest", [2, 40])
@pytest.mark.parametrize("parts", [2, 11])
def test_parts_have_whole_groups_and_their_share_of_samples_and_classes(largest, parts, seed):
    labels, groups = drawn(seed, largest=largest)
    part = deal_groups(groups, labels.entries(1), parts, "test", seed)
    assert each_in_one_part(groups, part)
    sizes = np.bincount(part, minlength=parts)
    assert np.ptp(sizes) <= largest + 2, "about as even as the groups allow"
    rng = np.random.default_rng(seed)
    by_chance = [rng.integers(0, parts, groups.max() + 1)[groups] for _ in range(20)]
    distances = []
    for dealt in (part, *by_chance):
        counts = [labels.take(np.flatnonzero(dealt == k)).positives_per_class() for k in range(parts)]
        distances.append(np.abs(np.array(counts) - labels.positives_per_class() / parts).mean())
    assert distances[0] < 0.7 * np.mean(distances[1:]), "closer to the same share than groups at random"
    again = deal_groups(groups, labels.entries(1), parts, "test", seed)
    assert (again == part).all()
    other = deal_groups(groups, labels.entries(1), parts, "test", seed + 1)
    assert (other != part).any()


def test_every_part_gets_a_group_even_if_one_group_has_nearly_all_samples():
    groups = np.array([0] * 100 + [1, 2, 3])
    part = deal_groups(groups, ObservedLabels.from_index([0] * 103, 2).entries(1), 4, "test")
    assert sorted(np.bincount(part)) == [1, 1, 1, 100]


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("share", [0.1, 0.5])
@pytest.mark.parametrize("stratify", [True, False])
def test_whole_groups_are_held_out(share, stratify, seed):
    labels, groups = drawn(seed)
    mask = hold_out(labels, share, seed, stratify=stratify, groups=groups)
    assert each_in_one_part(groups, mask)
    largest = np.bincount(groups).max()
    assert abs(mask.sum() - share * len(groups)) <= largest / 2 + 1
    total, held = labels.positives_per_class(), labels.take(np.flatnonzero(mask)).positives_per_class()
    if stratify:
        assert (held[total > 0] < total[total > 0]).all(), "training keeps one of every class"
        common = total >= 50
        assert common.sum() >= 3
        assert np.abs(held[common] / total[common] - share).max() < 0.1
    else:
        others = hold_out(labels.take(np.arange(600)[::-1]), share, seed, stratify=False, groups=groups)
        assert (others == mask).all(), "labels change nothing"


@pytest.mark.parametrize("seed", range(5))
def test_training_keeps_every_class_even_if_most_samples_are_held_out(seed):
    labels, groups = drawn(seed, largest=5)
    mask = hold_out(labels, 0.9, seed, groups=groups)
    assert each_in_one_part(groups, mask)
    total, held = labels.positives_per_class(), labels.take(np.flatnonzero(mask)).positives_per_class()
    assert mask.mean() > 0.7
    assert (held[total > 0] < total[total > 0]).all()


def test_groups_of_one_sample_change_nothing():
    labels, _ = drawn(0)
    for stratify in (True, False):
        alone = hold_out(labels, 0.2, 3, stratify=stratify, groups=np.arange(600)[::-1])
        assert (alone == hold_out(labels, 0.2, 3, stratify=stratify)).all()


def test_a_group_that_is_larger_than_what_is_held_out():
    one = ObservedLabels.from_index([0, 1] * 50, 2)
    groups = np.array([0] * 90 + [1] * 10)
    assert np.flatnonzero(hold_out(one, 0.2, 0, groups=groups)).tolist() == list(range(90, 100))
    halves = np.array([0] * 60 + [1] * 40)
    assert hold_out(one, 0.1, 0, groups=halves).sum() == 40, "the smallest, since one is held out at least"


def test_groups_that_can_not_be_held_out():
    with pytest.raises(InputError, match=r"all 6 training samples are in one group .*leave data.group out"):
        hold_out(ObservedLabels.from_index([0, 1] * 3, 2), 0.2, 0, groups=np.zeros(6, int))
    own = ObservedLabels.from_index([0, 0, 1, 1], 2)
    with pytest.raises(InputError, match=r"each of the 2 groups .*none can be held out.*the test.*stratify"):
        hold_out(own, 0.2, 0, "test", groups=np.array([0, 0, 1, 1]))
    assert hold_out(own, 0.2, 0, stratify=False, groups=np.array([0, 0, 1, 1])).sum() == 2


def test_codes_and_names():
    names = group_names(["a", 3.0, None, "a", "NA", 3, " ", float("nan")])
    assert names == ("a", "3", "", "a", "", "3", "", "")
    assert group_codes(names).tolist() == [0, 1, 2, 0, 3, 1, 4, 5]


# -- reading -----------------------------------------------------------------------------------------------

ROWS = ("file,label,patient", "a.png,cat,p1", "b.png,dog,p1", "c.png,cat,p2", "d.png,dog,p2", "e.png,cat,")


def test_a_column_of_a_table(table):
    path = table(*ROWS)
    config = DataConfig(path=str(path), group="patient")
    records = read(config)
    assert records.groups == ("p1", "p1", "p2", "p2", "")
    assert records.classes == ("cat", "dog"), "the column is no class"
    assert not any("not used" in note for note in records.notes)
    data = open_dataset(config, size=8)
    train, val = (data.splits[name].groups for name in ("train", "val"))
    assert set(train).isdisjoint(val)
    assert sorted([*train, *val]) == [0, 0, 1, 1, 2]
    assert "3 groups by 'patient', the largest of 2 samples." in data.notes
    assert data.fingerprint() != open_dataset(replace(config, group=""), size=8).fingerprint()
    found = inspect(config)
    assert (found.groups, found.to_dict()["groups"]) == (3, 3)
    assert inspect(replace(config, group="")).groups == 0


def test_several_rows_of_an_image(table):
    path = table("file,label,who", "a.png,cat,", "a.png,dog,x", "b.png,cat,y", "b.png,dog,y")
    assert opened(path, group="WHO").groups == ("x", "y")
    again = ("file,label,who", "a.png,cat,x", "b.png,dog,y", "a.png,dog,y")
    for lines, group, message in (
        (again, "who", "rows 2 and 4 both name 'a.png', with different groups, 'x' and 'y'"),
        (ROWS, "patent", r"data.group=patent: no column .*Did you mean patient\?"),
    ):
        with pytest.raises(InputError, match=message):
            opened(table(*lines), group=group)


def test_formats_without_groups_name_those_that_have_them(folder_of):
    path = folder_of("cat/1.png dog/2.png", {})
    with pytest.raises(InputError, match=r"data.group=who: groups are read from a column of a table \(CSV"):
        opened(path, group="who")


def test_groups_that_have_no_effect_are_noted(table):
    path = table("file,label,n", *(f"{name}.png,{label},{k}" for k, (name, label) in enumerate(
        zip("abcde", ("cat", "dog", "cat", "dog", "cat"), strict=True))))  # fmt: skip
    data = open_dataset(DataConfig(path=str(path), group="n"), size=8)
    alone = open_dataset(DataConfig(path=str(path)), size=8)
    assert "5 groups by 'n', the largest of 1 sample, so groups have no effect." in data.notes
    assert data.splits["val"].ids == alone.splits["val"].ids


def test_a_split_that_separates_groups(tmp_path):
    config = features(tmp_path, split=["train"] * 8 + ["val", "test"])
    note = next(note for note in open_dataset(config).notes if note.startswith("Groups in several"))
    assert re.search(r": 2 of 3, such as 'a', which makes", note)
    whole = open_dataset(replace(config, split="ignore", test_share=0.2))
    assert not any(note.startswith("Groups in several") for note in whole.notes)
    own = [set(samples.groups) for samples in whole.splits.values()]
    assert sum(map(len, own)) == len(set.union(*own)) == 3


def features(tmp_path, **arrays):
    """Settings of ten samples of three groups."""
    path, names = tmp_path / "f.npz", ["a", "b", "b", "b", "c", "c", "c", "c", "a", "b"]
    labels = np.eye(2, dtype=int)[[0, 1] * 5]
    np.savez(path, X=np.arange(30.0).reshape(10, 3), Y=labels, **{"who": np.array(names), **arrays})
    return DataConfig(path=str(path), group="who")


def test_the_number_that_is_reached_is_noted(tmp_path):
    notes = open_dataset(replace(features(tmp_path), val_share=0.3)).notes
    assert any(
        "They are 4 instead of 3, because groups stay whole (1 of 3 groups)." in note for note in notes
    )
    notes = open_dataset(features(tmp_path)).notes
    assert not any("instead of" in note for note in notes)


def test_an_array_of_a_feature_file(tmp_path):
    config = features(tmp_path)
    assert read(config).groups == ("a", "b", "b", "b", "c", "c", "c", "c", "a", "b")
    assert read(replace(config, group="")).groups is None
    assert read(features(tmp_path, who=np.arange(10) // 4)).groups == tuple("0000111122")
    for array, message in (
        (np.arange(10.0), r"who must hold strings: got float64 \(10,\)"),
        (np.arange(9), "who must hold 10 strings, one per row; it holds 9"),
    ):
        with pytest.raises(InputError, match=message):
            read(features(tmp_path, who=array))
    with pytest.raises(InputError, match=r"data.group=when: there is no array of this name.* 10 rows"):
        read(replace(config, group="when"))


def test_groups_in_memory():
    X, y = np.arange(12.0).reshape(6, 2), list("ababab")
    expected = ("1", "1", "2", "2", "", "3")
    for groups in ([1, 1, 2, 2, None, 3], pd.Series([1, 1, 2, 2, pd.NA, 3], dtype="Int64")):
        assert read_memory(X, y, DataConfig(), groups=groups).groups == expected
    frame = pd.DataFrame({"x": X[:, 0], "who": [1, 1, 2, 2, None, 3], "y": y})
    records = read_memory(frame, "y", DataConfig(group="who"))
    assert (records.groups, records.feature_names) == (expected, ("x",))
    for samples, labels, name, groups, message in (
        (X, y, "", [1, 2], "X has 6 samples, but groups has 2 entries"),
        (X, y, "", [(1, 2)] * 6, r"groups\[0\] is .*tuple.* name the group of each sample"),
        (X, y, "who", None, r"data\.group names a column of a DataFrame X"),
        (frame, "y", "wo", None, r"data\.group: there is no column 'wo'"),
    ):
        with pytest.raises(InputError, match=message):
            read_memory(samples, labels, DataConfig(group=name), groups=groups)


@pytest.mark.parametrize(("form", "name"), [("csv", "out.csv"), ("nan", "out.npz"), ("coco", "out.json")])
def test_groups_are_written_and_read_back(table, form, name):
    records = opened(table(*ROWS), group="patient")
    output = table().with_name(name)
    notes = write(records, output, form)
    if form == "coco":
        assert "Groups are not written, because COCO JSON has no place for them." in notes
        return
    assert "Groups are written: read them with data.group=group." in notes
    back = opened(output, group="group")
    assert (back.groups, back.labels, back.ids) == (records.groups, records.labels, records.ids)
