"""JSON Lines as tables: one object per line, whose keys are the columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from ...common.errors import InputError
from ...common.phrases import shorten
from ...common.safe import quote
from .delimited import read_lines
from .table import EXPECTED, MAX_COLUMNS, Block, Table

_ROWS = 1 << 12  # in a block
_FLAT = (str, int, float, type(None))


def open_json_lines(path: Path, file_column: str = "") -> Table:
    """Open a JSON Lines file, whose rows are its lines, counted from 1.

    Columns are the keys, on any line, whose values are mostly text, numbers, true, false or null, or lists of
    them; a note names the others.
    """
    columns: dict[str, bool] = {}
    nested: Counter[str] = Counter()
    for _, entry in _objects(path):
        for key, value in entry.items():
            if _is_cell(value, lists=True):
                columns[key] = columns.get(key, False) or isinstance(value, list)
                nested[key] -= value is not None
            else:
                nested[key] += 1
        if len(columns) > MAX_COLUMNS:
            raise InputError(f"{path}: its objects have more than {MAX_COLUMNS:,} keys. {EXPECTED}.")
    columns = {key: several for key, several in columns.items() if nested[key] <= 0}
    if not columns:
        raise InputError(f"{path}: no line holds an object with text, numbers or lists of them. {EXPECTED}.")
    left_out = shorten(key for key in nested if key not in columns)
    notes = (f"{path.name}: keys that hold objects are not read: {left_out}.",) if left_out else ()
    names = tuple(columns)
    scalar = frozenset(k for k, name in enumerate(names) if not columns[name])
    blocks = partial(_blocks, path, names, scalar)
    return Table(path, tuple(map(str.strip, names)), scalar, blocks, " (line of the file)", notes)


def _blocks(
    path: Path, names: Sequence[str], scalar: frozenset[int], columns: Sequence[int]
) -> Iterator[Block]:
    """Rows in blocks; a missing key is None."""
    objects = _objects(path)
    while block := list(islice(objects, _ROWS)):
        numbers, entries = zip(*block, strict=True)
        cells = [[entry.get(names[column]) for entry in entries] for column in columns]
        for column, values in zip(columns, cells, strict=True):
            for number, value in zip(numbers, values, strict=True):
                if not _is_cell(value, lists=column not in scalar):
                    lists = "" if column in scalar else ", or a list of them"
                    raise InputError(
                        f"{path}: line {number}: {quote(names[column])} is {quote(str(value))}, but must be"
                        f" text, a number, true, false or null{lists}, as on other lines."
                    )
        yield Block(numbers, cells)


def _objects(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Number and content of each line that is not blank."""
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


def _is_cell(value: object, *, lists: bool) -> bool:
    if lists and isinstance(value, list):
        return all(isinstance(entry, _FLAT) for entry in value)
    return isinstance(value, _FLAT)
