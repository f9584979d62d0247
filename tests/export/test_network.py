"""The exported network decides as a run does."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

import spml
from spml.decisions import Calibration
from spml.export.model import Exported, Interpolation
from spml.runs.run import exportable
from tests.helpers.run_folders import save_run


def features_model(thresholds, scale):
    """Parts of a model whose logits are its inputs."""
    classifier = SimpleNamespace(top=SimpleNamespace(scale=scale))
    return SimpleNamespace(
        network=nn.Identity(), resize=nn.Identity, thresholds=thresholds, calibration=None,
        classifier=classifier,
    )  # fmt: skip


@pytest.mark.parametrize("knots", [1, 2, 3, 8, 9, 200])
def test_interpolation_is_that_of_numpy(knots):
    rng = np.random.default_rng(knots)
    scores, probabilities = np.sort(rng.normal(size=knots)), np.sort(rng.random(knots))
    logits = np.concatenate([rng.normal(size=500) * 2, scores]).astype(np.float32).reshape(-1, 1)
    calibration = Calibration(scores, probabilities, probabilities / 2)
    computed = Interpolation(calibration)(torch.from_numpy(logits))
    np.testing.assert_allclose(computed, calibration(logits), atol=1e-7)
    assert computed.dtype == torch.float32


def test_interpolation_takes_the_upper_end_of_a_jump():
    calibration = Calibration(np.array([0.0, 1.0, 1.0, 2.0]), np.array([0.1, 0.2, 0.6, 0.7]), np.zeros(4))
    logits = torch.tensor([-9.0, 0.5, 1.0, 1.5, 9.0])
    np.testing.assert_allclose(Interpolation(calibration)(logits), [0.1, 0.15, 0.6, 0.65, 0.7])


def test_a_label_is_predicted_at_its_threshold_and_never_without_one():
    network = Exported(features_model((0.7, float("inf")), "sigmoid"))
    outputs = network(torch.tensor([[0.7, 50.0], [0.69, 0.0]]))
    assert outputs["labels"].tolist() == [[True, False], [False, False]]
    assert list(outputs) == ["logits", "scores", "labels"]
    torch.testing.assert_close(outputs["scores"][0, 0], torch.tensor(0.7).sigmoid())


def test_scores_of_log_probabilities_are_probabilities():
    network = Exported(features_model((-1.0, -1.0), "exp"))
    logits = torch.tensor([[0.3, 0.7]]).log()
    torch.testing.assert_close(network(logits)["scores"], torch.tensor([[0.3, 0.7]]))


def test_photographs_are_labelled_as_by_predict(tmp_path):
    """All of it without tracing; tests/export/test_onnx.py has the same with an exported file."""
    run = spml.load(save_run(tmp_path))
    network = exportable(run).exported()
    for shape in ((2, 40, 40, 3), (1, 150, 60, 3), (1, 30, 70, 3)):
        images = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
        with torch.inference_mode():
            outputs = network(torch.from_numpy(images))
        predicted = run.predict(images)
        np.testing.assert_allclose(outputs["scores"], predicted.scores, atol=1e-6)
        for labels, row in zip(predicted.labels, outputs["labels"], strict=True):
            assert set(labels) == {run.classes[column] for column in np.flatnonzero(row)}
