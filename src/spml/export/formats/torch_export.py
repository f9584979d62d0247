"""torch-export: a program that `torch.export.load` opens without this package."""

from __future__ import annotations

import io
import json
import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from ..graph import check_outputs, trace
from ..model import Model
from ..registry import Files, register_exporter

METADATA = "spml.json"
"""Name of the metadata among the extra files of the program."""


@register_exporter("torch-export", "a program of torch.export", output="model.pt2")
def make_torch_export(model: Model) -> Files:
    """Make a .pt2 file with the metadata as the extra file `spml.json`.

    Raises:
        InputError: torch can't trace a part of the network.
        SpmlError: The program computes something else than the model.
    """
    stream = io.BytesIO()
    content = json.dumps(model.metadata(), ensure_ascii=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # about weights that are shared on other devices
        torch.export.save(trace(model), stream, extra_files={METADATA: content})
    written = stream.getvalue()
    program = torch.export.load(io.BytesIO(written)).module()

    @torch.inference_mode()
    def compute(inputs: npt.NDArray[Any]) -> dict[str, npt.NDArray[Any]]:
        outputs = program(torch.from_numpy(inputs))
        return {name: np.asarray(values) for name, values in outputs.items()}

    return Files({"": written}, (check_outputs(model, compute, "torch.export"),))
