"""safetensors-hf: timm and transformers load what they can express, spml the rest; the card is true."""

from __future__ import annotations

import json

import numpy as np
import pytest
import timm
import torch
import yaml
from PIL import Image

import spml
from spml.common.errors import SpmlError
from spml.config import ModelConfig
from spml.export.formats import huggingface
from spml.export.model_card import text
from spml.models import Classifier, Top, build_backbone, save_classifier
from tests.helpers.networks import PHOTOS, describe
from tests.helpers.run_folders import CARD, save_thresholds


def save_timm_run(folder, **top):
    """A model of timm for colour images of 48 x 48 pixels, which is not trained."""
    torch.manual_seed(0)
    config = ModelConfig(backbone="test_efficientnet", weights="random")
    backbone = build_backbone(describe(config, PHOTOS, size=48), config)
    top = Top(backbone.num_features, 3, **{"scaling": "raw", **top})
    folder.mkdir(parents=True, exist_ok=True)
    save_classifier(folder, Classifier(backbone, top), backbone.spec, CARD)
    save_thresholds(folder)
    return spml.load(folder)


def front_matter(card):
    return yaml.safe_load(card.split("---\n")[1])


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    """A run with a linear head, the folder that it is exported to, and an image."""
    folder = tmp_path_factory.mktemp("timm")
    run = save_timm_run(folder / "run")
    image = Image.fromarray(np.random.default_rng(0).integers(0, 256, (60, 90, 3), np.uint8))
    return run, run.export(folder / "hub", format="safetensors-hf"), image


def test_timm_loads_a_linear_head_on_its_network(hub):
    run, folder, image = hub
    network = timm.create_model(f"local-dir:{folder}", pretrained=True).eval()
    prepare = timm.data.create_transform(**timm.data.resolve_model_data_config(network))
    with torch.inference_mode():
        expected = run.model(run.transform(image)[None])
        torch.testing.assert_close(network(prepare(image)[None]), expected, atol=1e-5, rtol=1e-5)
    config = json.loads((folder / "config.json").read_text())
    assert config["problem_type"] == "multi_label_classification"
    assert config["id2label"] == {"0": "a", "1": "b", "2": "c"}
    assert config["label2id"] == {"a": 0, "b": 1, "c": 2}
    assert config["spml"]["thresholds"] == [pytest.approx(0.622459), None, pytest.approx(0.622459)]
    preparation = json.loads((folder / "preprocessor_config.json").read_text())
    assert preparation["size"] == {"height": 48, "width": 48}
    assert front_matter((folder / "README.md").read_text())["library_name"] == "timm"


@pytest.mark.long
def test_transformers_load_it_too(hub):
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    run, folder, image = hub
    network = transformers.AutoModelForImageClassification.from_pretrained(folder).eval()
    assert network.config.problem_type == "multi_label_classification"
    assert network.config.id2label == {0: "a", 1: "b", 2: "c"}
    pixels = run.transform(image)[None]
    mean, std = (torch.tensor(values).reshape(1, 3, 1, 1) for values in (run.spec.mean, run.spec.std))
    with torch.inference_mode():
        logits = network(pixel_values=(pixels / 255 - mean) / std).logits
        torch.testing.assert_close(logits, run.model(pixels), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    ("top", "reason"),
    [
        ({"head": "mlp"}, "timm has no head mlp"),
        ({"scaling": "sqrtl2"}, "timm has no scaling sqrtl2 of features"),
        ({"scores": "log_softmax"}, "timm's models give logits, and this one log-probabilities"),
    ],
)
def test_spml_loads_what_timm_cannot_express(top, reason, tmp_path):
    run = save_timm_run(tmp_path / "run", **top)
    folder = run.export(tmp_path / "hub", format="safetensors-hf")
    again = spml.load(folder)
    images = np.random.default_rng(0).integers(0, 256, (2, 60, 90, 3), np.uint8)
    np.testing.assert_array_equal(again.predict(images).scores, run.predict(images).scores)
    card = (folder / "README.md").read_text()
    assert text(reason) in card
    assert front_matter(card)["library_name"] == "spml"


def test_a_run_on_features_with_its_thresholds(ridge, digits, tmp_path):
    folder = ridge.export(tmp_path / "hub", format="safetensors-hf")
    rows = digits[0][500:510]
    np.testing.assert_array_equal(
        spml.load(folder).predict(rows).probabilities, ridge.predict(rows).probabilities
    )
    assert {path.name for path in folder.iterdir()} == {
        "README.md", "config.json", "model.json", "model.safetensors", "summary.json", "thresholds.json",
    }  # fmt: skip


def test_the_card_says_what_is_known(ridge, tmp_path):
    card = (ridge.export(tmp_path / "hub", format="safetensors-hf") / "README.md").read_text()
    counts = ridge.summary["data"]["samples"]
    score = ridge.summary["validation"]["val/SP"]
    never = "one known positive label per sample; all others unknown"
    for line in (
        f"| train | {counts['train']:,} | {never} |",
        "K, the mean number of labels per sample: 1 (stated by whoever trained the model).",
        "Selected (observed) by val/SP on validation samples, judged by observed labels only (SP-score).",
        f"| validation | SP | {score:.3f} | {never} |",
        "There were no fully labelled test samples, so mAP on such is not known.",
        f"| dig\\|it &lt;3&gt; | {ridge.thresholds.classes[3].threshold:.3g} |",
        "- The model learned from one known positive label per sample.",
        f"Weights (SHA-256): `{ridge.weights_sha256}`",
    ):
        assert line in card
    assert str(ridge.folder) not in card


def test_nothing_in_a_name_is_markup():
    shown = text("a|b\n# <img src=x> [c](d) `e` **f** \\ $g$")
    assert shown == r"a\|b \# &lt;img src=x&gt; \[c\](d) \`e\` \*\*f\*\* \\ \$g\$"


def test_a_network_of_timm_that_computes_something_else_is_refused(tmp_path, monkeypatch):
    run = save_timm_run(tmp_path / "run")
    monkeypatch.setattr(huggingface, "_timm_arguments", lambda model: {"act_layer": "gelu"})
    with pytest.raises(SpmlError, match="as a model of timm its logits differ by"):
        run.export(tmp_path / "hub", format="safetensors-hf")
    assert not (tmp_path / "hub").exists()
