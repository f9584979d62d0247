"""Samples that are opened on other machines."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from PIL import Image

from spml.common.errors import InputError
from spml.data import list_inputs
from spml.data.images.image_files import FilePart, ImageFiles, MemoryImage
from spml.data.matrix import FeatureMatrix, ImageArray
from spml.runs.predict.cluster import MappedFile, by_path, portable

ROWS = np.array([3, 0, 5])


def test_images_are_named_by_absolute_paths(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    inputs = ImageFiles(["a.png", FilePart("b.arrow", 4, 7), "/c.png"], ["1", "2", "3"], size=8, draft=True)
    sent = portable(inputs)
    assert sent.paths == [str(tmp_path / "a.png"), FilePart(str(tmp_path / "b.arrow"), 4, 7), "/c.png"]
    assert sent.digests == inputs.digests
    assert sent.fingerprint() == inputs.fingerprint()


def test_images_in_memory_are_sent_as_one_array_only():
    image = MemoryImage("X[0]", lambda: Image.new("RGB", (4, 4)))
    with pytest.raises(InputError, match=r"^X\[0\]: is an image in memory, which other machines can't read"):
        portable(ImageFiles([image], [""], size=8))
    array = ImageArray(np.zeros((2, 3, 8, 8), np.uint8))
    assert portable(array) is array


@pytest.fixture
def shards(tmp_path):
    """A folder of two shards, and their content."""
    content = np.random.default_rng(0).normal(size=(1000, 40)).astype(np.float32)
    np.save(tmp_path / "X_00000.npy", content[:400])
    np.save(tmp_path / "X_00001.npy", content[400:])
    return tmp_path, content


def test_mapped_features_are_sent_by_their_path(shards):
    folder, content = shards
    sent = pickle.dumps(portable(list_inputs([str(folder)])[1]))
    assert len(sent) < content.nbytes / 10
    opened = pickle.loads(sent)
    np.testing.assert_array_equal(opened.dense([999, 0, 400]), content[[999, 0, 400]])
    np.testing.assert_array_equal(opened.dense(range(1000)), content)


def test_missing_or_shorter_files_are_refused(shards):
    folder, _ = shards
    sent = portable(list_inputs([str(folder)])[1])
    (folder / "X_00001.npy").rename(folder / "moved")
    with pytest.raises(
        InputError, match=r"X_00001.npy: can't be read on the machine .* same path, in a shared"
    ):
        pickle.loads(pickle.dumps(sent)).dense([999])
    (folder / "X_00001.npy").write_bytes((folder / "moved").read_bytes()[:-1000])
    with pytest.raises(InputError, match=r"X_00001.npy: can't be read on the machine"):
        pickle.loads(pickle.dumps(sent)).dense([999])


def test_only_a_whole_mapped_array_is_sent_by_path(shards):
    mapped = np.load(shards[0] / "X_00000.npy", mmap_mode="r")
    for array in (mapped, np.asarray(mapped)):
        assert isinstance(by_path(array), MappedFile)
        np.testing.assert_array_equal(by_path(array)[ROWS], array[ROWS])
    plain = np.asarray(mapped)
    turned = mapped.reshape(40, 400)
    parts = (plain[1:], mapped[1:], mapped[:9], plain[:, :3], plain[::-1], plain.view(np.int32), turned)
    for array in (*parts, plain.copy()):
        assert by_path(array) is array


def test_other_features_are_sent_whole():
    matrix = np.arange(12, dtype=np.float32).reshape(6, 2)
    sent = portable(FeatureMatrix(matrix, ROWS, ("a", "b")))
    np.testing.assert_array_equal(sent.dense([0, 1, 2]), matrix[ROWS])
    assert sent.names == ("a", "b")
