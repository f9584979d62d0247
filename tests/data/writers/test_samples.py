"""Names of files relative to a stated folder."""

from __future__ import annotations

import dataclasses

import pytest

from spml.common.errors import InputError
from spml.data.writers import image_names, named_from
from tests.data.writers.samples import (
    CLASSES,
    FILES,
    MATRIX,
    feature_records,
    image_records,
)  # fmt: skip


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
    outside = dataclasses.replace(records, inputs=tuple(tmp_path / folder.name / name for name in FILES[:3]))
    sibling = tmp_path / folder.name[:-1]  # a path that begins like that of the images
    sibling.mkdir()
    for given, root, message in (
        (records, folder / "none", r"root=.*none: is not a folder\. Name a folder that holds all images"),
        (records, folder / "sub", rf"2 images lie outside this .*, such as .*a\.png'.* such as {folder}\."),
        (outside, sibling, "3 images lie outside this folder"),
        (feature_records(MATRIX, CLASSES), folder, r"samples are not image files, .* without `root`\."),
    ):
        with pytest.raises(InputError, match=message):
            named_from(given, root)
