"""Table of images, in CSV, TSV or Parquet: a column `file`, its labels, and perhaps a column `split`.

Labels are in a column `label` (one class name), in a column `labels` (several), or there is one column per
class (`wide`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from ...config import DataConfig
from ...errors import InputError
from ...labels import ObservedLabels
from ..records import Records
from ..safe import shown
from .delimited import EXPECTED, Table, open_delimited, shorten
from .documents import class_name
from .listed import ListedFiles, text
from .parquet import open_parquet
from .places import images_folder
from .registry import register_reader
from .wide import read_wide

SEPARATORS = {";": "semicolons", "|": "bars", ",": "commas", " ": "spaces"}
_KNOWN = ("file", "label", "labels", "split")


class _Row(NamedTuple):
    number: int
    place: int  # of its file
    cell: str | list[str]  # a list if the file has lists


SUFFIXES = (".csv", ".tsv", ".parquet")


@register_reader("table", "a table", recognises=lambda source: source.suffix in SUFFIXES, priority=-1)
def read_table(path: Path, config: DataConfig) -> Records:
    """Read a CSV, TSV or Parquet file; files are looked up relative to its folder, or `config.images`.

    `label` holds one class name, `labels` several: in Parquet as a list, otherwise separated as
    `recognise_separator` says unless `config.separator` states it. What the rows of one file say is put
    together.

    Raises:
        InputError: anything that can't be understood; names the row.
    """
    table: Table = open_parquet(path) if path.suffix.lower() == ".parquet" else open_delimited(path)
    positions = _positions(path, table)
    files = ListedFiles(path, images_folder(config), table.counted)
    column = next((name for name in ("label", "labels") if name in positions), None)
    if column:
        rows = list(_rows(path, table, positions, files, column))
        names, notes = _names(path, rows, files, column, config)
        classes = tuple(sorted({name for some in names for name in some}))
        for name in classes:
            class_name(name, str(path))
        if not classes:
            raise InputError(f"{path}: no row has a label. At least some must have one.")
        labels = ObservedLabels.from_names(names, classes, unlisted=config.unlisted)
        unused = tuple(name for place, name in enumerate(table.names) if place not in positions.values())
    else:
        classes, labels, unused, notes = read_wide(path, table, positions, files, config.unlisted)
    inputs, split, repeated = files.finish()
    if unused:
        notes = (f"{path.name}: columns that are not used: {shorten(unused)}.", *notes)
    return Records(
        source=str(path),
        name=path.stem if path.stem != "labels" else path.resolve().parent.name,
        ids=tuple(files.names),
        inputs=inputs,
        classes=classes,
        classes_given=column is None,
        labels=labels,
        split=split,
        notes=(*table.notes, *notes, *repeated),
    )


def recognise_separator(cells: Sequence[str], source: str) -> str:
    """What separates labels in cells such as "cat;dog"; empty if no cell holds more than one word.

    One of `;`, `|` and `,` if exactly one of them occurs. A space only where words recombine, since a class
    name may contain one: two thirds of the words of cells with several words must also occur in other cells.

    Raises:
        InputError: several of them occur, or it can't be told whether spaces separate labels.
    """
    found = [mark for mark in (";", "|", ",") if any(mark in cell for cell in cells)]
    if len(found) > 1:
        example = next(cell for cell in cells if found[0] in cell)
        raise InputError(
            f"{source}: labels contain {' and '.join(repr(mark) for mark in found)} (for example "
            f"{shown(example)}), so it can't be told which one separates them. State it: --data.separator "
            f"'{found[0]}'."
        )
    if found:
        return found[0]
    distinct = {tuple(cell.split()) for cell in cells}
    uses = Counter(word for words in distinct for word in set(words))
    compound = {word for words in distinct if len(words) > 1 for word in words}
    if not compound:
        return ""
    if sum(uses[word] > 1 for word in compound) * 3 >= len(compound) * 2:
        return " "
    example = next(cell for cell in cells if len(cell.split()) > 1)
    raise InputError(
        f"{source}: it can't be told whether {shown(example)} is one label or several separated by spaces. "
        "If spaces separate labels, say --data.separator ' '; if every row has one label, call the column "
        "`label`; otherwise separate labels by ';'."
    )


def _positions(path: Path, table: Table) -> dict[str, int]:
    """Where `file`, `label` or `labels`, and `split` are."""
    named = [name for name in table.names if name]
    lower = [name.lower() for name in table.names]
    positions = {name: lower.index(name) for name in _KNOWN if name in lower}
    twice = [name for name, count in Counter(named).items() if count > 1]
    twice += [name for name in positions if lower.count(name) > 1]
    if twice or {"label", "labels"} <= set(positions):
        raise InputError(
            f"{path}: the header names a column twice: {shorten(twice or ('label', 'labels'))}. {EXPECTED}."
        )
    return positions


def _rows(
    path: Path, table: Table, positions: Mapping[str, int], files: ListedFiles, column: str
) -> Iterator[_Row]:
    keys = ["file", column, *(("split",) if "split" in positions else ())]
    for number, cells in table.rows([positions[key] for key in keys]):
        cell = cells[1]
        place = files.add(number, cells[0], cells[2] if len(keys) == 3 else ())
        yield _Row(number, place, [text(name) for name in cell] if isinstance(cell, list) else text(cell))


def _names(
    path: Path, rows: Sequence[_Row], files: ListedFiles, column: str, config: DataConfig
) -> tuple[list[tuple[str, ...]], tuple[str, ...]]:
    """The class names of each file, and notes."""
    cells = [row.cell for row in rows if isinstance(row.cell, str) and row.cell]
    separator = ""
    notes: tuple[str, ...] = ()
    if column == "labels":
        separator = config.separator or recognise_separator(cells, str(path))
        if separator and cells:
            name = SEPARATORS.get(separator, repr(separator))
            how = "stated" if config.separator else "recognised"
            notes = (f"{path.name}: labels are separated by {name} ({how}).",)
    elif mixed := next((cell for cell in cells if re.search("[;|]", cell)), ""):
        notes = (
            f"{path.name}: the column is `label`, so {shown(mixed)} is one class name; call the column "
            "`labels` if it holds several.",
        )
    found: list[tuple[str, ...]] = [()] * len(files.names)
    seen = [False] * len(found)
    for row in rows:
        names = _split(files.where(row.number), row.cell, separator)
        if not names and config.unlisted == "unknown":
            raise InputError(
                f"{files.where(row.number)}: {shown(files.names[row.place])} has no label, so nothing is "
                "known about it. Remove the row, give it a label, or, if every true label is listed in this "
                "file, say --data.unlisted negative."
            )
        before = found[row.place]
        if (
            seen[row.place]
            and column == "labels"
            and config.unlisted == "negative"
            and set(before) != set(names)
        ):
            raise InputError(
                f"{files.both(row.place, row.number)} both name {shown(files.names[row.place])}, with "
                "different labels, but data.unlisted=negative says that each row lists all. Write one row: "
                f"{';'.join(dict.fromkeys(before + names))[:200]}"
            )
        found[row.place] = tuple(dict.fromkeys(before + names)) if before else names
        seen[row.place] = True
    return found, notes


def _split(where: str, cell: str | list[str], separator: str) -> tuple[str, ...]:
    if isinstance(cell, list):
        names = tuple(cell)
        wrong = "an empty entry"
    elif separator and cell:
        names = tuple(part.strip() for part in (cell.split() if separator == " " else cell.split(separator)))
        wrong = f"an empty label between separators {separator!r}"
    else:
        return (cell,) if cell else ()
    if not all(names):
        raise InputError(f"{where}: {shown(cell)} has {wrong}. Remove it.")
    return names
