"""Feature files that are random, damaged or hostile: data or one clear error, nothing unpickled."""

from __future__ import annotations

import pickle
import re
import zipfile

import numpy as np
import pytest
from hypothesis import strategies as st

from spml.common.errors import InputError
from spml.config import DataConfig
from spml.data.readers import features as reader
from spml.data.readers.features import read_features
from tests.data.hostile.fuzzing import changes, damage, fuzz, open_or_refuse, text_changes, unlisted
from tests.helpers.originals import ARFF, LABELS, feature_files

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


@fuzz(some_read=False, content=st.binary(max_size=300))
def test_random_bytes_as_feature_file(folder, content):
    (folder / "x.npz").write_bytes(content)
    open_or_refuse(folder / "x.npz")


# Without a change, too, since hardly any changed file can be read.
@fuzz(content=st.sampled_from(feature_files()), changes=st.one_of(st.just([]), changes), unlisted=unlisted)
def test_damaged_feature_file(folder, content, changes, unlisted):
    (folder / "y.npz").write_bytes(damage(content, changes))
    open_or_refuse(folder / "y.npz", unlisted=unlisted)


arrays = st.one_of(
    st.sampled_from(
        [
            np.eye(4),
            np.eye(4)[0],
            np.zeros((4, 0)),
            np.array(3),
            np.full((4, 2), np.nan),
            np.array(["a", "b"]),
        ]
    ),
    st.sampled_from(
        [np.array([4, 4]), np.array([-1, 4]), np.array([0, 1, 2, 3, 4]), np.array([0, 9, 2, 3, 4])]
    ),
    st.sampled_from(
        [
            np.array([b"\xff", b"a"]),
            np.array([2**62] * 4),
            np.array([1.5]),
            np.array([True] * 4),
            np.array("csr"),
        ]
    ),
)
SPARSE = ["data", "indices", "indptr", "shape"]
keys = st.sampled_from(
    [
        "X",
        "Y",
        *SPARSE,
        *(f"Y_{key}" for key in SPARSE),
        "format",
        "classes",
        "labels",
        "names",
        "split",
        "test",
    ]
)


BASES = [{}, {"X": np.eye(4)}, {"X": np.eye(4), "Y": np.eye(2)[[0, 0, 1, 1]]}]


@fuzz(base=st.sampled_from(BASES), content=st.dictionaries(keys, arrays, max_size=8), unlisted=unlisted)
def test_random_arrays_as_feature_file(folder, base, content, unlisted):
    np.savez(folder / "z.npz", **{**content, **base})
    open_or_refuse(folder / "z.npz", unlisted=unlisted)


words = st.sampled_from(
    ["@relation", "@attribute", "@data", "'", '"', "{", "}", ",", " ", "\n", "0", "1", "?", "a", "numeric",
     "{0,1}", "-C 1", "%", "\\", "1 1", "nan", "1e999", "\t", "\0", "é"]
)  # fmt: skip


HEADER = b"@relation '-C 1'\n@attribute a {0,1}\n@attribute b {0,1}\n@attribute c numeric\n@data\n"


@fuzz(
    changes=st.one_of(changes, text_changes, text_changes),
    unlisted=unlisted,
    columns=st.sampled_from([0, 0, 0, 1, -3, 9]),
)
def test_damaged_arff(folder, changes, unlisted, columns):
    (folder / "x.arff").write_bytes(damage(ARFF, changes))
    open_or_refuse(folder / "x.arff", unlisted=unlisted, label_columns=columns)


@fuzz(
    some_read=False,
    start=st.sampled_from([b"", HEADER]),
    text=st.lists(words, max_size=40).map("".join),
)
def test_random_words_as_arff(folder, start, text):
    (folder / "y.arff").write_bytes(start + text.encode())
    open_or_refuse(folder / "y.arff")


@fuzz(changes=st.one_of(changes, text_changes))
def test_damaged_list_of_labels(folder, changes):
    (folder / "z.arff").write_bytes(ARFF)
    (folder / "z.xml").write_bytes(damage(LABELS, changes))
    open_or_refuse(folder / "z.arff")
