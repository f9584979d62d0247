"""A network of the user's own as a backbone: what it computes, and what is refused."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import timm
import torch
import torchvision
from safetensors.torch import save_file
from torch import Tensor, nn

from spml.common.errors import InputError
from spml.config import ModelConfig
from spml.models import Backbone, OwnNetwork, Windows, at_hand, build_backbone, windows_of
from spml.models.backbones import SmallCNN
from spml.models.spec import origin_of
from tests.helpers.commands import refusal
from tests.helpers.networks import FEATURES, PHOTOS, TINY, describe, tiny_model
from tests.models.nets import Does, Pooled, Small, Tied, seeded

IMAGES = torch.randint(0, 256, (3, 3, 16, 16), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
SQUARE = {"size": 16, "mean": [0.5, 0.4, 0.3], "std": [0.2, 0.3, 0.4]}
NORMAL = (IMAGES / 255 - torch.tensor([0.5, 0.4, 0.3])[:, None, None]) / torch.tensor([0.2, 0.3, 0.4])[
    :, None, None
]


def own(module: Any, transform: Any = SQUARE, *, weights: str = "pretrained", size: int = 0) -> Backbone:
    network = OwnNetwork(module, transform)
    config = ModelConfig(network.name, weights=weights)
    with at_hand(network):
        return build_backbone(describe(config, PHOTOS, size), config).eval()


@torch.inference_mode()
def features(backbone: Backbone, images: Tensor = IMAGES) -> Tensor:
    return backbone(images)


# -- what it computes ------------------------------------------------------------------------------------


def test_features_are_those_of_the_module_on_normalised_images() -> None:
    module = seeded(Pooled).eval()
    backbone = own(module)
    with torch.inference_mode():
        torch.testing.assert_close(features(backbone), module(NORMAL))
    assert backbone.num_features == 6
    assert backbone.spec.name == "tests.models.nets:Pooled"
    spec = backbone.spec
    assert (spec.size, spec.mean, spec.weights) == (16, (0.5, 0.4, 0.3), "pretrained")


def test_maps_are_pooled() -> None:
    maps, pooled = own(seeded(Small)), own(seeded(Pooled))
    torch.testing.assert_close(features(maps), features(pooled))
    with torch.inference_mode():
        assert maps.maps(IMAGES).shape == (3, 6, 8, 8)
        torch.testing.assert_close(maps.pool(maps.maps(IMAGES)), features(maps))
    assert windows_of(maps) == Windows.of_map(8, 8)
    with pytest.raises(
        InputError, match=r"has no feature map of 6 channels .* returns no maps, and has no forward_"
    ):
        pooled.check_maps()


def test_small_cnn_as_an_own_network_gives_the_same_features() -> None:
    torch.manual_seed(0)
    named = build_backbone(describe(config := ModelConfig("small_cnn"), PHOTOS, 16), config).eval()
    module = SmallCNN(3)
    module.load_state_dict(named.network.state_dict())
    same = own(module, {"size": 16, "mean": [0.25] * 3, "std": [0.25] * 3})
    assert torch.equal(features(same), features(named))
    assert torch.equal(same.maps(IMAGES), named.maps(IMAGES))


def test_a_timm_network_loses_its_classifier_and_is_prepared_as_timm_says(weights: Path) -> None:
    named_config = ModelConfig(TINY, weights=str(weights))
    named = build_backbone(describe(named_config, PHOTOS, 32), named_config).eval()
    same = own(tiny_model(), {"mean": named.spec.mean, "std": named.spec.std}, size=32)
    images = torch.randint(0, 256, (2, 3, 32, 32), dtype=torch.uint8)
    assert torch.equal(features(same, images), features(named, images))
    spec = own(tiny_model(), None).spec
    assert (spec.size, spec.mean, spec.std) == (160, (0.5,) * 3, (0.5,) * 3)


def test_a_timm_network_of_one_size_is_fitted_to_another() -> None:
    module = timm.create_model("test_vit")
    backbone = own(module, None, size=80)
    found = features(backbone, torch.zeros(1, 3, 80, 80, dtype=torch.uint8))
    assert found.shape == (1, backbone.num_features)
    assert module.patch_embed.img_size == (160, 160), "the network of the user was changed"


def test_a_torchvision_network_loses_its_classifiers() -> None:
    module = torchvision.models.resnet18(weights=None).eval()
    backbone = own(module, {**SQUARE, "size": 32})
    assert backbone.num_features == 512
    assert isinstance(module.fc, nn.Linear), "the network of the user was changed"
    inception = torchvision.models.googlenet(weights=None, init_weights=False, aux_logits=True)
    backbone = own(inception, {**SQUARE, "size": 64})
    assert backbone.train()(torch.zeros(2, 3, 64, 64, dtype=torch.uint8)).shape == (2, 1024)


@pytest.mark.parametrize("with_classifier", [True, False])
def test_weights_of_a_torchvision_network_from_a_file(tmp_path: Path, with_classifier: bool) -> None:
    path = tmp_path / "w.safetensors"
    torch.manual_seed(1)
    bare = torchvision.models.shufflenet_v2_x0_5(weights=None).eval()
    state = bare.state_dict()
    save_file({name: each for name, each in state.items() if with_classifier or "fc." not in name}, path)
    network = OwnNetwork(torchvision.models.shufflenet_v2_x0_5(weights=None), {**SQUARE, "size": 64})
    spec = network.describe(ModelConfig(network.name, weights=str(path)), 0)
    bare.fc = nn.Identity()
    images = torch.zeros(2, 3, 64, 64, dtype=torch.uint8)
    backbone = network.build(spec, str(path)).eval()
    with torch.inference_mode():
        torch.testing.assert_close(backbone(images), bare(backbone._normalised(images)), rtol=1e-4, atol=1e-5)


def test_a_network_for_grey_images() -> None:
    module = seeded(lambda: Pooled(channels=1)).eval()
    backbone = own(module, {"size": 16, "mean": 0.5, "std": 0.25})
    grey = (IMAGES.float().mean(1, keepdim=True) / 255 - 0.5) / 0.25
    with torch.inference_mode():
        torch.testing.assert_close(features(backbone), module(grey))


def test_the_module_of_the_user_stays_as_it_is() -> None:
    module = seeded(Pooled).train()
    before = copy.deepcopy(module.state_dict())
    backbone = own(module)
    with torch.no_grad():
        for parameter in backbone.parameters():
            parameter.add_(1)
    assert all(torch.equal(before[name], value) for name, value in module.state_dict().items())
    assert module.training
    assert not torch.equal(features(backbone), features(own(module)))


def test_weights_of_a_file_are_loaded_into_the_copy(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    save_file(seeded(Pooled, 1).state_dict(), path)
    backbone = own(seeded(Pooled, 0), weights=str(path))
    assert torch.equal(features(backbone), features(own(seeded(Pooled, 1))))
    assert (backbone.spec.weights, backbone.spec.file) == ("file", "w.safetensors")
    save_file({"x": torch.ones(1)}, path)
    with pytest.raises(
        InputError, match=r"these weights do not fit tests.models.nets:Pooled \(6 missing: conv"
    ):
        own(seeded(Pooled), weights=str(path))


# -- the key of its features -----------------------------------------------------------------------------


class _Local(Pooled):
    pass


def test_the_key_changes_with_weights_attributes_and_code() -> None:
    keys = {
        "same": own(seeded(Pooled)).key(),
        "weights": own(seeded(Pooled, 1)).key(),
        "code": own(seeded(_Local)).key(),
        "pixels": own(seeded(Pooled), {**SQUARE, "interpolation": "bicubic"}).key(),
    }
    attribute = seeded(Pooled)
    attribute.power = 2  # type: ignore[assignment]
    keys["attribute"] = own(attribute).key()
    assert keys["same"] == own(seeded(Pooled)).key()
    assert len({*keys.values()}) == len(keys)


def test_the_probe_notices_a_change_that_the_weights_do_not_tell() -> None:
    from spml.models.backbones.backbone import same_probe

    changed = seeded(Pooled)
    changed.power = 2  # type: ignore[assignment]
    probe = own(seeded(Pooled)).probe()
    assert len(probe) == 6
    assert same_probe(probe, own(seeded(Pooled)).probe())
    assert same_probe(probe, [value * 1.001 for value in probe])
    assert not same_probe(probe, own(changed).probe())
    assert not same_probe(probe, probe[:5])


# -- what is refused -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda x: (x,), "returns a tuple instead of a tensor with features (B, D) or maps (B, D, h, w)"),
        (lambda x: None, "returns a NoneType"),
        (lambda x: {"logits": x}, "returns ['logits'], neither `pooler_output` nor `last_hidden_state`"),
        (lambda x: x.mean((1, 2, 3)), "returns float32 (2,), where features (2, D) or maps (2, D, h, w)"),
        (lambda x: x.mean(1), "returns float32 (2, 16, 16)"),
        (lambda x: x.mean((0, 2, 3))[None], "returns float32 (1, 3)"),
        (lambda x: x[:, :0].mean((2, 3)), "returns float32 (2, 0)"),
        (lambda x: x.mean((2, 3)).squeeze(), "returns (3,) for one image and (2, 3) for two"),
        (lambda x: x.mean((2, 3)).long(), "returns int64 (2, 3), where features must be floating point"),
        (lambda x: x.mean((2, 3)) / 0, "returns NaN or infinity"),
        (
            lambda x: x @ torch.ones(7, 7),
            "fails on normalised images of shape (2, 3, 16, 16) (RuntimeError: ",
        ),
        (lambda x: nn.functional.dropout(x, 0.5).mean((2, 3)), "differ from one call to the next"),
        (lambda x: x.mean((2, 3)) - x.mean((0, 2, 3)), "depend on the other images"),
    ],
)
def test_what_does_not_return_features_is_refused(function: Any, words: str) -> None:
    message = refusal(own, Does(function))
    assert words in message
    assert "tests.models.nets:Does" in message


def test_a_network_that_returns_something_else_in_training_is_refused_then() -> None:
    class Two(Pooled):
        def forward(self, images: Tensor) -> Any:
            features = super().forward(images)
            return (features, features) if self.training else features

    backbone = own(Two()).train()
    with pytest.raises(InputError, match="returns a tuple in training, but a tensor in evaluation"):
        backbone(IMAGES)


def test_what_is_no_network_is_refused() -> None:
    for module, words in (
        (Pooled, "Pooled is a class, not a network: pass an object of it"),
        ("resnet18", "backbone must be a name or an nn.Module, got 'resnet18'"),
        (None, "got None"),
    ):
        assert words in refusal(OwnNetwork, module)
    said = refusal(describe, ModelConfig("antigravity:fly"), PHOTOS)  # nothing is imported
    assert "'antigravity:fly' is code of your own, which is imported only where" in said
    with at_hand(OwnNetwork(Pooled())):
        said = refusal(describe, ModelConfig("tests.models.nets:Pooled"), FEATURES)
    assert "pass the features that it computes" in said


def test_a_network_that_cannot_be_copied_or_saved_is_refused() -> None:
    class Locked(Pooled):
        def __deepcopy__(self, memory: Any) -> Any:
            raise TypeError("no copies")

    class Remembers(Pooled):
        def get_extra_state(self) -> Any:
            return {"calls": 3}

        def set_extra_state(self, state: Any) -> None:
            pass

    with pytest.raises(InputError, match=r"can't be copied \(TypeError: no copies\)"):
        own(Locked())
    with pytest.raises(InputError, match="its state has '_extra_state', which is a dict and not a tensor"):
        own(Remembers())


def test_origins() -> None:
    origins = {
        "none": "none", "small_cnn": "small_cnn", "resnet50.a1_in1k": "timm", "hf-hub:someone/model": "timm",
        "torchvision/resnet18": "timm", "hf/a:b": "hf", "my.nets:make.it": "own", "my nets:make": "timm",
    }  # fmt: skip
    assert {name: origin_of(name) for name in origins} == origins


def test_tied_weights() -> None:
    backbone = own(seeded(Tied))
    state = backbone.network.state_dict()
    assert state["again.weight"].data_ptr() == state["convolution.weight"].data_ptr()


@pytest.mark.long
@pytest.mark.shared
def test_real_weights_as_an_own_network(shared: Path) -> None:
    """Padding that differs is noticed, although the weights fit."""
    from safetensors.torch import load_file

    from spml.models.backbones.backbone import same_probe

    path = shared / "data/models/mobilenetv2_100_tf.safetensors"
    config = ModelConfig(weights=str(path))
    named = build_backbone(describe(config, PHOTOS, 64), config).eval()
    padded, other = (
        timm.create_model("mobilenetv2_100", pretrained=False, **options)
        for options in ({"pad_type": "same"}, {})
    )
    for module in (padded, other):
        module.load_state_dict(load_file(path))
    settings = {"size": 64, "mean": named.spec.mean, "std": named.spec.std}
    images = torch.randint(
        0, 256, (2, 3, 64, 64), dtype=torch.uint8, generator=torch.Generator().manual_seed(1)
    )
    assert torch.equal(features(own(padded, settings), images), features(named, images))
    assert not same_probe(own(padded, settings).probe(), own(other, settings).probe())
