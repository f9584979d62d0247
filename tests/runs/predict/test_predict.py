"""Predictions are finite, or there are none; a batch fits into the memory, or is not begun."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

import spml
from spml.common.errors import InputError, SpmlError
from tests.helpers.networks import set_weights
from tests.helpers.run_folders import change, save_run, save_thresholds


@pytest.fixture
def photos(tmp_path):
    folder = tmp_path / "photos"
    folder.mkdir()
    for number in range(3):
        pixels = np.full((40, 40), 80 * number, np.uint8)
        Image.fromarray(pixels).save(folder / f"{number}.png")
    return folder


def test_infinite_scores_are_refused(tmp_path, photos):
    run = save_run(tmp_path)
    assert np.isfinite(spml.load(run).predict(photos).scores).all()
    bias = spml.load(run).classifier.top.head.bias.detach().clone()
    bias[1] = float("inf")
    set_weights(run, **{"top.head.bias": bias})
    save_thresholds(run)
    with pytest.raises(SpmlError) as caught:
        spml.load(run).predict(photos)
    assert caught.value.exit_code == 1
    assert str(caught.value) == (
        "sample 0 (counted from 0): its scores are NaN or infinite, because its features are too large or "
        "the model is damaged. Correct the data, or train again."
    )


def test_images_that_do_not_fit_into_the_memory_are_refused(tmp_path, photos, monkeypatch):
    run = save_run(tmp_path)
    change(run, "backbone.size", 8192)
    monkeypatch.setattr("spml.runs.predict.batches.total_memory", lambda: 500_000_000)
    with pytest.raises(InputError) as caught:
        spml.load(run).predict(photos)
    assert str(caught.value) == (
        "the model takes images of 8,192 x 8,192 pixels, 3 of which need at least 1.0 GB, but there are "
        "0.5 GB of memory. Choose a smaller batch_size."
    )
