"""Manifests of benchmarks that are damaged, changed or hostile."""

from __future__ import annotations

import contextlib
import json
import shutil

import numpy as np
import pytest

from spml.common.errors import InputError
from spml.common.files import json_sha256
from spml.config import DataConfig
from spml.data.benchmarks import prepare
from spml.data.readers import manifest, read
from tests.data.benchmarks.layouts import LAYOUTS


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("voc")
    LAYOUTS["voc2012"](folder)
    prepare("voc2012", folder)
    return folder


@pytest.fixture
def edited(root, tmp_path):
    """Write a manifest that `change` has been at, beside the same images; `seal`: its SHA-256 fits."""

    def write(change, seal=True):
        content = json.loads((root / "spml-voc2012.json").read_text())
        content = change(content) or content
        if seal:
            content["sha256"] = json_sha256(content)
        path = root / "edited.json"
        path.write_text(json.dumps(content))
        return path

    return write


def opened(path, **options):
    return read(DataConfig(path=str(path), **options))


def put(*keys, value):
    def change(content):
        for key in keys[:-1]:
            content = content[key]
        content[keys[-1]] = value

    return change


@pytest.mark.parametrize(
    "change",
    [
        put("parts", "train", "labels", 1, value=[0]),
        put("parts", "train", "observed", 0, value=1),
        put("parts", "test", "files", 0, value="other.jpg"),
        put("val", value=[0, 1, 2, 3]),
        put("classes", 0, value="plane"),
        put("statistics", value={}),
        put("sha256", value=None),
    ],
)
def test_a_change_is_noticed(edited, change):
    with pytest.raises(
        InputError, match=r"changed since it was written, or is damaged .*does not have the SHA"
    ):
        opened(edited(change, seal=False))


@pytest.mark.parametrize(
    "change",
    [
        put("classes", value="abc"),
        put("classes", value=[]),
        put("classes", value=["a"] * 20),
        put("classes", 3, value=5),
        put("classes", 3, value=""),
        put("classes", 3, value="a" * 256),
        put("notes", value=["a" * 1001]),
        put("classes", 3, value="a\nb"),
        put("notes", value=["\x1b[31m"]),
        put("name", value=None),
        put("notes", value={"a": 1}),
        put("parts", value=[]),
        put("parts", "train", value=None),
        put("parts", "test", value={}),
        put("parts", "train", "folder", value=7),
        put("parts", "train", "files", value=[]),
        put("parts", "train", "files", 2, value=["x"]),
        put("parts", "train", "labels", 0, value=[20]),
        put("parts", "train", "labels", 0, value=[-1]),
        put("parts", "train", "labels", 0, value=[0.5]),
        put("parts", "train", "labels", 0, value=[1 << 70]),
        put("parts", "train", "labels", 0, value=[[1]]),
        put("parts", "train", "labels", 0, value="ab"),
        put("parts", "train", "labels", 0, value=None),
        put("parts", "train", "labels", value=7),
        put("parts", "train", "observed", value=[0]),
        put("parts", "train", "observed", 0, value=20),
        put("parts", "train", "observed", 0, value=21),  # 20 classes after class 1, a label of the next row
        put("parts", "train", "observed", 0, value=-2),
        put("parts", "train", "observed", 0, value=19),
        put("parts", "train", "observed", 0, value="0"),
        put("val", value=[]),
        put("val", value=[20]),
        put("val", value=list(range(20))),
        put("val", value="x"),
        put("val", value=[[1], [2, 3]]),
        lambda content: content.pop("val") and None,
    ],
)
def test_a_wrong_shape_with_a_fitting_digest_is_refused(edited, change):
    with pytest.raises(InputError, match="was changed since it was written, or is damaged") as caught:
        opened(edited(change))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("keys", "value"),
    [
        (("folder",), "../elsewhere"),
        (("folder",), "/etc"),
        (("folder",), "VOCdevkit/../.."),
        (("folder",), "VOCdevkit\\..\\..\\x"),
        (("files", 0), "../../../../secret.jpg"),
        (("files", 0), "../" * 9 + "etc/passwd"),
        (("files", 0), "..\\..\\..\\..\\secret.jpg"),
        (("files", 0), "a/../../../../../x.jpg"),
        (("files", 0), "a\0b.jpg"),
        (("files", 0), "x" * 300 + "!.jpg"),
    ],
)
def test_paths_that_lead_out(edited, keys, value):
    with pytest.raises(InputError, match=r"lies outside the folder|no file name has|is longer than"):
        opened(edited(put("parts", "train", *keys, value=value)))


def test_an_absolute_name_stays_below_the_folder(root, edited):
    path = edited(put("parts", "train", "files", 0, value="/etc/passwd"))
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
