"""The one loop from samples to outputs of a network."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from spml.common.errors import SpmlError
from spml.data.dataset import Loaded
from spml.data.images.feature_store import first_of_each
from spml.data.images.image_files import ImageFiles
from spml.data.matrix import FeatureMatrix
from spml.engine import predict
from spml.engine.loader import Batches, load_batches
from spml.engine.predict import autocast_to, compute
from spml.methods.base import Outputs

CPU = torch.device("cpu")


class Means(nn.Module):
    """Mean of each sample; refuses empty batches and training mode."""

    def forward(self, samples):
        assert len(samples)
        assert not self.training
        return samples.flatten(1).float().mean(1, keepdim=True)


@pytest.fixture
def images(tmp_path):
    """Six images: the third and fourth are damaged, and the sixth is a copy of the fifth."""
    paths = [tmp_path / f"{number}.png" for number in range(6)]
    for number, path in enumerate(paths):
        Image.fromarray(np.full((8, 8, 3), 40 * min(number, 4), np.uint8)).save(path)
    for path in paths[2:4]:
        path.write_bytes(b"no image")
    return ImageFiles(paths, [""] * 6, size=8)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_batch_without_readable_images_does_not_reach_the_network(images, workers):
    loading = load_batches(images, Batches(range(6), 2), CPU, workers=workers)
    results = list(compute(Means(), loading, CPU))
    assert [result.rows for result in results] == [[0, 1], [], [0, 1]]
    assert [result.values.flatten().tolist() for result in results] == [[0.0, 40.0], [], [160.0, 160.0]]
    assert sorted(results[1].unreadable) == [0, 1]


def test_chosen_images_are_computed_as_far_as_they_were_loaded(images):
    batches = Batches([0, 1, 4, 5], 4)
    known = np.sort(images.load([1]).identities[:, :8].copy().view("<u8")[:, 0])
    (result,) = compute(
        Means(), load_batches(images, batches, CPU, known=known), CPU, choose=lambda batch: [3, 1, 0]
    )
    assert result.rows == [3, 0]  # the second one is known, so it was not loaded
    assert result.values.flatten().tolist() == [160.0, 0.0]
    assert first_of_each(result.identities, [3, 2, 1, 0]) == [3, 1, 0]


def test_logits_of_outputs_are_taken_and_half_precision_is_widened():
    class Head(nn.Linear):
        def forward(self, samples):
            return Outputs(super().forward(samples), samples)

    torch.manual_seed(0)
    head, samples = Head(3, 2), torch.randn(5, 3)
    matrix = FeatureMatrix(samples.numpy())
    for half in (None, torch.bfloat16):
        autocast = autocast_to(half, CPU)
        parts = list(compute(head, load_batches(matrix, Batches(range(5), 2), CPU), CPU, autocast=autocast))
        assert [part.rows for part in parts] == [[0, 1], [0, 1], [0]]
        values = torch.cat([part.values for part in parts])
        with torch.no_grad(), autocast():
            expected = nn.functional.linear(samples, head.weight, head.bias).float()
        assert values.dtype == torch.float32
        torch.testing.assert_close(values, expected, rtol=0, atol=1e-2 if half else 1e-6)


def test_an_image_that_can_not_be_read_any_more_is_named(images):
    (batch,) = load_batches(images, Batches(range(4), 4), CPU)
    with pytest.raises(SpmlError, match=r"2\.png: not an image .* It could be read when the data was opened"):
        images.check_readable(range(4), batch)


class Counted(nn.Module):
    """Means of images; remembers how many came at a time."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def forward(self, images):
        self.seen.append(len(images))
        return images.float().mean((2, 3))


def test_large_images_go_through_the_network_a_few_at_a_time(monkeypatch):
    monkeypatch.setattr(predict, "_BATCH_PIXELS", 4 * 10 * 10)
    images = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (10, 3, 10, 10), np.uint8))
    batch, network = Loaded(images, list(range(10)), np.zeros((10, 32), np.uint8), {}), Counted()
    (found,) = compute(network, [batch], CPU)
    assert network.seen == [4, 4, 2]
    torch.testing.assert_close(found.values, images.float().mean((2, 3)))
    assert found.rows == list(range(10))


def test_an_image_of_any_size_goes_through_alone(monkeypatch):
    monkeypatch.setattr(predict, "_BATCH_PIXELS", 10)
    images, network = torch.zeros(2, 3, 10, 10, dtype=torch.uint8), Counted()
    batch = Loaded(images, [0, 1], np.zeros((2, 32), np.uint8), {})
    list(compute(network, [batch], CPU))
    assert network.seen == [1, 1]
