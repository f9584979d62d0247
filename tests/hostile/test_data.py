"""Data files that are damaged or hostile are refused in one clear line; nothing in them is executed.

`fuzz` changes files of every format at random; here are those that were made by hand.
"""

from __future__ import annotations

import contextlib
import copy
import json
import pickle
import re
import tracemalloc
import zipfile
from collections.abc import Iterator

import numpy as np
import pytest
from PIL import Image

from spml.common.errors import InputError
from spml.config import DataConfig
from spml.data import open_dataset
from spml.data.readers import features as reader
from spml.data.readers import read, voc
from spml.data.readers.features import read_features
from tests.helpers.originals import CAT, COCO, GOOD, TASKS

MEMORY = 100e6  # bytes of Python that no file of a few kilobytes may need


@contextlib.contextmanager
def bounded() -> Iterator[None]:
    """Fail if the block takes memory out of proportion."""
    tracemalloc.start()
    try:
        yield
        used = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert used < MEMORY, f"{used:,} bytes"


# -- JSON --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"[" * 500_000, "nested too deeply"),
        (b'{"a":' * 500_000, "nested too deeply"),
        (b'{"images": [], "annotations": [], "categories": [], "x": ' + b"[" * 500_000, "nested too deeply"),
        (b'[{"data": {}}, ' + b"[" * 500_000, "nested too deeply|expected an object, got a list"),
        (b'{"images": ' + b"9" * 5000 + b"}", "found the keys 'images'"),
        (b"9" * 5000, "is not valid JSON|out of range|of a known kind"),
        (b'["' + b"a" * 1_000_000 + b'"', "found a list"),
        (b'{"' + b"a" * 1_000_000 + b'": 1}', "found the keys 'aaa"),
        (b'{"images": [], "images": NaN, "categories": [], "annotations": []}', "images: expected a list"),
        (b'{"images": [], "annotations": [{"x": "\xff"}], "categories": []}', "is not UTF-8: byte 0xff"),
        (b'{"images": [{"id": 1, "file_name": "a', "is not valid JSON: Unterminated string"),
        (b'{"images": []} {}', "holds a second JSON value at line 1, column 16"),
        (b"\xef\xbb\xbf", "is not valid JSON"),
    ],
)
def test_hostile_files(tmp_path, content, message):
    (tmp_path / "x.json").write_bytes(content)
    with bounded(), pytest.raises(InputError, match=message) as caught:
        read(DataConfig(path=str(tmp_path / "x.json")))
    assert len(str(caught.value)) < 1000


def test_half_a_surrogate_pair_instead_of_an_object(tmp_path):
    content = copy.deepcopy(TASKS)
    content[0]["annotations"][0]["result"][0]["value"] = "\ud800"
    path = tmp_path / "half.json"
    path.write_text(json.dumps(content))
    with pytest.raises(InputError, match=r"result\[0\].value: '.ud800' is half of a surrogate pair"):
        read(DataConfig(path=str(path)))


@pytest.mark.parametrize("content", [COCO, TASKS])
def test_unchanged_documents_can_be_read(tmp_path, content):
    for number, name in enumerate("abcd"):
        Image.new("RGB", (4, 4), (number, 0, 0)).save(tmp_path / f"{name}.png")
    path = tmp_path / "good.json"
    path.write_text(json.dumps(content))
    assert len(read(DataConfig(path=str(path))).ids) >= 3


# -- feature files -------------------------------------------------------------------------------------------


X = np.arange(12, dtype=np.float32).reshape(4, 3) % 5
Y = np.array([[1, 0], [0, 1], [1, 1], [0, 0]], np.uint8)


@pytest.fixture
def save(tmp_path):
    """Write arrays to data.npz."""

    def write(**arrays):
        np.savez(tmp_path / "data.npz", **arrays)
        return tmp_path / "data.npz"

    return write


def test_sizes_are_checked_before_memory_is_allocated(save, monkeypatch):
    path = save(X=X, Y=Y)
    with zipfile.ZipFile(path, "a") as archive, archive.open("names.npy", "w") as stream:
        header = {"descr": "<U10", "fortran_order": False, "shape": (10**12,)}
        np.lib.format.write_array_header_1_0(stream, header)
    with pytest.raises(InputError, match=r"names\.npy states 40,000,000,000,000 bytes, but has 128"):
        read_features(path, DataConfig())
    np.savez_compressed(path, X=np.zeros((1000, 500)), Y=np.ones((1000, 2), np.uint8))
    assert path.stat().st_size < 10_000
    assert len(read_features(path, DataConfig()).ids) == 1000
    monkeypatch.setattr(reader, "MAX_UNPACKED", 1_000_000)
    with pytest.raises(InputError, match=r"unpack to 4,0\d\d,\d+ bytes, more than the limit of 1,000,000"):
        read_features(path, DataConfig())
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("X.npy", b"x")
    with pytest.raises(InputError, match=r"X\.npy is compressed by a method that NumPy does not use"):
        read_features(path, DataConfig())


class Loud:
    """Fails the test if it is ever unpickled."""

    def __reduce__(self):
        return (pytest.fail, ("a pickle was loaded",))


def test_nothing_is_unpickled(tmp_path, save):
    path = save(X=np.array([Loud()], dtype=object), Y=Y)
    with pytest.raises(InputError, match=r"can't be read: .*Python objects are not read"):
        read_features(path, DataConfig())
    path.write_bytes(pickle.dumps(Loud()))
    with pytest.raises(InputError, match=r"is not a \.npz file"):
        read_features(path, DataConfig())


@pytest.mark.parametrize("indptr", [[0, 2, -5], [2, 0, 0], [0, 3, 2], [0, 0, -5], np.empty(0, int)])
def test_sparse_rows_that_go_backwards(tmp_path, indptr):
    path = tmp_path / "data.npz"
    np.savez(path, data=np.ones(2), indices=np.array([0, 2]), indptr=np.array(indptr), shape=[2, 3], Y=Y[:2])
    with pytest.raises(InputError, match=r"data\.npz: the arrays of X are not a valid CSR matrix: "):
        read_features(path, DataConfig())


@pytest.mark.parametrize("key", ["classes", "names"])
def test_names_with_control_characters(save, key):
    names = {"classes": ["a", "b\x1b[31m"], "names": ["a", "b\x1b[31m", "c", "d"]}[key]
    path = save(X=X, Y=Y, **{key: np.array(names)})
    with pytest.raises(InputError) as caught:
        read_features(path, DataConfig())
    assert str(caught.value) == (
        f"{path}: {key}: entry 1 is 'b\\x1b[31m', which holds control characters (counted from 0). Names "
        "must be distinct, without control characters."
    )


@pytest.mark.parametrize("share", [0.0, 0.3, 0.7, 0.99])
def test_truncated_files(save, share):
    path = save(X=X, Y=Y)
    data = path.read_bytes()
    path.write_bytes(data[: int(share * len(data))])
    with pytest.raises(InputError, match=re.escape(str(path))):
        read_features(path, DataConfig())


def test_flipped_bits_are_found(save):
    path = save(X=np.zeros((50, 50), np.float32), Y=np.ones((50, 2), np.uint8))
    data = bytearray(path.read_bytes())
    data[5000] ^= 255
    path.write_bytes(bytes(data))
    with pytest.raises(InputError, match=r"can't be read: .*CRC"):
        read_features(path, DataConfig())


# -- folders -------------------------------------------------------------------------------------------------


CLASSES = [("cat", "1", ".png"), ("cat", "2", ".png"), ("dog", "1", ".png"), ("dog", "2", ".png")]


def test_the_note_about_a_hidden_folder_is_one_line(tmp_path):
    for folder, name, suffix in (*CLASSES, (".\n", "a", ".png")):
        (tmp_path / folder).mkdir(exist_ok=True)
        Image.new("RGB", (4, 4), (ord(folder[0]), int(name, 36), 0)).save(
            tmp_path / folder / f"{name}{suffix}"
        )
    notes = open_dataset(DataConfig(path=str(tmp_path)), size=8).notes
    assert r"1 hidden, system or linked entry is left out: .\n." in notes


# -- PASCAL VOC ----------------------------------------------------------------------------------------------


DEPTH = 100_000
ATTRIBUTES = "".join(f' k{number}=""' for number in range(100_000))


@pytest.fixture
def devkit(tmp_path, picture):
    """A folder with two annotated images and a list of one of them."""
    path = tmp_path / "voc"
    for folder in ("Annotations", "ImageSets/Main"):
        (path / folder).mkdir(parents=True)
    for name in ("1", "2"):
        (path / "Annotations" / f"{name}.xml").write_bytes(GOOD)
        picture(f"voc/JPEGImages/{name}.jpg")
    (path / "ImageSets/Main/train.txt").write_text("1")
    return path


def opened(devkit, content):
    (devkit / "Annotations/1.xml").write_bytes(content)
    with bounded():
        return read(DataConfig(path=str(devkit)))


def test_a_file_that_is_too_large(devkit):
    with pytest.raises(InputError, match=r"has 4,194,305 bytes, more than the limit of 4,194,304"):
        opened(devkit, b" " * (voc.MAX_BYTES + 1))


@pytest.mark.parametrize(
    "content",
    [
        b"<annotation>" + b"<a>" * DEPTH + b"</a>" * DEPTH + CAT.encode() + b"</annotation>",
        f"<annotation>{CAT}<a{ATTRIBUTES}/></annotation>".encode(),
    ],
)
def test_deep_and_wide_files_are_read(devkit, content):
    assert opened(devkit, content).classes == ("cat",)


@pytest.mark.parametrize("encoding", ["ascii", "utf-8", "utf-16"])
def test_a_billion_laughs(devkit, encoding):
    levels = [(f"l{level}", f"&l{level - 1};" * 10) for level in range(1, 10)]
    entities = "".join(f'<!ENTITY {name} "{value}">' for name, value in [("l0", "lol"), *levels])
    text = f"<!DOCTYPE x [{entities}]><annotation><filename>&l9;</filename></annotation>"
    with pytest.raises(InputError, match=r"1\.xml: has a document type or entities"):
        opened(devkit, text.encode(encoding))
