"""Classification networks of torchvision as backbones."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import nn
from torchvision import models

from spml.common.errors import InputError
from spml.config import ModelConfig
from spml.models import Backbone, build_backbone
from spml.models.backbones import create_backbone
from tests.models.conftest import PHOTOS, describe

NAME = "torchvision/shufflenet_v2_x0_5"
IMAGES = torch.randint(0, 256, (2, 3, 64, 64), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
MEAN, STD = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
NORMAL = (IMAGES / 255 - MEAN[:, None, None]) / STD[:, None, None]


def build(name: str = NAME, weights: str = "random", size: int = 64) -> Backbone:
    torch.manual_seed(0)
    config = ModelConfig(name, weights=weights)
    return build_backbone(describe(config, PHOTOS, size), config).eval()


@torch.inference_mode()
def test_features_are_what_the_classifier_of_the_bare_network_sees() -> None:
    torch.manual_seed(0)
    bare = models.resnet18(weights=None).eval()
    seen = []
    bare.fc.register_forward_hook(lambda module, inputs, output: seen.append(inputs[0]))
    bare(NORMAL)
    backbone = build("torchvision/resnet18")
    torch.testing.assert_close(backbone(IMAGES), seen[0], rtol=1e-4, atol=1e-5)
    assert backbone.num_features == 512
    assert (backbone.spec.weights, backbone.spec.interpolation) == ("random", "bilinear")


def test_images_are_prepared_as_for_its_newest_weights() -> None:
    spec = describe(ModelConfig("torchvision/efficientnet_b3", weights="random"), PHOTOS)
    assert (spec.size, spec.interpolation) == (300, "bicubic")
    torch.testing.assert_close(torch.tensor(spec.mean), MEAN)


@pytest.mark.parametrize("removed", [True, False])
def test_weights_of_a_file(tmp_path: Path, removed: bool) -> None:
    path = tmp_path / "w.safetensors"
    torch.manual_seed(1)
    bare = models.shufflenet_v2_x0_5(weights=None).eval()
    state = bare.state_dict()
    if removed:
        state = {name: value for name, value in state.items() if not name.startswith("fc.")}
    save_file(state, path)
    backbone = build(weights=str(path))
    bare.fc = nn.Identity()
    with torch.inference_mode():
        torch.testing.assert_close(backbone(IMAGES), bare(NORMAL), rtol=1e-4, atol=1e-5)
    assert (backbone.spec.weights, backbone.spec.file) == ("file", "w.safetensors")


def test_weights_of_another_network_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    save_file({"x": torch.ones(1)}, path)
    with pytest.raises(
        InputError, match=r"do not fit torchvision/shufflenet_v2_x0_5 \(\d+ missing: conv1.0.weig"
    ):
        build(weights=str(path))


def test_its_description_makes_it_again() -> None:
    backbone = build()
    again = create_backbone(backbone.spec).eval()
    again.load_state_dict(backbone.state_dict())
    with torch.inference_mode():
        assert torch.equal(again(IMAGES), backbone(IMAGES))
    with torch.device("meta"):
        assert [*create_backbone(backbone.spec).state_dict()] == [*backbone.state_dict()]


@pytest.mark.parametrize(
    ("name", "weights", "words"),
    [
        (
            "resnet18",
            "pretrained",
            "pickles, which can contain programs and are not opened. timm has the same wei",
        ),
        ("resnet18", "pretrained", "--model.backbone resnet18.tv_in1k"),
        ("maxvit_t", "pretrained", "Take a network of timm"),
        ("resnet19", "random", "no classification network 'resnet19'. Did you mean resnet18"),
        ("deeplabv3_resnet50", "random", "no classification network"),
        ("resnet18", "weights.pth", "'weights.pth'. Other formats are not opened"),
        ("squeezenet1_0", "random", "ends without a linear classifier"),
        ("alexnet", "random", "fails on normalised images of shape (2, 3, 8, 8)"),
        ("vit_b_16", "random", "does not take images of 8 pixels"),
    ],
)
def test_what_is_refused(name: str, weights: str, words: str) -> None:
    with pytest.raises(InputError) as caught:
        build(f"torchvision/{name}", weights, 8)
    assert words in str(caught.value)


def test_it_has_no_maps() -> None:
    with pytest.raises(InputError, match="has no feature map of 1024 channels"):
        build().check_maps()


def test_a_vision_transformer_is_made_for_the_size() -> None:
    spec = replace(build().spec, name="torchvision/vit_b_32", size=64)
    with torch.device("meta"):
        state = create_backbone(spec).state_dict()
    assert state["network.encoder.pos_embedding"].shape == (1, 1 + 2 * 2, 768)
