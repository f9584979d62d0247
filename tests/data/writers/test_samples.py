"""Names of files relative to a stated folder."""

from __future__ import annotations

import dataclasses
import json
from urllib.parse import parse_qs, urlsplit

import pytest

from spml.common.errors import InputError
from spml.config import DataConfig
from spml.data.readers import read
from spml.data.writers import image_names, named_from, write
from tests.data.writers.samples import (
    CLASSES,
    FILES,
    MATRIX,
    OUTPUTS,
    assert_same,
    feature_records,
    image_records,
)  # fmt: skip


@pytest.mark.parametrize("form", OUTPUTS)
@pytest.mark.parametrize("split", [None, ("train", "train", "test")])
def test_names_are_relative_to_the_root_in_every_format(folder, tmp_path, form, split):
    records = image_records(folder, MATRIX, CLASSES, split)
    output = tmp_path / (OUTPUTS[form] if form != "coco" or split is None else "coco")
    note = write(named_from(records, folder.parent), output, form)[0]
    assert note == f"File names are relative to {folder.parent}: read it with data.images={folder.parent}"
    read_back = read(DataConfig(path=str(output), images=str(folder.parent)))
    assert_same(read_back, records)
    assert set(read_back.ids) == {f"{folder.name}/{name}" for name in FILES[:3]}


def test_the_root_of_label_studio(folder, tmp_path):
    """Label Studio takes names that are relative to LABEL_STUDIO_LOCAL_FILES_DOCUMENT_ROOT."""
    records = named_from(image_records(folder, MATRIX, CLASSES), folder.parent)
    write(records, folder / "out.json", "labelstudio", overwrite=True)
    task = json.loads((folder / "out.json").read_text())[2]
    assert parse_qs(urlsplit(task["data"]["image"]).query) == {"d": [f"{folder.name}/sub/ä,ö;ü.png"]}


def test_a_root_that_is_the_folder_of_the_output_needs_no_note(folder):
    records = image_records(folder, MATRIX, CLASSES)
    assert image_names(named_from(records, folder), folder) == (list(FILES[:3]), ())


def test_a_root_relative_to_the_current_folder_and_with_a_space(folder, tmp_path, monkeypatch):
    (tmp_path / "my photos").mkdir()
    (tmp_path / "my photos" / "a.png").write_bytes((folder / "a.png").read_bytes())
    records = image_records(tmp_path / "my photos", MATRIX[:1], CLASSES)
    monkeypatch.chdir(tmp_path)
    names, notes = image_names(named_from(records, tmp_path / "my photos" / ".."), tmp_path / "elsewhere")
    assert names == ["my photos/a.png"]
    names, notes = image_names(named_from(records, (tmp_path / "my photos").relative_to(tmp_path)), tmp_path)
    assert names == ["a.png"]
    assert notes == (
        f"File names are relative to my photos: read it with data.images='{tmp_path}/my photos'",
    )


def test_roots_that_are_refused(folder, tmp_path):
    records = image_records(folder, MATRIX, CLASSES)
    with pytest.raises(
        InputError, match=r"root=.*none: is not a folder\. Name a folder that holds all images"
    ):
        named_from(records, folder / "none")
    with pytest.raises(
        InputError, match=rf"2 images lie outside this folder, such as .*a\.png'.* such as {folder}\."
    ):
        named_from(records, folder / "sub")
    sibling = tmp_path / folder.name[:-1]  # a path that begins like that of the images
    sibling.mkdir()
    outside = dataclasses.replace(records, inputs=tuple(tmp_path / folder.name / name for name in FILES[:3]))
    with pytest.raises(InputError, match="3 images lie outside this folder"):
        named_from(outside, sibling)
    with pytest.raises(InputError, match=r"these samples are not image files, .* without `root`\."):
        named_from(feature_records(MATRIX, CLASSES), folder)
