"""Exported files on real photographs, and in an environment without torch and spml."""

from __future__ import annotations

import csv
import importlib.util
import itertools
import subprocess
import sys
import venv
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import spml
from spml.runs.fit import sizes
from tests.helpers import write_image
from tests.helpers.exported import computed, opened
from tests.helpers.features import make_weights

PRETRAINED = "mobilenetv2_100_tf_bncal.safetensors"
# A small network where its size does not matter: a large one takes half a minute to export.
SMALL = {"backbone": "test_efficientnet"}
MODELS = {
    "auto": {"method": "auto", "frozen": "yes", **SMALL},
    "two sizes": {"method": "auto", "frozen": "yes", **SMALL},
    "mlp": {"method": "an", "frozen": "yes", "head": "mlp", "epochs": 3, "weights": "random", **SMALL},
    # Random weights would hardly react to wrong pixels, except where an auto head standardises features.
    "fine-tuned": {"method": "an", "frozen": "no", "epochs": 1},
}
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "onnx_predict.py"


@pytest.fixture(scope="module")
def photographs(shared, tmp_path_factory):
    """A table of few photographs to train on, and 100 others."""
    folder = shared / "data" / "images" / "voc2012_animals"
    with open(folder / "labels.csv", newline="") as stream:
        rows = list(csv.DictReader(stream))
    table = tmp_path_factory.mktemp("data") / "few.csv"
    few = [
        row
        for split, count in (("train", 80), ("val", 40))
        for row in itertools.islice((row for row in rows if row["split"] == split), count)
    ]
    with open(table, "w", newline="") as stream:
        writer = csv.DictWriter(stream, few[0])
        writer.writeheader()
        writer.writerows(few)
    test = [folder / row["file"] for row in rows if row["split"] == "test"][:100]
    return table, folder, test


@pytest.mark.long
@pytest.mark.shared
@pytest.mark.parametrize("name", MODELS)
def test_photographs_are_labelled_as_by_predict(name, photographs, shared, tmp_path, monkeypatch):
    table, images, test = photographs
    data = {"images": str(images), "size": 96, "separator": " ", "unlisted": "negative", "observe": "single"}
    weights = shared / "data" / "models" / PRETRAINED
    if MODELS[name]["method"] == "auto":
        weights = make_weights(tmp_path / "weights.safetensors", "test_efficientnet", 96)
    if name == "two sizes":
        monkeypatch.setattr(sizes, "relative_weights", lambda scores: [1.0] * len(scores))  # none is left out
        data["size"] = "64,96"
    else:
        test = test[:50]
    run = spml.train(
        table,
        data=data,
        mean_labels=1.4,
        threads=1,
        quiet=True,
        pictures=False,
        output=str(tmp_path / "run"),
        **{"weights": str(weights), **MODELS[name]},
    )
    session, about = opened(run.export())
    assert name != "two sizes" or sorted(about["preparation"]["sizes"]) == [64, 96]
    thresholds = np.array([np.inf if cut is None else cut for cut in about["thresholds"]])
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


@pytest.fixture(scope="module")
def bare_python(tmp_path_factory):
    """Python with onnxruntime, NumPy and Pillow, and nothing of this package."""
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder)
    (site,) = folder.glob("lib/python*/site-packages")
    for name in ("onnxruntime", "numpy", "PIL"):
        package = Path(importlib.util.find_spec(name).origin).parent
        for path in (package, *package.parent.glob(f"{name.lower().replace('pil', 'pillow')}.libs")):
            (site / path.name).symlink_to(path)
    return folder / "bin" / "python"


@pytest.mark.long
@pytest.mark.skipif(sys.platform == "win32", reason="paths of POSIX")
def test_the_example_in_an_environment_without_torch(bare_python, grey_run, tmp_path):
    run, model = grey_run
    turned = Image.Exif()
    turned[0x0112] = 6
    photos = tmp_path / "photos"
    photos.mkdir()
    write_image(photos / "turned.jpg", (90, 40), exif=turned)
    write_image(photos / "plain.png", (33, 70))
    noise = np.random.default_rng(0).integers(0, 256, (50, 60, 4), np.uint8)
    Image.fromarray(noise, "RGBA").save(photos / "transparent.png")
    paths = sorted(map(str, photos.iterdir()))
    for package in ("torch", "spml"):
        missing = subprocess.run([bare_python, "-I", "-c", f"import {package}"], capture_output=True)
        assert missing.returncode
    done = subprocess.run(
        [bare_python, "-I", EXAMPLE, model, *paths], check=True, capture_output=True, text=True, cwd=tmp_path
    )
    predicted = run.predict(paths)
    lines = [line.split("\t") for line in done.stdout.splitlines()]
    for (path, *labels), names, scores in zip(lines, predicted.labels, predicted.scores, strict=True):
        assert path in paths
        assert labels == [f"{name} {scores[run.classes.index(name)]:.3f}" for name in names]
    assert any(predicted.labels)
