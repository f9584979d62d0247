"""Steps after training where scores do not fit: the same results from blocks and a part of the samples."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pytest

import spml
from spml.data import Dataset, Samples
from spml.data.matrix import FeatureMatrix
from spml.labels import ObservedLabels
from spml.metrics import mean_average_precision
from spml.runs.fit.solve import HeldOutScores
from spml.runs.folder import held_out, summary
from spml.runs.folder.held_out import read_held_out
from spml.scores import InMemory, TopScores, forms
from tests.helpers.slow import in_blocks


class Builds:
    """A trained model whose logits are the inputs."""

    def __init__(self, data):
        self.data, self.run = data, SimpleNamespace(config=SimpleNamespace(seed=3))

    def logits(self, samples):
        return samples.inputs.take(range(len(samples))).fetch(np.arange(len(samples)), None).numpy()

    def scores(self, samples):
        logits = self.logits(samples)
        return InMemory(logits) if forms.fits(*logits.shape) else in_blocks(logits, 7)


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    splits, truth, logits = {}, {}, {}
    for name, count in (("train", 5), ("val", 40), ("test", 30)):
        logits[name] = rng.normal(size=(count, 12)).astype(np.float32)
        full = rng.random((count, 12)) < 0.2
        full[:, 0] = True
        truth[name] = ObservedLabels.from_multi_hot(full.astype(int), unlisted="negative")
        observed = ObservedLabels.from_index(rng.integers(12, size=count), 12)
        ids = tuple(f"{name}{row}" for row in range(count))
        splits[name] = Samples(ids, FeatureMatrix(logits[name]), observed)
    return Dataset("made", tuple("abcdefghijkl"), splits, truth), logits


def test_all_scores_are_used_where_they_fit(data):
    dataset, logits = data
    found = summary.final_scores(Builds(dataset), SimpleNamespace(held_out=None))
    np.testing.assert_array_equal(found.val, logits["val"])
    np.testing.assert_array_equal(found.held_out.rows, np.arange(5, 45))
    assert found.test_map == mean_average_precision(logits["test"], dataset.truth["test"].to_ternary())


def test_where_they_do_not_a_part_of_the_samples_is_kept(data, monkeypatch):
    dataset, logits = data
    monkeypatch.setattr(forms, "MOST_SCORES", 12 * 12)
    whole = summary.final_scores(Builds(dataset), SimpleNamespace(held_out=None))
    np.testing.assert_array_equal(whole.val, logits["val"])  # few classes: all scores of a sample
    monkeypatch.setattr(held_out, "MOST_SCORES", 12 * 10)
    part = summary.final_scores(Builds(dataset), SimpleNamespace(held_out=None))
    rows = part.held_out.rows - 5
    assert (len(rows), (np.diff(rows) > 0).all(), rows.max() < 40) == (10, True, True)
    np.testing.assert_array_equal(part.val, logits["val"][rows])
    assert part.test_map == mean_average_precision(logits["test"], dataset.truth["test"].to_ternary())


def test_of_many_classes_the_highest_scores_are_kept(data, monkeypatch):
    dataset, logits = data
    monkeypatch.setattr(forms, "MOST_SCORES", 12 * 12)
    monkeypatch.setattr(held_out, "MOST_CLASSES", 10)
    monkeypatch.setattr(held_out, "MOST_ROWS", 20)
    monkeypatch.setattr(held_out, "HIGHEST", 3)
    found = summary.final_scores(Builds(dataset), SimpleNamespace(held_out=None))
    assert isinstance(found.val, TopScores)
    rows = found.held_out.rows - 5
    assert (len(found.val), found.val.classes, len(rows)) == (20, 12, 20)
    expected = np.sort(logits["val"][rows], axis=1)[:, -3:]
    np.testing.assert_array_equal(found.val.floors, expected[:, 0])
    index = dataset.splits["val"].observed.index[rows]
    for sample in range(20):
        entries = found.val.rows == sample
        assert index[sample] in found.val.columns[entries]
        np.testing.assert_array_equal(
            found.val.scores[entries], logits["val"][rows[sample], found.val.columns[entries]]
        )


def test_held_out_scores_of_a_solved_head_are_those_of_validation_samples(data, monkeypatch):
    dataset, _ = data
    scores = np.random.default_rng(4).normal(size=(4, 12)).astype(np.float32)
    solved = HeldOutScores(InMemory(scores), np.array([7, 0, 5, 6]))
    found = summary.final_scores(Builds(dataset), SimpleNamespace(held_out=solved))
    np.testing.assert_array_equal(found.val, scores[[2, 3, 0]])
    assert found.held_out is solved


def test_a_run_in_blocks_ends_as_one_that_keeps_all_scores(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    truth = (rng.random((240, 5)) < 0.3).astype(int)
    truth[np.arange(240), rng.integers(5, size=240)] = 1
    features = (truth @ rng.normal(size=(5, 6)) + rng.normal(size=(240, 6))).astype(np.float32)
    settings = {
        "method": "an", "epochs": 2, "pictures": False, "quiet": True,
        "data": {"unlisted": "negative", "observe": "single"},
    }  # fmt: skip
    whole = spml.train(features, truth, output=str(tmp_path / "whole"), **settings)
    monkeypatch.setattr(forms, "MOST_SCORES", 0)
    blocks = spml.train(features, truth, output=str(tmp_path / "blocks"), **settings)
    one, other = (
        [json.loads(line) for line in (run.folder / "metrics.jsonl").read_text().splitlines()]
        for run in (whole, blocks)
    )
    for record, expected in zip(other, one, strict=True):
        for key in expected.keys() - {"seconds"}:
            assert record[key] == pytest.approx(expected[key], rel=1e-5), key
    kept, before = (read_held_out(run.folder) for run in (blocks, whole))
    assert kept.ids == before.ids
    np.testing.assert_allclose(kept.scores, before.scores, rtol=1e-5, atol=1e-6)
    assert blocks.card["threshold"]["logit"] == pytest.approx(whole.card["threshold"]["logit"], rel=1e-4)
