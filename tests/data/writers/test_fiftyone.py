"""FiftyOne datasets that are written, and read by FiftyOne itself where it is installed."""

from __future__ import annotations

import json

import numpy as np
import pytest

from spml.common.errors import InputError
from spml.config import DataConfig
from spml.data.readers import read
from spml.data.writers import Inferred, write
from tests.data.writers.samples import CLASSES, FILES, GUESSED, MATRIX, assert_same, image_records

SPLIT = ("train", "val", "test")


@pytest.fixture
def written(folder):
    """samples.json and metadata.json of labels of each kind."""
    records = image_records(folder, MATRIX, CLASSES, SPLIT)
    notes = write(records, folder, "fiftyone", GUESSED, overwrite=True)
    assert notes == ("3 inferred labels written, 2 left out in favour of given labels.",)
    return [
        json.loads((folder / name).read_text(encoding="utf-8")) for name in ("samples.json", "metadata.json")
    ]


def labels(sample, field):
    """Labels of a field with their confidence; None if it is not set."""
    if field not in sample:
        return None
    assert sample[field]["_cls"] == "Classifications"
    entries = sample[field]["classifications"]
    assert all(entry["_cls"] == "Classification" and entry["tags"] == [] for entry in entries)
    return [(entry["label"], entry.get("confidence")) for entry in entries]


def test_each_kind_of_label_has_its_field(written):
    samples = written[0]["samples"]
    assert [sample["filepath"] for sample in samples] == list(FILES[:3])
    assert [sample["tags"] for sample in samples] == [["train"], ["val"], ["test"]]
    assert [labels(sample, "ground_truth") for sample in samples] == [[("cat", None)], [("fox", None)], None]
    assert [labels(sample, "negatives") for sample in samples] == [None, [("d;o:g", None)], None]
    assert [labels(sample, "predictions") for sample in samples] == [None, [("cat", 0.75)], [("d;o:g", None)]]
    assert [labels(sample, "predicted_negatives") for sample in samples] == [None, None, [("fox", None)]]


def test_what_fiftyone_needs_of_a_sample(written):
    samples = written[0]["samples"]
    ids = [sample["_id"]["$oid"] for sample in samples]
    ids += [
        entry["_id"]["$oid"]
        for sample in samples
        for value in sample.values()
        if isinstance(value, dict)
        for entry in value.get("classifications", ())
    ]
    assert len(set(ids)) == len(ids) == 3 + 6
    assert all(len(bytes.fromhex(text)) == 12 for text in ids)
    assert {sample["_media_type"] for sample in samples} == {"image"}
    draws = [sample["_rand"] for sample in samples]
    assert len(set(draws)) == 3
    assert all(0.999 <= draw < 1 for draw in draws)


def test_metadata_describes_every_field(written):
    samples, metadata = written[0]["samples"], written[1]
    assert (metadata["version"], metadata["media_type"]) == ("1.0.0", "image")
    assert metadata["default_classes"] == list(CLASSES)
    fields = {field["db_field"]: field for field in metadata["sample_fields"]}
    assert {key for sample in samples for key in sample} <= set(fields)
    kinds = {key: field["embedded_doc_type"] for key, field in fields.items() if key in labelled(samples)}
    assert kinds == dict.fromkeys(labelled(samples), "fiftyone.core.labels.Classifications")
    (classifications,) = (f for f in fields["predictions"]["fields"] if f["name"] == "classifications")
    assert classifications["embedded_doc_type"] == "fiftyone.core.labels.Classification"
    inner = {field["db_field"]: field["ftype"].rpartition(".")[2] for field in classifications["fields"]}
    assert inner["label"] == "StringField"
    assert inner["confidence"] == "FloatField"
    assert set(samples[1]["predictions"]["classifications"][0]) - {"_cls"} <= set(inner)


def labelled(samples):
    return {key for sample in samples for key, value in sample.items() if isinstance(value, dict)} - {"_id"}


def test_fields_without_labels_are_left_out(folder):
    write(image_records(folder, [[1, 0], [0, 0]], ("a", "b")), folder, "fiftyone", overwrite=True)
    metadata = json.loads((folder / "metadata.json").read_text())
    names = {field["name"] for field in metadata["sample_fields"]}
    assert "ground_truth" in names
    assert names.isdisjoint({"negatives", "predictions", "predicted_negatives"})


def test_only_negatives_known(folder):
    """A person looked at the image, so `ground_truth` is set, and empty."""
    records = image_records(folder, [[-1, -1], [1, 0], [0, 0]], ("a", "b"))
    write(records, folder, "fiftyone", overwrite=True)
    samples = json.loads((folder / "samples.json").read_text())["samples"]
    assert [labels(sample, "ground_truth") for sample in samples] == [[], [("a", None)], None]
    assert_same(read(DataConfig(path=str(folder))), records)


def test_the_same_data_gives_the_same_file(folder, tmp_path):
    records = image_records(folder, MATRIX, CLASSES)
    for name in ("x", "y"):
        write(records, tmp_path / name, "fiftyone", GUESSED)
    assert (tmp_path / "x/samples.json").read_bytes() == (tmp_path / "y/samples.json").read_bytes()


def test_images_elsewhere_and_outputs_that_are_refused(folder, tmp_path):
    records = image_records(folder, MATRIX, CLASSES)
    notes = write(records, tmp_path / "out", "fiftyone")
    assert notes[1] == "FiftyOne's Dataset.from_dir needs the same folder as rel_dir."
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["metadata.json", "samples.json"]
    with pytest.raises(InputError, match=r"samples\.json: exists already"):
        write(records, tmp_path / "out", "fiftyone")
    (tmp_path / "file").write_text("x")
    for name in ("out.json", "file"):
        with pytest.raises(InputError, match="a FiftyOne dataset is a folder with two files; name a folder"):
            write(records, tmp_path / name, "fiftyone", overwrite=True)


def test_fiftyone_reads_it(folder, tmp_path):
    fiftyone = pytest.importorskip("fiftyone", reason="FiftyOne is not installed")
    matrix = np.array([[1, -1, 0], [0, 1, 1]])
    guessed = Inferred(np.array([0]), np.array([2]), np.ones(1, np.int8), np.array([0.75]))
    write(image_records(folder, matrix, CLASSES, ("train", "test")), tmp_path / "out", "fiftyone", guessed)
    dataset = fiftyone.Dataset.from_dir(
        str(tmp_path / "out"), dataset_type=fiftyone.types.FiftyOneDataset, rel_dir=str(folder)
    )
    assert dataset.values("filepath") == [str(folder / name) for name in FILES[:2]]
    assert dataset.values("ground_truth.classifications.label") == [["cat"], ["d;o:g", "fox"]]
    assert dataset.values("predictions.classifications.confidence") == [[0.75], None]
    assert dataset.values("tags") == [["train"], ["test"]]
    dataset.export(str(tmp_path / "back"), dataset_type=fiftyone.types.FiftyOneDataset, export_media=False)
    back = read(DataConfig(path=str(tmp_path / "back"), images=str(folder)))
    assert back.labels.to_ternary().tolist() == matrix.tolist()
