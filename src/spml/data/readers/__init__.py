"""Readers, one file per input format. Each returns `Records`, and raises an `InputError` that names file and
row, or the field, for whatever is wrong in the data.

To add a format, decorate a function with `register_reader`, whose docstring has an example.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import NamedTuple

from ...common.documents import Outline, read_outline
from ...common.errors import InputError, nearest
from ...common.plugins import Registry
from ...common.safe import CONTROL, check_readable, is_special, quote
from ...config import DataConfig
from ..files import find_files
from ..records import MEMORY, Records, select
from ..rename import read_as_stated
from ..tables.formats import SUFFIXES
from ..tables.rows import read_table
from .digits import make_digits


@dataclass(frozen=True)
class Source:
    """File or folder to read. Its properties are computed once, however many readers look at them."""

    path: Path  # which exists

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
        """Top-level keys of a JSON file, read without its values."""
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


register_reader("table", "a table", recognises=lambda source: source.suffix in SUFFIXES, priority=-1)(
    read_table
)


def readers() -> dict[str, Reader]:
    """Registered readers by name, those of installed packages included, in the order of their priority."""
    return dict(sorted(_REGISTRY.all().items(), key=lambda item: -item[1].priority))


def find_reader(source: Source) -> Reader | None:
    """First reader that recognises a source; None if there is none."""
    for reader in readers().values():
        try:
            if reader.recognises(source):
                return reader
        except InputError:
            raise
        except Exception as error:  # a broken reader of another package must not stop the others
            warnings.warn(f"reader {reader.name!r} is left out: it raised {error!r}", stacklevel=2)
    return None


def read(config: DataConfig) -> Records:
    """Read `config.path` with the reader that recognises it. The first note names the format.

    Classes are renamed, the split is ignored, and rows and classes are drawn, as `config` says. The path
    `digits` always stands for the embedded data; a folder of that name is `./digits`.

    Raises:
        InputError: The path does not exist or can't be read, no reader recognises it, or its content has a
            mistake.
    """
    from .keywords import read_keywords
    from .not_read import not_read, recognise
    from .unlabelled import read_unlabelled

    if config.path == "digits" and not config.classes:
        return select(read_as_stated(lambda _: make_digits(), config), config)
    if config.path == MEMORY:
        raise InputError(
            f"{MEMORY}: it was passed to spml.train in Python and is in no file. Name a file or folder that "
            "holds it; or pass it again, in Python."
        )
    source = Source(existing(config.path))
    check_readable(source.path)
    if config.classes or config.keywords:
        of_path = partial(read_unlabelled if config.classes else read_keywords, source.path)
        return select(read_as_stated(of_path, config), config)
    reader = find_reader(source)
    if reader is None or (reader.name == "table" and recognise(source)):
        raise not_read(source)
    if config.text and reader.name != "table":
        raise InputError(
            f"{source.path}: data.text={config.text} names columns of a table, but this is {reader.title}. "
            "Leave it out, or give a CSV, TSV, JSON Lines or Parquet file."
        )
    records = read_as_stated(partial(reader.read, source.path), config)
    note = f"{source.path.name or source.path} was read as {reader.title}."
    return select(replace(records, notes=(note, *records.notes)), config)


def existing(text: str) -> Path:
    """Convert to the path of a file or folder that exists."""
    if not text:
        raise InputError("No data given. Pass data.path with a folder, a .csv or .npz file, or `digits`.")
    path = Path(text)
    try:
        special, exists = is_special(path), path.exists()
        above = path.parent
        siblings = [] if exists or not above.is_dir() else [entry.name for entry in above.iterdir()]
    except (OSError, ValueError) as error:
        raise InputError(
            f"{quote(text)}: can't be opened: {getattr(error, 'strerror', '') or error}."
        ) from error
    if special:
        raise InputError(f"{text}: is a device or a pipe, but must be a file or a folder.")
    if exists and CONTROL.search(text):
        raise InputError(f"{quote(text)}: the name holds a control character. Rename it.")
    if exists:
        return path
    hint = "" if above.is_dir() else f"There is no folder {above} either."
    hint = nearest(path.name, siblings) if siblings else hint
    if {*"*?"} & {*path.name}:
        hint = "Write a pattern without quotes, so that the shell lists the files; or name the folder."
    raise InputError(f"{text}: no such file or folder. {hint}".rstrip())


__all__ = ["Reader", "Records", "Source", "existing", "find_files", "read", "readers", "register_reader"]
