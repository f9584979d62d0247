"""Feature maps of backbones: which backbones have one, pooling, and features by position."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from spml.common.errors import InputError
from spml.config import ModelConfig
from spml.models import build_backbone
from tests.helpers.commands import refusal
from tests.helpers.networks import FEATURES, describe, images_for, random_backbone


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize(
    ("name", "width", "side"),
    [("small_cnn", 64, 8), ("mobilenetv2_100", 1280, 2), ("resnet18", 512, 2), ("test_convnext", 64, 2)],
)
def test_pooled_maps_are_the_features(name: str, width: int, side: int, training: bool) -> None:
    backbone = random_backbone(name).train(training)
    images = images_for(backbone)
    maps = backbone.maps(images)
    assert maps.shape == (3, width, side, side)
    torch.testing.assert_close(backbone.pool(maps), backbone(images))
    if name != "test_convnext":  # which normalises its features
        torch.testing.assert_close(backbone.features_by_position(maps), maps)


def test_features_by_position_are_normalised_where_the_features_are() -> None:
    backbone = random_backbone("test_convnext")
    norm = backbone.network.get_submodule("head.norm")
    assert isinstance(norm, nn.LayerNorm)
    nn.init.uniform_(norm.weight, 0.5, 1.5)
    nn.init.uniform_(norm.bias, -1.0, 1.0)
    maps = backbone.maps(images_for(backbone)).detach()
    centred = maps - maps.mean(1, keepdim=True)
    expected = centred / (centred.square().mean(1, keepdim=True) + norm.eps).sqrt()
    expected = expected * norm.weight[:, None, None] + norm.bias[:, None, None]
    torch.testing.assert_close(backbone.features_by_position(maps), expected, rtol=1e-4, atol=1e-5)
    assert backbone.features_by_position(maps[:0]).shape == (0, 64, 2, 2)


@pytest.mark.parametrize(
    ("name", "size", "shape"),
    [
        ("test_vit", 160, "64 channels x height x width, but values of shape (101, 64)"),
        ("test_mambaout", 64, "256 channels x height x width, but values of shape (2, 2, 64)"),
        ("mobilenetv3_small_050", 64, "1024 channels x height x width, but values of shape (288, 2, 2)"),
        ("crossvit_9_240", 240, "384 channels x height x width: choose"),
    ],
)
def test_a_backbone_without_a_feature_map_is_refused(name: str, size: int, shape: str) -> None:
    backbone = random_backbone(name, size)
    message = refusal(backbone.check_maps)
    assert message.startswith(f"backbone {name}")
    assert f"no feature map of {shape}" in message
    assert "model.backbone=resnet50" in message
    assert "model.frozen=no" in message


def test_feature_vectors_have_no_maps() -> None:
    config = ModelConfig()
    backbone = build_backbone(describe(config, FEATURES), config)
    with pytest.raises(InputError, match="backbone none has no feature map"):
        backbone.check_maps()


def test_the_check_for_maps_does_not_change_the_backbone() -> None:
    backbone = random_backbone("resnet18").train()
    key, state = backbone.key(), torch.get_rng_state()
    backbone.check_maps()
    assert backbone.key() == key
    assert torch.equal(torch.get_rng_state(), state)
    assert backbone.training
    assert all(parameter.grad is None for parameter in backbone.parameters())
