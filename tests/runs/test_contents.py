"""What a run adds to model.json, and its summary, are checked where they are read."""

from __future__ import annotations

import json
import os

import pytest
import torch

import spml
from spml.config import ModelConfig
from spml.errors import InputError
from spml.files import write_checked_json
from spml.models import Classifier, Top, build_backbone, save_classifier
from spml.runs.contents import read_summary
from tests.models.conftest import GREY, describe

CARD = {
    "classes": ["a", "b", "c"],
    "method": {"name": "an", "hp": {}},
    "threshold": {
        "logit": 0.5,
        "labels_per_sample": 2.0,
        "source": "stated",
        "curve": [[0.5, 3.0], [1.0, 1.0], [3.0, -2.0]],
    },
    "without_positives": ["b"],
}


def save_run(folder):
    """A model for grey images of 40 x 40 pixels, which is not trained."""
    torch.manual_seed(0)
    config = ModelConfig()
    backbone = build_backbone(describe(config, GREY), config)
    save_classifier(folder, Classifier(backbone, Top(64, 3)), backbone.spec, CARD)
    return folder


def change(folder, path, value):
    """Set the value at a path of keys in model.json; None removes it."""
    card = json.loads((folder / "model.json").read_text())
    card.pop("sha256", None)
    *parents, last = path.split(".")
    part = card
    for key in parents:
        part = part[key]
    if value is None:
        del part[last]
    else:
        part[last] = value
    (folder / "model.json").write_text(json.dumps(card))


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("threshold", None, "Object missing required field `threshold`"),
        ("threshold", 0.5, "Expected `object`, got `float` - at `$.threshold`"),
        ("threshold.logit", "0.5", "Expected `float`, got `str` - at `$.threshold.logit`"),
        ("threshold.labels_per_sample", 0, "Expected `float` > 0.0 - at `$.threshold.labels_per_sample`"),
        ("threshold.source", 1, "Expected `str`, got `int` - at `$.threshold.source`"),
        ("threshold.curve", [], "Expected `array` of length >= 1 - at `$.threshold.curve`"),
        ("threshold.curve", [[1.0]], "Expected `array` of length 2, got 1 - at `$.threshold.curve[0]`"),
        (
            "threshold.curve", [[2, 1.0], [1, 0.0]],
            "the numbers of labels per sample must rise - at `$.threshold.curve`",
        ),
        ("method", "an", "Expected `object`, got `str` - at `$.method`"),
        ("method.name", None, "Object missing required field `name` - at `$.method`"),
        ("thresholds", 5, "Expected `str | null`, got `int` - at `$.thresholds`"),
        ("without_positives", 5, "Expected `array`, got `int` - at `$.without_positives`"),
        ("without_positives", ["a", "x"], "there is no class 'x' - at `$.without_positives[1]`"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_explained(tmp_path, path, value, words):
    change(save_run(tmp_path), path, value)
    with pytest.raises(InputError) as caught:
        spml.load(tmp_path)
    assert words in str(caught.value)
    assert str(caught.value).startswith(f"{tmp_path / 'model.json'}: damaged: ")
    assert str(caught.value).endswith(". Train again.")


def test_a_run_of_an_early_version_is_loaded(tmp_path):
    save_run(tmp_path)
    change(tmp_path, "threshold.curve", None)
    change(tmp_path, "without_positives", None)
    run = spml.load(tmp_path)
    assert (run.classes, run.threshold, run.thresholds) == (("a", "b", "c"), 0.5, None)


SUMMARY = {
    "selected": {"metric": "val/SP", "mean_labels": 2.0, "penalty": "infinity"},
    "validation": {"val/SP": 0.7},
    "test": {"mAP": 0.8},
    "data": {"fingerprint": "0123"},
    "candidates": [{"run": "head", "kept": True}],
}


def test_a_summary_that_was_damaged_is_refused(tmp_path):
    path = tmp_path / "summary.json"
    write_checked_json(path, SUMMARY)
    written = json.loads(path.read_text())
    assert read_summary(tmp_path) == written
    path.write_text(json.dumps({**written, "test": {"mAP": 0.9}}))
    with pytest.raises(InputError, match="its content does not have the SHA-256 that it states"):
        read_summary(tmp_path)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"selected": None}, "Expected `object`, got `null` - at `$.selected`"),
        ({"selected": {}}, "Object missing required field `metric` - at `$.selected`"),
        ({"selected": {"metric": "val/mAP"}}, "there is no number of 'val/mAP' - at `$.validation`"),
        ({"validation": {"val/SP": "good"}}, "there is no number of 'val/SP' - at `$.validation`"),
        ({"data": {"fingerprint": 5}}, "Expected `str`, got `int` - at `$.data.fingerprint`"),
        ({"test": [1]}, "Expected `object | null`, got `array` - at `$.test`"),
        ({"candidates": [{"run": "head"}]}, "Object missing required field `kept` - at `$.candidates[0]`"),
    ],
)
def test_a_wrong_summary_is_explained(tmp_path, changes, words):
    path = tmp_path / "summary.json"
    path.write_text(json.dumps(SUMMARY))
    assert read_summary(tmp_path) == SUMMARY
    path.write_text(json.dumps({**SUMMARY, **changes}))
    with pytest.raises(InputError) as caught:
        read_summary(tmp_path)
    assert str(caught.value) == (
        f"{path}: can't be read ({words}). Name the folder of a finished run, or train it again."
    )


def test_a_run_with_a_pipe_is_refused(tmp_path):
    folder = save_run(tmp_path)
    os.mkfifo(folder / "thresholds.json")
    with pytest.raises(InputError) as caught:
        spml.load(folder)
    assert str(caught.value) == (
        f"{folder / 'thresholds.json'}: is a device or a pipe, which no run has. Remove it."
    )
