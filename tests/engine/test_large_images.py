"""Memory of images: of large ones, fewer go through the network at a time."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from spml.data.dataset import Loaded
from spml.engine import predict


class Means(nn.Module):
    def __init__(self):
        super().__init__()
        self.seen = []

    def forward(self, images):
        self.seen.append(len(images))
        return images.float().mean((2, 3))


def test_large_images_go_through_the_network_a_few_at_a_time(monkeypatch):
    monkeypatch.setattr(predict, "_BATCH_PIXELS", 4 * 10 * 10)
    images = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (10, 3, 10, 10), np.uint8))
    batch, network = Loaded(images, list(range(10)), np.zeros((10, 32), np.uint8), {}), Means()
    (found,) = predict.compute(network, [batch], torch.device("cpu"))
    assert network.seen == [4, 4, 2]
    torch.testing.assert_close(found.values, images.float().mean((2, 3)))
    assert found.rows == list(range(10))


def test_an_image_of_any_size_goes_through_alone(monkeypatch):
    monkeypatch.setattr(predict, "_BATCH_PIXELS", 10)
    images, network = torch.zeros(2, 3, 10, 10, dtype=torch.uint8), Means()
    batch = Loaded(images, [0, 1], np.zeros((2, 32), np.uint8), {})
    list(predict.compute(network, [batch], torch.device("cpu")))
    assert network.seen == [1, 1]
