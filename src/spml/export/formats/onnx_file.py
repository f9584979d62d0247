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

from ...common.errors import InputError, require_packages
from ..check import check_outputs
from ..model import Model
from ..registry import FLOAT32, Files, register_exporter
from ..trace import trace
from .onnx_variants import FLOAT16, INT8, to_float16, to_int8

METADATA = "spml"
"""Key of the metadata among those of the file."""

_LARGEST = 2_000_000_000
"""Bytes of weights. Protocol buffers hold 2 GiB."""

_AXES = {"images": ("batch", "height", "width"), "features": ("batch",)}


@register_exporter("onnx", "an ONNX file", output="model.onnx", variants=(FLOAT32, FLOAT16, INT8))
def make_onnx(model: Model, variant: str) -> Files:
    """Make an ONNX file, with the metadata as JSON under the key `spml`.

    Raises:
        InputError: A package is missing, the model is too large, the format can't express a part of the
            network, or there is no backbone to convert to another type.
        SpmlError: The file computes something else than the model.
    """
    require_packages("export", "onnx", "onnxscript", "onnxruntime")
    size = sum(tensor.nbytes for tensor in model.network.state_dict().values())
    if size > _LARGEST:
        raise InputError(
            f"{model.folder}: has {size / 1e9:.1f} GB of weights, but an ONNX file holds 2 GB at most: use "
            "--format torch-export or safetensors-hf."
        )
    if variant != FLOAT32 and not model.size:
        raise InputError(
            f"{model.folder}: takes features, so it has no backbone to convert to {variant}: leave out "
            "--variant."
        )
    proto = _convert(model)
    backbone = {node.name for node in proto.graph.node if _is_in_backbone(node)}
    if variant == FLOAT16:
        proto = to_float16(proto, backbone)
    elif variant == INT8:
        proto = to_int8(proto, backbone)
    _tidy(proto, model)
    metadata = {**model.metadata(variant), "opset": _opset(proto)}
    del proto.metadata_props[:]
    proto.metadata_props.add(key=METADATA, value=json.dumps(metadata, ensure_ascii=False))
    written = proto.SerializeToString()
    note = check_outputs(model, _computing(written, model), variant, "onnxruntime")
    return Files({"": written}, (f"ONNX opset {metadata['opset']}", note))


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
        raise InputError(
            f"{model.folder}: can't be exported, because ONNX can't express a part of the backbone "
            f"{model.classifier.spec.name} or of the head {head} ({_cause(error)}). Use --format "
            "torch-export."
        ) from error
    assert converted is not None
    return converted.model_proto


def _cause(error: BaseException) -> str:
    while error.__cause__ is not None:
        error = error.__cause__
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Keep the exporter from printing its progress and its remarks about itself."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


def _is_in_backbone(node: Any) -> bool:
    scopes = {entry.key: entry.value for entry in node.metadata_props}
    return "'network.classifier.backbone" in scopes.get("pkg.torch.onnx.name_scopes", "")


def _opset(proto: Any) -> int:
    return next(int(entry.version) for entry in proto.opset_import if entry.domain in ("", "ai.onnx"))


def _tidy(proto: Any, model: Model) -> None:
    """Name the axes, and remove what names folders and lines of this machine's source code."""
    axes = dict(
        zip(
            (axis.dim_param for axis in proto.graph.input[0].type.tensor_type.shape.dim if axis.dim_param),
            _AXES[model.input_name],
            strict=True,
        )
    )
    for value in (*proto.graph.input, *proto.graph.output):
        for axis in value.type.tensor_type.shape.dim:
            if axis.dim_param:
                axis.dim_param = axes[axis.dim_param]
    for graph in _graphs(proto.graph):
        del graph.value_info[:], graph.metadata_props[:]
        for entry in (*graph.node, *graph.input, *graph.output, *graph.initializer):
            entry.doc_string = ""
            del entry.metadata_props[:]
    proto.producer_name, proto.producer_version = "spml", model.metadata(FLOAT32)["spml"]


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
