"""Exported files on real photographs."""

from __future__ import annotations

import csv
import itertools

import numpy as np
import pytest
import timm
import torch
from PIL import Image
from safetensors.torch import load_file

import spml
from spml.runs.fit import sizes
from tests.helpers.exported import computed, opened
from tests.helpers.features import make_weights
from tests.helpers.members import few_members

QUICK = {"mean_labels": 1.4, "threads": 1, "quiet": True, "pictures": False}


@pytest.fixture(scope="module")
def photographs(shared, tmp_path_factory):
    """Settings of a table of 72 photographs to train on, and paths of 100 others."""
    folder = shared / "data" / "images" / "voc2012_animals"
    with open(folder / "labels.csv", newline="") as stream:
        rows = list(csv.DictReader(stream))
    train, val, test = (
        [*itertools.islice((row for row in rows if row["split"] == split), count)]
        for split, count in (("train", 48), ("val", 24), ("test", 100))
    )
    table = tmp_path_factory.mktemp("data") / "few.csv"
    with open(table, "w", newline="") as stream:
        writer = csv.DictWriter(stream, rows[0])
        writer.writeheader()
        writer.writerows(train + val)
    data = {
        **{"images": str(folder), "size": 96, "workers": 0, "separator": " "},
        **{"unlisted": "negative", "observe": "single"},
    }
    return table, data, [str(folder / row["file"]) for row in test]


def check_photographs(run, paths):
    """Photographs are labelled by an exported file as by `predict`."""
    session, about = opened(run.export())
    thresholds = np.array([np.inf if cut is None else cut for cut in about["thresholds"]])
    predicted = run.predict(paths, workers=0)
    for row, path in enumerate(paths):
        image = Image.open(path).convert("RGB")
        outputs = computed(session, np.asarray(image)[None])
        with torch.inference_mode():
            np.testing.assert_allclose(outputs["logits"], run.model(run.transform(image)[None]), atol=1e-4)
        np.testing.assert_allclose(outputs["scores"][0], predicted.scores[row], atol=1e-4)
        # Where a calibration is steep, the last digit of a logit shows, so it is compared at the file's own.
        again = run.calibrated(outputs["logits"])
        np.testing.assert_allclose(outputs["probabilities"], again, atol=1e-6)
        decided = {run.classes[column] for column in np.flatnonzero(outputs["labels"][0])}
        near = np.flatnonzero(np.abs(outputs["logits"][0] - thresholds) < 1e-4)
        assert decided ^ set(predicted.labels[row]) <= {run.classes[column] for column in near}
    assert any(predicted.labels)
    return about


@pytest.mark.long
@pytest.mark.shared
def test_a_network_that_was_fine_tuned(photographs, shared, tmp_path):
    """A pretrained one: random weights would hardly react to wrong pixels."""
    table, data, test = photographs
    network = timm.create_model("mobilenetv2_100", pretrained=False, pad_type="same")
    network.load_state_dict(load_file(shared / "data" / "models" / "mobilenetv2_100_tf_bncal.safetensors"))
    for stage in network.blocks:
        del stage[1:]  # they repeat the first one, and each takes its time to be exported
    transform = {"size": 96, "mean": [0.5] * 3, "std": [0.5] * 3, "interpolation": "bilinear"}
    model = {"backbone": network, "transform": transform, "head": "mlp", "frozen": "no"}
    run = spml.train(table, data=data, method="an", epochs=1, output=tmp_path / "run", **model, **QUICK)
    check_photographs(run, test[:30])


@pytest.mark.long
@pytest.mark.shared
def test_two_sizes_and_bicubic_pixels(photographs, tmp_path, monkeypatch):
    """An auto head reacts to wrong pixels, since it standardises features."""
    table, data, test = photographs
    monkeypatch.setattr(sizes, "relative_weights", lambda scores: [1.0] * len(scores))  # none is left out
    weights = make_weights(tmp_path / "weights.safetensors", "test_efficientnet", 96)
    model = {"backbone": "test_efficientnet", "weights": str(weights)}
    with few_members():
        run = spml.train(table, data={**data, "size": "64,96"}, model=model, output=tmp_path / "run", **QUICK)
    assert run.classifier.backbone.spec.interpolation == "bicubic"
    about = check_photographs(run, test)
    assert sorted(about["preparation"]["sizes"]) == [64, 96]
