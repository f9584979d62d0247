"""The embedded digits: deterministic, correctly labelled, with no source image in two splits."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from sklearn.datasets import load_digits

from spml.config import DataConfig
from spml.data import Augment
from spml.data.assemble import to_dataset
from spml.data.readers import digits
from tests.helpers.records import sizes_of


def test_pixels_and_labels_are_pinned():
    """The same on every platform: a change here changes every number measured on the digits."""
    records = digits.make_digits(50, 20, 10)
    pixels = records.inputs.fetch(np.arange(80), None).numpy()
    assert pixels.shape == (80, 1, 40, 40)
    assert pixels.dtype == np.uint8
    assert (
        hashlib.sha256(pixels.tobytes()).hexdigest()
        == "cc240a52effaf46d39cb525df467bbf199ff280cf6aaf6d07a2bb6bd3f7d5a71"
    )
    assert (
        hashlib.sha256(records.labels.to_multi_hot().tobytes()).hexdigest()
        == "23c37bf538097de58386ad4344994b373da5a417478d6cdbd242e3794be5a2a8"
    )
    assert digits.make_digits(50, 20, 10, seed=1).inputs.fingerprint() != records.inputs.fingerprint()


def test_splits_and_truth():
    config = DataConfig(path="digits", observe="single")
    records = digits.make_digits(300, 100, 50)
    data = to_dataset(records, config, records.inputs, {})
    assert sizes_of(data) == {"train": 300, "val": 100, "test": 50}
    assert data.splits["val"].ids[:2] == ("val/0", "val/1")
    assert data.classes[7] == "seven"
    for name, samples in data.splits.items():
        truth = data.truth[name]
        assert truth.full
        assert samples.observed.single_positive
        assert (truth.to_ternary()[np.arange(len(samples)), samples.observed.index] == 1).all()
    assert 2 < data.truth["train"].positives_per_sample().mean() < 2.7
    assert data.truth["train"].positives_per_sample().max() > 3
    full = to_dataset(records, DataConfig(path="digits"), records.inputs, {})
    assert full.splits["train"].observed.full
    inputs = full.splits["train"].inputs
    assert inputs.fetch([3], Augment(0, 5)).equal(inputs.fetch([3], None))
    assert not data.decoded


def test_splits_use_different_source_images():
    target = load_digits().target
    pools = digits._pools(target, 0)
    used = {name: np.concatenate(pool) for name, pool in pools.items()}
    everything = np.concatenate(list(used.values()))
    assert sorted(everything.tolist()) == list(range(len(target)))
    for name, share in (("train", 0.6), ("val", 0.2), ("test", 0.2)):
        assert len(used[name]) == pytest.approx(share * len(target), abs=10)
        for digit in range(10):
            assert (target[pools[name][digit]] == digit).all()
