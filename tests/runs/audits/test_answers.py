"""Samples of other data that a run knows."""

from __future__ import annotations

import numpy as np
import pytest

from spml.config import from_dict
from spml.data.matrix import FeatureMatrix
from spml.data.names import RowNames
from spml.runs.audits.answers import names_in_training

X = np.arange(12, dtype=np.float32).reshape(6, 2)


@pytest.fixture(params=["one file", "shards"])
def trained_on(request, tmp_path):
    """Settings of a run that was trained on six samples, in one file or in two shards."""
    labels = np.array([0, 1, 0, 1, 0, 1])
    if request.param == "one file":
        np.savez(tmp_path / "data.npz", X=X, Y=labels, classes=np.array(["a", "b"]))
        return from_dict({"data": {"path": str(tmp_path / "data.npz")}})
    for number in (0, 1):
        np.save(tmp_path / f"X_{number}.npy", X[3 * number : 3 * number + 3])
        np.save(tmp_path / f"Y_{number}.npy", labels[3 * number : 3 * number + 3])
    (tmp_path / "classes.txt").write_text("a\nb\n")
    return from_dict({"data": {"path": str(tmp_path)}})


def test_rows_are_known_by_what_they_hold(trained_on):
    other = FeatureMatrix(np.stack([X[4], X[0] + 0.5, X[1]]))
    for ids in (RowNames(3), ("0", "1", "2")):
        assert list(names_in_training(trained_on, ids, other)) == [("4",), (), ("1",)]


def test_other_names_are_names_in_training(trained_on):
    assert list(names_in_training(trained_on, ("4", "0"), FeatureMatrix(X[:2]))) == [("4",), ("0",)]
