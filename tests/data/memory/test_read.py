"""Samples and labels together."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.sparse import csr_matrix
from torch.utils.data import Dataset, Subset, TensorDataset

from spml.common.errors import InputError
from spml.config import DataConfig
from spml.data import MEMORY, read_memory, start_opening
from spml.data.readers import read
from tests.helpers.commands import refusal

X = np.arange(12, dtype=np.float32).reshape(6, 2)
PIXELS = np.zeros((4, 4, 3), np.uint8)


class Labelled(Dataset):
    """Images and labels, both of any kind."""

    def __init__(self, *items):
        self.items = items

    def __len__(self):
        return len(self.items)

    def __getitem__(self, row):
        return self.items[row]


class Named(Labelled):
    """A data set as those of torchvision."""

    classes = ["cat", "dog"]  # noqa: RUF012


@pytest.mark.parametrize(
    ("samples", "classes", "expected"),
    [
        (Labelled((PIXELS, 1), (PIXELS, 0)), None, ("0", "1")),
        (Labelled((PIXELS, torch.tensor(1)), (PIXELS, np.int64(0))), None, ("0", "1")),
        (Labelled((PIXELS, "y"), [PIXELS, "x"]), None, ("x", "y")),
        (Labelled((PIXELS, torch.tensor([0, 1])), (PIXELS, torch.tensor([1, 0]))), None, ("0", "1")),
        (Named((PIXELS, 1), (PIXELS, 0)), None, ("cat", "dog")),
        (Named((PIXELS, 1), (PIXELS, 0)), ["x", "y"], ("x", "y")),
        (Named((PIXELS, "y"), (PIXELS, "x")), None, ("x", "y")),
        (TensorDataset(torch.tensor(X[:2]), torch.tensor([1, 0])), None, ("0", "1")),
    ],
)
def test_a_data_set_of_pytorch_has_its_labels_inside(samples, classes, expected):
    records = read_memory(samples, None, DataConfig(), classes=classes)
    assert records.classes == expected
    assert records.labels.to_multi_hot().tolist() == [[0, 1], [1, 0]]


def test_a_data_set_may_be_given_labels():
    data = Labelled(PIXELS, PIXELS)
    assert read_memory(data, ["a", "b"], DataConfig()).labels.index.tolist() == [0, 1]


def test_records_in_memory_are_opened_like_those_of_a_file(tmp_path):
    y = np.array(["a", "b", "a", "b", "a", "b"])
    np.savez(tmp_path / "x.npz", X=X, Y=np.array([0, 1, 0, 1, 0, 1]), classes=np.array(["a", "b"]))
    settings = {"val_share": 0.5, "sample_rows": 5}
    expected = start_opening(DataConfig(path=str(tmp_path / "x.npz"), **settings)).finish()
    config = DataConfig(path=MEMORY, **settings)
    data = start_opening(config, records=read_memory(X, y, config)).finish()
    assert data.fingerprint() == expected.fingerprint()
    assert [samples.ids for samples in data.splits.values()] == [
        samples.ids for samples in expected.splits.values()
    ]


@pytest.mark.parametrize(
    ("samples", "labels", "message"),
    [
        (X, [0, 1], "X has 6 samples, but y has 2 labels."),
        (X[:1], np.eye(3), "X has 1 sample, but y has 3 labels."),
        (Labelled((PIXELS, 1), PIXELS), None, "X[1]: the data set gives a value of the type ndarray, shape"),
    ],
)
def test_samples_and_labels_that_do_not_go_together(samples, labels, message):
    assert message in refusal(read_memory, samples, labels, DataConfig())


def test_the_users_data_is_read_as_it_is(tmp_path, monkeypatch):
    matrix = csr_matrix((np.ones(3, np.float32), [1, 0, 1], [0, 2, 3, 3]), shape=(3, 2))
    indices = matrix.indices.copy()
    read_memory(matrix, [0, 1, 0], DataConfig())
    assert matrix.indices.tolist() == indices.tolist(), "it is not changed"
    with pytest.raises(InputError, match=r"^classes has no effect on a DataFrame of .* leave it out\.$"):
        read_memory(pd.DataFrame({"file": ["a.png"], "label": ["x"]}), None, DataConfig(), classes=["x"])
    monkeypatch.chdir(tmp_path)
    (tmp_path / MEMORY).mkdir()
    with pytest.raises(InputError, match=r"^data in memory: it was passed to spml\.train in Python"):
        read(DataConfig(path=MEMORY))


def test_a_subset_keeps_the_class_names_of_its_data_set():
    whole = Named((PIXELS, 1), (PIXELS, 0), (PIXELS, 1))
    for part in (Subset(whole, [2, 1]), Subset(Subset(whole, [2, 1, 0]), [0, 1])):
        records = read_memory(part, None, DataConfig())
        assert records.classes == ("cat", "dog")
        assert records.labels.index.tolist() == [1, 0]


def test_the_split_of_samples():
    parts = ["train", "Training", "valid", "test", "dev", "train"]
    expected = ("train", "train", "val", "test", "val", "train")
    assert read_memory(X, list("ababab"), DataConfig(), split=parts).split == expected
    assert read_memory(X, list("ababab"), DataConfig(split="ignore"), split=parts).split is None
    frame = pd.DataFrame({"x": X[:, 0], "y": X[:, 1], "part of": parts, "label": list("ababab")})
    records = read_memory(frame, "label", DataConfig(split_column="part of"))
    assert records.split == expected
    assert records.feature_names == ("x", "y")
    for samples, column, split, message in (
        (X, "", ["train"] * 5, "^X has 6 samples, but split has 5 entries"),
        (
            X,
            "",
            [*parts[:5], "x"],
            r"^data in memory: split: row 5 \(counted from 0\) is 'x', but must be",
        ),
        (X, "part", None, "pass the split of arrays as split"),
        (frame, "prt", None, r"data\.split_column: there is no column 'prt'"),
    ):
        labels = "label" if samples is frame else list("ababab")
        with pytest.raises(InputError, match=message):
            read_memory(samples, labels, DataConfig(split_column=column), split=split)


def test_text_with_several_names_is_read_as_in_a_file():
    y = ["cat; dog", "cat", "dog", "unknown", "dog; sea", "sea"]
    for labels in (y, pd.Series(y), pd.Series(y, dtype="string"), np.array(y)):
        records = read_memory(X, labels, DataConfig())
        names = records.labels.to_names(records.classes)
        assert names == [["cat", "dog"], ["cat"], ["dog"], [], ["dog", "sea"], ["sea"]]
    whole = read_memory(X, y, DataConfig(separator=""))
    assert whole.classes == ("cat", "cat; dog", "dog", "dog; sea", "sea")
    with pytest.raises(InputError, match=r"y\[3\] is <NA>, but every sample needs a label"):
        read_memory(X, pd.Series([*y[:3], pd.NA, *y[4:]], dtype="string"), DataConfig())


@pytest.mark.parametrize(
    "y",
    [
        np.array([[0], [1], [0], [2], [0], [1]]),
        np.array([0.0, 1.0, 0.0, 2.0, 0.0, 1.0]),
        pd.DataFrame({"label": [0, 1, 0, 2, 0, 1]}),
        pd.Series([0, 1, 0, 2, 0, 1]).convert_dtypes(),
    ],
)
def test_indices_as_pandas_leaves_them(y):
    records = read_memory(X, y, DataConfig())
    assert records.classes == ("0", "1", "2")
    assert records.labels.index.tolist() == [0, 1, 0, 2, 0, 1]
