"""An exported file on real photographs."""

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
from tests.helpers.exported import computed, opened


@pytest.mark.long
@pytest.mark.shared
def test_photographs_are_labelled_as_by_predict(shared, tmp_path):
    """By a pretrained network that is fine-tuned: random weights would hardly react to wrong pixels."""
    folder = shared / "data" / "images" / "voc2012_animals"
    with open(folder / "labels.csv", newline="") as stream:
        rows = list(csv.DictReader(stream))
    table = tmp_path / "few.csv"
    parts = {
        split: [*itertools.islice((row for row in rows if row["split"] == split), count)]
        for split, count in (("train", 48), ("val", 24), ("test", 30))
    }
    with open(table, "w", newline="") as stream:
        writer = csv.DictWriter(stream, rows[0])
        writer.writeheader()
        writer.writerows(parts["train"] + parts["val"])
    network = timm.create_model("mobilenetv2_100", pretrained=False, pad_type="same")
    network.load_state_dict(load_file(shared / "data" / "models" / "mobilenetv2_100_tf_bncal.safetensors"))
    for stage in network.blocks:
        del stage[1:]  # they repeat the first one, and each takes its time to be exported
    run = spml.train(
        table,
        data={
            **{"images": str(folder), "size": 96, "workers": 0, "separator": " "},
            **{"unlisted": "negative", "observe": "single"},
        },
        backbone=network,
        transform={"size": 96, "mean": [0.5] * 3, "std": [0.5] * 3, "interpolation": "bilinear"},
        method="an",
        frozen="no",
        head="mlp",
        epochs=1,
        mean_labels=1.4,
        threads=1,
        quiet=True,
        pictures=False,
        output=str(tmp_path / "run"),
    )
    session, about = opened(run.export())
    thresholds = np.array([np.inf if cut is None else cut for cut in about["thresholds"]])
    test = [folder / row["file"] for row in parts["test"]]
    predicted = run.predict([str(path) for path in test], workers=0)
    for row, path in enumerate(test):
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
