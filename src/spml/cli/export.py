"""The command `spml export`. Heavy modules are imported when it runs."""

from __future__ import annotations

from pathlib import Path

from ..common.errors import InputError
from .shared import Network


def export(
    run: Path,
    *,
    network: Network,
    format: str = "onnx",
    output: str = "",
    overwrite: bool = False,
) -> None:
    """Write a trained model for programs without spml, with its preparation of images, its thresholds and its
    probabilities. What was written is run on random samples and compared with the model, and refused if
    it differs.

    Args:
        run: Folder of the run.
        network: Network of the user's own.
        format: onnx (a file for onnxruntime), torch-export (a file for torch.export.load) or safetensors-hf
            (a folder for the Hugging Face hub, with a model card).
        output: File or folder to write; default: in the folder `export` of the run.
        overwrite: Replace the output if it exists.
    """
    if not run.is_dir():
        raise InputError(f"{run}: no such folder. Name the folder of a finished run.")

    from ..runs.run import load

    written = load(run).export(output or None, format=format, overwrite=overwrite)
    print(f"{written}: written")
