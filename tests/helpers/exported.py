"""Exported models, opened with onnxruntime."""

from __future__ import annotations

import json

import pytest

onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")


def opened(path):
    """The session of a file, and its metadata."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return session, json.loads(session.get_modelmeta().custom_metadata_map["spml"])


def computed(session, inputs):
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, {session.get_inputs()[0].name: inputs}), strict=True))
