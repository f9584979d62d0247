"""The command `spml export`. Heavy modules are imported when it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jsonargparse import ArgumentParser, Namespace

from ..common.errors import InputError
from .own_network import add_backbone_argument


def add_export_command(commands: Any) -> None:
    """Add `export` to the commands of `spml`."""
    parser = ArgumentParser(
        description="Write a trained model for programs without spml, with its preparation of images, its "
        "thresholds and its probabilities. What was written is run on random samples and compared with the "
        "model; in float32, it is refused if it differs."
    )
    parser.add_argument("run", help="folder of the run")
    parser.add_argument(
        "--format",
        default="onnx",
        help="onnx (a file for onnxruntime), torch-export (a file for torch.export.load) or safetensors-hf "
        "(a folder for the Hugging Face hub, with a model card)",
    )
    parser.add_argument(
        "--variant",
        default="float32",
        help="type of the numbers of the backbone: float32, or float16 or int8 for onnx",
    )
    parser.add_argument(
        "--output", default="", help="file or folder to write; default: in the folder `export` of the run"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace the output if it exists")
    add_backbone_argument(parser)
    commands.add_subcommand("export", parser, help="write a model for programs without spml")


def run_export(arguments: Namespace) -> None:
    """Export a run and name what was written.

    Raises:
        InputError: Run, format or output do not suit.
    """
    folder = Path(arguments.run)
    if not folder.is_dir():
        raise InputError(f"{folder}: there is no such folder. Name the folder of a finished run.")

    from ..runs.api import load
    from ..runs.console import Console

    output = load(folder).export(
        arguments.output or None,
        format=arguments.format,
        variant=arguments.variant,
        overwrite=arguments.overwrite,
        console=Console(),
    )
    print(f"{output}: written")
