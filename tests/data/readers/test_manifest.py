"""Manifests of benchmarks: where images are, and which files are manifests."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

from spml.common.errors import InputError
from spml.config import DataConfig
from spml.data import open_dataset
from spml.data.benchmarks import prepare
from spml.data.readers import Source
from spml.data.readers.manifest import is_manifest
from tests.data.benchmarks.layouts import LAYOUTS
from tests.helpers.records import opened


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("voc")
    LAYOUTS["voc2012"](folder)
    prepare("voc2012", folder)
    return folder


def test_classes_without_positives_count_as_in_publications(root, tmp_path):
    config = DataConfig(path=str(root / "spml-voc2012.json"), observe="protocol")
    assert open_dataset(config, size=8).empty == "zero"
    np.savez(tmp_path / "own.npz", X=np.eye(9), Y=np.eye(9, 3) + np.eye(9, 3, -3))
    assert open_dataset(DataConfig(path=str(tmp_path / "own.npz"))).empty == "exclude"


def test_the_layout_of_the_json_does_not_matter(root):
    written = opened(root / "spml-voc2012.json")
    path = root / "indented.json"
    path.write_text(json.dumps(json.loads((root / "spml-voc2012.json").read_text()), indent=2))
    indented = opened(path)
    assert (written.ids, written.labels, written.split) == (indented.ids, indented.labels, indented.split)
    assert written.protocol == indented.protocol


def test_images_may_be_elsewhere(root, tmp_path):
    shutil.copy(root / "spml-voc2012.json", tmp_path / "moved.json")
    assert not any(file.is_file() for file in opened(tmp_path / "moved.json").inputs)
    assert all(file.is_file() for file in opened(tmp_path / "moved.json", images=str(root)).inputs)


def test_a_changed_image_is_an_unreadable_image(root, tmp_path):
    shutil.copytree(root, tmp_path / "copy")
    (tmp_path / "copy/VOCdevkit/VOC2012/JPEGImages/2008_000002.jpg").write_bytes(b"no image")
    config = DataConfig(path=str(tmp_path / "copy/spml-voc2012.json"), observe="protocol", max_unreadable=0.1)
    data = open_dataset(config, size=8)
    assert [name for name, _ in data.skipped] == ["VOCdevkit/VOC2012/JPEGImages/2008_000002.jpg"]
    whole = open_dataset(DataConfig(path=str(root / "spml-voc2012.json"), observe="protocol"), size=8)
    for name, samples in data.splits.items():
        others = dict(zip(whole.splits[name].ids, whole.splits[name].observed.index, strict=True))
        observed = dict(zip(samples.ids, samples.observed.index, strict=True))
        assert {file: others[file] for file in observed} == observed
        assert len(others) - len(observed) == (name == "train")


def test_what_is_a_manifest(root, tmp_path):
    assert is_manifest(Source(root / "spml-voc2012.json"))
    (tmp_path / "x.json").write_text('{ "format": "spml benchmark 2"}')
    assert is_manifest(Source(tmp_path / "x.json"))
    with pytest.raises(InputError, match="its format is 'spml benchmark 2', but this version of spml reads"):
        opened(tmp_path / "x.json")
    for text in ("", "{}", '{"images": []}', '[{"format": "spml benchmark 1"}]'):
        (tmp_path / "x.json").write_text(text)
        assert not is_manifest(Source(tmp_path / "x.json"))
    assert not is_manifest(Source(tmp_path / "nothing.json"))
    assert not is_manifest(Source(tmp_path))
