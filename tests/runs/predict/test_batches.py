"""Prediction batch by batch."""

from __future__ import annotations

import json
from itertools import chain

import numpy as np
import pytest
from PIL import Image
from scipy.sparse import csr_array, vstack

import spml
from spml.common.errors import SpmlError
from spml.runs import run as run_module
from spml.runs.predict.predictions import Predictions
from tests.helpers.commands import execute, refusal
from tests.helpers.features import arrays_of, make_features
from tests.helpers.networks import set_weights
from tests.helpers.run_folders import change, save_run, save_thresholds

# -- predictions batch by batch, and of the predicted labels only ----------------------------------------


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


def test_scores_of_the_labels_are_in_their_order():
    predictions = sparse_predictions()
    assert predictions.sparse
    assert predictions.of_labels() == [[[0.5, 0.25], []], [[0.25, 0.125], []]]
    assert sparse_predictions(probabilities=None).of_labels() == [[[0.5, 0.25], []]]
    dense = sparse_predictions(scores=SCORES, probabilities=SCORES / 2)
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


# -- predictions are finite, or there are none; a batch fits into the memory, or is not begun ------------


@pytest.fixture
def photos(tmp_path):
    folder = tmp_path / "photos"
    folder.mkdir()
    for number in range(3):
        pixels = np.full((40, 40), 80 * number, np.uint8)
        Image.fromarray(pixels).save(folder / f"{number}.png")
    return folder


def test_infinite_scores_are_refused(tmp_path, photos):
    run = save_run(tmp_path)
    assert np.isfinite(spml.load(run).predict(photos).scores).all()
    bias = spml.load(run).classifier.top.head.bias.detach().clone()
    bias[1] = float("inf")
    set_weights(run, **{"top.head.bias": bias})
    save_thresholds(run)
    with pytest.raises(SpmlError) as caught:
        spml.load(run).predict(photos)
    assert caught.value.exit_code == 1
    assert str(caught.value) == (
        "sample 0 (counted from 0): its scores are NaN or infinite, because its features are too large or "
        "the model is damaged. Correct the data, or train again."
    )


def test_images_that_do_not_fit_into_the_memory_are_refused(tmp_path, photos, monkeypatch):
    run = save_run(tmp_path)
    change(run, "backbone.size", 8192)
    monkeypatch.setattr("spml.runs.predict.batches.total_memory", lambda: 500_000_000)
    assert refusal(spml.load(run).predict, photos) == (
        "the model takes images of 8,192 x 8,192 pixels, 3 of which need at least 1.0 GB, but there are "
        "0.5 GB of memory. Choose a smaller `batch_size`."
    )


# -- folders of feature shards, from training to prediction: the same numbers as from one file -----------


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """The same data in one file and in three shards."""
    folder = tmp_path_factory.mktemp("data")
    one = make_features(folder / "one.npz")
    content = arrays_of(one)
    many = folder / "many"
    many.mkdir()
    for name in ("X", "Y", "split"):
        for number, part in enumerate(np.split(content[name], (90, 200))):
            np.save(many / f"{name}_{number:05d}.npy", part)
    np.savetxt(many / "classes.txt", content["classes"], fmt="%s")
    return one, many


def test_training_prediction_and_evaluation_are_those_of_one_file(sources, tmp_path):
    data = {"unlisted": "negative", "observe": "single"}
    runs = [spml.train(str(path), output=tmp_path / path.stem, data=data, head="ridge") for path in sources]
    weights = [json.loads((run.folder / "model.json").read_text())["weights_sha256"] for run in runs]
    assert weights[0] == weights[1]
    predictions = [run.predict(path) for run, path in zip(runs, sources, strict=True)]
    assert predictions[0].ids == predictions[1].ids == tuple(map(str, range(300)))
    assert predictions[0].scores.tolist() == predictions[1].scores.tolist()
    one, many = (json.dumps(run.evaluate(path, **data)) for run, path in zip(runs, sources, strict=True))
    assert one.replace("one.npz", "many").replace("/one", "/many") == many
    execute("predict", runs[1].folder, sources[1], "--output", tmp_path / "new.csv")
    lines = (tmp_path / "new.csv").read_text().splitlines()
    assert (len(lines), lines[300].split(",")[0]) == (301, "299")
