"""Data and weights shared by the tests of models."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from spml.config import ModelConfig
from spml.data import Dataset, Samples
from spml.data.dataset import Inputs
from spml.data.matrix import FeatureMatrix, ImageArray
from spml.labels import ObservedLabels
from spml.models import BackboneSpec, describe_backbone

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


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    """Weights of the tiny model, with its classifier, and the JSON file next to them."""
    path = tmp_path / "tiny.safetensors"
    save_file(tiny_model().state_dict(), path)
    sidecar = {"timm_model": TINY, "input_size": [3, 32, 32], "mean": [0.1, 0.2, 0.3], "std": [0.4, 0.5, 0.6]}
    path.with_suffix(".json").write_text(json.dumps({**sidecar, "interpolation": "bilinear"}))
    return path


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("the network was used")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
