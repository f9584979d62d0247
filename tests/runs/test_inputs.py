"""Data as functions take it: a path, settings, or samples in memory."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from spml.common.errors import InputError
from spml.config import DataConfig
from spml.models import BackboneSpec
from spml.runs.inputs import labelled, unlabelled
from tests.helpers import write_image

SPEC = BackboneSpec("small_cnn", size=8, mean=(0.5,) * 3, std=(0.2,) * 3)
IMAGES = [Image.new("RGB", (4, 4), colour) for colour in ("red", "blue")]


def test_images_in_memory_are_loaded_by_processes_only_if_asked_for():
    assert labelled(IMAGES, ["a", "b"], {})[0] == DataConfig(path="data in memory", workers=0)
    assert labelled(IMAGES, ["a", "b"], {"workers": 2})[0].workers == 2


def test_a_path_and_settings_are_not_read():
    config = DataConfig(path="none.csv", unlisted="negative")
    assert labelled("none.csv", None, {"unlisted": "negative"}) == (config, None)
    assert labelled(config, None, {}) == (config, None)


def test_settings_are_checked_before_samples():
    with pytest.raises(InputError, match=r"^unknown setting 'data.unlsted'. Did you mean unlisted"):
        labelled({"not": "data"}, None, {"unlsted": "negative"})


def test_samples_to_predict_are_paths_or_in_memory(tmp_path):
    files = [write_image(tmp_path / name) for name in ("a.png", "b.png")]
    named = tuple(map(str, files))
    for samples in (files, iter(files), dict.fromkeys(files).keys(), str(tmp_path), np.array(named)):
        ids, inputs, _ = unlabelled(samples, SPEC)
        assert ids == named
        assert inputs.fetch([0, 1]).shape == (2, 3, 8, 8)
    assert not unlabelled(files, SPEC)[2]
    ids, inputs, in_memory = unlabelled(iter(IMAGES), SPEC)
    assert (ids, in_memory) == (("0", "1"), True)
    assert inputs.fetch([1])[0, :, 0, 0].tolist() == [0, 0, 255]
