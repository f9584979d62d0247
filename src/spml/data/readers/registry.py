"""Readers by name: each says which files it recognises and reads them. Adding one is one file."""

from __future__ import annotations

import importlib
import pkgutil
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.metadata import entry_points
from pathlib import Path
from typing import NamedTuple

from ...config import DataConfig
from ..records import Records
from .documents import Outline, read_outline

ENTRY_POINTS = "spml.readers"


@dataclass(frozen=True)
class Source:
    """What the user named: a file or a folder, looked at once however many readers ask.

    Attributes:
        path: Path of the file or folder, which exists.
    """

    path: Path

    @cached_property
    def is_folder(self) -> bool:
        """Whether it is a folder."""
        return self.path.is_dir()

    @property
    def suffix(self) -> str:
        """Suffix of a file in lower case, such as `.csv`; empty for a folder."""
        return "" if self.is_folder else self.path.suffix.lower()

    @cached_property
    def outline(self) -> Outline:
        """Top-level keys of a JSON file, read without its values.

        Raises:
            InputError: The file is not valid JSON, or too large.
        """
        return read_outline(self.path)


Read = Callable[[Path, DataConfig], Records]


class Reader(NamedTuple):
    """A registered reader.

    Attributes:
        name: Unique name.
        title: Noun phrase for messages, such as "COCO JSON".
        recognises: Whether a source is of this format. Called often, so it should be cheap.
        read: Reads a path that was recognised.
        priority: Readers with a higher priority are asked first.
    """

    name: str
    title: str
    recognises: Callable[[Source], bool]
    read: Read
    priority: int


_REGISTRY: dict[str, Reader] = {}


def register_reader(
    name: str, title: str, *, recognises: Callable[[Source], bool], priority: int = 0
) -> Callable[[Read], Read]:
    """Register the decorated function as the reader of a format.

    A package of your own registers its readers by being imported: name the module in the entry-point group
    `spml.readers`.

    Args:
        name: Unique name.
        title: Noun phrase for messages, such as "COCO JSON".
        recognises: Whether a source is of this format.
        priority: Readers with a higher priority are asked first; a fallback has one below 0.

    Raises:
        ValueError: Another reader has this name.
    """

    def add(read: Read) -> Read:
        known = _REGISTRY.get(name)
        if known is not None and known.read.__module__ != read.__module__:
            raise ValueError(f"reader {name!r} is already registered by {known.read.__module__}")
        _REGISTRY[name] = Reader(name, title, recognises, read, priority)
        return read

    return add


def readers() -> dict[str, Reader]:
    """All registered readers by name, in the order in which they are asked."""
    _import_all()
    return {reader.name: reader for reader in sorted(_REGISTRY.values(), key=lambda one: -one.priority)}


def find_reader(source: Source) -> Reader | None:
    """The first reader that recognises the source, or None."""
    return next((reader for reader in readers().values() if reader.recognises(source)), None)


@cache
def _import_all() -> None:
    package = __package__
    for module in pkgutil.iter_modules(importlib.import_module(package).__path__):
        importlib.import_module(f"{package}.{module.name}")
    for point in entry_points(group=ENTRY_POINTS):
        try:
            point.load()
        except Exception as error:  # whatever a foreign package raises must not stop the program
            warnings.warn(f"{ENTRY_POINTS}: {point.value} can't be imported ({error})", stacklevel=2)
