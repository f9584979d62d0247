"""Runs with a head in closed form, from the command line to prediction."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from sklearn.linear_model import Ridge

import spml
from spml.config import DataConfig, read_yaml
from spml.data import open_dataset
from spml.models import load_classifier
from tests.helpers.commands import FAST, execute, fails
from tests.helpers.features import HIDE, arrays_of, make_weights, records, train_hidden
from tests.helpers.photos import make_photos


@pytest.fixture
def weights(tmp_path):
    return make_weights(tmp_path / "tiny.safetensors")


def test_the_folder_says_which_penalty_was_chosen_and_why(ridge_run):
    names = {path.name for path in ridge_run.iterdir()}
    assert names == {
        "config.yaml", "metrics.jsonl", "summary.json", "curves.png", "model.safetensors", "model.json",
        "held_out.safetensors", "thresholds.json", "report.html",
    }  # fmt: skip
    lines = records(ridge_run)
    assert [line["penalty"] for line in lines[::11]] == [0.1, 300.0]
    assert lines[12]["penalty"] == "infinity"
    assert len(lines) == 13
    best = max(lines, key=lambda line: line["val/SP"])
    summary = json.loads((ridge_run / "summary.json").read_text())
    assert (summary["selected"]["penalty"], summary["selected"]["of"]) == (best["penalty"], 13)
    assert summary["selected"]["metric"] == "val/SP"
    assert summary["validation"]["val/SP"] == best["val/SP"]
    assert summary["method"] == "ridge"
    assert summary["head_bias"] == {"start": "solved", "mean_labels": 2.0, "source": "default"}
    assert summary["test"]["mAP"] > 0.9
    card = json.loads((ridge_run / "model.json").read_text())
    assert card["method"] == {"name": "ridge", "hp": {}}
    assert card["top"]["head"] == "linear"
    config = read_yaml(ridge_run / "config.yaml")
    assert (config.method, config.model.head) == ("", "ridge")


def test_predictions_are_those_of_ridge_regression_on_the_observed_labels(ridge_run, features):
    data = open_dataset(DataConfig(path=str(features), unlisted="negative", observe="single"))
    train = data.splits["train"]
    inputs = train.inputs.dense(range(len(train))).astype(np.float64)
    mean, std = inputs.mean(0), inputs.std(0)
    penalty = json.loads((ridge_run / "summary.json").read_text())["selected"]["penalty"]
    model = Ridge(alpha=penalty * len(train)).fit((inputs - mean) / std, train.observed.to_multi_hot())
    matrix = arrays_of(features)["X"]
    estimate = model.predict((matrix - mean) / std)
    scores = spml.load(ridge_run).predict(matrix).scores
    assert np.log(scores / (1 - scores)) == pytest.approx(4 * (2 * estimate - 0.5), abs=1e-3)


def test_the_configuration_repeats_the_run_and_resume_runs_it_again(ridge_run, tmp_path):
    again = tmp_path / "again"
    execute("train --config", ridge_run / "config.yaml", "--output", again)
    expected = (ridge_run / "model.safetensors").read_bytes()
    assert (again / "model.safetensors").read_bytes() == expected
    (again / "model.safetensors").unlink()
    execute("train --output", again, "--resume")
    assert (again / "model.safetensors").read_bytes() == expected


def test_full_labels_are_all_used_and_select_by_map(features, tmp_path):
    run = spml.train(
        features, model={"head": "ridge"}, data={"unlisted": "negative"}, threads=1,
        output=str(tmp_path / "run"), quiet=True,
    )  # fmt: skip
    summary = json.loads((run.folder / "summary.json").read_text())
    assert summary["selected"]["metric"] == "val/mAP"
    assert summary["test"]["mAP"] > 0.99
    assert summary["data"]["observed"]["train"] == "full"
    assert summary["threshold"]["source"] == "validation labels"
    mean = arrays_of(features, "train")["Y"].sum(1).mean()
    assert summary["head_bias"] == {
        "start": "solved", "mean_labels": pytest.approx(mean), "source": "training labels",
    }  # fmt: skip


def test_the_mean_difference_is_one_solution_without_a_choice(features, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    execute("train", features, *HIDE, "--head=mean_difference --mean_labels 1.9 --threads 1")
    assert "test mAP" in capsys.readouterr().err
    folder = tmp_path / "runs" / "features-mean_difference"
    assert {path.name for path in folder.iterdir()} == {
        "config.yaml", "metrics.jsonl", "summary.json", "model.safetensors", "model.json",
        "held_out.safetensors", "thresholds.json", "thresholds.png", "report.html",
    }  # fmt: skip
    (record,) = records(folder)
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["method"] == "mean_difference"
    assert summary["head_bias"]["mean_labels"] == 1.9
    assert summary["selected"]["of"] == 1
    assert "penalty" not in {*record, *summary["selected"]}
    assert record["val/SP"] == summary["validation"]["val/SP"]


def test_the_last_penalty_ranks_like_the_mean_difference(ridge_run, features, tmp_path):
    (record,) = records(train_hidden(features, tmp_path / "run", "--head mean_difference"))
    for key in ("val/SP", "val/mAP", "val/naive_mAP"):
        assert record[key] == pytest.approx(records(ridge_run)[12][key], abs=1e-12)


def test_a_backbone_of_a_file_is_frozen_and_the_model_takes_images(weights, tmp_path):
    photos = make_photos(tmp_path / "photos", per_class=12)
    run = spml.train(
        photos, model={"head": "ridge", "weights": str(weights)}, data={"workers": 0}, threads=1,
        output=str(tmp_path / "run"), quiet=True,
    )  # fmt: skip
    config = read_yaml(run.folder / "config.yaml")
    assert config.model.frozen == "yes"
    assert (run.folder / "features").is_dir()
    predicted = run.predict(photos)
    assert predicted.scores.shape == (36, 3)
    told = [predicted.classes[column] for column in predicted.scores.argmax(1)]
    right = [name in path for name, path in zip(told, predicted.ids, strict=True)]
    assert sum(right) >= 30


def test_what_a_head_in_closed_form_can_not_use_is_refused(capsys, tmp_path, features, weights, monkeypatch):
    output, ridge = ["--output", tmp_path / "run"], ["--head", "ridge"]
    photos = make_photos(tmp_path / "photos", per_class=4)
    assert "method=an is given" in fails(capsys, "train", features, *ridge, "--method an", *output)
    assert "`hp` is given" in fails(capsys, "train", features, *ridge, "--hp.q2 1", *output)
    said = fails(capsys, "train digits", *ridge, *output)
    assert "small_cnn starts from random weights" in said
    assert "model.backbone=resnet50" in said
    said = fails(capsys, "train", photos, *FAST, *ridge, "--model.frozen yes", *output)
    assert "test_efficientnet starts from random weights" in said
    said = fails(capsys, "train", photos, *ridge, "--model.weights", weights, "--model.frozen no", *output)
    assert "model.frozen is 'no'" in said
    assert "init_from=RUN" in said
    assert not (tmp_path / "run").exists()
    wide = tmp_path / "wide.npz"
    np.savez(
        wide, X=np.eye(4, 20_001, dtype=np.float32),
        Y=np.eye(2, dtype=np.uint8)[[0, 1, 0, 1]], split=np.array(["train", "train", "val", "val"]),
    )  # fmt: skip
    monkeypatch.setattr("spml.models.solved.moments.MAX_ENTRIES", 2 * 20_001 - 1)
    said = fails(capsys, "train", wide, *ridge, *output)
    assert "2 training samples with 20,001 features uses a matrix of 2 x 20,001 numbers" in said
    assert not (tmp_path / "run").exists()


def test_features_that_do_not_differ(capsys, tmp_path):
    path = tmp_path / "same.npz"
    np.savez(path, X=np.ones((20, 3), np.float32), Y=np.eye(2, dtype=np.uint8)[np.arange(20) % 2])
    said = fails(capsys, "train", path, "--head ridge --output", tmp_path / "run")
    assert "training samples have the same features" in said


@pytest.mark.long
@pytest.mark.parametrize("head", ["ridge", "auto"])
def test_classes_that_share_a_column_change_nothing(head, tmp_path, monkeypatch):
    """Of many classes, penalties are judged on those that a validation sample shows."""
    generator = np.random.default_rng(0)
    index = generator.integers(0, 4, 300)
    features = generator.normal(size=(8, 10))[index] + 2 * generator.normal(size=(300, 10))
    labels = np.zeros((300, 30), np.int8)
    labels[np.arange(300), [[3, 12, 13, 29][each] for each in index]] = 1
    path = tmp_path / "features.npz"
    np.savez(path, X=features.astype(np.float32), Y=labels, split=np.repeat(["train", "val"], [200, 100]))
    found = []
    for many in (4096, 10):
        monkeypatch.setattr("spml.models.solved.moments.MOST_COLUMNS", many)
        output = tmp_path / f"{head}-{many}"
        execute("train", path, "--head", head, "--threads 1 --output", output)
        logits = load_classifier(output)[0](torch.from_numpy(features[:20].astype(np.float32))).logits
        summary = json.loads((output / "summary.json").read_text())
        found.append((logits, summary["validation"], [r.get("val/SP") for r in records(output)]))
    torch.testing.assert_close(found[1][0], found[0][0], rtol=1e-3, atol=1e-3)
    assert found[1][1] == pytest.approx(found[0][1], abs=2e-3)
    assert [each for each in found[1][2] if each] == pytest.approx(
        [each for each in found[0][2] if each], abs=2e-3
    )


@pytest.mark.shared
@pytest.mark.parametrize(("name", "expected"), [("scene", 0.7568), ("yeast", 0.4221)])
def test_real_features(shared, tmp_path, name, expected):
    run = spml.train(
        shared / f"data/features/mulan/{name}_X.npz", model={"head": "ridge"}, threads=1, quiet=True,
        data={"unlisted": "negative", "observe": "single"}, output=str(tmp_path / "run"),
    )  # fmt: skip
    summary = json.loads((run.folder / "summary.json").read_text())
    assert summary["test"]["mAP"] == pytest.approx(expected, abs=0.002)
