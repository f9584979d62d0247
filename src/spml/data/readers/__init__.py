"""Readers, one file per input format. Each returns `Records`.

To add a format, decorate a function with `register_reader`, whose docstring has an example.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

from ...common.errors import InputError, nearest
from ...common.safe import CONTROL, check_readable, is_special, quote
from ...config import DataConfig
from ..files.places import find_files
from ..records import MEMORY, Records, select
from ..rename import read_as_stated
from .digits import make_digits
from .not_read import not_read
from .registry import Reader, Source, find_reader, readers, register_reader
from .sources import is_sources, read_sources


def read(config: DataConfig) -> Records:
    """Read `config.path` with the reader that recognises it. The first note names the format.

    Classes are renamed, the split is ignored, and rows and classes are drawn, as `config` says.

    The path `digits` always stands for the embedded data; a folder of that name is `./digits`.

    Raises:
        InputError: The path does not exist or can't be read, no reader recognises it, or its content has a
            mistake.
    """
    if config.path == "digits":
        return select(read_as_stated(lambda _: make_digits(), config), config)
    if config.path == MEMORY:
        raise InputError(
            f"{MEMORY}: it was passed to spml.train in Python and is in no file. Name a file or folder that "
            "holds it; or pass it again, in Python."
        )
    source = Source(existing(config.path))
    check_readable(source.path)
    if is_sources(source.path):
        return select(read_sources(source.path, config, read), config)
    reader = find_reader(source)
    if reader is None:
        raise not_read(source)
    if config.checked_column and reader.name != "table":
        raise InputError(
            f"{source.path}: --data.unlisted {config.unlisted} names a column of a table, but this is "
            f"{reader.title}. Use unknown, negative or negative:CLASS,CLASS."
        )
    records = read_as_stated(partial(reader.read, source.path), config)
    note = f"{source.path.name or source.path} was read as {reader.title}."
    return select(replace(records, notes=(note, *records.notes)), config)


def existing(text: str) -> Path:
    """Convert to the path of a file or folder that exists.

    Raises:
        InputError: The path does not exist, in which case the message suggests the nearest name; it holds a
            control character, or is a device or a pipe, which may never end.
    """
    if not text:
        raise InputError("No data given. Pass --data.path with a folder, a .csv or .npz file, or `digits`.")
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
    hint = nearest(path.name, siblings) if siblings else f"There is no folder {path.parent} either."
    raise InputError(f"{text}: no such file or folder. {hint}")


__all__ = ["Reader", "Records", "Source", "existing", "find_files", "read", "readers", "register_reader"]
