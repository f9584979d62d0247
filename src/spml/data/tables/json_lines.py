"""JSON Lines as tables: one object per line, whose keys are the columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from ...errors import InputError
from ..safe import quote
from .delimited import read_lines
from .table import EXPECTED, MAX_COLUMNS, Block, Table

_ROWS = 1 << 12  # in a block
_PEEK = 1000  # lines in which columns are looked for


def open_json_lines(path: Path, file_column: str = "") -> Table:
    """Open a JSON Lines file, whose rows are its lines, counted from 1.

    Columns are the keys of the first 1,000 objects whose values are text, numbers, true, false or null, or
    lists of them.

    Args:
        path: File to open.
        file_column: Not used; the names of the columns follow from the file.

    Raises:
        InputError: A line is not a JSON object, or no key has such a value.
    """
    columns: dict[str, bool] = {}
    for _, entry in islice(_objects(path), _PEEK):
        for key, value in entry.items():
            if _is_flat(value) or (isinstance(value, list) and all(map(_is_flat, value))):
                columns[key] = columns.get(key, False) or isinstance(value, list)
    if not columns or len(columns) > MAX_COLUMNS:
        raise InputError(f"{path}: no line holds an object with text, numbers or lists of them. {EXPECTED}.")
    names = tuple(columns)
    scalar = frozenset(k for k, name in enumerate(names) if not columns[name])
    blocks = partial(_blocks, path, names)
    return Table(path, tuple(name.strip() for name in names), scalar, blocks, counted=" (line of the file)")


def _blocks(path: Path, names: Sequence[str], columns: Sequence[int]) -> Iterator[Block]:
    objects = _objects(path)
    keys = [names[column] for column in columns]
    while block := list(islice(objects, _ROWS)):
        numbers, entries = zip(*block, strict=True)
        yield Block(numbers, [[entry.get(key) for entry in entries] for key in keys])


def _objects(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Number and content of each line that is not blank.

    Raises:
        InputError: A line is not a JSON object.
    """
    decoder = msgspec.json.Decoder(dict[str, Any])
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip():
            continue
        try:
            yield number, decoder.decode(line)
        except (msgspec.DecodeError, RecursionError) as error:
            raise InputError(
                f"{path}: line {number} is not a JSON object: {error}; found {quote(line.strip())}. Expected"
                " one object per line, with the keys `file` and `label`."
            ) from error


def _is_flat(value: object) -> bool:
    return value is None or isinstance(value, (str, int, float))
