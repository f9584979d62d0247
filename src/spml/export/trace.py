"""Trace the network that is exported."""

from __future__ import annotations

import torch
from torch.export import Dim, ExportedProgram

from ..common.errors import InputError
from .model import Model


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
        raise InputError(
            f"{model.folder}: {_part(model)} can't be exported, because torch.export can't trace it "
            f"({_first_line(error)})."
        ) from error
    _forget_paths(program)
    return program


def _part(model: Model) -> str:
    """Name of the first part of a network that can't be traced: its backbone, or else its head."""
    classifier = model.classifier
    if model.size:
        pixels = torch.zeros(2, 3, model.size, model.size, dtype=torch.uint8)
        try:
            torch.export.export(classifier.backbone, (pixels,), dynamic_shapes=({0: Dim.DYNAMIC},))
        except Exception:
            return f"the backbone {classifier.spec.name}"
    return f"the head {classifier.top.settings()['head']}"


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def _forget_paths(program: ExportedProgram) -> None:
    """Remove the traces of the source code, which name folders of this machine."""
    for module in program.graph_module.modules():
        if isinstance(module, torch.fx.GraphModule):
            for node in module.graph.nodes:
                node.meta.pop("stack_trace", None)
