"""The order in which samples are shown: by rank, with random checks mixed in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..audit.folder import MISSING, MissingLabel
from ..common.draws import permutation
from ..common.errors import InputError
from ..data.records import Records
from ..labels import ObservedLabels

CHECK_EVERY = 5  # every fifth card is that of a random entry
IntArray = npt.NDArray[np.int64]


class Entries(NamedTuple):
    """Entries of the list of probable missing labels, by rank.

    Attributes:
        rows: Sample of each entry, int64 (M,).
        columns: Class of each entry, int64 (M,).
        probabilities: Probability that the sample has the label, float64 (M,).
        shuffled: All entries in random order, int64 (M,). Any beginning of it is a random sample of the list.
    """

    rows: IntArray
    columns: IntArray
    probabilities: npt.NDArray[np.float64]
    shuffled: IntArray


class Selection(NamedTuple):
    """Part of the list that a reviewer looks at.

    Attributes:
        column: Only entries of this class; None = of all classes.
        minimum: Only entries of at least this probability.
    """

    column: int | None = None
    minimum: float = 0.0


class Order(NamedTuple):
    """Order of the samples that have an entry in a selection.

    Attributes:
        entries: Entries of the selection by rank, int64 (m,).
        shuffled: The same entries in random order, int64 (m,).
        samples: Samples in the order in which they are shown, int64 (n,).
        checks: For each of `samples`, the entry whose turn as a random check it is, or -1; int64 (n,).
    """

    entries: IntArray
    shuffled: IntArray
    samples: IntArray
    checks: IntArray


def make_entries(missing: Sequence[MissingLabel], records: Records, seed: str) -> Entries:
    """Look up the samples and classes of a list.

    Args:
        missing: Rows of `missing.csv`.
        records: Data that they are about.
        seed: The same seed gives the same random order, so that several servers agree about it.

    Raises:
        InputError: A row names a sample that is not in the data, or a label that is known or listed twice; or
            samples have the same name.
    """
    row_of = {name: row for row, name in enumerate(records.ids)}
    if len(row_of) < len(records.ids):
        raise InputError(f"{records.source}: some samples have the same name. Give each one of its own.")
    column_of = {name: column for column, name in enumerate(records.classes)}
    rows = np.array([row_of.get(entry.file, -1) for entry in missing], np.int64)
    columns = np.array([column_of[entry.label] for entry in missing], np.int64)
    pairs = rows * len(records.classes) + columns
    first = np.zeros(len(pairs), np.bool_)
    first[np.unique(pairs, return_index=True)[1]] = True
    known = values_at(records.labels, rows, columns) != 0
    for wrong, problem in (
        (rows < 0, "there is no sample {0.file!r} in the data"),
        (known, "{0.label!r} is a known label of {0.file!r}"),
        (~first, "{0.label!r} of {0.file!r} is listed twice"),
    ):
        if wrong.any():
            row = int(np.argmax(wrong))
            raise InputError(
                f"{MISSING}: row {row + 2}: {problem.format(missing[row])}. Run spml audit again."
            )
    probabilities = np.array([entry.probability for entry in missing], np.float64)
    return Entries(rows, columns, probabilities, permutation(len(rows), "review", seed))


def values_at(labels: ObservedLabels, rows: IntArray, columns: IntArray) -> npt.NDArray[np.int8]:
    """The values {-1, 0, +1} of some labels, int8 (M,)."""
    if not len(rows):
        return np.empty(0, np.int8)  # which SciPy refuses to look up
    return np.asarray(labels.to_csr()[rows, columns], np.int8).ravel()


def make_order(entries: Entries, selection: Selection, *, by_class: bool = False) -> Order:
    """Order the samples of a selection: by their best rank, every fifth one by the random order.

    Args:
        entries: All entries.
        selection: Part of them.
        by_class: Take the best entry of every class first, then the second of every class, and so on.
    """
    chosen = entries.probabilities >= selection.minimum
    if selection.column is not None:
        chosen &= entries.columns == selection.column
    ranked = np.flatnonzero(chosen)
    shuffled = entries.shuffled[chosen[entries.shuffled]]
    turns = _in_turns(entries.columns, ranked) if by_class else ranked
    samples, checks = _mix(_first_of_each(entries.rows, turns), _first_of_each(entries.rows, shuffled))
    return Order(ranked, shuffled, np.array(samples, np.int64), np.array(checks, np.int64))


def _in_turns(columns: IntArray, ranked: IntArray) -> IntArray:
    """Entries by their place among those of their class; of equal places, the higher rank first."""
    own = columns[ranked]
    grouped = np.argsort(own, kind="stable")
    starts = np.searchsorted(own[grouped], own[grouped], side="left")
    place = np.empty(len(ranked), np.int64)
    place[grouped] = np.arange(len(ranked)) - starts
    return ranked[np.argsort(place, kind="stable")]


def _first_of_each(rows: IntArray, entries: IntArray) -> list[tuple[int, int]]:
    """(sample, entry) of the first entry of each sample, in the order of `entries`."""
    _, first = np.unique(rows[entries], return_index=True)
    firsts = entries[np.sort(first)]
    return list(zip(rows[firsts].tolist(), firsts.tolist(), strict=True))


def _mix(
    ranked: Sequence[tuple[int, int]], shuffled: Sequence[tuple[int, int]]
) -> tuple[list[int], list[int]]:
    """Samples in the order of `ranked`, but every fifth from `shuffled`; and the entry of each of these."""
    placed: dict[int, int] = {}
    by_rank, by_chance = iter(ranked), iter(shuffled)
    for position in range(1, len(ranked) + 1):
        random = position % CHECK_EVERY == 0
        sample, entry = next(pair for pair in (by_chance if random else by_rank) if pair[0] not in placed)
        placed[sample] = entry if random else -1
    return list(placed), list(placed.values())
