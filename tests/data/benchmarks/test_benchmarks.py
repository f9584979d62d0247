"""The four benchmarks: miniature copies of their official layouts are prepared, trained on and evaluated."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

import spml
from spml.common.errors import InputError
from spml.config import DataConfig
from spml.data import benchmarks, open_dataset
from spml.data import benchmarks as module
from spml.data.benchmarks import BENCHMARKS, prepare, protocol_observed, protocol_split
from tests.data.benchmarks.layouts import LAYOUTS, TEST, TRAIN, formatted_nuswide, nuswide
from tests.helpers.hidden import full_of
from tests.helpers.records import opened, sizes_of

NAMES = tuple(LAYOUTS)


@pytest.mark.parametrize("name", NAMES)
def test_rows_labels_split_and_observed_labels(prepared, name):
    root, expected, path, _ = prepared[name]
    assert path == root / f"spml-{name}.json"
    records = opened(path)
    rows = [*expected.train, *expected.test]
    assert records.name == name
    assert records.classes == expected.classes
    assert records.ids == tuple(file for file, _ in rows)
    assert records.inputs == tuple(root / file for file, _ in rows)
    labels = full_of([columns for _, columns in rows], len(expected.classes))
    assert records.labels == labels
    assert records.labels.full
    train, val = protocol_split(len(expected.train))
    split = np.array(["train"] * len(expected.train) + ["test"] * len(expected.test), dtype="U5")
    split[val] = "val"
    assert records.split == tuple(split)
    assert (split[train] == "train").all()
    count = len(expected.train)
    observed = np.concatenate(
        [protocol_observed(labels.take(part)) for part in (np.arange(count), np.arange(count, len(rows)))]
    )
    ternary = records.protocol.to_ternary()
    for row, column in enumerate(observed):
        assert np.flatnonzero(ternary[row]).tolist() == ([column] if column >= 0 else [])
    assert (ternary >= 0).all()
    order = list(records.ids[:count])  # of COCO: ids as strings; of others: that of their lists
    if name == "coco2014":
        assert [int(file[-16:-4]) for file in order[:5]] == [1, 10, 1090, 1297, 145]
    assert (order == sorted(order)) == (name == "voc2012")


@pytest.mark.parametrize("name", NAMES)
def test_statistics_and_messages(prepared, name):
    _, expected, path, messages = prepared[name]
    content = json.loads(path.read_text())
    mean = np.mean([len(columns) for _, columns in expected.train])
    assert content["statistics"]["official_train"] == {
        "images": len(expected.train), "mean_labels": pytest.approx(mean, abs=1e-4)
    }  # fmt: skip
    assert [content["statistics"][part]["images"] for part in ("train", "val", "test")] == [
        len(expected.train) - round(0.2 * len(expected.train)), round(0.2 * len(expected.train)), TEST
    ]  # fmt: skip
    published = BENCHMARKS[name]
    difference = f"{TRAIN} training images instead of {published.train:,}; {TEST} test images instead of"
    assert difference in messages[-5]
    assert messages[-5] in content["notes"]
    assert messages[-1] == f"official_train: {TRAIN} images, {mean:.2f} labels per image"


def test_train_and_evaluate(prepared, tmp_path):
    _, expected, path, _ = prepared["voc2012"]
    run = spml.train(
        path, method="an", epochs=1, batch_size=8, threads=1, output=str(tmp_path / "run"), quiet=True,
        model={"backbone": "small_cnn"}, data={"observe": "protocol", "size": 32, "workers": 0},
    )  # fmt: skip
    assert run.classes == expected.classes
    summary = json.loads((run.folder / "summary.json").read_text())
    assert summary["selected"]["mode"] == "observed"
    assert {"mAP"} <= set(summary["test"])
    metrics = run.evaluate(path, workers=0)
    assert (metrics["samples"], metrics["labels"]) == (TEST, "full")
    assert metrics["mAP"] == pytest.approx(summary["test"]["mAP"])
    # As in publications: a class without positives counts as 0.
    assert metrics["mAP"] == pytest.approx(sum(metrics["AP"].values()) / len(expected.classes))


def test_observe_protocol_gives_the_labels_of_the_protocol(prepared):
    _, expected, path, _ = prepared["nuswide"]
    data = open_dataset(DataConfig(path=str(path), observe="protocol"), size=8)
    position = {file: row for row, (file, _) in enumerate(expected.train)}
    observed = protocol_observed(full_of([columns for _, columns in expected.train], 4))
    none = 0
    for name in ("train", "val"):
        samples = data.splits[name]
        for file, row in zip(samples.ids, samples.observed.to_ternary(), strict=True):
            column = observed[position[file]]
            assert np.flatnonzero(row).tolist() == ([column] if column >= 0 else [])
            none += column < 0
    assert none == 1, "the image without a label stays: the protocol fixes the training images"
    assert len(data.splits["train"]) == 16
    single = open_dataset(DataConfig(path=str(path), observe="single"), size=8)
    assert len(single.splits["train"]) + len(single.splits["val"]) == TRAIN - 1
    plain = open_dataset(DataConfig(path=str(path)), size=8)
    assert plain.splits["train"].observed.full


def test_formatted_lists_of_nuswide_come_first(tmp_path):
    expected = LAYOUTS["nuswide"](tmp_path)
    formatted_nuswide(tmp_path, expected, slice(2, None))
    records = opened(prepare("nuswide", tmp_path))
    assert records.ids == tuple(file for file, _ in [*expected.train[2:], *expected.test[2:]])
    assert records.labels == full_of([columns for _, columns in [*expected.train[2:], *expected.test[2:]]], 4)
    assert records.classes == expected.classes
    assert "the columns are assumed to be in its order" in " ".join(records.notes)
    shutil.rmtree(tmp_path / "ConceptsList")
    records = opened(prepare("nuswide", tmp_path))
    assert records.classes == ("0", "1", "2", "3")
    assert "Classes are called 0 to 3" in " ".join(records.notes)
    formatted_nuswide(tmp_path, expected._replace(train=[*expected.train, expected.train[0]]))
    assert len(opened(prepare("nuswide", tmp_path)).ids) == TRAIN + TEST + 1, "an image listed twice stays"
    (tmp_path / "formatted_val_labels.npy").unlink()
    with pytest.raises(InputError, match=r"formatted_val_labels\.npy: is missing\. Download ImageList"):
        prepare("nuswide", tmp_path)


def test_images_without_a_certain_object_are_no_sample_of_voc(tmp_path):
    LAYOUTS["voc2012"](tmp_path)
    lists = tmp_path / "VOCdevkit/VOC2012/ImageSets/Main"
    for path in lists.glob("*_train.txt"):
        text = path.read_text() + ("2007_000001  0\n" if path.name.startswith("cat") else "2007_000001 -1\n")
        path.write_text(text)
    records = opened(prepare("voc2012", tmp_path))
    assert not any("2007_000001" in name for name in records.ids)
    assert "1 image of the official train list shows no class" in " ".join(records.notes)


@pytest.mark.long
@pytest.mark.shared
def test_the_real_label_list_of_coco(shared, tmp_path, monkeypatch):
    """As an annotation file, without images: sizes, statistics, and no difference from publications."""
    monkeypatch.setattr(benchmarks, "images_exist", lambda root, part: [True] * len(part.files))
    lines = (shared / "data/labels/coco_train_full.txt").read_text().splitlines()
    rows = [(line.split(",")[0], [int(column) for column in line.split(",")[1].split()]) for line in lines]
    categories = [{"id": column + 1, "name": f"class {column}"} for column in range(80)]
    (tmp_path / "annotations").mkdir()
    few = [(name, columns[:1]) for name, columns in rows[:40_137]]
    for phase, part in (("train", rows), ("val", few)):
        (tmp_path / f"{phase}2014").mkdir()
        images = [{"id": int(name[15:27]), "file_name": name} for name, _ in part]
        annotations = [
            {"image_id": int(name[15:27]), "category_id": column + 1}
            for name, columns in part for column in columns
        ]  # fmt: skip
        content = {"images": images, "annotations": annotations, "categories": categories}
        (tmp_path / f"annotations/instances_{phase}2014.json").write_text(json.dumps(content))
    content = json.loads(prepare("coco2014", tmp_path).read_text())
    assert content["notes"] == []
    statistics = content["statistics"]
    assert statistics["official_train"] == {"images": 82_081, "mean_labels": 2.9366}
    ordered = sorted(rows, key=lambda row: str(int(row[0][15:27])))
    mean = np.mean([len(ordered[row][1]) for row in protocol_split(len(ordered))[0]])
    assert statistics["train"] == {"images": 65_665, "mean_labels": pytest.approx(mean, abs=1e-4)}
    assert (statistics["val"]["images"], statistics["test"]["images"]) == (16_416, 40_137)


@pytest.mark.parametrize(
    ("images", "mean", "difference"),
    [
        ((5717, 5823), 1.46, ""),
        ((5717, 5823), 1.47, ""),  # publications round
        ((5717, 5823), 1.49, "1.49 labels per training image instead of 1.46"),
        ((5717, 5823), 1.43, "1.43 labels per training image instead of 1.46"),
        ((5716, 5823), 1.46, "5,716 training images instead of 5,717"),
        ((5717, 5824), 1.46, "5,824 test images instead of 5,823"),
    ],
)
def test_differences_from_the_published_benchmark(images, mean, difference):
    statistics = {
        "official_train": {"images": images[0], "mean_labels": mean},
        "test": {"images": images[1], "mean_labels": 1.5},
    }
    notes = benchmarks._differences(BENCHMARKS["voc2012"], statistics)
    expected = [True] if difference else []
    assert [difference in note and "can't be compared" in note for note in notes] == expected


# -- both official sets of NUS-WIDE merged -----------------------------------------------------------------


def parts_of(records):
    """Files of the training (with validation) and of the test set."""
    split, ids = np.array(records.split), np.array(records.ids)
    return ids[split != "test"].tolist(), ids[split == "test"].tolist()


def test_both_sets_are_merged_and_split_in_the_published_proportion(tmp_path):
    """The split is pinned, so that results of two machines and versions can be compared."""
    expected = nuswide(tmp_path)
    manifest = prepare("nuswide-merged", tmp_path)
    before, records = manifest.read_bytes(), opened(manifest)
    train, test = parts_of(records)
    every = dict([*expected.train, *expected.test])
    # 28 images * 150,000 / 210,260 = 19.97.
    assert (len(train), len(test)) == (20, 8)
    assert sorted([*train, *test]) == sorted(every)
    assert dict(zip(records.ids, records.labels.to_names(range(4)), strict=True)) == every
    assert records.labels.full
    assert (records.name, records.classes) == ("nuswide-merged", expected.classes)
    # Files of both official sets are on both sides: the official split is gone.
    numbers = [int(file.rpartition("_")[0].rpartition("/")[2]) for file in test]
    assert numbers == [1, 6, 13, 50, 51, 52, 54, 56]
    order = list(every)
    assert [order.index(file) for file in train] == sorted(order.index(file) for file in train)
    rows = np.flatnonzero(np.array(records.split) != "test")
    assert np.flatnonzero(np.array(records.split) == "val").tolist() == protocol_split(20)[1].tolist()
    observed = protocol_observed(records.labels.take(rows))
    ternary = records.protocol.take(rows).to_ternary()
    assert [np.flatnonzero(row).tolist() for row in ternary] == [[c] if c >= 0 else [] for c in observed]
    data = open_dataset(DataConfig(path=str(manifest), observe="protocol"), size=8)
    assert sizes_of(data) == {"train": 16, "val": 4, "test": 8}
    formatted_nuswide(tmp_path, expected, slice(0, 6))  # which do not matter
    assert prepare("nuswide-merged", tmp_path).read_bytes() == before
    assert "formatted lists" in json.loads(prepare("nuswide", tmp_path).read_text())["notes"][0]


def test_as_many_images_of_each_official_set_as_published(tmp_path, monkeypatch):
    assert sum(module.MERGED.values()) == module.TRAIN + module.TEST == 210_260
    assert module.TRAIN == 150_000
    expected = nuswide(tmp_path)
    monkeypatch.setattr(module, "MERGED", {"Train": 10, "Test": 5})
    records = opened(prepare("nuswide-merged", tmp_path))
    kept = {*records.ids}
    assert len(kept & {file for file, _ in expected.train}) == 10
    assert len(kept & {file for file, _ in expected.test}) == 5
    train, test = parts_of(records)
    assert (len(train), len(test)) == (11, 4)  # 15 * 150,000 / 210,260 = 10.7
    assert "10 and 5 images of the official training and test sets were merged" in " ".join(records.notes)
    assert "both are draws of spml" in " ".join(records.notes)


def test_images_that_are_not_there_are_left_out(tmp_path):
    expected = nuswide(tmp_path)
    gone = [expected.train[0][0], expected.train[7][0], expected.test[3][0]]
    for file in gone:
        (tmp_path / file).unlink()
    records = opened(prepare("nuswide-merged", tmp_path))
    every = {file for file, _ in [*expected.train, *expected.test]}
    assert {*records.ids} == every - {*gone}
    assert "3 listed images are not there and left out." in records.notes
    assert f"{TRAIN - 2} and {TEST - 1} images of the official" in " ".join(records.notes)
    for file in every - {*gone}:
        (tmp_path / file).unlink()
    with pytest.raises(InputError, match="Flickr: contains none of the images of the lists"):
        prepare("nuswide-merged", tmp_path)
