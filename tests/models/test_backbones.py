"""Choice of the backbone, origin of its weights, and its features."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import timm
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from spml.common.errors import InputError
from spml.config import ModelConfig
from spml.data import Dataset
from spml.data.images.image_files import ImageFiles
from spml.models import Backbone, BackboneSpec, build_backbone
from spml.models.backbones import SmallCNN
from tests.helpers.commands import refusal
from tests.helpers.networks import FEATURES, GREY, PHOTOS, TINY, data_of, describe, tiny_model

# -- which backbone --------------------------------------------------------------------------------------


def test_auto_follows_the_data() -> None:
    config = ModelConfig()
    assert describe(config, FEATURES) == BackboneSpec("none", width=7)
    grey = describe(config, GREY)
    assert (grey.name, grey.size, grey.weights, len(grey.mean)) == ("small_cnn", 40, "random", 1)
    photos = describe(config, PHOTOS)
    assert photos.name.split(".")[0] == "resnet50"
    assert (photos.weights, photos.size, photos.mean) == ("pretrained", 224, (0.485, 0.456, 0.406))


def test_a_resolved_backbone_is_resolved_to_itself() -> None:
    for data in (FEATURES, GREY, PHOTOS):
        spec = describe(ModelConfig(), data)
        assert describe(ModelConfig(backbone=spec.name), data) == spec


def test_size_chosen_by_the_user_wins_unless_it_is_too_large() -> None:
    for data in (GREY, PHOTOS):
        config = ModelConfig(weights="random")
        assert describe(config, data, size=448).size == 448
        with pytest.raises(InputError, match=r"data\.size must be at most 8192 pixels, got 10000"):
            describe(config, data, size=10_000)


@pytest.mark.parametrize(
    ("config", "data", "words"),
    [
        (ModelConfig("resnet5"), PHOTOS, ["'resnet5'", "resnet50"]),
        (ModelConfig("resnet50.a1_in2k"), PHOTOS, ["no weights 'resnet50.a1_in2k'", "resnet50.a1_in1k"]),
        (ModelConfig("hf-hub:someone/model"), PHOTOS, ["unknown backbone"]),
        (ModelConfig("none"), PHOTOS, ["takes feature vectors", "holds images"]),
        (ModelConfig("resnet50"), FEATURES, ["takes images", "holds feature vectors"]),
        (ModelConfig("small_cnn", weights="x.safetensors"), GREY, ["random weights only"]),
        (ModelConfig("resnet50", weights="model.pth"), PHOTOS, ["'model.pth'", ".safetensors"]),
        (ModelConfig("resnet50", weights="no.safetensors"), PHOTOS, ["no.safetensors", "No such file"]),
    ],
)
def test_a_wrong_choice_is_explained(config: ModelConfig, data: Dataset, words: list[str]) -> None:
    assert all(word in refusal(describe, config, data) for word in words)


def test_the_json_next_to_weights_determines_how_images_are_prepared(weights: Path) -> None:
    spec = describe(ModelConfig(weights=str(weights)), PHOTOS)
    assert (spec.name, spec.weights, spec.file, spec.size) == (TINY, "file", "tiny.safetensors", 32)
    assert (spec.mean, spec.std, spec.interpolation) == ((0.1, 0.2, 0.3), (0.4, 0.5, 0.6), "bilinear")
    weights.with_suffix(".json").unlink()
    bare = describe(ModelConfig(TINY, weights=str(weights)), PHOTOS)
    assert (bare.size, bare.mean, bare.sha256) == (160, (0.5, 0.5, 0.5), spec.sha256)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "is not valid JSON"),
        ("[1]", "expected an object, got a list"),
        ('{"timm_model": "test_vit"}', "weights of test_vit"),
        ('{"std": [0.5, 0, 0.5]}', "std positive"),
        ('{"mean": [0.5]}', "must have 3 numbers"),
        ('{"mean": [NaN, 0, 0]}', "must be finite"),
        ('{"mean": [1e999, 0, 0]}', "out of range"),
        ('{"mean": [true, 0, 0]}', "mean[0]: expected a number, got true or false"),
        ('{"input_size": 224}', "input_size: expected a list, got an integer"),
        ('{"input_size": [3, 1e9, 1e9]}', "input_size[1]: expected an integer, got a number"),
        ('{"input_size": [3, 1000000000, 1000000000]}', "size must be from 1 to 8192"),
        ('{"input_size": []}', "length >= 1"),
        ('{"notes": ' + "[" * 100_000, "nested too deeply"),
        ('{"interpolation": "magic"}', "'magic'"),
        ('{"timm_kwargs": {"checkpoint_path": "evil.pth"}}', "checkpoint_path"),
        ('{"timm_kwargs": {"global_pool": ""}}', "must be one of avg, avgmax, catavgmax, max, token"),
        ('{"timm_kwargs": {"global_pool": "nonsense"}}', "token, got 'nonsense'"),
        ('{"timm_kwargs": {"global_pool": false}}', "token, got False"),
    ],
)
def test_a_wrong_json_next_to_weights_is_explained(weights: Path, text: str, words: str) -> None:
    weights.with_suffix(".json").write_text(text)
    with pytest.raises(InputError, match="tiny") as caught:
        describe(ModelConfig(TINY, weights=str(weights)), PHOTOS)
    assert words in str(caught.value)


# -- weights ---------------------------------------------------------------------------------------------


def test_a_transformer_with_a_class_token_can_take_the_mean_of_its_tokens(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model: Any = timm.create_model("test_vit", pretrained=False).eval()
    path = tmp_path / "vit.safetensors"
    save_file(model.state_dict(), path)
    images = torch.randint(0, 256, (2, 3, 160, 160), dtype=torch.uint8)

    def build() -> Backbone:
        config = ModelConfig("test_vit", weights=str(path))
        return build_backbone(describe(config, PHOTOS), config).eval()

    token = build()
    tokens = model.forward_features(token._normalised(images))
    torch.testing.assert_close(token(images), tokens[:, 0])
    with pytest.raises(InputError, match="has no feature map"):
        token.check_maps()
    path.with_suffix(".json").write_text('{"timm_kwargs": {"global_pool": "avg", "fc_norm": false}}')
    mean = build()
    torch.testing.assert_close(mean(images), tokens[:, 1:].mean(1))
    torch.testing.assert_close(mean.maps(images).flatten(2), tokens[:, 1:].transpose(1, 2))


def test_a_pooling_of_another_kind_of_network_is_refused(weights: Path) -> None:
    weights.with_suffix(".json").write_text('{"timm_kwargs": {"global_pool": "token"}}')
    config = ModelConfig(TINY, weights=str(weights))
    with pytest.raises(InputError, match=f"{TINY} does not accept the options .*'token'"):
        build_backbone(describe(config, PHOTOS), config)


def test_weights_of_a_file_are_used_without_its_classifier(weights: Path, lines: list[str]) -> None:
    config = ModelConfig(weights=str(weights))
    backbone = build_backbone(describe(config, PHOTOS), config).eval()
    images = torch.randint(
        0, 256, (2, 3, 32, 32), dtype=torch.uint8, generator=torch.Generator().manual_seed(1)
    )
    mean, std = torch.tensor([0.1, 0.2, 0.3]), torch.tensor([0.4, 0.5, 0.6])
    normal = (images / 255 - mean[:, None, None]) / std[:, None, None]
    model: Any = tiny_model().eval()
    expected = model.forward_head(model.forward_features(normal), pre_logits=True)
    torch.testing.assert_close(backbone(images), expected, rtol=1e-4, atol=1e-5)
    assert backbone.num_features == expected.shape[1]
    assert len(lines) == 1
    assert str(weights) in lines[0]


def test_a_classifier_of_another_size_does_not_matter_and_half_precision_is_widened(weights: Path) -> None:
    state = {
        name: value.half() if value.ndim > 1 else value
        for name, value in tiny_model(num_classes=5).state_dict().items()
    }
    save_file(state, weights)
    config = ModelConfig(weights=str(weights))
    network = build_backbone(describe(config, PHOTOS), config).network
    assert torch.equal(network.get_parameter("conv1.0.weight"), state["conv1.0.weight"].float())
    assert not any(name.startswith("fc.") for name in network.state_dict())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda s: s.pop("bn1.weight"), "1 missing: bn1.weight"),
        (lambda s: s.update({"extra.weight": torch.ones(1)}), "1 unexpected: extra.weight"),
        (
            lambda s: s.update({"bn1.bias": torch.ones(3)}),
            "1 of another shape: bn1.bias (3,) instead of (32,)",
        ),
        (lambda s: s.clear(), "missing: conv1.0.weight, "),
    ],
)
def test_weights_that_do_not_fit_are_refused(
    weights: Path, change: Any, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = tiny_model().state_dict()
    change(state)
    save_file(state, weights)
    config = ModelConfig(weights=str(weights))
    message = refusal(build_backbone, describe(config, PHOTOS), config)
    assert words in message
    assert f"{weights}: these weights do not fit {TINY}" in message
    _, build = _pretrained(monkeypatch, weights)
    with pytest.raises(InputError, match="could not be downloaded or loaded"):
        build()
    weights.write_bytes(weights.read_bytes()[:-100])
    with pytest.raises(InputError, match="not a readable"):
        build_backbone(describe(config, PHOTOS), config)


def _pretrained(monkeypatch: pytest.MonkeyPatch, answer: Any, cached: Any = None) -> tuple[list[str], Any]:
    """Without network: `answer` is the file of the hub, or its refusal; `cached` is already there."""
    asked: list[str] = []

    def ask(url: str) -> None:
        asked.append(url)
        if isinstance(answer, Exception):
            raise answer

    def download(repository: str, file: str) -> str:
        asked.append(f"{repository}/{file}")
        return str(answer)

    monkeypatch.setattr("huggingface_hub.try_to_load_from_cache", lambda repository, file: cached)
    monkeypatch.setattr("huggingface_hub.get_hf_file_metadata", ask)
    monkeypatch.setattr("huggingface_hub.hf_hub_download", download)
    config = ModelConfig(TINY)
    return asked, lambda: build_backbone(describe(config, PHOTOS), config)


def test_pretrained_weights_come_as_safetensors(monkeypatch: pytest.MonkeyPatch, weights: Path) -> None:
    asked, build = _pretrained(monkeypatch, weights)
    backbone = build()
    name = f"timm/{backbone.spec.name}"
    assert asked == [
        f"https://huggingface.co/{name}/resolve/main/model.safetensors",
        f"{name}/model.safetensors",
    ]
    assert backbone.spec.weights == "pretrained"
    assert not any(name.startswith("fc.") for name in backbone.network.state_dict())
    expected = load_file(weights)["conv1.0.weight"]
    assert torch.equal(backbone.network.get_parameter("conv1.0.weight"), expected)


def test_without_network_access_weights_are_not_random(
    monkeypatch: pytest.MonkeyPatch, lines: list[str]
) -> None:
    asked, build = _pretrained(monkeypatch, OSError("no route to host"))
    with pytest.raises(InputError, match="no route to host") as caught:
        build()
    assert "model.weights=FILE.safetensors" in str(caught.value)
    assert "model.weights=random" in str(caught.value)
    assert [line for line in lines if TINY in line and "pretrained" in line] == lines[:1]
    assert len(asked) == 1, "asked again after the first refusal"


def test_weights_in_the_cache_need_no_network(monkeypatch: pytest.MonkeyPatch, weights: Path) -> None:
    asked, build = _pretrained(monkeypatch, OSError("no route to host"), cached=str(weights))
    expected = load_file(weights)["conv1.0.weight"]
    assert torch.equal(build().network.get_parameter("conv1.0.weight"), expected)
    assert not asked


def test_a_timm_network_without_a_configuration_has_the_documented_defaults(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import timm

    def bare_network(pretrained: bool = False, **options: Any) -> nn.Module:
        network = tiny_model()
        network.pretrained_cfg = network.default_cfg = {}  # type: ignore[assignment]
        return network

    entrypoints = timm.models._registry._model_entrypoints
    monkeypatch.setitem(entrypoints, "bare_network", bare_network)
    monkeypatch.setattr(timm, "list_models", lambda: [*entrypoints])
    config = ModelConfig("bare_network", weights="random")
    spec = describe(config, PHOTOS)
    assert (spec.size, spec.mean, spec.std, spec.interpolation) == (
        *(224, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
        "bilinear",
    )
    backbone = build_backbone(spec, config).eval()
    assert backbone(torch.zeros(1, 3, 32, 32, dtype=torch.uint8)).shape == (1, backbone.num_features)
    with pytest.raises(InputError, match="no pretrained weights for bare_network"):
        build_backbone(describe(config := ModelConfig("bare_network"), PHOTOS), config)


def test_a_model_without_pretrained_weights_is_named() -> None:
    config = ModelConfig("mobilenetv2_035")
    with pytest.raises(InputError, match="no pretrained weights for mobilenetv2_035"):
        build_backbone(describe(config, PHOTOS), config)


def test_random_weights_depend_on_the_seed_alone() -> None:
    config = ModelConfig(TINY, weights="random")
    spec = describe(config, PHOTOS)
    keys = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        keys.append(build_backbone(spec, config).key())
    assert keys[0] == keys[1] != keys[2]


def test_key_changes_with_a_single_weight_and_with_the_preparation() -> None:
    torch.manual_seed(0)
    spec = BackboneSpec("small_cnn", size=40, mean=(0.25,), std=(0.25,), weights="random")
    backbone = Backbone(spec, SmallCNN(1), 64)
    before = backbone.key()
    assert Backbone(replace(spec, size=48), backbone.network, 64).key() != before
    with torch.no_grad():
        backbone.network.get_parameter("layers.0.weight").view(-1)[0] += 1e-6
    assert backbone.key() != before


# -- what a backbone computes ----------------------------------------------------------------------------


def _identity(mean: tuple[float, ...], std: tuple[float, ...]) -> Backbone:
    name = "small_cnn" if len(mean) == 1 else TINY
    return Backbone(BackboneSpec(name, size=2, mean=mean, std=std), nn.Identity(), 1)


def test_pixels_are_normalised() -> None:
    image = torch.tensor([0, 51, 102, 255], dtype=torch.uint8).reshape(1, 1, 2, 2)
    normalised = _identity((0.2,), (0.5,))(image)
    torch.testing.assert_close(normalised.flatten(), torch.tensor([-0.4, 0.0, 0.4, 1.6]))


def test_grey_and_colour_suit_networks_for_the_other() -> None:
    grey = torch.full((1, 1, 2, 2), 51, dtype=torch.uint8)
    normalised = _identity((0.0, 0.2, 0.4), (0.5, 0.5, 0.5))(grey)
    torch.testing.assert_close(normalised[0, :, 0, 0], torch.tensor([0.4, 0.0, -0.4]))
    colour = torch.tensor([0, 51, 102], dtype=torch.uint8).reshape(1, 3, 1, 1)
    torch.testing.assert_close(_identity((0.0,), (1.0,))(colour).flatten(), torch.tensor([0.2]))


def test_feature_vectors_pass_through() -> None:
    config = ModelConfig()
    backbone = build_backbone(describe(config, FEATURES), config)
    features = torch.randn(3, 7)
    assert backbone(features) is features
    assert backbone.num_features == 7


def test_small_cnn_pools_with_a_generalised_mean_and_learns_from_black_images() -> None:
    network = SmallCNN(1)
    network.layers = nn.Sequential()
    maps = torch.tensor([[[[0.0, 1.0], [2.0, 3.0]], [[5.0, 5.0], [5.0, 5.0]]]])
    torch.testing.assert_close(network(maps), torch.tensor([[(36 / 4) ** (1 / 3), 5.0]]))
    network = SmallCNN(1)
    network(torch.zeros(2, 1, 40, 40)).sum().backward()
    assert all(bool(p.grad.isfinite().all()) for p in network.parameters() if p.grad is not None)


def test_an_empty_batch_gives_no_features() -> None:
    backbone = _identity((0.25,), (0.25,))
    backbone.network = SmallCNN(1).eval()
    assert backbone(torch.zeros(0, 1, 40, 40, dtype=torch.uint8)).shape == (0, 64)


def test_a_network_of_fixed_size_is_fitted_to_another_if_it_accepts_it() -> None:
    config = ModelConfig("test_vit", weights="random")
    default = timm.get_pretrained_cfg("test_vit").input_size[-1]
    backbone = build_backbone(describe(config, PHOTOS, size=default // 2), config).eval()
    images = torch.zeros(1, 3, default // 2, default // 2, dtype=torch.uint8)
    assert backbone(images).shape == (1, backbone.num_features)
    config = ModelConfig("mixer_s32_224", weights="random")
    with pytest.raises(InputError, match="takes images of 224 pixels, not of 192"):
        build_backbone(describe(config, PHOTOS, size=192), config)


@pytest.mark.shared
def test_real_weights_give_the_recorded_features(shared: Path) -> None:
    recorded = np.load(shared / "data/features/voc2012p_mnv2_224.npz", allow_pickle=False)
    rows = [0, 1, 1000, 3575]
    folder = shared / "data/images/voc2012_animals"
    files = [folder / str(recorded["names"][row]) for row in rows]
    images = ImageFiles(files, [""] * len(rows), size=224, interpolation="bilinear")
    for variant in ("", "_bncal"):
        config = ModelConfig(weights=str(shared / f"data/models/mobilenetv2_100_tf{variant}.safetensors"))
        spec = describe(config, data_of(images))
        assert (spec.name, dict(spec.options), spec.size) == ("mobilenetv2_100", {"pad_type": "same"}, 224)
        assert spec.interpolation == "bilinear"
        backbone = build_backbone(spec, config).eval()
        with torch.inference_mode():
            features = backbone(images.fetch(range(4), None)).numpy()
        # Recorded in float16: 2 ** -11 relative.
        np.testing.assert_allclose(features, recorded["X"][rows].astype(np.float32), rtol=1e-3, atol=2e-4)
