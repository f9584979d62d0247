"""The graph of a model that exporters write, and the comparison of their files with the model."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch.export import Dim, ExportedProgram
from torch.fx import config

from ..common.errors import InputError, SpmlError, first_line
from .model import LABELS, LOGITS, PROBABILITIES, SCORES, Model

TOLERANCE = 1e-4
"""Largest difference: of scores, and of logits, relative to those beyond -1 and 1."""

Compute = Callable[[npt.NDArray[Any]], Mapping[str, npt.NDArray[Any]]]


@contextlib.contextmanager
def without_stack_traces() -> Iterator[None]:
    """Keep torch from looking up the line of Python of each operation that it traces: that takes long, and
    the lines are not exported. Versions of torch without the setting ignore it."""
    before = getattr(config, "do_not_emit_stack_traces", False)
    config.do_not_emit_stack_traces = True
    try:
        yield
    finally:
        config.do_not_emit_stack_traces = before


@without_stack_traces()
def trace(model: Model) -> ExportedProgram:
    """Trace the network of a model for any batch size and, where it takes images, any height and width.

    Raises:
        InputError: torch can't trace a part of the network, which the message names.
    """
    dimensions = (0, 1, 2) if model.size else (0,)
    shapes = (dict.fromkeys(dimensions, Dim.DYNAMIC),)
    try:
        program = torch.export.export(model.exported(), (model.example(),), dynamic_shapes=shapes)
    except Exception as error:  # torch raises many kinds, some of them of its own
        head = model.classifier.top.settings()["head"]
        raise InputError(
            f"{model.folder}: can't be exported, because torch.export can't trace a part of the backbone "
            f"{model.classifier.spec.name} or of the head {head} ({first_line(error)})."
        ) from error
    for module in program.graph_module.modules():
        if isinstance(module, torch.fx.GraphModule):
            for node in module.graph.nodes:
                node.meta.pop("stack_trace", None)  # it names folders of this machine
    return program


def check_outputs(model: Model, compute: Compute, what: str) -> str:
    """Check a file by random samples.

    Args:
        model: Model that was exported.
        compute: Computes the outputs by name with the file.
        what: What computes, for messages, such as "onnxruntime".

    Returns:
        Line that states the largest difference.

    Raises:
        SpmlError: An output differs by more than `TOLERANCE`, or it is NaN.
    """
    differences: list[float] = []
    for inputs in model.trials():
        expected, computed = model.predict(inputs), compute(inputs)
        logits = expected[LOGITS]
        differences += [
            float((np.abs(computed[LOGITS] - logits) / np.maximum(1, np.abs(logits))).max()),
            float(np.abs(computed[SCORES] - expected[SCORES]).max()),
        ]
        # A calibration may jump and a threshold does, so both are checked at the logits of the file.
        if model.calibration is not None:
            again = model.calibration(computed[LOGITS])
            differences.append(float(np.abs(computed[PROBABILITIES] - again).max()))
        if (computed[LABELS] != (computed[LOGITS] >= np.asarray(model.thresholds, np.float32))).any():
            differences.append(np.inf)
    largest = float(np.max(differences))  # NaN if one of them is
    if not largest <= TOLERANCE:
        raise SpmlError(
            f"{model.folder}: the exported model differs from the trained one by {largest:.2g} in {what}, "
            f"more than {TOLERANCE:g}, so nothing was written. Other versions of torch, onnx, onnxruntime or "
            "Pillow may export it correctly."
        )
    return f"largest difference from torch in {what} on random samples: {largest:.1e}"
