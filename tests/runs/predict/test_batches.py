"""Predictions batch by batch, and of the predicted labels only."""

from __future__ import annotations

from itertools import chain

import numpy as np
import pytest
from PIL import Image
from scipy.sparse import csr_array, vstack

import spml
from spml.runs import run as run_module
from spml.runs.predict.predictions import Predictions
from tests.helpers.features import make_features

SCORES = np.array([[0.25, 0.5, 0.125], [0.75, 1.0, 0.5]], np.float32)


def sparse_predictions(**changes):
    """Of two samples and three classes, without the scores of labels that are not predicted."""
    shown = np.array([[1, 1, 0], [0, 0, 0]])
    settings = {
        "ids": ("x.png", "y.png"), "classes": ("a", "labels", "c"), "scores": csr_array(SCORES * shown),
        "labels": [["labels", "a"], []], "probabilities": csr_array(SCORES * shown / 2), **changes,
    }  # fmt: skip
    return Predictions(**settings)


def joined(parts):
    return list(chain.from_iterable(parts))


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("batches")
    data = make_features(folder / "data.npz")
    settings = {"threads": 1, "quiet": True, "output": folder / "run"}
    return spml.train(data, head="ridge", mean_labels=2.5, **settings), data


@pytest.mark.parametrize("columns", [None, np.array([1, 0])])
def test_scores_of_the_labels_are_in_their_order(columns):
    predictions = sparse_predictions(label_columns=columns)
    assert predictions.sparse
    assert predictions.of_labels() == [[[0.5, 0.25], []], [[0.25, 0.125], []]]
    assert sparse_predictions(probabilities=None).of_labels() == [[[0.5, 0.25], []]]
    dense = sparse_predictions(scores=SCORES, probabilities=SCORES / 2, label_columns=columns)
    assert not dense.sparse
    assert dense.of_labels() == predictions.of_labels()


def test_entries_may_be_stored_in_any_order():
    data = np.array([0.5, 0.25, 0.75], np.float32)
    scores = csr_array((data, np.array([2, 0, 1]), np.array([0, 2, 3])), shape=(2, 3))
    predictions = sparse_predictions(scores=scores, probabilities=None, labels=[["a", "c"], ["labels"]])
    assert predictions.of_labels() == [[[0.25, 0.5], [0.75]]]


def test_a_frame_of_the_predicted_labels():
    pytest.importorskip("pandas", reason="pandas is not installed")
    frame = sparse_predictions().to_frame()
    assert list(frame.columns) == ["labels", "scores", "probabilities"]
    assert list(frame.index) == ["x.png", "y.png"]
    assert frame.index.name == "file"
    assert frame.loc["x.png"].tolist() == [["labels", "a"], [0.5, 0.25], [0.25, 0.125]]
    assert frame.loc["y.png"].tolist() == [[], [], []]
    assert list(sparse_predictions(probabilities=None).to_frame().columns) == ["labels", "scores"]


@pytest.mark.parametrize("decision", [{}, {"top_k": 2}, {"threshold": 0.3}])
def test_batches_are_the_parts_of_all_predictions(run, decision):
    trained, data = run
    whole = trained.predict(data, batch_size=16, **decision)
    parts = list(trained.predict_batches(data, batch_size=16, **decision))
    assert [len(part.ids) for part in parts][:2] == [16, 16]
    assert joined(part.ids for part in parts) == list(whole.ids)
    assert joined(part.labels for part in parts) == whole.labels
    assert (np.concatenate([part.scores for part in parts]) == whole.scores).all()
    assert (np.concatenate([part.probabilities for part in parts]) == whole.probabilities).all()
    assert all(part.classes == whole.classes and part.notes == () for part in parts)


def test_sparse_batches_have_the_scores_of_the_labels(run):
    trained, data = run
    whole = trained.predict(data, batch_size=16)
    parts = list(trained.predict_batches(data, batch_size=16, sparse=True))
    assert all(part.sparse for part in parts)
    assert joined(part.labels for part in parts) == whole.labels
    assert any(whole.labels)
    found = [joined(part.of_labels()[which] for part in parts) for which in (0, 1)]
    assert found == whole.of_labels()
    scores = vstack([part.scores for part in parts])
    assert scores.shape == whole.scores.shape
    assert scores.nnz == sum(map(len, whole.labels))


def test_too_many_scores_for_the_memory_give_those_of_the_labels(run, monkeypatch):
    trained, data = run
    whole = trained.predict(data)
    monkeypatch.setattr(run_module, "fits", lambda samples, classes: False)
    sparse = trained.predict(data)
    assert sparse.sparse
    assert (sparse.ids, sparse.classes, sparse.labels) == (whole.ids, whole.classes, whole.labels)
    assert sparse.of_labels() == whole.of_labels()


def test_a_batch_has_no_more_scores_than_fit(run, monkeypatch):
    trained, data = run
    monkeypatch.setattr("spml.runs.predict.batches._SCORES", 5 * len(trained.classes) + 1)
    sizes = [len(part.ids) for part in trained.predict_batches(data, batch_size=64)]
    assert set(sizes[:-1]) == {5}


def test_images_that_can_not_be_read_are_left_out(tmp_path):
    from tests.helpers.run_folders import save_run

    folder = tmp_path / "photos"
    folder.mkdir()
    for number in range(4):
        Image.fromarray(np.full((40, 40), 60 * number, np.uint8)).save(folder / f"{number}.png")
    (folder / "1.png").write_bytes(b"no image")
    (folder / "3.png").write_bytes(b"")
    parts = list(spml.load(save_run(tmp_path)).predict_batches(folder, batch_size=2))
    assert [[name.rpartition("/")[2] for name in part.ids] for part in parts] == [["0.png"], ["2.png"]]
