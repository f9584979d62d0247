"""Exported models, opened with onnxruntime."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
import torch
from PIL import Image

import spml
from tests.helpers.run_folders import change

onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")


def opened(path):
    """The session of a file, and its metadata."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return session, json.loads(session.get_modelmeta().custom_metadata_map["spml"])


def check_exported(run, rows, expected, folder, form):
    """Check logits of rows by the exported model of a run; returns what an ONNX file says of itself."""
    file = run.export(folder / f"model.{'onnx' if form == 'onnx' else 'pt2'}", format=form)
    about = None
    if form == "onnx":
        session, about = opened(file)
        found = computed(session, rows.numpy())["logits"]
    else:
        found = torch.export.load(file).module()(rows)["logits"].detach().numpy()
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4 * np.abs(expected).max())
    return about


def with_nearest_pixels(run, folder):
    """The model of a run, which resizes images by the nearest pixel: half of an exported graph would weigh
    pixels otherwise, though images that have the size of the model stay as they are."""
    copy = shutil.copytree(run.folder, folder / "nearest", ignore=shutil.ignore_patterns("features"))
    change(copy, "backbone.interpolation", "nearest")
    return spml.load(copy)


def check_exported_images(run, images, folder, form):
    """As `check_exported`, for image files and the logits of the run itself.

    The blocks of its ConvNeXt are left out of both: what is made of its maps is looked at."""
    run = with_nearest_pixels(run, folder)
    for stage in run.classifier.backbone.network.stages:
        stage.blocks = torch.nn.Identity()
    pixels = torch.stack([run.transform(Image.open(path)) for path in images])
    with torch.inference_mode():
        expected = run.model(pixels).numpy()
    return check_exported(run, pixels.permute(0, 2, 3, 1).contiguous(), expected, folder, form)


def computed(session, inputs):
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, {session.get_inputs()[0].name: inputs}), strict=True))
