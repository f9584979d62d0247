"""What a sample holds besides a picture: columns of a table, or named features."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..common.errors import InputError
from ..common.phrases import counted, shorten
from ..common.safe import quote
from ..data.matrix import CHUNK, FeatureMatrix
from ..data.records import Records
from ..data.tables.read import open_table
from ..data.tables.table import text

MOST_FEATURES = 30
"""Features of a sample that are shown."""
MOST_CHARACTERS = 5_000
"""Length at which the cell of a table is cut."""
_SAMPLED = 1_000  # rows that tell what is usual for a feature

Content = list[tuple[str, str]]
"""Pairs of a name and a value, in the order in which they are shown."""


class Contents:
    """Columns and features of the samples of a data set.

    Args:
        records: The data.
        table: CSV, TSV or Parquet file; its first column holds names of samples, the others are shown.
        samples: Samples that can be asked for. The rest of the table is not kept.

    Raises:
        InputError: The table can't be read, has no column to show, names a sample twice or lacks one of
            `samples`.
    """

    def __init__(self, records: Records, table: Path | None, samples: Collection[int]) -> None:
        self._rows = {} if table is None else _read(table, {records.ids[sample] for sample in samples})
        self._ids = records.ids
        named = isinstance(records.inputs, FeatureMatrix) and records.feature_names
        self._features = _Features(records.inputs, records.feature_names) if named else None

    @property
    def available(self) -> bool:
        """Whether there is anything to show."""
        return bool(self._rows) or self._features is not None

    def of(self, sample: int) -> Content:
        """Columns of a sample, then its features that differ most from what is usual."""
        features = [] if self._features is None else self._features.of(sample)
        return self._rows.get(self._ids[sample], []) + features


class _Features:
    """Features that are not zero, ordered by how many standard deviations they lie from their mean."""

    def __init__(self, matrix: Any, names: tuple[str, ...]) -> None:
        self._matrix, self._names = matrix, names
        count = min(len(matrix), _SAMPLED, max(2, CHUNK // matrix.width))
        some = matrix.dense(np.linspace(0, len(matrix) - 1, count).astype(np.int64)).astype(np.float64)
        self._mean, spread = some.mean(0), some.std(0)
        self._spread: npt.NDArray[np.float64] = np.where(spread > 0, spread, 1)

    def of(self, sample: int) -> Content:
        values = self._matrix.dense(np.array([sample]))[0]
        distance = np.abs((values - self._mean) / self._spread)
        held = np.flatnonzero(values)
        chosen = held[np.argsort(-distance[held], kind="stable")[:MOST_FEATURES]]
        return [(self._names[column], f"{values[column]:.4g}") for column in chosen]


def _read(path: Path, wanted: set[str]) -> dict[str, Content]:
    """Columns of the wanted samples."""
    if not path.is_file():
        raise InputError(f"{path}: no such file. Pass a CSV, TSV or Parquet file as --rows.")
    table = open_table(path)
    names = table.names
    if len(names) < 2:
        raise InputError(
            f"{path}: has only the column {shorten(names)}. Expected names of samples in the first column, "
            "and further ones to show."
        )
    found: dict[str, Content] = {}
    first: dict[str, int] = {}
    for number, (name, *cells) in table.rows(range(len(names))):
        sample = text(name)
        if sample not in wanted:
            continue
        if sample in found:
            raise InputError(f"{table.where(first[sample], number)}: both are {quote(sample)}. Remove one.")
        pairs = zip(names[1:], map(_cut, map(text, cells)), strict=True)
        found[sample], first[sample] = [(key, value) for key, value in pairs if value], number
    if lost := sorted(wanted - found.keys()):
        missed = f"{counted(len(lost), 'sample')} of the list, such as {quote(lost[0])}"
        raise InputError(
            f"{path}: has no row for {missed}. The first column, {quote(names[0])}, must hold the names that "
            "the samples have in the data."
        )
    return found


def _cut(value: str) -> str:
    return value if len(value) <= MOST_CHARACTERS else value[:MOST_CHARACTERS] + " …"
