"""Exporters by name: each turns a model into the files of a format, which are written here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from ..common.errors import InputError, nearest
from ..common.files import check_folder, check_new, check_output, make_folder, write_bytes
from ..common.locks import only_writer
from ..common.messages import log
from ..common.plugins import Registry
from .model import Model

FOLDER = "export"
"""Folder in that of a run for outputs without a name."""

_RUN = "config.yaml"
"""File that every run has, and no export."""


class Files(NamedTuple):
    """Files that an exporter made.

    Attributes:
        content: Content of each file by its path below the output; the path of a format of one file is empty.
        notes: Remarks for the user, one line each.
    """

    content: Mapping[str, bytes]
    notes: tuple[str, ...] = ()


Make = Callable[[Model], Files]


class Exporter(NamedTuple):
    """A registered exporter. Its attributes are described in `register_exporter`."""

    name: str
    title: str
    output: str
    make: Make
    files: tuple[str, ...]

    @property
    def suffix(self) -> str:
        """Suffix of the output; empty if it is a folder."""
        return self.output[self.output.index(".") :] if "." in self.output else ""


_REGISTRY: Registry[Exporter] = Registry("exporter", "spml.export.formats", "spml.exporters")


def register_exporter(
    name: str,
    title: str,
    *,
    output: str,
    files: tuple[str, ...] = (),
) -> Callable[[Make], Make]:
    """Register the decorated function as the exporter of a format.

    The function takes a model. It writes nothing itself: it returns the content of the files, after it has
    checked that they compute what the model computes.

    A package of your own registers its exporters by being imported: name the module in the entry-point group
    `spml.exporters`.

    Args:
        name: Name of the format, unique.
        title: Noun phrase for messages, such as "an ONNX file".
        output: Name of the output where the user states none: with a suffix, or else of a folder.
        files: Names of all files that the output may hold, if it is a folder. Those that an export does not
            write are removed, as they are of an earlier one.

    Raises:
        ValueError: The name is registered already.
    """
    return _REGISTRY.add(name, lambda make: Exporter(name, title, output, make, files))


def exporters() -> dict[str, Exporter]:
    """All exporters by name, those of installed packages included."""
    return dict(sorted(_REGISTRY.all().items()))


def find_exporter(name: str) -> Exporter:
    """Return the exporter of a format.

    Raises:
        InputError: There is none of this name.
    """
    known = exporters()
    if name not in known:
        raise InputError(f"unknown format {name!r}. {nearest(name, known)}")
    return known[name]


def check_export(
    run: Path, form: str, output: Path | None = None, *, overwrite: bool = False
) -> tuple[Exporter, Path]:
    """Check, before long work, that a model can be exported.

    Args:
        run: Folder of the run; the other arguments are those of `write_export`.

    Returns:
        The exporter, and the file or folder to write.

    Raises:
        InputError: The format is unknown, or the output exists or can't be written.
    """
    exporter = find_exporter(form)
    if output is None:
        output = run / FOLDER / exporter.output
        check_folder(output.parent)
    if exporter.suffix and output.suffix != exporter.suffix:
        raise InputError(f"{output}: {exporter.title} needs a name that ends in {exporter.suffix}.")
    if not exporter.suffix:
        check_folder(output)
        if (output / _RUN).exists():
            raise InputError(f"{output}: holds a run, which would be replaced. Name another `output`.")
    elif output.parent != run / FOLDER or output.parent.is_dir():
        check_output(output)
    if not output.is_dir() or any(output.iterdir()):
        check_new(output, overwrite=overwrite)
    return exporter, output


def write_export(
    model: Model,
    form: str,
    output: Path | None = None,
    *,
    overwrite: bool = False,
) -> Path:
    """Export a model: make its files, check what they compute, and write them.

    Args:
        model: Trained model.
        form: Name of the format, such as `onnx`.
        output: File or folder to write; None = in the folder `export` of the run.
        overwrite: Whether to replace an output that exists.

    Returns:
        The file or folder that was written.

    Raises:
        InputError: As in `check_export`; or the format can't express a part of the model, which the message
            names; or a package is missing.
        SpmlError: The files compute something else than the model, or could not be written. A file that
            existed is untouched.
    """
    exporter, output = check_export(model.folder, form, output, overwrite=overwrite)
    files = exporter.make(model)
    for note in files.notes:
        log.info(note)
    make_folder(output.parent if exporter.suffix else output)
    with only_writer(output):
        check_export(model.folder, form, output, overwrite=overwrite)  # another may be done
        for name, content in files.content.items():
            write_bytes(output / name if name else output, content)
        for name in set(exporter.files) - set(files.content):
            (output / name).unlink(missing_ok=True)
    return output
