"""Variants of an ONNX file with smaller numbers in the backbone."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Set
from pathlib import Path
from typing import Any

FLOAT16, INT8 = "float16", "int8"


def to_float16(proto: Any, backbone: Set[str]) -> Any:
    """Convert the weights and the arithmetic of the backbone to float16.

    Preparation, head, calibration and all outputs keep their types: distances of kernels and sums over
    thousands of features would lose too much.

    Args:
        proto: Model of ONNX.
        backbone: Names of the nodes of the backbone.
    """
    from onnxruntime.transformers.float16 import convert_float_to_float16

    others = [node.name for node in proto.graph.node if node.name not in backbone]
    return convert_float_to_float16(
        proto, keep_io_types=True, node_block_list=others, op_block_list=[], disable_shape_infer=True
    )


def to_int8(proto: Any, backbone: Set[str]) -> Any:
    """Quantise convolutions and products of matrices in the backbone, weights in advance and inputs as they
    come.

    Depthwise convolutions stay as they are: they hold few weights, and one scale for those of all channels,
    which is all that ONNX Runtime has here, costs a MobileNetV2 most of its mAP (benchmarks/export.py).

    Args:
        proto: Model of ONNX.
        backbone: Names of the nodes of the backbone.
    """
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    others = [node.name for node in proto.graph.node if node.name not in backbone or _groups_of(node) > 1]
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "model.onnx"
        logging.disable(logging.WARNING)  # it recommends its own preparation, which torch has done
        try:
            quantize_dynamic(
                proto,
                output,
                op_types_to_quantize=["Conv", "MatMul", "Gemm"],
                nodes_to_exclude=others,
                weight_type=QuantType.QUInt8,
            )
        finally:
            logging.disable(logging.NOTSET)
        return onnx.load(output)


def _groups_of(node: Any) -> int:
    """Number of groups of a convolution; 1 for other nodes."""
    return next((int(entry.i) for entry in node.attribute if entry.name == "group"), 1)
