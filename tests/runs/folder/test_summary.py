"""What is computed and written at the end of a run."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pytest

import spml
from spml import plots
from spml.cli.main import main
from spml.config import from_dict
from spml.data import Dataset, Samples
from spml.data.matrix import FeatureMatrix
from spml.decisions import Decision, scores_of
from spml.labels import ObservedLabels
from spml.metrics import mean_average_precision
from spml.runs.fit.solve import Fitted, HeldOutScores
from spml.runs.folder import held_out, summary
from spml.runs.folder.held_out import read_held_out
from spml.runs.folder.summary import fit_warnings
from spml.runs.predict.batches import Batch
from spml.scores import InMemory, TopScores, forms
from tests.helpers.slow import in_blocks

# -- files that a finished run leaves in its folder ------------------------------------------------------


LOGITS = np.array([[2.0, 0.0, -2.0], [-1.0, -3.0, 3.0]], np.float32)


class Images:
    kind = "image"

    def __len__(self):
        return 2

    def take(self, rows):
        return self

    def fetch(self, rows, augment):
        import torch

        return torch.zeros((len(rows), 3, 4, 4), dtype=torch.uint8)


@pytest.mark.parametrize("scale", ["sigmoid", "exp"])
@pytest.mark.parametrize("with_truth", [False, True])
def test_examples_show_scores_as_predict_does_and_what_was_missed(monkeypatch, tmp_path, scale, with_truth):
    samples = Samples(("x", "y"), Images(), ObservedLabels.from_index(np.array([1, 0]), 3))
    truth = ObservedLabels.from_multi_hot([[1, 1, 0], [1, 0, 0]], unlisted="negative")
    data = Dataset("d", ("a", "b", "c"), {"val": samples}, {"val": truth} if with_truth else {})
    logits = LOGITS if scale == "sigmoid" else LOGITS - np.log(np.exp(LOGITS).sum(1, keepdims=True))
    drawn = {}
    monkeypatch.setattr(plots, "example_sheet", lambda *arguments, **more: drawn.update(more, of=arguments))
    places = np.arange(24, dtype=np.float32).reshape(6, 4)
    windows = np.arange(6).reshape(2, 3)
    run = SimpleNamespace(
        folder=tmp_path,
        classes=data.classes,
        locates=True,
        places=places,
        stream=lambda inputs, engine, where: iter([Batch(2, np.arange(2), logits, {}, windows)]),
        probabilities=lambda logits: scores_of(logits, scale),
        decision=lambda: Decision(float(logits[0, 1]), never=(2,)),
    )
    summary.draw_examples(run, data, "cpu")
    path, images, labels = drawn["of"]
    assert (path.name, images.shape, drawn["with_truth"]) == ("examples.png", (2, 3, 4, 4), with_truth)
    scores = 1 / (1 + np.exp(-LOGITS)) if scale == "sigmoid" else np.exp(logits)
    # Sample x: a and b are predicted. Sample y: its observed label a is missed, and c is never predicted.
    expected = [[("a", 0, 0, False, True), ("b", 0, 1, True, True)], [("a", 1, 0, True, False)]]
    for found, wanted in zip(labels, expected, strict=True):
        assert [(label.name, label.observed, label.predicted) for label in found] == [
            (name, observed, predicted) for name, _, _, observed, predicted in wanted
        ]
        for label, (_, row, column, _, _) in zip(found, wanted, strict=True):
            assert label.score == pytest.approx(scores[row, column], rel=1e-5)
            assert label.window == places[3 * row + column].tolist()
            assert label.true == (bool(truth.to_ternary()[row, column] == 1) if with_truth else None)


# -- steps after training where scores do not fit: the same results from blocks and a part of the samples


class Builds:
    """A trained model whose logits are the inputs."""

    def __init__(self, data):
        self.data, self.run, self.test = data, SimpleNamespace(config=SimpleNamespace(seed=3)), None

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
    monkeypatch.setattr(held_out, "MOST_KEPT", 12 * 10)
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


# -- a run that diverged, or whose model is no better than chance, says so at its end --------------------


CONFIG = from_dict({"optim": {"lr": 0.02}})


def warnings_of(*, start=0.7, last=0.5, a=0.9, positives=100, share=0.1):
    history = [{"epoch": 1, "train/loss": 0.6, "val/A": a}, {"epoch": 2, "train/loss": last, "val/A": 0.5}]
    return fit_warnings(
        Fitted(history, 0, 1.0, 2, {}, start_loss=start), CONFIG, positives=positives, share=share
    )


@pytest.mark.parametrize(
    ("start", "last", "diverged"),
    [(0.7, 7.1, True), (0.7, 6.9, False), (-0.1, 6.9, False), (0.0, 6.9, False), (None, 99.0, False)],
)
def test_a_loss_ten_times_that_of_the_first_step_is_told(start, last, diverged):
    found = warnings_of(start=start, last=last)
    assert len(found) == diverged
    if diverged:
        assert found[0].startswith(
            "training diverged: the loss rose from 0.7 in the first step to 7.1 in epoch 2. "
            "Try a smaller learning rate (lr=0.002)"
        )


@pytest.mark.parametrize(
    ("a", "positives", "share", "told"),
    [
        (0.5, 100, 0.1, True),
        (0.54, 100, 0.1, True),  # within 0.05 and two deviations, 2 * 0.0321
        (0.56, 100, 0.1, False),
        (0.53, 10_000, 0.1, False),  # two deviations are 0.0064
        (0.505, 10_000, 0.1, True),
        (0.3, 10_000, 0.1, True),
        (0.52, 1200, 0.5, True),  # two deviations are 0.0333; without the share they would be 0.0167
        (0.5, 19, 0.1, False),
    ],
)
def test_a_model_at_chance_is_told(a, positives, share, told):
    found = warnings_of(a=a, positives=positives, share=share)
    assert len(found) == told
    if told:
        assert "no better than chance" in found[0]
        assert f"(A {100 * a:.1f}, chance 50)" in found[0]


def test_a_head_that_was_solved_has_no_learning_rate():
    record = {"penalty": 1.0, "val/A": 0.5}
    (found,) = fit_warnings(Fitted([record], 0, 1.0, 1, {}), CONFIG, positives=100, share=0.1)
    assert found.endswith("chance 50). Check that features and labels belong together.")


def test_a_run_that_diverged_ends_with_warnings_and_exit_code_0(tmp_path, capsys):
    generator = np.random.default_rng(0)
    split = np.array(["train"] * 96 + ["val"] * 48)
    features = generator.normal(size=(144, 6)).astype(np.float32)
    labels = np.eye(4, dtype=np.uint8)[generator.integers(0, 4, 144)]
    path, output = tmp_path / "noise.npz", tmp_path / "run"
    np.savez(path, X=features, Y=labels, classes=np.array(list("abcd")), split=split)
    main([
        "train", str(path), "--method", "an", "--optim.name", "sgd", "--lr", "1000", "--epochs", "2",
        "--batch_size", "32", "--threads", "1", "--output", str(output),
    ])  # fmt: skip
    *_, diverged, _, done, use, learn_k = capsys.readouterr().err.splitlines()
    written = json.loads((output / "summary.json").read_text())["warnings"]
    assert diverged == f"warning: {written[0]}"
    assert "training diverged: the loss rose from 0.69" in diverged
    assert "(lr=100)" in diverged
    assert done == f"{output}: done"
    assert use.startswith(f"next: open {output}/report.html in a browser; `spml predict {output} NEW`")
    assert "spml audit" not in use  # which needs K
    assert learn_k.startswith(f"next, in ten minutes: `spml audit sample {output}`")
