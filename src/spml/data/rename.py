"""Wanted names of classes, read from a file and put into records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ..common.documents import class_name
from ..common.errors import InputError, nearest
from ..common.files import write_rows
from ..common.label_checks import rows_of
from ..common.phrases import counted, first_few
from ..common.safe import check_readable, quote
from ..config import DataConfig
from .records import Records, move_classes
from .tables.formats import DELIMITERS, read_header, read_rows

NOTE = "data.rename: "
"""Start of the notes on names that were changed."""

HEADER = ("given", "wanted")


def read_as_stated(
    read: Callable[[DataConfig], Records], config: DataConfig, named: Sequence[str] = ()
) -> Records:
    """Read data and give its classes their wanted names.

    Data that lists just the classes `named`, those of a run, which have their wanted names, is not renamed.
    """
    config = replace(config, rename=wanted_names(config))
    records = read(config)
    has_names = records.classes_given and records.classes == tuple(named)
    return records if has_names else rename_classes(records, config)


def write_names(path: Path, names: Mapping[str, str]) -> None:
    """Write a CSV file of given and wanted names, which `read_names` reads, completely or not at all."""
    write_rows(path, HEADER, names.items())


def wanted_names(config: DataConfig) -> dict[str, str]:
    """Wanted names by given ones, as `config.rename` or the file that it names has them; empty = left out."""
    if isinstance(config.rename, str):
        return read_names(Path(config.rename)) if config.rename else {}
    for given, wanted in config.rename.items():
        if not isinstance(given, str) or not isinstance(wanted, str):
            raise InputError(f"data.rename: names must be text, got {given!r}: {wanted!r}.")
    return {
        given: class_name(wanted, "data.rename") if wanted.strip() else ""
        for given, wanted in config.rename.items()
    }


def read_names(path: Path) -> dict[str, str]:
    """Read a CSV or TSV file of given and wanted names. A first row `given,wanted` is a header."""
    check_readable(path)
    delimiter = next((mark for mark in DELIMITERS if len(read_header(path, mark)) == 2), ",")
    names: dict[str, tuple[str, int]] = {}
    for position, (number, cells) in enumerate(read_rows(path, delimiter)):
        where = f"{path}: row {number}"
        if len(cells) != 2:
            raise InputError(
                f"{where} has {counted(len(cells), 'cell')}, but must have two: a given and a wanted class "
                f"name, separated by {DELIMITERS[delimiter]}. Put a name that contains the separator in "
                'quotes, such as "cat, dog".'
            )
        given, wanted = cells[0], cells[1].strip()
        if not position and (given.strip().casefold(), wanted.casefold()) == HEADER:
            continue
        if not given.strip():
            raise InputError(f"{where}: the given name, in the first column, is empty. Fill it in.")
        if wanted:
            wanted = class_name(wanted, where)
        earlier, row = names.setdefault(given, (wanted, number))
        if earlier != wanted:
            raise InputError(
                f"{path}: rows {row} and {number} have different wanted names for {quote(given)}: "
                f"{quote(earlier)} and {quote(wanted)}. Remove one of them."
            )
    if not names:
        raise InputError(f"{path}: has no names. Expected rows of a given and a wanted class name.")
    return {given: wanted for given, (wanted, _) in names.items()}


def rename_classes(records: Records, config: DataConfig) -> Records:
    """Give classes their wanted names, merge those with the same one, and leave out those with an empty one.

    A sample has a merged class if it has one of its parts, and lacks it if it is known to lack a part and has
    none. Every name is looked up once: with a to b and b to c, a becomes b. Classes that were sorted stay so,
    and others have the place of their first part.
    """
    stated = wanted_names(config)
    if not stated:
        return records
    # Cells have no blanks around them, so neither has a name to be found there.
    names = {given.strip(): wanted for given, wanted in stated.items()} | stated
    wanted = [names.get(name, name) for name in records.classes]
    classes = tuple(dict.fromkeys(filter(None, wanted)))
    if not classes:
        raise InputError(f"{records.source}: data.rename leaves out every class.")
    if not records.classes_given and list(records.classes) == sorted(records.classes):
        classes = tuple(sorted(classes))
    moved = move_classes(records, rows_of(classes, wanted), classes)
    return replace(moved, notes=(*records.notes, *_notes(records, wanted, stated)))


def _notes(records: Records, wanted: Sequence[str], stated: Mapping[str, str]) -> list[str]:
    """What was renamed and left out, and which given names have no effect."""
    pairs = [(given, name) for given, name in zip(records.classes, wanted, strict=True) if given != name]
    renamed = [f"{quote(given)} is {quote(name)}" for given, name in pairs if name]
    left_out = [quote(given) for given, name in pairs if not name]
    notes = []
    if renamed:
        before, after = len(records.classes) - len(left_out), len({*wanted} - {""})
        merged = f"; {before:,} classes became {after:,}" if after < before else ""
        notes.append(f"{NOTE}{counted(len(renamed), 'class name')} changed: {first_few(renamed, 5)}{merged}.")
    if left_out:
        entries = records.labels.positives_per_class()[[not name for name in wanted]].sum()
        notes.append(
            f"{NOTE}{counted(len(left_out), 'class', 'classes')} left out with "
            f"{counted(int(entries), 'label')}: {first_few(left_out, 5)}."
        )
    if unused := [given for given in stated if not {given, given.strip()} & {*records.classes}]:
        notes.append(
            f"Given names of data.rename that do not occur in {records.name}: "
            f"{first_few([*map(quote, unused)], 3)}. {nearest(unused[0], records.classes)}"
        )
    return notes
