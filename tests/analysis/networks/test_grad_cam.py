"""Grad-CAM against hand-computed values, the closed form of a linear head, and explicit layers."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from spml.analysis.pictures import grad_cam
from spml.common.errors import InputError
from spml.models import BackboneSpec, Classifier, Top
from spml.models.backbones import Backbone
from tests.helpers.networks import images_for, random_backbone


class Pixels(nn.Module):
    """Its feature map is the image itself, and its features are the averages of the channels."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.forward_head(self.forward_features(images))

    def forward_features(self, images: torch.Tensor) -> torch.Tensor:
        return images

    def forward_head(self, maps: torch.Tensor) -> torch.Tensor:
        return maps.mean((2, 3))


def pixel_classifier(weights: list[list[float]]) -> Classifier:
    """A linear head on the average red, green and blue of an image, each in [0, 255]."""
    spec = BackboneSpec(
        name="pixels", size=2, mean=(0.0, 0.0, 0.0), std=(1 / 255, 1 / 255, 1 / 255), interpolation="bilinear"
    )
    top = Top(3, len(weights), scaling="raw")
    with torch.no_grad():
        top.head.weight.copy_(torch.tensor(weights))
        top.head.bias.copy_(torch.arange(1.0, len(weights) + 1))
    return Classifier(Backbone(spec, Pixels(), 3), top).eval()


def classifier_on(backbone: Backbone, *, standardise: bool = False, **options: Any) -> Classifier:
    torch.manual_seed(1)
    top = Top(backbone.num_features, 4, scaling="standard" if standardise else "raw", **options)
    if standardise:
        top.scaling.mean.uniform_(-0.1, 0.1)
        top.scaling.std.uniform_(0.5, 2.0)
    return Classifier(backbone, top).eval()


def test_four_positions_by_hand() -> None:
    """The weight of a channel is that of the head, divided by the number of positions."""
    classifier = pixel_classifier([[4.0, -4.0, 0.0], [0.0, 0.0, 4.0]])
    red, green, blue = [[8, 0], [2, 4]], [[1, 3], [2, 1]], [[0, 5], [6, 7]]
    image = torch.tensor([[red, green, blue]], dtype=torch.uint8)
    maps = grad_cam(classifier, image, torch.tensor([[1, 0]]))
    torch.testing.assert_close(maps[0, 0], torch.tensor([[0.0, 5.0], [6.0, 7.0]]))
    torch.testing.assert_close(maps[0, 1], torch.tensor([[7.0, 0.0], [0.0, 3.0]]))


@pytest.mark.parametrize("standardise", [False, True])
@pytest.mark.parametrize("name", ["resnet18", "mobilenetv2_100"])
def test_a_linear_head_on_average_pooling_has_a_closed_form(name: str, standardise: bool) -> None:
    backbone = random_backbone(name, 96)
    classifier = classifier_on(backbone, standardise=standardise)
    images = images_for(backbone, 2)
    labels = torch.tensor([[3, 0], [1, 2]])
    features = backbone.maps(images).detach()
    std = classifier.top.scaling.std if standardise else 1.0
    weights = (classifier.top.head.weight / std).detach()[labels] / 9
    expected = torch.einsum("bkd,bdhw->bkhw", weights, features).clamp(min=0)
    assert expected.max() > 0
    maps = grad_cam(classifier, images, labels)
    assert maps.shape == (2, 2, 3, 3)
    torch.testing.assert_close(maps, expected, rtol=1e-4, atol=1e-5)
    assert all(parameter.grad is None for parameter in classifier.parameters())


def test_tokens_of_a_vision_transformer_against_its_last_block() -> None:
    backbone = random_backbone("test_vit", 160)
    classifier = classifier_on(backbone)
    images, network = images_for(backbone, 2), backbone.network
    read = []
    handle = network.blocks[-1].register_forward_pre_hook(lambda module, inputs: read.append(inputs[0]))
    backbone(images)
    handle.remove()
    block, before = network.blocks[-1], read[0].detach()
    tokens = block.norm1(before).detach().requires_grad_()
    after = before + block.drop_path1(block.ls1(block.attn(tokens)))
    after = after + block.drop_path2(block.ls2(block.mlp(block.norm2(after))))
    logits = classifier.top(network.forward_head(network.norm(after))).logits
    torch.testing.assert_close(logits, classifier(images).logits)
    maps = grad_cam(classifier, images, torch.tensor([[2], [2]]))
    (gradient,) = torch.autograd.grad(logits[:, 2].sum(), tokens)
    assert tokens.shape == (2, 101, 64)
    weights = gradient[:, 1:].mean(1)
    assert maps.shape == (2, 1, 10, 10)
    assert maps.max() > 0
    for row in range(10):
        for column in range(10):
            value = (weights * tokens[:, 1 + 10 * row + column]).sum(1).clamp(min=0)
            torch.testing.assert_close(maps[:, 0, row, column], value, rtol=1e-4, atol=1e-7)


def test_maps_with_channels_last_are_turned() -> None:
    backbone = random_backbone("test_mambaout")
    classifier, images = classifier_on(backbone), images_for(backbone, 1)
    network: Any = backbone.network
    maps = backbone.unpooled(images).detach().requires_grad_()
    assert maps.shape == (1, 2, 2, 64)
    (gradient,) = torch.autograd.grad(classifier.top(network.forward_head(maps)).logits[0, 1], maps)
    expected = torch.einsum("hwd,d->hw", maps[0], gradient[0].mean((0, 1))).clamp(min=0)
    torch.testing.assert_close(grad_cam(classifier, images, torch.tensor([[1]]))[0, 0], expected)


def test_a_map_narrower_than_the_features_is_enough() -> None:
    backbone = random_backbone("mobilenetv3_small_050")
    maps = grad_cam(classifier_on(backbone), images_for(backbone, 1), torch.tensor([[0, 1, 2, 3]]))
    assert maps.shape == (1, 4, 2, 2)
    assert maps.max() > 0


@pytest.mark.parametrize("head", ["mlp", "boosted_cam", "gaussian", "gaussian_per_class", "queries"])
def test_every_head_has_maps(head: str) -> None:
    backbone = random_backbone("small_cnn")
    classifier = classifier_on(backbone, head=head, hidden=8)
    maps = grad_cam(classifier, images_for(backbone, 2), torch.tensor([[0, 1, 2, 3]] * 2))
    assert maps.shape == (2, 4, 8, 8)
    assert maps.max() > 0


def test_log_probabilities_are_explained_before_the_softmax() -> None:
    backbone = random_backbone("resnet18")
    images, labels = images_for(backbone, 2), torch.tensor([[0, 1]] * 2)
    expected = grad_cam(classifier_on(backbone), images, labels)
    classifier = classifier_on(backbone, scores="log_softmax")
    torch.testing.assert_close(grad_cam(classifier, images, labels), expected)
    assert classifier.top.scores == "log_softmax"


@pytest.mark.parametrize(("name", "size"), [("crossvit_9_240", 240), ("none", 0)])
def test_a_backbone_without_maps_is_refused(name: str, size: int) -> None:
    if name == "none":
        spec = BackboneSpec(name="none", width=3)
        backbone, images = Backbone(spec, nn.Identity(), 3), torch.zeros(1, 3)
    else:
        backbone = random_backbone(name, size)
        images = images_for(backbone, 1)
    with pytest.raises(InputError, match=f"backbone {name} has neither a feature map nor a grid of tokens"):
        grad_cam(classifier_on(backbone), images, torch.tensor([[0]]))
