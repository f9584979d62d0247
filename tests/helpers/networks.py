"""Small networks, their descriptions, and images."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from spml.config import ModelConfig
from spml.data import Dataset, Samples
from spml.data.dataset import Inputs
from spml.data.matrix import FeatureMatrix, ImageArray
from spml.labels import ObservedLabels
from spml.models import Backbone, BackboneSpec, build_backbone, describe_backbone

TINY = "test_resnet"  # timm's own model for tests, trained for images of 160 pixels


def data_of(inputs: Inputs) -> Dataset:
    ids = tuple(map(str, range(len(inputs))))
    return Dataset("data", ("a", "b"), {"train": Samples(ids, inputs, _labels(len(inputs)))}, {})


def describe(config: ModelConfig, data: Dataset, size: int = 0) -> BackboneSpec:
    return describe_backbone(config, data.kind, data.width, size=size, source=data.name)


def _labels(count: int) -> ObservedLabels:
    return ObservedLabels.from_index([0] * count, 2)


FEATURES = data_of(FeatureMatrix(np.zeros((2, 7), np.float32)))


GREY = data_of(ImageArray(np.zeros((2, 1, 40, 40), np.uint8)))


PHOTOS = data_of(ImageArray(np.zeros((2, 3, 8, 8), np.uint8)))


def tiny_model(seed: int = 0, **options: Any) -> nn.Module:
    import timm

    torch.manual_seed(seed)
    model: nn.Module = timm.create_model(TINY, pretrained=False, **options)
    with torch.no_grad():
        for buffer in model.buffers():
            if buffer.dtype.is_floating_point:
                buffer.uniform_(0.5, 1.5)
    return model


def _rewrite(folder: Path, **changes: Any) -> None:
    path = folder / "model.json"
    card = json.loads(path.read_text())
    card.pop("sha256", None)
    for key, value in changes.items():
        part, _, name = key.partition("__")
        if name:
            card[part][name] = value
        else:
            card[part] = value
    path.write_text(json.dumps(card))


def set_weights(folder: Path, **tensors: torch.Tensor) -> None:
    """Change weights together with the checksum that describes them."""
    path = folder / "model.safetensors"
    save_file({**load_file(path), **tensors}, path)
    _rewrite(folder, weights_sha256=hashlib.sha256(path.read_bytes()).hexdigest())


def random_backbone(name: str, size: int = 64) -> Backbone:
    config, data = ModelConfig(name, weights="random"), GREY if name == "small_cnn" else PHOTOS
    torch.manual_seed(0)
    backbone = build_backbone(describe(config, data, size=size), config).eval()
    # As after training: the features of fresh weights hardly differ between images.
    for buffer_name, buffer in backbone.network.named_buffers():
        if buffer_name.endswith("running_var"):
            buffer.uniform_(0.5, 1.5)
    return backbone


def images_for(backbone: Backbone, count: int = 3) -> torch.Tensor:
    shape = (count, len(backbone.spec.mean), backbone.spec.size, backbone.spec.size)
    return torch.randint(0, 256, shape, dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
