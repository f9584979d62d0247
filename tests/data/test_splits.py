"""Splits: their names, and hold-outs of data without a split."""

from __future__ import annotations

import numpy as np
import pytest

from spml.config import DataConfig
from spml.data import open_dataset
from spml.data.splits import hold_out, split_name
from spml.errors import InputError


def test_hold_out():
    mask = hold_out(1000, 0.2, 0)
    assert mask.sum() == 200
    assert (hold_out(1000, 0.2, 0) == mask).all()
    assert (hold_out(1000, 0.2, 1) != mask).any()
    assert mask[:500].sum() == pytest.approx(100, abs=30)
    assert hold_out(13, 0.2, 0).sum() == 3, "round(2.6)"
    assert hold_out(2, 0.2, 0).sum() == 1
    with pytest.raises(InputError, match="1 training sample is too few to hold out 20%"):
        hold_out(1, 0.2, 0)


def test_split_names():
    assert [split_name(text) for text in (" Train", "VALID", "validation", "dev", "testing", "", "x")] == [
        "train", "val", "val", "val", "test", None, None,
    ]  # fmt: skip


def save(path, **arrays):
    rng = np.random.default_rng(0)
    labels = (rng.random((50, 3)) < 0.5).astype(np.uint8)
    labels[:, 0] = 1
    np.savez(path, X=rng.normal(size=(50, 4)).astype(np.float32), Y=labels, **arrays)
    return str(path)


def ids(data):
    return {name: set(samples.ids) for name, samples in data.splits.items()}


def test_three_parts_of_the_requested_sizes(tmp_path):
    path = save(tmp_path / "x.npz")
    config = DataConfig(path=path, unlisted="negative", test_share=0.3, val_share=0.2)
    splits = ids(open_dataset(config))
    assert {name: len(part) for name, part in splits.items()} == {"train": 28, "val": 7, "test": 15}
    assert len(set().union(*splits.values())) == 50
    assert ids(open_dataset(config)) == splits
    other = DataConfig(path=path, unlisted="negative", test_share=0.3, val_share=0.2, split_seed=1)
    assert ids(open_dataset(other))["test"] != splits["test"]
    assert "test" in open_dataset(config).truth


def test_the_two_draws_are_pinned_and_differ():
    """The rows are those of earlier versions: another draw would change the splits of existing data."""
    assert np.flatnonzero(hold_out(10, 0.3, 0)).tolist() == [2, 6, 8]
    assert np.flatnonzero(hold_out(10, 0.3, 0, "test")).tolist() == [2, 4, 9]
    assert hold_out(3, 0.1, 0).sum() == 1, "at least one sample is held out"


def test_no_test_samples_by_default_and_refused_with_a_test_split(tmp_path):
    assert "test" not in ids(open_dataset(DataConfig(path=save(tmp_path / "x.npz"), unlisted="negative")))
    test = np.zeros(50, bool)
    test[:5] = True
    path = save(tmp_path / "y.npz", test=test)
    with pytest.raises(InputError, match=r"test samples of its own.*leave it out"):
        open_dataset(DataConfig(path=path, unlisted="negative", test_share=0.3))


def test_too_few_samples(tmp_path):
    with pytest.raises(InputError, match=r"too few to hold out 100% for the test.*data.test_share"):
        open_dataset(DataConfig(path=save(tmp_path / "x.npz"), unlisted="negative", test_share=0.995))
