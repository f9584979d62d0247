"""Manifests of benchmarks: where images are, which files are manifests, and damaged and hostile ones."""

from __future__ import annotations

import contextlib
import json
import shutil

import numpy as np
import pytest

from spml.common.errors import InputError
from spml.common.files import json_sha256
from spml.config import DataConfig
from spml.data import open_dataset
from spml.data.benchmarks import prepare
from spml.data.readers import Source, manifest
from spml.data.readers.manifest import is_manifest
from tests.data.benchmarks.layouts import LAYOUTS
from tests.helpers.originals import DELETE, set_value
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


# -- damaged and hostile ones ------------------------------------------------------------------------------


@pytest.fixture
def edited(root):
    """Write a manifest with another value at some keys, beside the same images; `seal`: its SHA-256 fits."""

    def write(keys, value, seal=True):
        content = json.loads((root / "spml-voc2012.json").read_text())
        set_value(content, keys, value)
        if seal:
            content["sha256"] = json_sha256(content)
        path = root / "edited.json"
        path.write_text(json.dumps(content))
        return path

    return write


@pytest.mark.parametrize(
    ("keys", "value"),
    [
        (["parts", "train", "labels", 1], [0]),
        (["parts", "train", "observed", 0], 1),
        (["parts", "test", "files", 0], "other.jpg"),
        (["val"], [0, 1, 2, 3]),
        (["classes", 0], "plane"),
        (["statistics"], {}),
        (["sha256"], None),
    ],
)
def test_a_change_is_noticed(edited, keys, value):
    with pytest.raises(InputError, match=r"was written, or is damaged .*does not have the SHA"):
        opened(edited(keys, value, seal=False))


@pytest.mark.parametrize(
    ("keys", "value"),
    [
        (["classes"], "abc"),
        (["classes"], []),
        (["classes"], ["a"] * 20),
        (["classes", 3], ""),
        (["classes", 3], "a" * 256),
        (["notes"], ["a" * 1001]),
        (["classes", 3], "a\nb"),
        (["notes"], ["\x1b[31m"]),
        (["name"], None),
        (["parts", "train"], None),
        (["parts", "test"], {}),
        (["parts", "train", "files"], []),
        (["parts", "train", "labels", 0], [20]),
        (["parts", "train", "labels", 0], [-1]),
        (["parts", "train", "labels", 0], None),
        (["parts", "train", "observed"], [0]),
        (["parts", "train", "observed", 0], 20),
        (["parts", "train", "observed", 0], 21),  # 20 classes after class 1, a label of the next row
        (["parts", "train", "observed", 0], -2),
        (["parts", "train", "observed", 0], 19),
        (["val"], []),
        (["val"], [20]),
        (["val"], list(range(20))),
        (["val"], DELETE),
    ],
)
def test_a_wrong_shape_with_a_fitting_digest_is_refused(edited, keys, value):
    with pytest.raises(InputError, match="was changed since it was written, or is damaged") as caught:
        opened(edited(keys, value))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("keys", "value"),
    [
        (("folder",), "../elsewhere"),
        (("folder",), "VOCdevkit/../.."),
        (("files", 0), "../../../../secret.jpg"),
        (("files", 0), "a/../../../../../x.jpg"),
    ],
)
def test_paths_that_lead_out(edited, keys, value):
    with pytest.raises(InputError, match="lies outside the folder"):
        opened(edited(["parts", "train", *keys], value))


def test_an_absolute_name_stays_below_the_folder(root, edited):
    path = edited(["parts", "train", "files", 0], "/etc/passwd")
    assert opened(path).inputs[0] == root / "VOCdevkit/VOC2012/JPEGImages/etc/passwd"


def test_links_that_lead_out(root, tmp_path):
    shutil.copytree(root, tmp_path / "copy")
    path, images = tmp_path / "copy/spml-voc2012.json", tmp_path / "copy/VOCdevkit/VOC2012/JPEGImages"
    shutil.move(images / "2008_000107.jpg", tmp_path / "x.jpg")
    (images / "2008_000107.jpg").symlink_to(tmp_path / "x.jpg")
    with pytest.raises(InputError, match="is a link to"):
        opened(path)
    (images / "2008_000107.jpg").unlink()
    opened(path)
    shutil.move(images, tmp_path / "images")
    images.symlink_to(tmp_path / "images")
    with pytest.raises(InputError, match="is a link to"):
        opened(path)


def test_links_of_folders_inside_parts(tmp_path):
    LAYOUTS["cub200"](tmp_path / "root")
    path = prepare("cub200", tmp_path / "root")
    folder = tmp_path / "root/CUB_200_2011/images/001.Black_Bird"
    shutil.move(folder, tmp_path / "root/kept")
    folder.symlink_to(tmp_path / "root/kept")
    assert opened(path).inputs[0].is_file(), "a link below the root is fine"
    folder.unlink()
    shutil.move(tmp_path / "root/kept", tmp_path / "outside")
    folder.symlink_to(tmp_path / "outside")
    with pytest.raises(InputError, match="is a link to"):
        opened(path)


def test_limits_of_size_and_depth(tmp_path, monkeypatch):
    path = tmp_path / "x.json"
    path.write_text('{"format": "spml benchmark 1", "x": ' + "[" * 200_000)
    with pytest.raises(InputError, match="nested too deeply"):
        opened(path)
    path.write_text('{"format": "spml benchmark 1", "x": ' + "9" * 50_000 + "}")
    with pytest.raises(InputError, match="out of range"):
        opened(path)
    monkeypatch.setattr(manifest, "MAX_BYTES", 1000)
    with pytest.raises(InputError, match=r"has 50,03. bytes, more than the limit of 1,000 for a manifest"):
        opened(path)


def test_random_damage_is_noticed(root):
    """Some bytes of the file are replaced; `fuzz` puts any value into any field, with a digest that fits."""
    original, rng = (root / "spml-voc2012.json").read_bytes(), np.random.default_rng(0)
    for _ in range(100):
        data = bytearray(original)
        for position, value in rng.integers(0, [len(data), 256], (rng.integers(1, 5), 2)).tolist():
            data[position] = value
        (root / "damaged.json").write_bytes(data)
        with contextlib.suppress(InputError):
            opened(root / "damaged.json")
            assert json.loads(data) == json.loads(original), "only blanks may change unnoticed"
