"""Tables as people have them: each is read, or refused with what is wrong and what to do."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import pytest

from spml.common.errors import InputError
from spml.config import DataConfig
from spml.data import Dataset, inspect, open_dataset
from spml.data.readers import read
from tests.helpers import write_image

CLASSES = ("beach", "dog", "sea")


@pytest.fixture
def messy(tmp_path):
    """Function that writes a table of twelve images, and opens it as training does."""

    def write(header, row, *, images="{}.jpg", rows=12):
        for number in range(12):
            write_image(tmp_path / images.format(number))
        with open(tmp_path / "data.csv", "w", newline="", encoding="utf-8") as stream:
            writer = csv.writer(stream)
            writer.writerow(header.split(","))
            writer.writerows([cell.format(n, one=CLASSES[n % 3]) for cell in row] for n in range(rows))

    def attempt(**options) -> Dataset:
        return open_dataset(DataConfig(path=str(tmp_path / "data.csv"), **options), size=8)

    write.open = attempt
    write.folder = tmp_path
    return write


REFUSED = {
    "missing files": (
        ("file,label", ("{}.jpg", "{one}")), {"rows": 15},
        r"row 14: there is no file '12\.jpg' in .* \(3 of 15 files are missing: '12\.jpg', '13\.jpg', '14\.j"
        r".*data\.missing=skip",
    ),
    "case": (("file,label", ("{}.JPG", "{one}")), {}, r"folder holds '0\.jpg', "),
    "folder": (("file,label", ("{}.jpg", "{one}")), {"images": "photos/{}.jpg"},
        r"12 of 12 files are missing.* That folder holds .*'photos'.*pass data\.images with"),
    "folder of ids": (("id,label", ("{}", "{one}")), {"images": "images/{}.jpg"},
        r"That folder holds .*'images'.*pass data\.images with"),
    "addresses": (("image,label", ("https://host/{}.jpg", "{one}")), {}, "This is an address: download"),
    "two columns of files": (("path,filename,label", ("x{}.jpg", "y{}.jpg", "{one}")), {},
        r"Pass data\.file_column=path or data\.file_column=filename\."),
    "no column of files": (("photo no,label", ("x{}.jpg", "{one}")), {},
        r"Pass data\.file_column='photo no', of which"),
}  # fmt: skip


@pytest.mark.parametrize(("table", "options", "message"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused(messy, table, options, message):
    """`spml data inspect` gives the same answer as `spml train`."""
    messy(*table, **options)
    for attempt in (messy.open, lambda: inspect(DataConfig(path=str(messy.folder / "data.csv")))):
        with pytest.raises(InputError, match=message) as caught:
            attempt()
        assert caught.value.exit_code == 2
        assert "\n" not in str(caught.value)


def test_missing_files_and_empty_labels_are_skipped_and_listed(messy):
    messy("file,label", ("{}.jpg", "{one}"), rows=14)
    path = messy.folder / "data.csv"
    path.write_text(path.read_text().replace("0.jpg,beach", "0.jpg,").replace("10.jpg,", "10.jpg,dog"))
    data = messy.open(missing="skip")
    missing = "can't be read: No such file or directory"
    assert data.skipped == (("0.jpg", "no label"), ("12.jpg", missing), ("13.jpg", missing))
    assert "2 of 14 files do not exist; skipped: 12.jpg, 13.jpg." in data.notes
    inspection = inspect(DataConfig(path=str(path), missing="skip"))
    assert inspection.refused == ""
    assert inspection.skipped == data.skipped
    assert [note for note in data.notes if "0.jpg" in note] == [
        note for note in inspection.training if "0.jpg" in note
    ]
    assert inspect(DataConfig(path=str(path), missing="skip", unlabelled="stop")).refused == (
        f"{path}: 1 of 14 samples has no label, so that nothing is known about it: 0.jpg. Add labels, remove "
        "it, or pass data.unlabelled=skip to leave it out. If every true label is listed in this data, so "
        "that none applies here, pass data.unlisted=negative."
    )


def test_a_class_with_one_photo_stays_in_training(messy):
    messy("file,label", ("{}.jpg", "{one}"))
    path = messy.folder / "data.csv"
    path.write_text(path.read_text().replace("3.jpg,beach", "3.jpg,rare").replace("7.jpg,dog", "7.jpg,rarer"))
    for seed in range(8):
        data = messy.open(split_seed=seed)
        assert len(data.splits["val"]) == 2
        assert "can't be learned" not in " ".join(data.notes)


FOLDER = Path(__file__).parent / "people"
EXPECTED = json.loads((FOLDER / "expected.json").read_text())


def outcome(folder: Path, name: str, case: dict) -> dict:
    """Reading of a table: positives, negatives and split, or the message."""
    shutil.copy(FOLDER / name, folder)
    for image in case["images"]:
        (folder / image).parent.mkdir(parents=True, exist_ok=True)
        (folder / image).touch()
    try:
        records = read(DataConfig(path=str(folder / name), **case.get("options", {})))
    except InputError as error:
        return {"refused": str(error).replace(f"{folder}/", "")}
    positive = records.labels.positives_per_class().tolist()
    found = {"positives": dict(zip(records.classes, positive, strict=True))}
    if negative := int(records.labels.negatives_per_class().sum()):
        found["negatives"] = negative
    if records.split:
        found["split"] = {part: records.split.count(part) for part in dict.fromkeys(records.split)}
    return found


def test_every_table_is_tried():
    assert {path.name for path in FOLDER.iterdir()} == {*EXPECTED, "expected.json"}


@pytest.mark.parametrize("name", EXPECTED)
def test_a_table_of_people(tmp_path, name):
    case = EXPECTED[name]
    assert outcome(tmp_path, name, case) == case["expected"]
