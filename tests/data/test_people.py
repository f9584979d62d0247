"""Small tables as people have them: each is read as it was meant, or refused with what to do.

`people/expected.json` holds the images that exist, settings, and what is right.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from spml.common.errors import InputError
from spml.config import DataConfig
from spml.data.readers import read

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
