"""What a run settles: its folder, K, and the scaling of features."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import spml
from spml.common.errors import InputError
from spml.config import Config, DataConfig, ModelConfig, OptimConfig, from_dict, read_yaml
from spml.data import Dataset
from spml.data.matrix import FeatureMatrix
from spml.models import describe_backbone, load_classifier
from spml.runs.settle.resolve import (
    Opened,
    assumed_mean_labels,
    check_stated,
    mean_labels_of,
    resolve,
    run_folder,
    some_rows,
)
from tests.helpers import write_image
from tests.helpers.features import make_weights
from tests.helpers.networks import GREY, PHOTOS, data_of
from tests.helpers.training import make_data

# -- notes of `resolve` on the settings that it fills in -------------------------------------------------


ALL = "the SP-score and the bias that the head starts with"


def remark(*, classes=4, new_head=True, full=(), **settings):
    """The remark on K for data with one known label per sample; the splits in `full` are fully labelled."""
    data = make_data(classes=classes)
    splits = {
        name: replace(samples, observed=data.truth[name]) if name in full else samples
        for name, samples in data.splits.items()
    }
    return assumed_mean_labels(from_dict(settings), replace(data, splits=splits), new_head=new_head)


PRIOR = {"method": "gr", "model": {"head_bias": "prior"}}
ZERO = {"method": "gr", "model": {"head_bias": "zero"}}
RIDGE = {"model": {"head": "ridge"}}


@pytest.mark.parametrize(
    ("settings", "for_what"),
    [
        (PRIOR, ALL),
        (ZERO, "the SP-score"),
        ({**PRIOR, "new_head": False}, "the SP-score"),
        ({**PRIOR, "full": ("train", "val")}, "the bias that the head starts with"),
        ({**ZERO, "full": ("train", "val"), "select": "observed"}, "the SP-score"),
        (RIDGE, "the SP-score and the bias of the head"),
        ({**RIDGE, "full": ("train",)}, "the SP-score"),
    ],
)
def test_the_remark_names_what_an_assumed_k_affects(settings, for_what):
    assert remark(**settings) == (
        f"2 labels per sample assumed for {for_what}: pass mean_labels=K if you know better"
    )


def test_thresholds_have_their_own_k_and_nothing_else_uses_one():
    assert remark(**ZERO, select="oracle") == ""


def test_few_classes_and_a_stated_k():
    assert remark(classes=3, **ZERO).startswith(
        "1.5 labels per sample assumed (half of the 3 classes) for the"
    )
    assert remark(classes=2, **ZERO).startswith("1 label per sample assumed (half of the 2 classes) for the")
    assert remark(**PRIOR, mean_labels=2.5) == ""
    assert remark(**ZERO, full=("train", "val")) == ""


def test_an_output_that_no_file_system_can_hold():
    with pytest.raises(InputError) as caught:
        run_folder(Config(output="a\0b"))
    assert str(caught.value) == "output: 'a\\x00b' holds a NUL byte, which no file name has. Correct it."


@pytest.mark.parametrize(
    ("settings", "full", "split", "expected"),
    [
        ({"mean_labels": 1.5}, ("train", "val"), "train", (1.5, "stated")),
        ({}, (), "", (2.0, "default")),
        ({}, ("train",), "", (2.0, "default")),
        ({}, ("train",), "val", (2.0, "default")),
        ({}, ("train",), "train", (None, "labels")),
        ({}, ("val",), "val", (None, "labels")),
    ],
)
def test_k_is_stated_or_that_of_a_split_whose_labels_are_known(settings, full, split, expected):
    data = make_data(classes=4)
    splits = {
        name: replace(samples, observed=data.truth[name]) if name in full else samples
        for name, samples in data.splits.items()
    }
    value, source = expected
    if value is None:
        value = float(data.truth[split].positives_per_sample().mean())
    found = mean_labels_of(from_dict(settings), replace(data, splits=splits), split)
    assert (found.value, found.source) == (value, source)


# -- the scaling of features that a run chooses by default, and the learning rate that goes with it


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
