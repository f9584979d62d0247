"""Counts and means of observed, hidden and wrong labels, by hand."""

from __future__ import annotations

import json

import numpy as np
import pytest

from spml.config import DataConfig
from spml.data import inspect, open_dataset
from spml.data.inspection.report import LabelMeans, count_positives, label_means
from spml.labels import ObservedLabels

TRUTH = [[1, 1, 0, 0], [0, 1, 1, 1], [1, 0, 0, 0]]
OBSERVED = [[0, 1, 0, 0], [0, -1, 0, 1], [0, 0, 1, 0]]  # -1 and the last +1 are wrong


def test_counts_of_each_class():
    truth = ObservedLabels.from_multi_hot(TRUTH, unlisted="negative")
    observed = ObservedLabels.from_ternary(OBSERVED)
    counts = count_positives(observed, truth)
    assert counts.observed.tolist() == [0, 1, 1, 1]
    assert counts.hidden.tolist() == [2, 1, 1, 0]
    assert counts.wrong.tolist() == [0, 0, 1, 0]


def test_counts_without_the_true_labels():
    counts = count_positives(ObservedLabels.from_ternary(OBSERVED), None)
    assert counts.observed.tolist() == [0, 1, 1, 1]
    assert (counts.hidden, counts.wrong) == (None, None)


def test_against_dense_matrices():
    generator = np.random.default_rng(0)
    truth, observed = generator.integers(0, 2, (200, 9)), generator.integers(-1, 2, (200, 9))
    counts = count_positives(
        ObservedLabels.from_ternary(observed), ObservedLabels.from_multi_hot(truth, unlisted="negative")
    )
    assert counts.hidden.tolist() == ((truth == 1) & (observed != 1)).sum(0).tolist()
    assert counts.wrong.tolist() == ((truth == 0) & (observed == 1)).sum(0).tolist()


@pytest.fixture
def features(tmp_path):
    """Four training samples with 2, 3, 1 and 2 positives of five classes; two more of each other split."""
    labels = np.array([
        [1, 1, 0, 0, 0], [1, 1, 1, 0, 0], [0, 0, 0, 1, 0], [0, 0, 0, 1, 1],
        [1, 0, 0, 0, 0], [0, 1, 1, 0, 0], [1, 1, 1, 1, 1], [0, 0, 0, 0, 1],
    ])  # fmt: skip
    split = np.array(["train"] * 4 + ["val"] * 2 + ["test"] * 2)
    np.savez(tmp_path / "x.npz", X=np.arange(16.0).reshape(8, 2), Y=labels, split=split)
    return tmp_path / "x.npz"


def test_means_of_each_split(features):
    data = open_dataset(DataConfig(path=str(features), unlisted="negative", observe="single"))
    assert label_means(data) == {
        "train": LabelMeans(4, 2.0, 3.0, 1.0, 0.0, 1.0, 0.0),
        "val": LabelMeans(2, 1.5, 3.5, 1.0, 0.0, 0.5, 0.0),
        "test": LabelMeans(2, 3.0, 2.0, 1.0, 0.0, 2.0, 0.0),
    }
    data = open_dataset(
        DataConfig(path=str(features), unlisted="negative", observe="single", observe_all_negatives=True)
    )
    assert label_means(data)["train"] == LabelMeans(4, 2.0, 3.0, 1.0, 3.0, 1.0, 0.0)


def test_means_of_wrong_positives(features):
    """Each wrong positive hides one true label more."""
    config = DataConfig(path=str(features), unlisted="negative", observe="single", observe_noise=0.999999)
    assert label_means(open_dataset(config))["train"] == LabelMeans(4, 2.0, 3.0, 1.0, 0.0, 2.0, 1.0)


def test_means_without_the_true_labels(features):
    means = label_means(open_dataset(DataConfig(path=str(features))))
    assert means["train"] == LabelMeans(4, None, None, 2.0, 0.0, None, None)


def test_the_report_has_them(features, tmp_path):
    inspection = inspect(DataConfig(path=str(features), unlisted="negative", observe="single"))
    assert inspection.label_means["val"] == LabelMeans(2, 1.5, 3.5, 1.0, 0.0, 0.5, 0.0)
    inspection.write(tmp_path)
    document = json.loads((tmp_path / "inspect.json").read_text())
    assert document["label_means"]["train"] == {
        "samples": 4, "positives": 2.0, "negatives": 3.0, "observed_positives": 1.0,
        "observed_negatives": 0.0, "hidden_positives": 1.0, "wrong_positives": 0.0,
    }  # fmt: skip
    refused = inspect(DataConfig(path=str(features), observe="single"))
    assert refused.refused
    assert refused.label_means == {}
