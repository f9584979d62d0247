"""Grad-CAM: where in an image the evidence for a label lies."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn

from ...common.errors import InputError
from ...models import Backbone, Classifier
from ...models.spec import NONE
from ...models.top import LOGITS


def grad_cam(classifier: Classifier, images: Tensor, labels: Tensor) -> Tensor:
    """Compute Grad-CAM of labels on images.

    weight_k = mean over positions of d(logit) / d(A_k);  map = max(0, sum over k of weight_k A_k)

    A is the last feature map of the backbone before pooling. For a linear head on averaged features this is
    the class activation map without its negative part, divided by the number of positions. In a vision
    transformer A is what the last attention layer reads, arranged as the grid of its patches, without class
    and register tokens: behind that layer, the logit may depend on the class token alone.

    Args:
        classifier: Classifier in evaluation mode; neither its weights nor their gradients change.
        images: Images, uint8 of shape (B, channels, H, W), on the device of the classifier.
        labels: Columns of the labels to explain, int64 of shape (B, K).

    Returns:
        Maps, float32 of shape (B, K, h, w), at least 0 and not scaled.

    Raises:
        InputError: The backbone has neither feature maps nor a grid of tokens.

    Source: Selvaraju, Cogswell, Das, Vedantam, Parikh, Batra. Grad-CAM: Visual Explanations from Deep
    Networks via Gradient-based Localization. ICCV 2017, Eq. 1 and 2.
    """
    top = copy.copy(classifier.top)
    top.scores = LOGITS  # explained is the score before a softmax, as in the paper
    with torch.enable_grad():
        found = _maps(classifier, images) or _tokens(classifier.backbone, images)
        if found is None:
            raise InputError(
                f"backbone {classifier.spec.name} has neither a feature map nor a grid of tokens that "
                "Grad-CAM could show: name a run on images with a convolutional backbone, "
                "such as resnet50, or a vision transformer (--model.backbone)."
            )
        activations, features = found
        logits = top(features).logits
        maps = []
        for column in labels.T:
            score = logits.gather(1, column[:, None]).sum()
            (gradient,) = torch.autograd.grad(score, activations, retain_graph=True)
            maps.append(_weighted(classifier.backbone, activations.detach(), gradient))
    return torch.stack(maps, 1)


def _maps(classifier: Classifier, images: Tensor) -> tuple[Tensor, Tensor] | None:
    """Feature maps, and the input of the top as a function of them."""
    backbone = classifier.backbone
    if backbone.spec.name == NONE:
        return None
    maps = backbone.unpooled(images)
    if not isinstance(maps, Tensor) or maps.ndim != 4:
        return None
    maps = maps.detach().requires_grad_()
    pool = backbone.features_by_position if classifier.top.takes_maps else backbone.pool
    return maps, pool(maps)


def _tokens(backbone: Backbone, images: Tensor) -> tuple[Tensor, Tensor] | None:
    """Tokens that the last attention layer reads, and the features as a function of them."""
    if _grid(backbone) is None:
        return None
    tokens: list[Tensor] = []

    def replace(module: nn.Module, inputs: Any, output: Tensor) -> Tensor:
        tokens.append(output.detach().requires_grad_())
        return tokens[0]

    network: Any = backbone.network
    hook = network.blocks[-1].norm1.register_forward_hook(replace)
    try:
        features = backbone(images)
    finally:
        hook.remove()
    return tokens[0], features


def _grid(backbone: Backbone) -> tuple[int, int] | None:
    """Rows and columns of the patches of a vision transformer; None for other networks."""
    network: Any = backbone.network
    grid = getattr(getattr(network, "patch_embed", None), "grid_size", None)
    blocks = getattr(network, "blocks", None)
    if grid is None or not blocks or not hasattr(blocks[-1], "norm1"):
        return None
    return int(grid[0]), int(grid[1])


def _weighted(backbone: Backbone, activations: Tensor, gradient: Tensor) -> Tensor:
    """Sum of the activations over channels, weighted by their mean gradients, without its negative part."""
    if activations.ndim == 3:
        height, width = _grid(backbone) or (0, 0)
        first = activations.shape[1] - height * width  # class and register tokens come first
        activations, gradient = (
            tensor[:, first:].reshape(len(tensor), height, width, -1).permute(0, 3, 1, 2)
            for tensor in (activations, gradient)
        )
    elif getattr(backbone.network, "output_fmt", "NCHW") == "NHWC":
        activations, gradient = (tensor.permute(0, 3, 1, 2) for tensor in (activations, gradient))
    weights = gradient.mean((2, 3), keepdim=True)
    return (weights * activations).sum(1).clamp(min=0).float()
