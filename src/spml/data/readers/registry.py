"""Registered readers by name. A module in this folder registers its reader by being imported."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from ...common.documents import Outline, read_outline
from ...common.errors import InputError
from ...common.plugins import Registry
from ...config import DataConfig
from ..records import Records


@dataclass(frozen=True)
class Source:
    """File or folder to read. Its properties are computed once, however many readers look at them.

    Attributes:
        path: Path of the file or folder, which exists.
    """

    path: Path

    @cached_property
    def is_folder(self) -> bool:
        """Whether `path` is a folder."""
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

    @cached_property
    def start(self) -> bytes:
        """First 4,096 bytes of a file; empty for a folder, and if the file can't be read."""
        with suppress(OSError), open(self.path, "rb") as stream:
            return stream.read(4096)
        return b""


Read = Callable[[Path, DataConfig], Records]


class Reader(NamedTuple):
    """A registered reader: the arguments of `register_reader`, and the decorated function `read`."""

    name: str
    title: str
    recognises: Callable[[Source], bool]
    read: Read
    priority: int


_REGISTRY: Registry[Reader] = Registry("reader", "spml.data.readers", "spml.readers")


def register_reader(
    name: str, title: str, *, recognises: Callable[[Source], bool], priority: int = 0
) -> Callable[[Read], Read]:
    """Register the decorated function as the reader of a format.

    The function takes the path and the settings of the data, and returns `Records`. For a mistake in the
    file it raises `spml.InputError`, whose message is shown to the user. `find_files` looks up the
    images that a file names, and raises this error if one is missing or outside the folder.

    `examples/your_own_reader.py` is complete. A reader in a package of your own is found once the package is
    installed, if its metadata names the module of the reader in the entry-point group `spml.readers`.

    Args:
        name: Unique name.
        title: Noun phrase for messages, such as "COCO JSON".
        recognises: Function that says whether a source is of this format. It should be quick, as it may be
            called for every source.
        priority: Readers with a higher priority are tried first. Those of `spml` have -1 to 2, and a fallback
            such as the reader of any folder has -1.

    Raises:
        ValueError: Another module has registered a reader of this name.
    """
    return _REGISTRY.add(name, lambda read: Reader(name, title, recognises, read, priority))


def readers() -> dict[str, Reader]:
    """Registered readers by name, those of installed packages included, in the order of their priority."""
    return dict(sorted(_REGISTRY.all().items(), key=lambda item: -item[1].priority))


def find_reader(source: Source) -> Reader | None:
    """First reader that recognises a source; None if there is none.

    Raises:
        InputError: A reader recognises the source as damaged.
    """
    for reader in readers().values():
        try:
            if reader.recognises(source):
                return reader
        except InputError:
            raise
        except Exception as error:  # a broken reader of another package must not stop the others
            warnings.warn(f"reader {reader.name!r} is left out: it raised {error!r}", stacklevel=2)
    return None
