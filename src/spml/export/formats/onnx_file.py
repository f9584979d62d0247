"""onnx: one file for onnxruntime, from decoded photographs to labels."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from ...common.errors import InputError, first_line, require_packages
from ..graph import check_outputs, trace, without_stack_traces
from ..model import Model
from ..registry import Files, register_exporter

METADATA = "spml"
"""Key of the metadata among those of the file."""

_LARGEST = 2_000_000_000
"""Bytes of weights. Protocol buffers hold 2 GiB."""

_AXES = {"images": ("batch", "height", "width"), "features": ("batch",)}


@register_exporter("onnx", "an ONNX file", output="model.onnx")
def make_onnx(model: Model) -> Files:
    """Make an ONNX file, with the metadata as JSON under the key `spml`.

    Raises:
        InputError: A package is missing, the model is too large, or the format can't express a part of the
            network.
        SpmlError: The file computes something else than the model.
    """
    require_packages("export", "onnx", "onnxscript", "onnxruntime")
    size = sum(tensor.nbytes for tensor in model.network.state_dict().values())
    if size > _LARGEST:
        raise InputError(
            f"{model.folder}: has {size / 1e9:.1f} GB of weights, but an ONNX file holds 2 GB at most: use "
            "format=torch-export or safetensors-hf."
        )
    proto = _convert(model)
    _tidy(proto, model)
    opset = next(int(entry.version) for entry in proto.opset_import if entry.domain in ("", "ai.onnx"))
    metadata = {**model.metadata(), "opset": opset}
    del proto.metadata_props[:]
    proto.metadata_props.add(key=METADATA, value=json.dumps(metadata, ensure_ascii=False))
    written = proto.SerializeToString()
    note = check_outputs(model, _computing(written, model), "onnxruntime")
    return Files({"": written}, (f"ONNX opset {opset}", note))


@without_stack_traces()
def _convert(model: Model) -> Any:
    """Convert the traced network to a model of ONNX, as protocol buffers."""
    program = trace(model)
    try:
        with _silent():
            converted = torch.onnx.export(
                program,
                dynamo=True,
                input_names=[model.input_name],
                output_names=list(model.output_names),
                verbose=False,
            )
    except Exception as error:  # it raises errors of its own
        head = model.classifier.top.settings()["head"]
        cause: BaseException = error
        while cause.__cause__ is not None:
            cause = cause.__cause__
        raise InputError(
            f"{model.folder}: can't be exported, because ONNX can't express a part of the backbone "
            f"{model.classifier.spec.name} or of the head {head} ({first_line(cause)}). Use format="
            "torch-export."
        ) from error
    assert converted is not None
    return converted.model_proto


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Keep torch and ONNX Runtime from printing their progress and remarks about themselves."""
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(logging.NOTSET)


def _tidy(proto: Any, model: Model) -> None:
    """Name the axes, and remove what names folders and lines of this machine's source code."""
    shape = proto.graph.input[0].type.tensor_type.shape
    traced = [axis.dim_param for axis in shape.dim if axis.dim_param]
    axes = dict(zip(traced, _AXES[model.input_name], strict=True))
    for value in (*proto.graph.input, *proto.graph.output):
        for axis in value.type.tensor_type.shape.dim:
            if axis.dim_param:
                axis.dim_param = axes[axis.dim_param]
    for graph in _graphs(proto.graph):
        del graph.value_info[:], graph.metadata_props[:]
        for entry in (*graph.node, *graph.input, *graph.output, *graph.initializer):
            entry.doc_string = ""
            del entry.metadata_props[:]
    proto.producer_name, proto.producer_version = "spml", model.metadata()["spml"]


def _graphs(graph: Any) -> Iterator[Any]:
    """A graph and those inside its nodes."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _graphs(attribute.g)


def _computing(written: bytes, model: Model) -> Any:
    """A function that computes the outputs of a file with onnxruntime."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # it remarks on constants that are not used
    session = onnxruntime.InferenceSession(written, options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]

    def compute(inputs: npt.NDArray[Any]) -> dict[str, npt.NDArray[Any]]:
        values = session.run(names, {model.input_name: inputs})
        return dict(zip(names, map(np.asarray, values), strict=True))

    return compute
