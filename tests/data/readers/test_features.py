"""Feature files: dense and sparse, label conventions, damage."""

from __future__ import annotations

import zipfile

import numpy as np
import pytest
import scipy.sparse
import torch

from spml.common.errors import InputError
from spml.config import DataConfig
from spml.data import Augment, open_dataset
from spml.data.matrix import FeatureMatrix, ImageArray, check_finite
from spml.data.readers.features import read_features, read_unlabelled
from spml.data.values import read_labels

X = np.arange(12, dtype=np.float32).reshape(4, 3) % 5
Y = np.array([[1, 0], [0, 1], [1, 1], [0, 0]], np.uint8)


@pytest.fixture
def save(tmp_path):
    def write(name="data.npz", **arrays):
        np.savez(tmp_path / name, **arrays)
        return tmp_path / name

    return write


def test_one_file(save):
    path = save(
        X=X.astype(np.float16), Y=Y, classes=np.array(["b ", "a"]), names=np.array(list("wxyz")),
        split=np.array(["train", "dev", "test", "train"]), feature_names=np.array(["x", "y", "x"]),
    )  # fmt: skip
    records = read_features(path, DataConfig())
    assert records.classes == ("b", "a")
    assert records.ids == ("w", "x", "y", "z")
    assert records.feature_names == ("x", "y", "x")
    assert records.split == ("train", "val", "test", "train")
    assert records.labels.to_ternary().tolist() == [[1, 0], [0, 1], [1, 1], [0, 0]]
    assert records.notes == ("data.npz: Y holds 1 (positive) and 0 (unknown).",)
    batch = records.inputs.fetch([2, 0], Augment(0, 0))
    assert batch.dtype.is_floating_point
    assert batch.dtype.itemsize == 4
    assert batch.tolist() == X[[2, 0]].tolist()


@pytest.mark.parametrize("name", ["set_X.npz", "set_Y.npz"])
def test_pair_of_files(save, tmp_path, name):
    scipy.sparse.save_npz(tmp_path / "set_X.npz", scipy.sparse.csr_matrix(X))
    save("set_Y.npz", Y=Y, test=np.array([0, 0, 1, 0], bool), labels=np.array(["p", "q"]))
    records = read_features(tmp_path / name, DataConfig(unlisted="negative"))
    assert records.name == "set"
    assert records.classes == ("p", "q")
    assert records.ids == ("0", "1", "2", "3")
    assert records.split == ("train", "train", "test", "train")
    assert records.labels.full
    assert records.inputs.fetch([3, 1]).tolist() == X[[3, 1]].tolist()


def test_pairs_that_are_refused(save, tmp_path):
    names = np.array(list("wxyz"))
    save("set_X.npz", X=X, names=names)
    path = save("set_Y.npz", Y=Y, names=names)
    assert read_features(path, DataConfig()).ids == tuple(names)
    save("set_Y.npz", Y=Y, names=names[::-1])
    with pytest.raises(InputError, match=r"set_Y\.npz: names differs from names in set_X\.npz: ambiguous"):
        read_features(path, DataConfig())
    scipy.sparse.save_npz(path, scipy.sparse.csc_matrix(Y))
    for name in ("set_X.npz", "set_Y.npz"):
        with pytest.raises(InputError, match=r"set_Y\.npz: the arrays of Y .*: the format is .*csc.*call Y"):
            read_features(tmp_path / name, DataConfig())


def test_missing_names(save):
    records = read_features(save(X=X, Y=Y, test=np.zeros(4, bool)), DataConfig())
    assert records.classes == ("0", "1")
    assert "has no class names" in records.notes[0]
    assert records.labels.to_multi_hot().tolist() == Y.tolist()
    assert records.split is None


def test_what_does_not_fit_into_memory_is_refused_with_what_to_write(save, monkeypatch):
    path = save(X=X, Y=Y)
    monkeypatch.setattr("os.sysconf", lambda name: 10)
    with pytest.raises(InputError, match=r"its arrays take .* do not fit into memory.* X_00000\.npy"):
        read_features(path, DataConfig())


@pytest.mark.parametrize(
    ("array", "unlisted", "expected", "meaning"),
    [
        ([[True, False]], "negative", [[1, -1]], "0 (negative)"),
        ([[1, 0], [-1, 1]], "negative", [[1, 0], [-1, 1]], "data.unlisted=negative has no effect"),
        ([[1, -1], [-1, 1]], "unknown", [[1, -1], [-1, 1]], "-1 (negative)"),
        ([1, 0], "unknown", [[0, 1], [1, 0]], "class indices"),
        ([1, 0], "negative", [[-1, 1], [1, -1]], "class indices"),
    ],
)
def test_label_conventions(array, unlisted, expected, meaning):
    labels, note = read_labels([("x.npz", np.array(array))], ("a", "b"), unlisted)
    assert labels.to_ternary().tolist() == expected
    assert meaning in note
    assert labels.full == (0 not in np.array(expected))


CSR_LABELS = [
    ([[1, 0], [0, 1], [1, 1]], np.uint8, "unknown", [[1, 0], [0, 1], [1, 1]], "0 (unknown)."),
    ([[1, 0], [0, 1], [1, 1]], bool, "negative", [[1, -1], [-1, 1], [1, 1]], "0 (negative)."),
    ([[1, 0], [0, 1], [0, 0]], float, "negative", [[1, -1], [-1, 1], [-1, -1]], "0 (negative)."),
    ([[1, -1], [0, 1], [0, 0]], np.int8, "unknown", [[1, -1], [0, 1], [0, 0]], "0 (unknown)."),
    ([[1, -1], [0, 1], [0, 0]], np.int64, "negative", [[1, -1], [0, 1], [0, 0]], "has no effect."),
    ([[1, np.nan], [0, 1], [0, 0]], float, "unknown", [[1, 0], [-1, 1], [-1, -1]], "NaN (unknown)."),
]


@pytest.mark.parametrize(("array", "dtype", "unlisted", "expected", "meaning"), CSR_LABELS)
def test_sparse_labels(save, tmp_path, array, dtype, unlisted, expected, meaning):
    """As a file of its own, with other keys next to X, and dense: always the same."""
    matrix = scipy.sparse.csr_matrix(np.array(array, dtype))
    scipy.sparse.save_npz(tmp_path / "set_Y.npz", matrix)
    x = scipy.sparse.csr_matrix(X[:3])
    scipy.sparse.save_npz(tmp_path / "set_X.npz", x)
    parts = {f"Y_{key}": getattr(matrix, key) for key in ("data", "indices", "indptr", "shape")}
    save("one.npz", X=X[:3], **parts)
    save("dense.npz", X=X[:3], Y=np.array(array, dtype))
    for name in ("set_X", "set_Y", "one", "dense"):
        records = read_features(tmp_path / f"{name}.npz", DataConfig(unlisted=unlisted))
        assert records.labels.to_ternary().tolist() == expected, name
        assert records.notes[-1].endswith(meaning), name
        assert records.inputs.fetch([0, 1, 2]).tolist() == X[:3].tolist()
    save("set_X.npz", X=X[:3], classes=np.array(["p", "q"]), test=np.array([0, 0, 1]))
    records = read_features(tmp_path / "set_Y.npz", DataConfig(unlisted=unlisted))
    assert records.labels.to_ternary().tolist() == expected
    assert records.classes == ("p", "q")
    assert records.split == ("train", "train", "test")


def test_explicit_zeros_are_zeros():
    matrix = scipy.sparse.csr_matrix((np.array([1, 0, 1, 0.0]), [0, 1, 1, 0], [0, 2, 4]), shape=(2, 2))
    assert matrix.nnz == 4
    assert read_labels([("x", matrix)], (), "negative")[0].to_ternary().tolist() == [[1, -1], [-1, 1]]
    matrix.data[1] = np.nan
    assert read_labels([("x", matrix)], (), "unknown")[0].to_ternary().tolist() == [[1, 0], [-1, 1]]
    assert matrix.nnz == 4, "the argument is not changed"


@pytest.mark.parametrize(
    ("array", "message"),
    [
        ([[1, 0], [0, 2]], "row 1, column 1 is 2"),
        ([[1, 0], [-1, 3]], "row 1, column 1 is 3"),
        ([[1, 0.5], [0, 1]], "row 0, column 1 is 0.5"),
        ([[1, np.nan], [-1, 0]], "Y holds NaN, but x.npz holds -1"),
        ([[1, np.inf], [0, 1]], "row 0, column 1 is inf"),
        ([[1, 0, 0]], "Y has 3 columns; expected 2, one per class name"),
        ([0, 2], r"row 1: class index 2 is outside .* the first class is 0: subtract 1 if yours"),
        ([0.0, 1.0], "must be integers"),
        ([["a", "b"]], "Y must hold numbers"),
        ([[[1]]], "Y must hold numbers, one row per sample"),
        (scipy.sparse.csr_matrix([[1.0, 0], [0, 2]]), "row 1, column 1 is 2"),
        (scipy.sparse.csr_matrix([[1.0, 0], [0, 0.5]]), "row 1, column 1 is 0.5"),
        (scipy.sparse.csr_matrix([[np.nan, 0], [0, -1]]), "Y holds NaN, but .* holds -1"),
    ],
)
def test_bad_labels(array, message):
    array = array if scipy.sparse.issparse(array) else np.array(array)
    with pytest.raises(InputError, match=message):
        read_labels([("x.npz", array)], ("a", "b"), "unknown")


def bad(array, row, column, value):
    changed = array.copy()
    changed[row, column] = value
    return changed


SPARSE = {
    "data": np.ones(2),
    "indices": np.array([0, 2]),
    "indptr": np.array([0, 1, 2]),
    "shape": np.array([2, 3]),
}


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"X": bad(X, 2, 1, np.nan), "Y": Y}, "X holds nan at row 2, column 1"),
        ({"X": bad(X, 3, 0, np.inf), "Y": Y}, "X holds inf at row 3, column 0"),
        ({"X": bad(X.astype(float), 1, 2, 1e39), "Y": Y}, "X holds inf at row 1, column 2"),
        ({**SPARSE, "data": np.array([1, np.nan]), "Y": Y[:2]}, "X holds nan at row 1, column 2"),
        ({"X": X[:3], "Y": Y}, r"X has 3 rows, but Y has shape \(4, 2\)"),
        ({"X": X}, r"has no labels: expected an array Y.*Found: X \(4, 3\)"),
        ({"Y": Y}, "has no features: expected an array X"),
        ({"unrelated": X}, "has no array with a known name; found: unrelated"),
        ({"X": X[0], "Y": Y}, r"X must hold numbers in shape \(N, D\)"),
        ({"X": X[:0], "Y": Y[:0]}, "at least one row, 1 to"),
        ({"X": X.astype(str), "Y": Y}, "X must hold numbers"),
        ({"X": X, "Y": Y, "classes": np.array(["a"])}, "Y has 2 columns; expected 1, one per class name"),
        ({"X": X, "Y": Y[:, :0]}, "Y has 0 columns; expected 1 to 1,000,000"),
        ({"X": X, "Y": Y, "classes": np.array(["a", " "])}, "classes: entry 1 is empty"),
        ({"X": X, "Y": Y, "classes": np.array(["a", "a"])}, "classes: entry 1 repeats 'a' of entry 0"),
        ({"X": X, "Y": Y, "classes": np.array([1, 2])}, "classes must hold strings"),
        ({"X": X, "Y": Y, "classes": np.array([b"a", b"\xff"])}, "classes must hold strings: .*ascii"),
        ({"X": X, "Y": Y, "names": np.array(["a"])}, "names must hold 4 strings"),
        ({"X": X, "Y": Y, "feature_names": np.array(["a"])}, "feature_names must hold 3 strings"),
        ({"X": X, "Y": np.zeros(4, int)}, "indices of the class names in `classes`"),
        ({"X": X, "Y": Y, "split": np.array(["train", "test", "tset", "val"])}, r"split: row 2 .* is 'tset'"),
        ({"X": X, "Y": Y, "split": np.array(["train"])}, "split must hold 4 strings"),
        ({"X": X, "Y": Y, "test": np.array([0, 1, 2, 0])}, "test must hold 4 truth values"),
        ({**SPARSE, "indices": np.array([0, 9]), "Y": Y[:2]}, "not a valid CSR matrix"),
        ({**SPARSE, "indptr": np.array([0, 9, 2]), "Y": Y[:2]}, "not a valid CSR matrix"),
        ({**SPARSE, "indptr": np.array([2, 0, 0]), "Y": Y[:2]}, "not a valid CSR matrix"),
        ({**SPARSE, "indptr": np.array([0, 2, -5]), "Y": Y[:2]}, "not a valid CSR matrix"),
        ({**SPARSE, "indptr": np.empty(0, int), "Y": Y[:2]}, "not a valid CSR matrix"),
        ({**SPARSE, "indices": np.array([0, -1]), "Y": Y[:2]}, "not a valid CSR matrix"),
        ({**SPARSE, "shape": np.array([2, 3, 4]), "Y": Y[:2]}, "not a valid CSR matrix"),
        (
            {**SPARSE, "shape": np.array([2, 10**12]), "Y": Y[:2]},
            r"numbers in shape .* 1 to 10,000,000 columns and .*; got float64 \(2, 1000000000000\)",
        ),
        ({**SPARSE, "format": np.array(b"csc"), "Y": Y[:2]}, "the format is b'csc', so call X.tocsr"),
        (
            {"X": X[:2], **{f"Y_{key}": array for key, array in SPARSE.items()}, "Y_shape": [2, 10**12]},
            "Y has 1,000,000,000,000 columns; expected 1 to 1,000,000",
        ),
        (
            {"X": X[:2], **{f"Y_{key}": array for key, array in SPARSE.items()}, "Y_indices": [0, 9]},
            "the arrays of Y are not a valid CSR matrix",
        ),
    ],
)
def test_bad_files(save, arrays, message):
    with pytest.raises(InputError, match=message) as caught:
        open_dataset(DataConfig(path=str(save(**arrays))))
    assert "data.npz" in str(caught.value)


def test_sizes_are_checked_before_memory_is_allocated(save):
    path = save(X=X, Y=Y)
    with zipfile.ZipFile(path, "a") as archive, archive.open("names.npy", "w") as stream:
        header = {"descr": "<U10", "fortran_order": False, "shape": (10**12,)}
        np.lib.format.write_array_header_1_0(stream, header)
    with pytest.raises(InputError, match=r"names\.npy states 40,000,000,000,000 bytes, but has 128"):
        read_features(path, DataConfig())


def test_prediction_needs_no_labels(save):
    ids, features = read_unlabelled(save(X=X, names=np.array(list("wxyz"))))
    assert ids == ("w", "x", "y", "z")
    assert features.fetch([1]).tolist() == X[[1]].tolist()


def test_matrices_agree(tmp_path):
    dense = np.random.default_rng(0).normal(size=(9, 4)).astype(np.float32)
    dense[dense < 0.3] = 0
    dense[0, 0] = -0.0
    mapped = np.memmap(tmp_path / "x.bin", np.float32, "w+", shape=dense.shape)
    mapped[:] = dense
    kinds = [FeatureMatrix(dense), FeatureMatrix(scipy.sparse.csr_matrix(dense)), FeatureMatrix(mapped)]
    for features in kinds:
        assert len(features) == 9
        assert features.width == 4
        assert features.fetch([5, 1, 5]).tolist() == dense[[5, 1, 5]].tolist()
        part = features.take([8, 3, 0]).take(np.array([1, 0]))
        assert part.fetch([0, 1]).tolist() == dense[[3, 8]].tolist()
        assert part.fingerprint() == FeatureMatrix(dense[[3, 8]]).fingerprint()
    assert len({features.fingerprint() for features in kinds}) == 1
    assert FeatureMatrix(dense).take([0, 1]).fingerprint() != FeatureMatrix(dense).take([1, 0]).fingerprint()
    assert FeatureMatrix(dense.reshape(4, 9)).fingerprint() != kinds[0].fingerprint()
    check_finite(FeatureMatrix(np.full((10, 10), 3e38, np.float32)), "x")  # although their sum is not


NUMBERS = ["?", "i1", "u1", "<u2", "<i8", "<f2", ">f2", "<f4", ">f4", "<f8", "g"]


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", NUMBERS)
def test_every_kind_of_number_becomes_float32(dtype, order):
    dense = np.array([[0, 1, 0.1], [65504, 2**-24, -0.0], [1, 3, 7], [-2, 5, 1e30]])
    with np.errstate(all="ignore"):
        matrix = np.asarray(dense.astype(dtype), order=order)
        expected = matrix.astype(np.float32)
    features = FeatureMatrix(matrix)
    batch = features.fetch([3, 1, 0])
    assert batch.dtype == torch.float32
    assert batch.is_contiguous()
    assert batch.numpy().tobytes() == expected[[3, 1, 0]].tobytes()
    batch.zero_()
    assert features.dense(range(4)).tobytes() == expected.tobytes()  # what was fetched is no view of it


def test_a_file_in_column_order_is_kept_row_by_row(save):
    features = read_features(save(X=np.asfortranarray(X), Y=Y), DataConfig()).inputs
    assert features._matrix.flags.c_contiguous
    assert features.fetch(range(4)).tolist() == X.tolist()


def test_image_array():
    pixels = np.arange(4 * 1 * 2 * 2, dtype=np.uint8).reshape(4, 1, 2, 2)
    images = ImageArray(pixels)
    assert images.kind == "image"
    assert images.take([3, 1]).fetch([1], Augment(0, 0)).tolist() == pixels[[1]].tolist()
    assert images.take([3, 1]).take([1]).fetch([0]).tolist() == pixels[[1]].tolist()
    assert images.take([0, 1, 2, 3]).fingerprint() == images.fingerprint()
    assert images.take([1, 0]).fingerprint() != images.take([0, 1]).fingerprint()


GIVEN = {"X": X, "Y": np.array([[1, 0], [0, 1], [1, 1], [1, 1]]), "classes": np.array(["p", "q"])}


@pytest.mark.parametrize("observed", [[0, 1, 1, 0], [[1, 0], [0, 1], [0, 1], [1, 0]]])
def test_labels_that_people_gave(save, observed):
    path = save(**GIVEN, observed=np.array(observed), split=np.array(["train", "train", "val", "test"]))
    config = DataConfig(path=str(path), unlisted="negative", observe="protocol")
    data = open_dataset(config)
    assert data.splits["train"].observed.to_ternary().tolist() == [[1, 0], [0, 1]]
    assert data.splits["val"].observed.to_ternary().tolist() == [[0, 1]]
    assert data.truth["test"].to_ternary().tolist() == [[1, 1]]
    assert data.empty == "exclude"
    assert "The observed labels are those of the array `observed` of data." in data.notes
    full = open_dataset(DataConfig(path=str(path), unlisted="negative"))
    assert full.splits["val"].observed.to_ternary().tolist() == [[1, 1]]
    assert "data.npz: `observed` is not used; data.observe=protocol learns from it." in full.notes


@pytest.mark.parametrize(
    ("observed", "unlisted"),
    [([0, 1, 1], "negative"), (np.zeros((4, 3)), "negative"), ([0, 1, 1, 0], "unknown")],
)
def test_observed_labels_that_do_not_suit(save, observed, unlisted):
    path = save(**GIVEN, observed=np.array(observed))
    with pytest.raises(InputError, match="npz: observed"):
        open_dataset(DataConfig(path=str(path), unlisted=unlisted, observe="protocol"))
