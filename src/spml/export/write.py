"""Write an exported model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ..common.errors import InputError
from ..common.files import check_folder, check_output, make_folder, write_bytes
from .model import Model
from .registry import FLOAT32, Exporter, find_exporter

FOLDER = "export"
"""Folder in that of a run for outputs without a name."""

_RUN = "config.yaml"
"""File that every run has, and no export."""


def check_export(
    run: Path, form: str, output: Path | None = None, *, variant: str = FLOAT32, overwrite: bool = False
) -> tuple[Exporter, Path]:
    """Check, before long work, that a model can be exported.

    Args:
        run: Folder of the run.
        form: Name of the format.
        output: File or folder to write; None = in the folder `export` of the run.
        variant: Type of the numbers of the network.
        overwrite: Whether to replace an output that exists.

    Returns:
        The exporter, and the file or folder to write.

    Raises:
        InputError: The format is unknown or has no such variant, or the output exists or can't be written.
    """
    exporter = find_exporter(form)
    if variant not in exporter.variants:
        raise InputError(
            f"--variant {variant} does not belong to --format {form}, which writes: "
            f"{', '.join(exporter.variants)}."
        )
    if output is None:
        name = exporter.output if variant == FLOAT32 else exporter.output.replace(".", f".{variant}.", 1)
        output = run / FOLDER / name
        check_folder(output.parent)
    if exporter.suffix and output.suffix != exporter.suffix:
        raise InputError(f"{output}: {exporter.title} needs a name that ends in {exporter.suffix}.")
    if not exporter.suffix:
        check_folder(output)
        if (output / _RUN).exists():
            raise InputError(f"{output}: holds a run, which would be replaced. Name another --output.")
    elif output.parent != run / FOLDER or output.parent.is_dir():
        check_output(output)
    taken = any(output.iterdir()) if output.is_dir() else output.exists()
    if taken and not overwrite:
        raise InputError(f"{output}: already exists. Replace it (--overwrite), or name another --output.")
    return exporter, output


def write_export(
    model: Model,
    form: str,
    output: Path | None = None,
    *,
    variant: str = FLOAT32,
    overwrite: bool = False,
    report: Callable[[str], None] = lambda line: None,
) -> Path:
    """Export a model: make its files, check what they compute, and write them.

    Args:
        model: Trained model.
        form: Name of the format, such as `onnx`.
        output: File or folder to write; None = in the folder `export` of the run.
        variant: Type of the numbers of the network, such as `float16`.
        overwrite: Whether to replace an output that exists.
        report: Callback for remarks.

    Returns:
        The file or folder that was written.

    Raises:
        InputError: As in `check_export`; or the format can't express a part of the model, which the message
            names; or a package is missing.
        SpmlError: The files compute something else than the model, or could not be written. A file that
            existed is untouched.
    """
    exporter, output = check_export(model.folder, form, output, variant=variant, overwrite=overwrite)
    files = exporter.make(model, variant)
    for note in files.notes:
        report(note)
    make_folder(output.parent if exporter.suffix else output)
    for name, content in files.content.items():
        write_bytes(output / name if name else output, content)
    for name in set(exporter.files) - set(files.content):
        (output / name).unlink(missing_ok=True)
    return output
