"""Runs with a network of the user's own: trained, loaded, continued, and never brought along by a file."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from torch import Tensor

import spml
from spml.bench.spec import read_spec
from spml.common.errors import InputError
from spml.config import Config, ModelConfig
from spml.models.backbones import SmallCNN
from tests.helpers.commands import refusal
from tests.helpers.photos import make_photos
from tests.helpers.training import stopping_after
from tests.models.nets import Does, Pooled, Small, seeded

QUICK: dict[str, Any] = {
    "transform": {"size": 16, "mean": [0.25] * 3, "std": [0.25] * 3},
    "method": "an",
    "epochs": 2,
    "batch_size": 8,
    "threads": 1,
    "quiet": True,
    "data": {"workers": 0},
}
NEEDED = (
    "its backbone tests.models.nets:Pooled is a network of the user's own, and no file of a run can bring"
)


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_photos(tmp_path_factory.mktemp("own") / "photos", per_class=12)


@pytest.fixture(scope="module")
def frozen(photos: Path) -> Path:
    """Run on features of a network, which are kept."""
    return spml.train(photos, backbone=seeded(Pooled), output=photos.parent / "frozen", **QUICK).folder


@pytest.fixture(scope="module")
def tuned(photos: Path) -> Path:
    output = photos.parent / "tuned"
    return spml.train(photos, backbone=seeded(Pooled), frozen="no", output=output, **QUICK).folder


def scores(run: spml.Run, photos: Path) -> np.ndarray:
    return run.predict([photos / "red"], cache="none").scores


@pytest.mark.long
def test_a_run_with_small_cnn_as_an_own_network_is_the_run_with_small_cnn(
    photos: Path, tmp_path: Path
) -> None:
    torch.manual_seed(0)
    network = SmallCNN(3)
    own = spml.train(photos, backbone=network, weights="random", output=tmp_path / "own", **QUICK)
    others = {**QUICK, "transform": None, "data": {"workers": 0, "size": 16}}
    named = spml.train(photos, backbone="small_cnn", output=tmp_path / "named", **others)
    assert own.spec.interpolation == named.spec.interpolation
    np.testing.assert_allclose(scores(own, photos), scores(named, photos), rtol=0, atol=1e-6)
    assert [epoch["train/loss"] for epoch in own.history] == pytest.approx(
        [epoch["train/loss"] for epoch in named.history], abs=1e-6
    )


@pytest.mark.long
def test_the_default_is_frozen_and_solved(photos: Path, tmp_path: Path) -> None:
    run = spml.train(
        photos, backbone=seeded(Pooled), output=tmp_path / "run", **{**QUICK, "method": "", "epochs": 20}
    )
    assert run.summary["method"] == "auto"
    assert (run.config.model.backbone, run.config.model.frozen) == ("tests.models.nets:Pooled", "yes")


def test_model_json_tells_the_name_and_no_code(frozen: Path) -> None:
    card = json.loads((frozen / "model.json").read_text())
    assert card["backbone"]["name"] == "tests.models.nets:Pooled"
    assert (card["backbone"]["size"], card["backbone"]["mean"]) == (16, [0.25] * 3)
    assert len(card["backbone"]["sha256"]) == 64
    assert len(card["probe"]) == 6


def test_a_run_is_loaded_with_its_network_and_the_weights_of_the_run(tuned: Path, photos: Path) -> None:
    module = seeded(Pooled, 5)
    run = spml.load(tuned, backbone=module)
    again = spml.load(tuned, backbone=seeded(Pooled, 6))
    np.testing.assert_array_equal(scores(run, photos), scores(again, photos))
    state = run.model.classifier.backbone.network.state_dict()
    assert not torch.equal(state["convolution.weight"], module.state_dict()["convolution.weight"])
    started = seeded(Pooled).state_dict()["convolution.weight"]
    assert not torch.equal(state["convolution.weight"], started), "the network was not trained"


# -- what loading refuses --------------------------------------------------------------------------------


class _Other(Pooled):
    def forward(self, images: Tensor) -> Tensor:
        return torch.sin(9 * super().forward(images))


class _Fewer(Pooled):
    def __init__(self) -> None:
        super().__init__()
        self.norm.weight = None  # type: ignore[assignment]


def test_another_network_is_refused(frozen: Path) -> None:
    assert f"{frozen}: {NEEDED}" in refusal(spml.load, frozen)
    with pytest.raises(
        InputError, match=r"frozen: the network that was passed for .* gives 7 features, but that of the"
    ):
        spml.load(frozen, backbone=Pooled(7))
    with pytest.raises(InputError, match="computes other features of the same image with the same weights"):
        spml.load(frozen, backbone=_Other())
    with pytest.raises(
        InputError, match=r"does not fit the network that was passed .* \(1 unexpected: .*norm.we"
    ):
        spml.load(frozen, backbone=_Fewer())
    with pytest.raises(InputError, match=r"backbone must be a name or an nn.Module, got 'x'"):
        spml.load(frozen, backbone="x")  # type: ignore[arg-type]


def test_a_network_for_a_run_that_needs_none_is_refused(tmp_path: Path, photos: Path) -> None:
    others = {**QUICK, "transform": None, "epochs": 1}
    spml.train(photos, backbone="small_cnn", output=tmp_path / "run", **others)
    with pytest.raises(InputError, match="its backbone is small_cnn, which needs no network of yours"):
        spml.load(tmp_path / "run", backbone=Pooled())


def test_files_import_nothing(
    frozen: Path, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run, a configuration and a specification that name code leave it alone."""
    (tmp_path / "evil.py").write_text("from pathlib import Path\nPath('executed').touch()\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    for file in frozen.glob("*.*"):
        (tmp_path / "run" / file.name).parent.mkdir(exist_ok=True)
        (tmp_path / "run" / file.name).write_bytes(file.read_bytes())
    card = json.loads((tmp_path / "run" / "model.json").read_text())
    card["backbone"]["name"] = "evil:make"
    del card["sha256"]
    (tmp_path / "run" / "model.json").write_text(json.dumps(card))
    settings = yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())
    settings["model"]["backbone"] = "evil:make"
    (tmp_path / "run" / "config.yaml").write_text(yaml.safe_dump(settings))
    (tmp_path / "spec.yaml").write_text(
        "data: {photos: {path: photos}}\nhiding: {none: {observe: none}}\ncandidates: [an]\n"
        "train: {model.backbone: 'evil:make'}\n"
    )
    refused = [
        (lambda: spml.load("run"), "its backbone evil:make is a network of the user's own"),
        (lambda: spml.train(photos, init_from="run", output="new"), "its backbone evil:make is a network"),
        (lambda: spml.compare(["run"], photos), "its backbone evil:make is a network"),
        (lambda: spml.train(Config(output="run"), resume=True), "backbone 'evil:make' is code of your own"),
        (lambda: spml.train(photos, backbone="evil:make", output="new"), "is code of your own"),
        (lambda: read_spec(Path("spec.yaml")), "is code of your own, which no specification can name"),
    ]
    for call, words in refused:
        assert words in refusal(call)
    assert "evil" not in sys.modules
    assert not Path("executed").exists()


# -- going on --------------------------------------------------------------------------------------------


def test_a_run_starts_from_another_one(tuned: Path, photos: Path, tmp_path: Path) -> None:
    settings = {**QUICK, "epochs": 1, "frozen": "no", "lr": 1e-9, "init_from": str(tuned)}
    with pytest.raises(InputError, match=NEEDED):
        spml.train(photos, output=tmp_path / "run", **{**settings, "transform": None})
    run = spml.train(photos, backbone=seeded(Pooled, 7), output=tmp_path / "run", **settings)
    start = spml.load(tuned, backbone=seeded(Pooled, 8)).model.classifier.backbone
    weight = run.model.classifier.backbone.network.get_parameter("convolution.weight")
    torch.testing.assert_close(weight, start.network.get_parameter("convolution.weight"), atol=1e-6, rtol=0)


@pytest.mark.long
@pytest.mark.parametrize("frozen", ["yes", "no"])
def test_a_run_is_resumed(photos: Path, tmp_path: Path, frozen: str) -> None:
    whole = spml.train(photos, backbone=seeded(Pooled), frozen=frozen, output=tmp_path / "a", **QUICK)
    with stopping_after(1):
        spml.train(photos, backbone=seeded(Pooled), frozen=frozen, output=tmp_path / "b", **QUICK)
    if frozen == "yes":
        with pytest.raises(InputError, match="your own network, or the run that it started from"):
            spml.train(
                photos, backbone=seeded(Pooled, 1), frozen=frozen, output=tmp_path / "b", resume=True, **QUICK
            )
    run = spml.train(
        photos, backbone=seeded(Pooled), frozen=frozen, output=tmp_path / "b", resume=True, **QUICK
    )
    np.testing.assert_allclose(scores(run, photos), scores(whole, photos), rtol=0, atol=1e-6)


def test_a_network_without_parameters(photos: Path, tmp_path: Path) -> None:
    run = spml.train(photos, backbone=Does(_quarters), output=tmp_path / "run", **{**QUICK, "epochs": 1})
    assert run.model.classifier.backbone.num_features == 12
    loaded = spml.load(run.folder, backbone=Does(_quarters))
    np.testing.assert_array_equal(scores(loaded, photos), scores(run, photos))


def _quarters(images: Tensor) -> Tensor:
    return torch.nn.functional.adaptive_avg_pool2d(images, 2).flatten(1)


# -- maps, and what is refused before anything is written -------------------------------------------------


def test_a_head_on_maps_needs_a_network_that_returns_them(photos: Path, tmp_path: Path) -> None:
    settings = {**QUICK, "head": "boosted_cam", "epochs": 1}
    run = spml.train(photos, backbone=seeded(Small), output=tmp_path / "maps", **settings)
    loaded = spml.load(run.folder, backbone=Small())
    np.testing.assert_array_equal(scores(loaded, photos), scores(run, photos))
    with pytest.raises(
        InputError, match=r"needs a feature map, but backbone tests.models.nets:Pooled has no fea"
    ):
        spml.train(photos, backbone=seeded(Pooled), output=tmp_path / "none", **settings)
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"backbone": 3}, "backbone must be a name or an nn.Module, got 3"),
        ({"backbone": Pooled}, "Pooled is a class, not a network"),
        ({"backbone": "resnet18"}, "transform belongs to a network of your own"),
        ({}, "transform belongs to a network of your own"),
        ({"backbone": Pooled(), "transform": {"std": [0, 1, 1]}}, "finite and std positive"),
        ({"backbone": Pooled(), "weights": "w.pt"}, "'w.pt'. Other formats are not opened"),
        ({"backbone": Pooled(), "data": {"size": 9000}}, "numbers from 0 to 8192 such as 320"),
    ],
)
def test_wrong_arguments_are_refused(photos: Path, tmp_path: Path, settings: Any, words: str) -> None:
    assert words in refusal(spml.train, photos, output=tmp_path / "run", **{**QUICK, **settings})
    assert not (tmp_path / "run").exists()


def test_features_and_a_complete_config_take_no_network(tmp_path: Path) -> None:
    features, labels = np.zeros((20, 4), np.float32), ["a", "b"] * 10
    with pytest.raises(InputError, match="pass the features that it computes as data"):
        spml.train(features, labels, backbone=Pooled(), output=tmp_path / "run", **QUICK)
    with pytest.raises(InputError, match=r"a Config holds names: pass a network as spml.train"):
        spml.train(Config(model=ModelConfig(backbone=Pooled())))  # type: ignore[arg-type]
