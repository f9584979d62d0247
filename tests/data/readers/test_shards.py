"""Folders of feature shards."""

from __future__ import annotations

import numpy as np
import pytest

from spml.common.errors import InputError
from spml.config import DataConfig
from spml.data import list_inputs, open_dataset
from spml.data.matrix import FeatureMatrix
from spml.data.names import RowNames
from spml.data.readers import Source, read
from spml.data.readers.shards import is_shards, read_shards, read_unlabelled
from tests.helpers.commands import refusal
from tests.helpers.records import sizes_of

X = np.random.default_rng(0).standard_normal((12, 4)).astype(np.float16)
INDEX = np.arange(12, dtype=np.int16) % 3
MATRIX = np.eye(3, dtype=np.uint8)[INDEX]
SIZES = (5, 3, 4)


@pytest.fixture
def write(tmp_path):
    """Function that writes arrays as shards; a value for a number replaces that shard."""

    def save(classes="a b c", sizes=SIZES, **arrays):
        folder = tmp_path / "shards"
        folder.mkdir(exist_ok=True)
        for name, array in arrays.items():
            for number, part in enumerate(np.split(array, np.cumsum(sizes)[:-1])):
                np.save(folder / f"{name}_{number}.npy", part)
        if classes:
            np.savetxt(folder / "classes.txt", classes.split(), fmt="%s")
        return folder

    return save


def refused(folder, **settings):
    return refusal(read_shards, folder, DataConfig(**settings))


def test_class_indices(write):
    records = read(DataConfig(path=str(write(X=X, Y=INDEX))))
    assert records.name == "shards"
    assert records.classes == ("a", "b", "c")
    assert records.labels.index.tolist() == INDEX.tolist()
    assert isinstance(records.ids, RowNames)
    assert records.ids == tuple(map(str, range(12)))
    assert records.split is None
    assert records.inputs.fetch(range(12)).tolist() == X.tolist()
    assert records.notes == (
        "shards was read as a folder of feature shards.",
        "shards: 3 shards, 12 x 4.",
        "shards: Y holds class indices, one label per sample.",
    )
    for part in records.inputs._matrix._parts:
        assert isinstance(part.base, np.memmap), "mapped, not read"
        assert not part.flags.writeable
    negative = read_shards(write(), DataConfig(unlisted="negative"))
    assert negative.labels.to_ternary().tolist() == (2 * MATRIX.astype(int) - 1).tolist()
    (write() / "classes.txt").unlink()
    matrix = read_shards(write(classes="", Y=MATRIX), DataConfig())
    assert matrix.classes == ("0", "1", "2")
    assert matrix.labels.index.tolist() == INDEX.tolist()
    assert matrix.notes[1] == "shards: has no class names; classes are called 0, 1, 2 ..."


@pytest.mark.parametrize(
    ("change", "unlisted", "meaning"),
    [
        ([(11, 1, -1)], "unknown", "-1 (negative) and 0 (unknown)."),
        ([(0, 1, np.nan)], "unknown", "0 (negative) and NaN (unknown)."),
        ([(row, column, -1) for row in range(12) for column in range(3) if column != row % 3], "unknown",
         "-1"),
        ([(row, column, -1) for row in range(5) for column in range(3) if column != row % 3], "negative",
         "no eff"),
    ],
)  # fmt: skip
def test_one_convention_for_all_shards(write, tmp_path, monkeypatch, change, unlisted, meaning):
    """A value that occurs in one block says what the others mean; the result is that of one file."""
    monkeypatch.setattr("spml.data.values._BLOCK", 7)
    labels = MATRIX.astype(np.float32)
    for row, column, value in change:
        labels[row, column] = value
    many = read_shards(write(X=X, Y=labels), DataConfig(unlisted=unlisted))
    whole = tmp_path / "whole.npz"
    np.savez(whole, X=X, Y=labels, classes=np.array(["a", "b", "c"]))
    one = read(DataConfig(path=str(whole), unlisted=unlisted))
    assert many.labels == one.labels
    assert many.labels.full == one.labels.full
    assert many.notes[-1].split(": ")[1] == one.notes[-1].split(": ")[1]
    assert meaning in many.notes[-1]


def test_splits_and_names(write):
    split = np.array(["train"] * 6 + ["valid"] * 3 + ["TEST"] * 3)
    names = np.array([f"photos/{row}.jpg " for row in range(12)])
    folder = write(X=X, Y=INDEX, split=split, names=names)
    records = read_shards(folder, DataConfig())
    assert records.split == ("train",) * 6 + ("val",) * 3 + ("test",) * 3
    assert records.ids[11] == "photos/11.jpg"
    ignored = read_shards(folder, DataConfig(split="ignore"))
    assert ignored.split is None
    assert "shards: the split is ignored." in ignored.notes
    data = open_dataset(DataConfig(path=str(folder)))
    assert sizes_of(data) == {"train": 6, "val": 3, "test": 3}
    assert data.splits["test"].ids == ("photos/9.jpg", "photos/10.jpg", "photos/11.jpg")
    assert data.splits["test"].inputs.fetch([2]).tolist() == X[[11]].tolist()
    write(X=X, names=names[::-1][[0] * 12])
    assert "names: entry 1 repeats" in refused(folder)
    write(names=names, split=np.array(["train"] * 11 + ["other"]))
    assert "split: row 11 (counted from 0) is 'other', but must be one of train" in refused(folder)


def test_groups(write):
    who = np.array([" a", "b", ""] * 4)
    folder = write(X=X, Y=INDEX, who=who, **{"a.c": np.arange(12) // 5})
    assert read_shards(folder, DataConfig(group="who")).groups == ("a", "b", "") * 4
    assert read_shards(folder, DataConfig(group="a.c")).groups == tuple("000001111122")
    assert read_shards(folder, DataConfig()).groups is None
    assert "data.group=abc: there is no array of this name" in refused(folder, group="abc")
    write(who=np.arange(12.0))
    assert "who_0.npy: must hold strings: got float64" in refused(folder, group="who")
    (folder / "who_1.npy").unlink()
    assert "no who_1.npy" in refused(folder, group="who")


def test_names_of_shards(write, tmp_path):
    """They are in the order of their numbers."""
    folder = write(sizes=(1,) * 12, X=X, Y=INDEX)
    assert read_shards(folder, DataConfig()).inputs.fetch(range(12)).tolist() == X.tolist()
    for kind in "XY":
        (folder / f"{kind}_7.npy").unlink()
    records = read_shards(folder, DataConfig())
    assert "shards: 11 shards, 11 x 4 (numbered from 0 to 11, 1 of them missing)." in records.notes
    for number in range(12):  # as clip-retrieval calls them
        if number != 7:
            (folder / f"X_{number}.npy").rename(folder / f"img_emb_{number}.npy")
    assert read_shards(folder, DataConfig()).inputs.fetch([10]).tolist() == X[[11]].tolist()
    for read_one in (lambda path: read(DataConfig(path=path)), lambda path: list_inputs([path])):
        with pytest.raises(InputError, match=r"Y_0\.npy: is one array\. Name the folder that holds features"):
            read_one(str(folder / "Y_0.npy"))
    for name in ("X.npy", "X_1.npz", "xX_1.npy", "Y_1.npy"):
        (tmp_path / name).touch()
    assert not is_shards(Source(tmp_path))


def test_a_split_and_a_fingerprint_are_those_of_one_file(write, tmp_path):
    folder = write(X=X, Y=INDEX)
    np.savez(tmp_path / "one.npz", X=X, Y=INDEX, classes=np.array(["a", "b", "c"]))
    many, one = (open_dataset(DataConfig(path=str(path))) for path in (folder, tmp_path / "one.npz"))
    assert many.splits["val"].ids == one.splits["val"].ids
    assert isinstance(many.splits["val"].ids, RowNames)
    assert many.fingerprint() == one.fingerprint()
    np.save(folder / "X_2.npy", X[8:] + 1)
    assert open_dataset(DataConfig(path=str(folder))).fingerprint() != one.fingerprint()


def test_prediction_needs_no_labels(write):
    folder = write(classes="", X=X)
    ids, features = read_unlabelled(folder)
    assert ids == tuple(map(str, range(12)))
    assert isinstance(features, FeatureMatrix)
    ids, features = list_inputs([str(folder)])
    assert features.fetch([11, 4]).tolist() == X[[11, 4]].tolist()
    with pytest.raises(InputError, match="shards: a folder of feature shards must be given alone, but"):
        list_inputs([str(folder), str(folder)])
    np.save(folder / "names_0.npy", np.array(list("abcde")))
    with pytest.raises(InputError, match=r"has X_0\.npy, but no names_1\.npy \(2 of 3 are missing"):
        read_unlabelled(folder)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda f: (f / "Y_1.npy").unlink(), "has X_0.npy, but no Y_1.npy (1 of 3 are missing: Y_1.npy)"),
        (lambda f: (f / "X_1.npy").unlink(), "has Y_1.npy, but no features of this number"),
        (lambda f: (f / "classes.txt").unlink(), "Y_0.npy: holds class indices, but there is no classes.txt"),
        (lambda f: (f / "classes.txt").write_text("\n"), "classes.txt: is empty"),
        (lambda f: (f / "classes.txt").write_text("a\nb\na"), "lines: entry 2 repeats 'a' of entry 0"),
        (lambda f: (f / "classes.txt").write_bytes(b"\xff"), "classes.txt: is not UTF-8: byte 0xff"),
        (lambda f: np.save(f / "img_emb_1.npy", X[5:8]), "holds both X_1.npy and img_emb_1.npy. Keep one of"),
        (lambda f: np.save(f / "Y_1.npy", np.array([0, 3, 1])), "Y_1.npy: Y: row 1: class index 3 is out"),
        (lambda f: np.save(f / "Y_1.npy", np.zeros(4, int)), "has the shape (4,), but X_1.npy has 3 rows"),
        (lambda f: np.save(f / "Y_1.npy", np.zeros((3, 3))), "the type float64 and the shape (3, 3), but"),
        (lambda f: np.save(f / "Y_0.npy", np.zeros((5, 2))), "Y has 2 columns; expected 3, one per"),
        (lambda f: np.save(f / "Y_0.npy", np.zeros(5)), "Y: class indices must be integers"),
        (lambda f: np.save(f / "X_1.npy", X[5:8, :3]),
         "holds float16 (3, 3), but the shards before hold float16 (5, 4)"),
        (lambda f: np.save(f / "X_1.npy", X[5:8].astype("f4")), "X_1.npy: holds float32 (3, 4)"),
        (lambda f: np.save(f / "X_1.npy", np.asfortranarray(X[5:8])), "X_1.npy: is stored column by column"),
        (lambda f: np.save(f / "X_1.npy", X[5]), "X_1.npy: must hold numbers in shape (n, D)"),
        (lambda f: np.save(f / "X_1.npy", X[:0]), "X_1.npy: "),
        (lambda f: np.save(f / "X_1.npy", np.array([[print]])), "Python objects are not read"),
        (lambda f: (f / "X_1.npy").write_bytes((f / "X_1.npy").read_bytes()[:-1]), "X_1.npy: is not a .npy"),
        (lambda f: (f / "X_1.npy").write_bytes(b""), "X_1.npy: is not a .npy file, or is incomplete"),
    ],
)  # fmt: skip
def test_damage_is_named(write, damage, message):
    folder = write(X=X, Y=INDEX)
    damage(folder)
    assert message in refused(folder)
