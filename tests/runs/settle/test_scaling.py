"""The scaling of features that a run chooses by default, and the learning rate that goes with it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import spml
from spml.config import Config, DataConfig, ModelConfig, OptimConfig, read_yaml
from spml.data import Dataset
from spml.data.matrix import FeatureMatrix
from spml.models import describe_backbone, load_classifier
from spml.runs.settle.resolve import Opened, check_stated, resolve, some_rows
from tests.helpers import write_image
from tests.helpers.features import make_weights
from tests.helpers.networks import GREY, PHOTOS, data_of

DEEP = data_of(FeatureMatrix(np.random.default_rng(0).random((30, 400), np.float32)))
SIGNED = data_of(FeatureMatrix(np.random.default_rng(0).normal(size=(30, 400)).astype(np.float32)))
RELU, LAYER_NORM = torch.rand(8, 400), torch.randn(8, 400)


def resolved(
    data: Dataset,
    features: torch.Tensor | None = None,
    *,
    optim: OptimConfig | None = None,
    method: str = "an",
    **model: Any,
) -> Config:
    config = Config(
        data=DataConfig(path="data"), method=method, model=ModelConfig(**model), optim=optim or OptimConfig()
    )
    config, _ = check_stated(config)
    run = resolve(config, Opened(data, describe_backbone(config.model, data.kind, data.width)))
    if run.scaling_open and features is not None:
        run.settle_scaling(features)
    return run.config


def choice(config: Config) -> tuple[str, float | None]:
    return config.model.scaling, config.optim.lr


def test_feature_files_are_judged_by_their_values() -> None:
    assert choice(resolved(DEEP)) == ("sqrtl2", 1e-2)
    assert choice(resolved(SIGNED)) == ("standard", 1e-3)


def test_solved_heads_have_the_same_scaling_but_not_class_means() -> None:
    assert resolved(DEEP, method="", head="ridge").model.scaling == "sqrtl2"
    lbfgs = resolved(DEEP, method="softmax", optim=OptimConfig(name="lbfgs"))
    assert lbfgs.model.scaling == "sqrtl2"
    assert resolved(DEEP, method="", head="mean_difference").model.scaling == "standard"


@pytest.mark.parametrize(
    ("scaling", "rate"),
    [("raw", 1e-3), ("standard", 1e-3), ("unit", 1e-2), ("sqrtl2", 1e-2), ("tfidf", 1e-2)],
)
def test_what_the_user_states_stays(scaling: Any, rate: float) -> None:
    assert choice(resolved(DEEP, scaling=scaling)) == (scaling, rate)
    stated = OptimConfig(lr=0.5)
    assert choice(resolved(DEEP, scaling=scaling, optim=stated)) == (scaling, 0.5)
    assert choice(resolved(DEEP, optim=stated)) == ("sqrtl2", 0.5)


def test_the_features_of_a_frozen_backbone_are_judged_where_they_are_computed() -> None:
    assert choice(resolved(PHOTOS)) == ("auto", None)
    assert choice(resolved(PHOTOS, RELU)) == ("sqrtl2", 1e-2)
    assert choice(resolved(PHOTOS, LAYER_NORM)) == ("standard", 1e-3)
    stated = OptimConfig(lr=0.5)
    assert choice(resolved(PHOTOS, RELU, optim=stated)) == ("sqrtl2", 0.5)


def test_features_are_computed_only_if_they_decide() -> None:
    assert choice(resolved(PHOTOS, scaling="unit")) == ("unit", 1e-2)
    assert choice(resolved(PHOTOS, method="auto")) == ("raw", 1e-3)
    assert choice(resolved(DEEP)) == ("sqrtl2", 1e-2)
    assert choice(resolved(GREY)) == ("raw", 1e-3)
    assert choice(resolved(PHOTOS)) == ("auto", None)


def test_a_backbone_that_is_trained_has_no_scaling() -> None:
    assert choice(resolved(PHOTOS, frozen="no")) == ("raw", 1e-4)
    assert choice(resolved(GREY)) == ("raw", 1e-3)


def test_samples_are_taken_from_the_whole_training_set() -> None:
    inputs = FeatureMatrix(np.arange(10, dtype=np.float32)[:, None])
    assert some_rows(inputs, 5).flatten().tolist() == [0, 2, 4, 6, 8]
    assert some_rows(inputs, 256).flatten().tolist() == list(range(10))


def test_a_run_on_deep_features_says_what_it_took(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    np.savez(
        tmp_path / "deep.npz", X=rng.random((40, 400), np.float32), Y=np.arange(40) % 3, classes=list("abc")
    )
    run = spml.train(
        tmp_path / "deep.npz", method="an", epochs=1, threads=1, output=str(tmp_path / "run"), quiet=True
    )
    config = read_yaml(run.folder / "config.yaml")
    assert (config.model.scaling, config.optim.lr) == ("sqrtl2", 1e-2)
    spml.train(config, resume=True, quiet=True)
    top = load_classifier(run.folder)[0].top
    assert top.settings()["scaling"] == "sqrtl2"
    lengths = top.scaling(torch.rand(5, 400)).norm(dim=1)
    np.testing.assert_allclose(lengths, 1, rtol=1e-5)


def test_a_run_on_images_says_what_it_took(tmp_path: Path) -> None:
    for name in ("a/0", "a/1", "a/2", "b/0", "b/1", "b/2"):
        write_image(tmp_path / "photos" / f"{name}.png")
    weights = str(make_weights(tmp_path / "weights.safetensors"))
    run = spml.train(
        tmp_path / "photos", method="an", model={"weights": weights}, data={"workers": 0}, epochs=1,
        threads=1, output=str(tmp_path / "run"), quiet=True,
    )  # fmt: skip
    config = read_yaml(run.folder / "config.yaml")
    assert (config.model.frozen, config.model.scaling, config.optim.lr) == ("yes", "standard", 1e-3)
    spml.train(config, resume=True, quiet=True)
    spml.train(replace(config, model=replace(config.model, scaling="auto")), resume=True, quiet=True)
