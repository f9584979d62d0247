"""Settings on classes: wanted names, read from a file and put into records, and what an unlisted label means
where it differs between classes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from ..common.documents import class_name
from ..common.errors import InputError, nearest
from ..common.files import write_rows
from ..common.label_checks import rows_of
from ..common.phrases import counted, first_few, shorten
from ..common.safe import check_readable, quote
from ..config import DataConfig
from ..labels import ObservedLabels
from .join import merge_rows
from .records import Records, move_classes
from .tables.formats import DELIMITERS, read_header, read_rows
from .tables.names import listed_names

NOTE = "data.rename: "
"""Start of the notes on names that were changed."""

UNUSED = "Given names of data.rename that do not occur in"
"""Start of the note on names without effect."""

HEADER = ("given", "wanted")

NEGATIVE = "negative:"
"""Start of `data.unlisted` that names classes."""


def read_as_stated(
    read: Callable[[DataConfig], Records],
    config: DataConfig,
    named: Sequence[str] = (),
    *,
    may_lack: bool = False,
) -> Records:
    """Read data, give its classes their wanted names, and settle what an unlisted label means.

    With `negative:CLASS,CLASS` the data is read twice: these classes are as with `negative`, all others as
    with `unknown`; with `may_lack`, those that the data does not have are negative, too. Data that lists just
    the classes `named`, those of a run, which have their wanted names, is not renamed.
    """
    config = replace(config, rename=wanted_names(config))

    def renamed(unlisted: str) -> Records:
        own = replace(config, unlisted=unlisted)
        records = read(own)
        has_names = records.classes_given and records.classes == tuple(named)
        return records if has_names else rename_classes(records, own)

    if not config.unlisted.startswith(NEGATIVE):
        return renamed(config.unlisted)
    names = named_classes(config.unlisted)
    return with_negatives(renamed("unknown"), renamed("negative"), names, may_lack=may_lack)


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


def named_classes(unlisted: str) -> list[str]:
    """Classes that `negative:CLASS,CLASS` names, in which a name with a comma is in quotes."""
    return listed_names(unlisted.removeprefix(NEGATIVE))


def with_negatives(records: Records, negative: Records, names: Sequence[str], *, may_lack: bool) -> Records:
    """Records in which some classes have the labels of other records of the same samples."""
    if may_lack:
        classes = tuple(dict.fromkeys((*records.classes, *names)))
        own = np.arange(len(records.classes))
        records, negative = (move_classes(each, own, classes) for each in (records, negative))
    position = {name: column for column, name in enumerate(records.classes)}
    for name in names:
        if name not in position:
            raise InputError(
                f"{records.source}: data.unlisted names the class {name!r}, which the data does not have. "
                f"{nearest(name, records.classes)}"
            )
    columns = sorted({position[name] for name in names})
    # A reader may leave out samples about which it would say that nothing applies.
    row_of = {name: row for row, name in enumerate(records.ids)}
    rows = np.array([*range(len(records.ids)), *(row_of[name] for name in negative.ids)], np.int64)
    stated = ObservedLabels.from_csr(negative.labels.take_classes(columns).to_csr())
    both = ObservedLabels.join([records.labels, stated.with_classes(columns, len(position))])
    labels, _ = merge_rows(both, rows)
    others = counted(len(records.classes) - len(columns), "other class", "other classes")
    note = (
        "A label that is not listed means absent for "
        f"{shorten(records.classes[column] for column in columns)}, and unknown for {others}."
    )
    return replace(records, labels=labels, notes=(*records.notes, note))


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
            f"{UNUSED} {records.name}: {first_few([quote(name) for name in unused], 3)}. "
            f"{nearest(unused[0], records.classes)}"
        )
    return notes
