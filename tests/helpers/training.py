"""A small network and data for training loops."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
from torch import nn

from spml.config import from_dict
from spml.data import Dataset, Samples
from spml.data.matrix import FeatureMatrix, ImageArray
from spml.engine import Interrupted, Trainer, make_fabric
from spml.labels import ObservedLabels
from spml.methods.base import Outputs


@contextmanager
def stopping_after(epochs: int) -> Iterator[None]:
    """A block in which a training is stopped, as by a signal, once so many epochs have ended."""
    real = Trainer._train_epoch

    def stop(self):
        if self.state.epoch == epochs:
            raise Interrupted("stopped")
        return real(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Trainer, "_train_epoch", stop)
        with pytest.raises(Interrupted):
            yield


class Net(nn.Module):
    """A model with something random in it."""

    def __init__(self, width=12, classes=4):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(width, 16), nn.ReLU(), nn.Dropout(0.3))
        self.head = nn.Linear(16, classes)

    def forward(self, inputs):
        features = self.body(inputs)
        return Outputs(self.head(features), features)


def make_data(n=150, width=12, classes=4, seed=0):
    generator = np.random.default_rng(seed)
    prototypes = generator.normal(size=(classes, width))
    truth = generator.random((n, classes)) < 0.4
    truth[np.arange(n), generator.integers(0, classes, n)] = True
    features = (truth @ prototypes + 0.3 * generator.normal(size=(n, width))).astype(np.float32)
    index = [generator.choice(np.flatnonzero(row)) for row in truth]
    observed = ObservedLabels.from_index(np.asarray(index), classes)
    full = ObservedLabels.from_multi_hot(truth, unlisted="negative")
    matrix, cut = FeatureMatrix(features), 100
    rows = {"train": np.arange(cut), "val": np.arange(cut, n)}
    splits = {
        name: Samples(tuple(f"s{r}" for r in part), matrix.take(part), observed.take(part))
        for name, part in rows.items()
    }
    return Dataset(
        "made", tuple("abcd"[:classes]), splits, {name: full.take(part) for name, part in rows.items()}
    )


def as_images(data, kind=ImageArray):
    """The same data with the 36 features of each sample as a grey image of 6 x 6 pixels."""

    def image(samples):
        features = samples.inputs.fetch(range(len(samples))).numpy()
        pixels = (features * 30 + 128).clip(0, 255).astype(np.uint8).reshape(-1, 1, 6, 6)
        return replace(samples, inputs=kind(pixels))

    return replace(data, splits={name: image(samples) for name, samples in data.splits.items()})


CONFIG = from_dict(
    {"method": "gr", "epochs": 4, "batch_size": 16, "optim": {"lr": 0.01, "ema": 0.9}, "seed": 3}
)


FABRIC = make_fabric("cpu")
