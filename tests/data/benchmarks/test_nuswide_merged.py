"""NUS-WIDE with both official sets merged and split at random."""

from __future__ import annotations

import json

import numpy as np
import pytest

from spml.common.errors import InputError
from spml.config import DataConfig
from spml.data import benchmarks as module
from spml.data import open_dataset
from spml.data.benchmarks import prepare, protocol_observed, protocol_split
from spml.data.readers import read
from tests.data.benchmarks.layouts import TEST, TRAIN, formatted_nuswide, nuswide


def read_merged(root):
    return read(DataConfig(path=str(prepare("nuswide-merged", root))))


def parts_of(records):
    """Files of the training (with validation) and of the test set."""
    split = np.array(records.split)
    ids = np.array(records.ids)
    return ids[split != "test"].tolist(), ids[split == "test"].tolist()


def test_both_sets_are_merged_and_split_in_the_published_proportion(tmp_path):
    expected = nuswide(tmp_path)
    records = read_merged(tmp_path)
    train, test = parts_of(records)
    every = dict([*expected.train, *expected.test])
    # 28 images * 150,000 / 210,260 = 19.97.
    assert (len(train), len(test)) == (20, 8)
    assert sorted([*train, *test]) == sorted(every)
    names = records.labels.to_names(range(4))
    assert dict(zip(records.ids, names, strict=True)) == every
    assert records.labels.full
    assert records.name == "nuswide-merged"
    assert records.classes == expected.classes
    # Files of both official sets are on both sides: the official split is gone.
    official_test = {file for file, _ in expected.test}
    assert 0 < len(official_test & {*train}) < TEST
    order = list(every)
    assert [order.index(file) for file in train] == sorted(order.index(file) for file in train)


def test_validation_and_observed_labels_are_those_of_the_protocol(tmp_path):
    nuswide(tmp_path)
    records = read_merged(tmp_path)
    rows = np.flatnonzero(np.array(records.split) != "test")
    assert np.flatnonzero(np.array(records.split) == "val").tolist() == protocol_split(20)[1].tolist()
    observed = protocol_observed(records.labels.take(rows))
    ternary = records.protocol.take(rows).to_ternary()
    assert [np.flatnonzero(row).tolist() for row in ternary] == [[c] if c >= 0 else [] for c in observed]
    data = open_dataset(
        DataConfig(path=str(tmp_path / "spml-nuswide-merged.json"), observe="protocol"), size=8
    )
    assert {name: len(samples) for name, samples in data.splits.items()} == {"train": 16, "val": 4, "test": 8}


def test_the_split_is_random_and_the_same_everywhere(tmp_path):
    """Pinned, so that results of two machines and versions can be compared."""
    nuswide(tmp_path)
    manifest = prepare("nuswide-merged", tmp_path)
    _, test = parts_of(read(DataConfig(path=str(manifest))))
    before = manifest.read_bytes()
    numbers = [int(file.rpartition("_")[0].rpartition("/")[2]) for file in test]
    assert numbers == [1, 6, 13, 50, 51, 52, 54, 56]
    assert prepare("nuswide-merged", tmp_path).read_bytes() == before


def test_as_many_images_of_each_official_set_as_published(tmp_path, monkeypatch):
    expected = nuswide(tmp_path)
    monkeypatch.setattr(module, "MERGED", {"Train": 10, "Test": 5})
    records = read_merged(tmp_path)
    kept = {*records.ids}
    assert len(kept & {file for file, _ in expected.train}) == 10
    assert len(kept & {file for file, _ in expected.test}) == 5
    train, test = parts_of(records)
    assert (len(train), len(test)) == (11, 4)  # 15 * 150,000 / 210,260 = 10.7
    assert "10 and 5 images of the official training and test sets were merged" in " ".join(records.notes)
    assert "both are draws of spml" in " ".join(records.notes)


def test_the_published_sizes_are_exact():
    total = sum(module.MERGED.values())
    assert total == module.TRAIN + module.TEST == 210_260
    assert round(total * module.TRAIN / (module.TRAIN + module.TEST)) == 150_000


def test_images_that_are_not_there_are_left_out(tmp_path):
    expected = nuswide(tmp_path)
    gone = [expected.train[0][0], expected.train[7][0], expected.test[3][0]]
    for file in gone:
        (tmp_path / file).unlink()
    records = read_merged(tmp_path)
    assert {*records.ids} == {file for file, _ in [*expected.train, *expected.test]} - {*gone}
    assert "3 listed images are not there and left out." in records.notes
    assert f"{TRAIN - 2} and {TEST - 1} images of the official" in " ".join(records.notes)


def test_formatted_lists_do_not_matter(tmp_path):
    expected = nuswide(tmp_path)
    alone = prepare("nuswide-merged", tmp_path).read_bytes()
    formatted_nuswide(tmp_path, expected, slice(0, 6))
    assert prepare("nuswide-merged", tmp_path).read_bytes() == alone
    notes = json.loads(prepare("nuswide", tmp_path).read_text())["notes"]
    assert "formatted lists" in notes[0]


def test_what_is_missing_is_named(tmp_path):
    with pytest.raises(InputError, match=r"nowhere: no such folder\. .*on request"):
        prepare("nuswide-merged", tmp_path / "nowhere")
    expected = nuswide(tmp_path)
    for file, _ in [*expected.train, *expected.test]:
        (tmp_path / file).unlink()
    with pytest.raises(
        InputError, match=r"Flickr: contains none of the images of the lists\. Download ImageList"
    ):
        prepare("nuswide-merged", tmp_path)
