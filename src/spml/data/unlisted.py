"""The meaning of unlisted labels where it differs between classes."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from ..config import DataConfig
from ..errors import InputError, nearest
from ..labels import ObservedLabels
from .join import merge_rows
from .phrases import counted, shorten
from .records import Records
from .rename import wanted_names

NEGATIVE = "negative:"
"""Start of `data.unlisted` that names classes."""


def read_as_stated(read: Callable[[DataConfig], Records], config: DataConfig) -> Records:
    """Read data with wanted names of classes, and settle what an unlisted label means.

    With `negative:CLASS,CLASS` the data is read twice: these classes are as with `negative`, all others as
    with `unknown`.

    Args:
        read: Function that reads the data and renames its classes.
        config: Settings of the data.

    Raises:
        InputError: The data has a mistake, or `config` names a class that it does not have.
    """
    config = replace(config, rename=wanted_names(config))
    if not config.unlisted.startswith(NEGATIVE):
        return read(config)
    records, negative = (read(replace(config, unlisted=unlisted)) for unlisted in ("unknown", "negative"))
    return with_negatives(records, negative, named_classes(config.unlisted))


def named_classes(unlisted: str) -> list[str]:
    """Classes that `negative:CLASS,CLASS` names, in which a name with a comma is in quotes."""
    (cells,) = csv.reader([" ".join(unlisted.removeprefix(NEGATIVE).splitlines())], skipinitialspace=True)
    return [name for cell in cells if (name := cell.strip())]


def with_negatives(records: Records, negative: Records, names: Sequence[str]) -> Records:
    """Records in which some classes have the labels of other records of the same samples."""
    position = {name: column for column, name in enumerate(records.classes)}
    for name in names:
        if name not in position:
            raise InputError(
                f"{records.source}: --data.unlisted names the class {name!r}, which the data does not have. "
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
