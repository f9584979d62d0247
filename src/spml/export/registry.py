"""Exporters by name: each turns a model into the files of a format. Adding one is one file and its test."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from ..common.errors import InputError, nearest
from ..common.plugins import import_plugins
from .model import Model

ENTRY_POINTS = "spml.exporters"
FLOAT32 = "float32"


class Files(NamedTuple):
    """What an exporter made.

    Attributes:
        content: Content of each file by its path below the output; the path of a format of one file is empty.
        notes: Remarks for the user, one line each.
    """

    content: Mapping[str, bytes]
    notes: tuple[str, ...] = ()


Make = Callable[[Model, str], Files]


class Exporter(NamedTuple):
    """A registered exporter.

    Attributes:
        name: Name of the format, as `spml export --format` takes it.
        title: Noun phrase for messages, such as "an ONNX file".
        output: Name of the output where the user states none: with a suffix, or else of a folder.
        make: Makes the files in memory, and checks what they compute.
        variants: Types of numbers that it can write, `float32` first.
        files: Names of all files that the output may hold, if it is a folder. Those that an export does not
            write are removed, as they are of an earlier one.
    """

    name: str
    title: str
    output: str
    make: Make
    variants: tuple[str, ...]
    files: tuple[str, ...] = ()

    @property
    def suffix(self) -> str:
        """Suffix of the output; empty if it is a folder."""
        return self.output[self.output.index(".") :] if "." in self.output else ""


_REGISTRY: dict[str, Exporter] = {}


def register_exporter(
    name: str,
    title: str,
    *,
    output: str,
    variants: tuple[str, ...] = (FLOAT32,),
    files: tuple[str, ...] = (),
) -> Callable[[Make], Make]:
    """Register the decorated function as the exporter of a format.

    The function takes a model and one of `variants`. It writes nothing itself: it returns the content of the
    files, after it has checked that they compute what the model computes.

    A package of your own registers its exporters by being imported: name the module in the entry-point group
    `spml.exporters`.

    Args:
        name: Name of the format, unique.
        title: Noun phrase for messages, such as "an ONNX file".
        output: Name of the output where the user states none: with a suffix, or else of a folder.
        variants: Types of numbers that it can write, `float32` first.
        files: Names of all files that the output may hold, if it is a folder.

    Raises:
        ValueError: The name is registered already.
    """

    def register(make: Make) -> Make:
        if name in _REGISTRY:
            raise ValueError(f"exporter {name!r} is registered twice")
        _REGISTRY[name] = Exporter(name, title, output, make, variants, files)
        return make

    return register


def exporters() -> dict[str, Exporter]:
    """All exporters by name, those of installed packages included."""
    import_plugins("spml.export.formats", ENTRY_POINTS)
    return dict(sorted(_REGISTRY.items()))


def find_exporter(name: str) -> Exporter:
    """Return the exporter of a format.

    Raises:
        InputError: There is none of this name.
    """
    known = exporters()
    if name not in known:
        raise InputError(f"unknown format {name!r}. {nearest(name, known)}")
    return known[name]
