"""Runs with a correlated head: trained, saved, predicted; started from the predictions of a linear run."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import spml
from spml.config import OptimConfig, read_yaml
from spml.engine.optimiser import make_optimizer
from spml.models import Top
from tests.helpers.commands import execute, fails
from tests.helpers.features import HIDE, arrays_of, copy_features, make_weights, train_hidden
from tests.helpers.photos import make_photos

STILL = "--epochs 1 --optim.lr 1e-30"
CORRELATED = "--head correlated"


@pytest.fixture(scope="module")
def linear(features, tmp_path_factory):
    output = tmp_path_factory.mktemp("runs") / "linear"
    return train_hidden(features, output, "--method an --epochs 6 --optim.lr 0.01")


def weights_of(run):
    return load_file(run / "model.safetensors")


def co_occurrence(run, inputs):
    """Correlations and their centre from the linear layer of a run, without the program's prediction."""
    weights = {name: value.double().numpy() for name, value in weights_of(run).items()}
    scaled = (inputs - weights["top.scaling.mean"]) / weights["top.scaling.std"]
    logits = np.clip(scaled, -10, 10) @ weights["top.head.weight"].T + weights["top.head.bias"]
    probabilities = 1 / (1 + np.exp(-logits))
    expected = np.cov(probabilities.T, bias=True) / probabilities.mean(0)
    np.fill_diagonal(expected, 0)
    return expected, probabilities.mean(0)


def training_inputs(features):
    return arrays_of(features, "train")["X"].astype(np.float64)


def test_a_run_is_trained_saved_and_predicted(features, tmp_path):
    run = train_hidden(features, tmp_path / "run", "--method an --epochs 5 --optim.lr 0.03", CORRELATED)
    assert read_yaml(run / "config.yaml").model.head == "correlated"
    weights = weights_of(run)
    correlation = weights["top.head.correlation"]
    assert correlation.shape == (4, 4)
    assert torch.equal(correlation.diagonal(), torch.zeros(4))
    assert ((correlation.abs() > 1e-3).sum(1) == 3).all()
    assert torch.equal(weights["top.head.centre"], torch.zeros(4))
    inputs = arrays_of(features)["X"].astype(np.float64)
    scaled = (inputs - weights["top.scaling.mean"].numpy()) / weights["top.scaling.std"].numpy()
    logits = np.clip(scaled, -10, 10) @ weights["top.head.last.weight"].numpy().T
    logits += weights["top.head.last.bias"].numpy()
    logits += 1 / (1 + np.exp(-logits)) @ correlation.numpy().T
    np.testing.assert_allclose(
        spml.load(run).predict(features).scores, 1 / (1 + np.exp(-logits)), rtol=1e-4, atol=1e-6
    )
    assert json.loads((run / "summary.json").read_text())["validation"]["val/mAP"] > 0.7


def test_correlations_start_from_what_the_linear_run_predicts(features, linear, tmp_path, capsys):
    run = train_hidden(features, tmp_path / "run", "--method an", STILL, CORRELATED, "--init-from", linear)
    before, after = weights_of(linear), weights_of(run)
    for name in ("weight", "bias"):
        torch.testing.assert_close(
            after[f"top.head.last.{name}"], before[f"top.head.{name}"], rtol=0, atol=1e-20
        )
    correlation, centre = co_occurrence(linear, training_inputs(features))
    assert np.abs(correlation).max() > 0.04
    np.testing.assert_allclose(after["top.head.correlation"], correlation, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(after["top.head.centre"], centre, rtol=1e-5)
    execute("train --config", run / "config.yaml", "--output", tmp_path / "again")
    for name, value in weights_of(tmp_path / "again").items():
        assert torch.equal(value, after[name]), name


def test_no_label_reaches_the_start_of_the_correlations(features, linear, tmp_path):
    """Other observed labels, and other true ones, of the same training inputs give the same start."""
    rolled = np.roll(arrays_of(features)["Y"], 1, axis=1)
    other = copy_features(features, tmp_path / "other.npz", Y=rolled)
    options, starts = ("--method an", STILL, CORRELATED, "--init-from", linear), []
    for source, more in ((features, []), (features, "--data.observe_seed 7"), (other, [])):
        run = train_hidden(source, tmp_path / "run", *options, more, "--overwrite")
        starts.append(weights_of(run))
    for other in starts[1:]:
        torch.testing.assert_close(
            other["top.head.correlation"], starts[0]["top.head.correlation"], rtol=0, atol=1e-20
        )


@pytest.mark.parametrize("first", ["--head ridge", "--method softmax --epochs 2"])
def test_any_run_with_a_linear_head_will_do(first, features, tmp_path):
    """With log-probabilities as output, too, it is the logits of the linear layer that count."""
    start = train_hidden(features, tmp_path / "start", first)
    options = "--method softmax", STILL, CORRELATED, "--init-from", start
    run = train_hidden(features, tmp_path / "run", *options)
    assert json.loads((run / "model.json").read_text())["top"]["scores"] == "log_softmax"
    correlation, centre = co_occurrence(start, training_inputs(features))
    np.testing.assert_allclose(weights_of(run)["top.head.correlation"], correlation, rtol=1e-3, atol=1e-6)
    np.testing.assert_allclose(weights_of(run)["top.head.centre"], centre, rtol=1e-4)


def test_learned_correlations_are_carried_over_to_a_further_run(features, linear, tmp_path):
    options = "--method an --epochs 3 --optim.lr 0.01", CORRELATED, "--init-from", linear
    learned = train_hidden(features, tmp_path / "learned", *options)
    further = train_hidden(features, tmp_path / "further", "--method an", STILL, "--init-from", learned)
    assert read_yaml(further / "config.yaml").model.head == "correlated"
    for name, value in weights_of(learned).items():
        torch.testing.assert_close(weights_of(further)[name], value, rtol=0, atol=1e-20)


@pytest.mark.long
def test_a_run_on_a_frozen_backbone_and_one_on_all_weights(tmp_path):
    photos, weights = make_photos(tmp_path / "photos", 10), make_weights(tmp_path / "tiny.safetensors")
    common, first = "--data.workers 0 --threads 1 --method an --data.flip false", tmp_path / "first"
    execute("train", photos, common, "--epochs 1 --model.weights", weights, "--output", first)
    starts = []
    for frozen in ("yes", "no"):
        output = tmp_path / frozen
        options = CORRELATED, STILL, f"--model.frozen {frozen} --init-from", first
        execute("train", photos, common, *options, "--output", output)
        starts.append(weights_of(output)["top.head.correlation"])
        predicted = spml.load(output).predict(photos).scores
        assert np.isfinite(predicted).all()
    assert starts[0].abs().max() > 1e-4
    torch.testing.assert_close(starts[0], starts[1], rtol=1e-3, atol=1e-6)


def test_what_does_not_go_together_is_refused(features, tmp_path, capsys):
    command = "train", features, *HIDE, "--method an --output", tmp_path / "run", CORRELATED
    said = fails(capsys, *command, "--optim.name lbfgs")
    assert "solves a linear head from scratch" in said
    assert "but model.head=correlated (method 'an') is given: leave out one of the two" in said
    mlp = train_hidden(features, tmp_path / "mlp", "--method an --epochs 1 --head mlp")
    said = fails(capsys, *command, "--init-from", mlp)
    assert "model.head is 'correlated', but the model of" in said
    assert "has 'mlp'" in said
    assert not (tmp_path / "run").exists()


def test_correlations_have_the_learning_rate_of_the_head():
    top = Top(5, 3, head="correlated")
    optim = OptimConfig(lr=0.1, head_lr_factor=10.0, weight_decay=0.01)
    groups = make_optimizer(optim, top, top.head, []).param_groups
    correlation = top.head.get_parameter("correlation")
    (group,) = [group for group in groups if any(part is correlation for part in group["params"])]
    assert (group["lr_factor"], group["weight_decay"]) == (10.0, 0.01)
