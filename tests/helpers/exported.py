"""Exported models, opened with onnxruntime."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from PIL import Image

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


def check_exported_images(run, images, folder, form):
    """As `check_exported`, for image files and the logits of the run itself."""
    pixels = torch.stack([run.transform(Image.open(path)) for path in images])
    with torch.inference_mode():
        expected = run.model(pixels).numpy()
    return check_exported(run, pixels.permute(0, 2, 3, 1).contiguous(), expected, folder, form)


def computed(session, inputs):
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, {session.get_inputs()[0].name: inputs}), strict=True))
