"""Image encoders of transformers as backbones, from folders with small random networks."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from spml.common.errors import InputError
from spml.config import ModelConfig
from spml.models import (
    Backbone,
    BackboneSpec,
    Classifier,
    Top,
    build_backbone,
    load_classifier,
    save_classifier,
)
from spml.models.backbones import create_backbone, hugging_face
from spml.models.backbones.backbone import inspect_network
from spml.models.backbones.hugging_face import ENCODERS
from tests.helpers.commands import refusal
from tests.helpers.networks import PHOTOS, describe

transformers = pytest.importorskip("transformers", reason="transformers is not installed")

SMALL = {
    "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 24,
    "image_size": 16, "patch_size": 8,
}  # fmt: skip
IMAGES = torch.randint(0, 256, (2, 3, 16, 16), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
NORMAL = IMAGES / 255 * 2 - 1
HALF = {"image_mean": [0.5] * 3, "image_std": [0.5] * 3, "resample": 3, "size": {"height": 16, "width": 16}}


@pytest.fixture(autouse=True)
def quiet() -> Any:
    logging = transformers.utils.logging
    level = logging.get_verbosity()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    yield
    logging.set_verbosity(level)
    logging.enable_progress_bar()


def save(folder: Path, model: Any, processor: Any = HALF) -> Any:
    torch.manual_seed(0)
    model.save_pretrained(folder)
    if processor:
        (folder / "preprocessor_config.json").write_text(json.dumps(processor))
    return model.eval()


def vit(kind: str = "ViTModel") -> Any:
    torch.manual_seed(0)
    return getattr(transformers, kind)(transformers.ViTConfig(**SMALL))


def build(folder: Path, size: int = 0, weights: str = "pretrained") -> Backbone:
    config = ModelConfig(f"hf/{folder}", weights=weights)
    return build_backbone(describe(config, PHOTOS, size), config).eval()


@torch.inference_mode()
def check(backbone: Backbone, expected: torch.Tensor, way: str) -> None:
    torch.testing.assert_close(backbone(IMAGES), expected, rtol=1e-4, atol=1e-5)
    assert backbone.num_features == expected.shape[1]
    assert backbone.spec.architecture["features"] == way
    again = create_backbone(backbone.spec).eval()
    again.load_state_dict(backbone.state_dict())
    torch.testing.assert_close(again(IMAGES), expected, rtol=1e-4, atol=1e-5)
    with torch.device("meta"):
        assert [*create_backbone(backbone.spec).state_dict()] == [*backbone.state_dict()]


# -- features --------------------------------------------------------------------------------------------


def test_pooled_output(tmp_path: Path, no_network: None) -> None:
    model = save(tmp_path, vit())
    backbone = build(tmp_path)
    with torch.inference_mode():
        check(backbone, model(NORMAL).pooler_output, "pooler_output")
    spec = backbone.spec
    assert (spec.size, spec.mean, spec.interpolation) == (16, (0.5, 0.5, 0.5), "bicubic")
    assert len(spec.sha256) == 64


def test_a_pooler_without_weights_is_left_out(tmp_path: Path, lines: list[str]) -> None:
    """Otherwise the features would go through a layer of random weights."""
    model = save(tmp_path, vit("ViTForImageClassification"))
    backbone = build(tmp_path)
    with torch.inference_mode():
        check(backbone, model.vit(NORMAL).last_hidden_state[:, 0], "first token")
    assert len(lines) == 1
    assert "ViTModel, 16 features (first token); images (preprocessor_config.json): 16 pixels" in lines[0]


def test_a_convolutional_network_and_maps(tmp_path: Path) -> None:
    config = transformers.ResNetConfig(
        embedding_size=4, hidden_sizes=[4, 8], depths=[1, 1], layer_type="basic", num_labels=2
    )
    model = save(tmp_path / "resnet", transformers.ResNetForImageClassification(config))
    with torch.inference_mode():
        expected = model.resnet(NORMAL).pooler_output.flatten(1)
        check(build(tmp_path / "resnet", 16), expected, "pooler_output")
        config = transformers.PoolFormerConfig(hidden_sizes=[4, 8, 8, 8], depths=[1] * 4)
        model = save(tmp_path / "poolformer", transformers.PoolFormerModel(config))
        expected = model(NORMAL).last_hidden_state.mean((2, 3))
        check(build(tmp_path / "poolformer", 16), expected, "mean of the feature map")
        assert build(tmp_path / "poolformer", 16).maps(IMAGES).shape[:2] == (2, 8)


@pytest.mark.skipif(not hasattr(transformers, "IJepaModel"), reason="transformers is too old for I-JEPA")
def test_tokens_without_a_class_token(tmp_path: Path) -> None:
    model = save(tmp_path, transformers.IJepaModel(transformers.IJepaConfig(**SMALL)))
    with torch.inference_mode():
        expected = model(NORMAL).last_hidden_state.mean(1)
        check(build(tmp_path), expected, "mean of the tokens")


def test_of_a_pair_of_encoders_the_one_of_images_is_taken(tmp_path: Path) -> None:
    vision = transformers.CLIPVisionConfig(**SMALL)
    text = transformers.CLIPTextConfig(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, vocab_size=9
    )
    model = save(
        tmp_path,
        transformers.CLIPModel(
            transformers.CLIPConfig(vision_config=vision.to_dict(), text_config=text.to_dict())
        ),
    )
    with torch.inference_mode():
        check(build(tmp_path), model.vision_model(NORMAL).pooler_output, "pooler_output")


def test_weights_in_parts_and_in_half_precision(tmp_path: Path) -> None:
    model = save(tmp_path, vit())
    state = {name: value.half() for name, value in load_file(tmp_path / "model.safetensors").items()}
    (tmp_path / "model.safetensors").unlink()
    names = sorted(state)
    for number, part in enumerate((names[::2], names[1::2]), start=1):
        save_file({name: state[name] for name in part}, tmp_path / f"model-0000{number}-of-00002.safetensors")
    (tmp_path / "model.safetensors.index.json").write_text("{}")
    backbone = build(tmp_path)
    with torch.inference_mode():
        torch.testing.assert_close(backbone(IMAGES), model(NORMAL).pooler_output, rtol=0, atol=1e-2)
    assert backbone(IMAGES).dtype == torch.float32


def test_random_weights_and_another_size(tmp_path: Path) -> None:
    save(tmp_path, vit(), processor=None)
    backbone = build(tmp_path, 32, "random")
    assert backbone.spec.mean == (0.485, 0.456, 0.406)
    assert backbone(torch.zeros(1, 3, 32, 32, dtype=torch.uint8)).shape == (1, 16)
    with pytest.raises(
        InputError, match=r"1 of another shape: embeddings.position_embeddings .* Leave out data.si"
    ):
        build(tmp_path, 32)


def test_a_saved_model_needs_no_folder_and_no_network(tmp_path: Path, no_network: None) -> None:
    save(tmp_path / "net", vit())
    backbone = build(tmp_path / "net")
    (tmp_path / "run").mkdir()
    classifier = Classifier(backbone, Top(16, 2)).eval()
    save_classifier(tmp_path / "run", classifier, classifier.spec, {"classes": ["a", "b"]})
    for file in (tmp_path / "net").iterdir():
        file.unlink()
    loaded, _ = load_classifier(tmp_path / "run")
    with torch.inference_mode():
        assert torch.equal(loaded(IMAGES).logits, classifier(IMAGES).logits)


STAGES = {"hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 1, 1]}
PATCHES = {"image_size": 16, "patch_size": 2, "embed_dim": 8, "depths": [1, 1]}
WINDOWS = {**PATCHES, "num_heads": [2, 2], "window_size": 4}
FOCAL = {**PATCHES, "focal_levels": [1, 1], "focal_windows": [3, 3], "hidden_sizes": [16, 32]}
AS_USUAL = ("levit", "mobilenet_v1", "mobilenet_v2", "mobilevit", "pvt_v2")
OTHERS: dict[str, Any] = {
    **dict.fromkeys(("convnext", "convnextv2", "dinov3_convnext", "poolformer"), STAGES),
    **dict.fromkeys(("swin", "swinv2"), WINDOWS),
    **{kind: {} for kind in AS_USUAL},
    "efficientnet": {"width_coefficient": 0.1, "depth_coefficient": 0.1, "hidden_dim": 128},
    "focalnet": FOCAL,
    "hiera": {"embed_dim": 8, "depths": [1] * 4, "num_heads": [1, 1, 2, 2]},
    "regnet": {"embedding_size": 8, "groups_width": 8, **STAGES},
    "resnet": {"embedding_size": 8, "layer_type": "basic", **STAGES},
}


@pytest.mark.long
@pytest.mark.parametrize("kind", ENCODERS)
def test_every_encoder_is_built_and_built_again_from_its_description(kind: str) -> None:
    if kind not in transformers.CONFIG_MAPPING:
        pytest.skip(f"transformers {transformers.__version__} does not know {kind}")
    settings = OTHERS.get(kind, SMALL)
    size = settings.get("image_size", 224)
    config = {"model_type": kind, **settings}
    half = (0.5,) * 3
    spec = BackboneSpec("hf/a/b", {}, size, half, half, weights="random", architecture={"config": config})
    model = hugging_face._empty(spec)
    way, width = inspect_network(model, kind, 3, size)
    backbone = Backbone(
        replace(spec, architecture={"config": config, "features": way, "num_features": width}),
        model,
        width,
        way=way,
    )
    with torch.device("meta"):
        again = create_backbone(backbone.spec).state_dict()
    assert {name: value.shape for name, value in again.items()} == {
        name: value.shape for name, value in backbone.state_dict().items()
    }


# -- what is refused -------------------------------------------------------------------------------------


def change(folder: Path, **settings: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **settings}))


@pytest.mark.parametrize(
    "settings",
    [
        {"auto_map": {"AutoModel": "someone/else--modeling.Model"}},
        {"attn_implementation": "someone/kernel"},
        {"_attn_implementation": "someone/kernel"},
        {"quantization_config": {"quant_method": "awq"}},
        {"_name_or_path": "someone/else", "dtype": "float16", "output_hidden_states": True},
    ],
)
def test_settings_that_load_something_are_not_read(tmp_path: Path, settings: Any, no_network: None) -> None:
    model = save(tmp_path, vit())
    change(tmp_path, **settings)
    backbone = build(tmp_path)
    with torch.inference_mode():
        torch.testing.assert_close(backbone(IMAGES), model(NORMAL).pooler_output, rtol=1e-4, atol=1e-5)
    assert not {*settings} & {*backbone.spec.architecture["config"]}


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (
            {"model_type": "llama"},
            "model_type is 'llama', which is not among the image encoders that are read",
        ),
        ({"model_type": "timm_wrapper"}, "not among the image encoders"),
        ({"model_type": None}, "model_type is None"),
        ({"num_hidden_layers": 10**9}, "num_hidden_layers is 1e+09, which no encoder has"),
        ({"hidden_size": 10**9}, "hidden_size is 1e+09"),
        ({"hidden_size": "x"}, "transformers can't build it"),
        ({"hidden_act": "os.system"}, "transformers can't build it"),
        ({"patch_size": [1] * 1000}, "patch_size has 1000 entries"),
        ({"hidden_size": 18}, "of another shape: "),
        ({"num_hidden_layers": 2}, "missing: "),
    ],
)
def test_a_wrong_configuration_is_refused(tmp_path: Path, settings: Any, words: str) -> None:
    save(tmp_path, vit())
    change(tmp_path, **settings)
    assert words in refusal(build, tmp_path)


def test_a_tampered_run_builds_nothing_else(tmp_path: Path) -> None:
    save(tmp_path / "net", vit())
    backbone = build(tmp_path / "net")
    (tmp_path / "run").mkdir()
    classifier = Classifier(backbone, Top(16, 2))
    save_classifier(tmp_path / "run", classifier, classifier.spec, {"classes": ["a", "b"]})
    path = tmp_path / "run" / "model.json"
    card = json.loads(path.read_text())
    del card["sha256"]
    for settings, words in (
        ({"config": {"model_type": "evil"}}, "model_type is 'evil', which is not among"),
        ({"features": "__import__"}, "features '__import__'"),
        ({"num_features": 10**12}, "num_features 1000000000000"),
        ({"config": {"model_type": "vit", "hidden_size": 60000, "num_attention_heads": 1}}, "does not fit"),
    ):
        changed = {**card, "backbone": {**card["backbone"], "architecture": {
            **card["backbone"]["architecture"], **settings}}}  # fmt: skip
        path.write_text(json.dumps(changed))
        assert words in refusal(load_classifier, tmp_path / "run")


def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no such folder. Name one with config.json and model.safetensors"):
        build(tmp_path / "nowhere")
    with pytest.raises(InputError, match=r"config.json is missing"):
        build(tmp_path)
    save(tmp_path, vit())
    (tmp_path / "model.safetensors").rename(tmp_path / "pytorch_model.bin")
    with pytest.raises(InputError, match=r"model.safetensors is missing.* other weights are not opened"):
        build(tmp_path)
    with pytest.raises(InputError, match="has its weights inside"):
        build(tmp_path, weights="x.safetensors")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "transformers", None)
        with pytest.raises(InputError, match=r"pip install transformers"):
            build(tmp_path)


def test_a_repository_is_downloaded_only_when_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: list[str]
) -> None:
    model = save(tmp_path, vit())
    asked: list[str] = []

    def download(repository: str, file: str) -> str:
        asked.append(f"{repository}/{file}")
        return str(tmp_path / file)

    monkeypatch.setattr("spml.models.backbones.weights.hub_file", download)
    monkeypatch.chdir(tmp_path)
    config = ModelConfig("hf/someone/network")
    spec = describe(config, PHOTOS)
    assert "files are those of huggingface.co/someone/network, downloaded once" in lines[0]
    backbone = build_backbone(spec, config).eval()
    with torch.inference_mode():
        torch.testing.assert_close(backbone(IMAGES), model(NORMAL).pooler_output, rtol=1e-4, atol=1e-5)
    assert {*asked} == {
        f"someone/network/{file}" for file in ("config.json", "preprocessor_config.json", "model.safetensors")
    }


def test_without_network_access_a_repository_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(repository: str, file: str) -> str:
        raise OSError("no route to host")

    monkeypatch.setattr("spml.models.backbones.weights.hub_file", refuse)
    with pytest.raises(
        InputError, match=r"config.json of someone/network could not be downloaded \(OSError: no rou"
    ):
        describe(ModelConfig("hf/someone/network"), PHOTOS)
