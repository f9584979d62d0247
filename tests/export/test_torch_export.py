"""torch-export: a program that needs neither spml nor the network's code."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
import torch

import spml
from tests.helpers.run_folders import change, save_run


def test_the_program_predicts_and_describes_itself(ridge, digits, tmp_path):
    path = ridge.export(tmp_path / "model.pt2", format="torch-export")
    extra = {"spml.json": ""}
    program = torch.export.load(path, extra_files=extra).module()
    rows = digits[0][500:507].astype(np.float32)
    with torch.inference_mode():
        outputs, predicted = program(torch.from_numpy(rows)), ridge.predict(rows)
    np.testing.assert_allclose(outputs["scores"], predicted.scores, atol=1e-6)
    np.testing.assert_allclose(outputs["probabilities"], predicted.probabilities, atol=1e-6)
    about = json.loads(extra["spml.json"])
    assert about["classes"] == list(ridge.classes)
    assert about["weights_sha256"] == ridge.weights_sha256
    assert str(ridge.folder).encode() not in path.read_bytes()


@pytest.mark.long
def test_images_of_any_size_without_this_package(tmp_path):
    folder = save_run(tmp_path)
    change(folder, "backbone.interpolation", "nearest")  # tests of ONNX files have the others
    run = spml.load(folder)
    path = run.export(format="torch-export")
    images = np.random.default_rng(0).integers(0, 256, (2, 150, 61, 3), np.uint8)
    np.save(tmp_path / "images.npy", images)
    script = (
        "import sys, numpy, torch; sys.modules['spml'] = None; sys.modules['timm'] = None\n"
        "program = torch.export.load(sys.argv[1]).module()\n"
        "print(program(torch.from_numpy(numpy.load(sys.argv[2])))['scores'].tolist())"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(path), str(tmp_path / "images.npy")],
        check=True,
        capture_output=True,
        text=True,
    )
    np.testing.assert_allclose(json.loads(done.stdout), run.predict(images).scores, atol=1e-6)
