"""The order in which samples are shown: by rank, with random checks mixed in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from ..audit.folder import MISSING, WRONG, MissingLabel, WrongLabel
from ..common.draws import permutation
from ..common.errors import InputError
from ..data.records import Records
from ..labels import ObservedLabels

CHECK_EVERY = 5  # every fifth card is that of a random entry
IntArray = npt.NDArray[np.int64]


ListName = Literal["missing", "wrong"]
"""A list of an audit: labels that are probably missing, or given labels that look wrong."""


class Entries(NamedTuple):
    """Entries of a list, by rank."""

    rows: IntArray  # sample of each entry, int64 (M,)
    columns: IntArray  # class of each entry, int64 (M,)
    probabilities: npt.NDArray[np.float64]  # of a missing label, or confidence in a given one, float64 (M,)
    shuffled: IntArray  # any beginning of it is a random sample of the list, int64 (M,)
    windows: Sequence[tuple[float, ...]]  # of each entry, as `MissingLabel.window`
    by_name: Sequence[str]  # of each entry, as `MissingLabel.by_name`
    name: ListName = "missing"


OrderName = Literal["rank", "class", "unsure"]
"""Order of entries: most probable first; the best of every class, then the second of every class, and so on;
or least sure first, those whose probability is nearest to a half."""


class Selection(NamedTuple):
    """Part of the list that a reviewer looks at, and its order."""

    column: int | None = None  # only entries of this class; None = of all classes
    minimum: float = 0.0  # only entries of at least this probability
    list: ListName = "missing"
    order: OrderName = "rank"


class Order(NamedTuple):
    """Order of the samples that have an entry in a selection."""

    entries: IntArray  # of the selection by rank, int64 (m,)
    shuffled: IntArray  # the same entries in random order, int64 (m,)
    samples: IntArray  # in the order in which they are shown, int64 (n,)
    checks: IntArray  # for each sample, the entry whose turn as a random check it is, or -1


def make_entries(
    listed: Sequence[MissingLabel] | Sequence[WrongLabel],
    records: Records,
    seed: str,
    name: ListName = "missing",
) -> Entries:
    """Look up the samples and classes of a list.

    Args:
        listed: Rows of `missing.csv`, or of `wrong.csv`.
        records: Data that they are about.
        seed: The same seed gives the same random order, so that several servers agree about it.
        name: Which list it is.

    Raises:
        InputError: A row names a sample that is not in the data, a missing label that is known, a wrong label
            that is not given, or a label that is listed twice; or samples have the same name.
    """
    row_of = {name: row for row, name in enumerate(records.ids)}
    if len(row_of) < len(records.ids):
        raise InputError(f"{records.source}: some samples have the same name. Give each one of its own.")
    column_of = {name: column for column, name in enumerate(records.classes)}
    rows = np.array([row_of.get(entry.file, -1) for entry in listed], np.int64)
    columns = np.array([column_of[entry.label] for entry in listed], np.int64)
    pairs = rows * len(records.classes) + columns
    first = np.zeros(len(pairs), np.bool_)
    first[np.unique(pairs, return_index=True)[1]] = True
    values, file = values_at(records.labels, rows, columns), MISSING if name == "missing" else WRONG
    for refused, problem in (
        (rows < 0, "there is no sample {0.file!r} in the data"),
        ((values != 0) & (name == "missing"), "{0.label!r} is a known label of {0.file!r}"),
        ((values != 1) & (name == "wrong"), "{0.label!r} is not a given label of {0.file!r}"),
        (~first, "{0.label!r} of {0.file!r} is listed twice"),
    ):
        if refused.any():
            row = int(np.argmax(refused))
            raise InputError(f"{file}: row {row + 2}: {problem.format(listed[row])}. Run spml audit again.")
    likely = [each.probability if isinstance(each, MissingLabel) else each.confidence for each in listed]
    windows = [each.window if isinstance(each, MissingLabel) else () for each in listed]
    by_name = [each.by_name if isinstance(each, MissingLabel) else "" for each in listed]
    shuffled = permutation(len(rows), "review", seed)
    return Entries(rows, columns, np.array(likely, np.float64), shuffled, windows, by_name, name)


def values_at(labels: ObservedLabels, rows: IntArray, columns: IntArray) -> npt.NDArray[np.int8]:
    """The values {-1, 0, +1} of some labels, int8 (M,)."""
    if not len(rows):
        return np.empty(0, np.int8)  # which SciPy refuses to look up
    return np.asarray(labels.to_csr()[rows, columns], np.int8).ravel()


def make_order(entries: Entries, selection: Selection) -> Order:
    """Order the samples of a selection: by the first of their entries, every fifth one by the random order.

    Args:
        entries: All entries.
        selection: Part of them, and their order.
    """
    chosen = entries.probabilities >= selection.minimum
    if selection.column is not None:
        chosen &= entries.columns == selection.column
    ranked = np.flatnonzero(chosen)
    shuffled = entries.shuffled[chosen[entries.shuffled]]
    turns = ranked
    if selection.order == "class":
        turns = _in_turns(entries.columns, ranked)
    elif selection.order == "unsure":
        turns = ranked[np.argsort(np.abs(entries.probabilities[ranked] - 0.5), kind="stable")]
    by_rank, by_chance = (iter(_first_of_each(entries.rows, each)) for each in (turns, shuffled))
    checks: dict[int, int] = {}  # by sample, in the order in which they are shown
    for position in range(1, len(np.unique(entries.rows[ranked])) + 1):
        random = position % CHECK_EVERY == 0
        sample, entry = next(pair for pair in (by_chance if random else by_rank) if pair[0] not in checks)
        checks[sample] = entry if random else -1
    return Order(ranked, shuffled, np.array([*checks], np.int64), np.array([*checks.values()], np.int64))


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
