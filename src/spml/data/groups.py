"""Groups of samples that belong together, such as those of a patient, a recording or an author.

Whole groups are dealt into parts, so that none is in two splits or folds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..common.draws import permutation
from ..common.errors import InputError
from ..common.phrases import counted
from ..common.safe import quote
from ..config import DataConfig
from ..labels import IntArray
from .values import is_blank, text

Entries = tuple[IntArray, IntArray]
"""Sample and class of labels, as `ObservedLabels.entries` returns them."""

SEPARATED = "Groups in several splits of the data"
"""Beginning of the note on these."""

_DIGITS = 9  # beyond that, the order of a sum would decide between parts that are alike


def group_names(cells: Iterable[object]) -> tuple[str, ...]:
    """Names of groups as text, empty for a missing one or a word for it."""
    names = map(text, cells)
    return tuple("" if is_blank(name) else name for name in names)


def agreed(
    values: Sequence[str], of_row: IntArray, first: IntArray, what: str, both: Callable[[int, int], str]
) -> tuple[str, ...]:
    """What the rows of each sample say, of which all must say the same.

    Args:
        values: What each row says; the name of a group may be empty, which says nothing.
        of_row: Sample of each row, in 0 ... N - 1, int64.
        first: First row of each of the N samples, int64.
        what: What the values are, such as `split`.
        both: Returns the beginning of a message on two rows of a sample.

    Raises:
        InputError: Two rows of a sample say different things.
    """
    said = first.tolist()
    for row in np.flatnonzero(first[of_row] != np.arange(len(of_row))).tolist():
        sample = int(of_row[row])
        one, other = values[said[sample]], values[row]
        if what == "group" and not (one and other):
            said[sample] = said[sample] if one else row
        elif other != one:
            raise InputError(
                f"{both(said[sample], row)}, with different {what}s, {quote(one)} and {quote(other)}. A "
                f"sample has one {what} only: correct one of them, or name the samples by another column "
                "(data.file_column)."
            )
    return tuple(values[row] for row in said)


def group_codes(names: Sequence[str]) -> IntArray:
    """Group of each sample as a number, int64 (N,); a sample with an empty name is a group of its own."""
    number: dict[str | int, int] = {}
    codes = (number.setdefault(name or row, len(number)) for row, name in enumerate(names))
    return np.fromiter(codes, np.int64, len(names))


def count_groups(groups: IntArray | None) -> int:
    """Number of groups; 0 without groups."""
    return 0 if groups is None else len(np.unique(groups))


def join_groups(*parts: IntArray | None) -> IntArray | None:
    """Groups of several parts of a data set, one after the other; None without groups."""
    known = [part for part in parts if part is not None]
    return np.concatenate(known) if known else None


def deal_groups(groups: IntArray, positives: Entries, parts: int, *key: int | str) -> IntArray:
    """Deal whole groups into parts of about the same number of samples and of known positives of each class.

    Args:
        groups: Group of each of the N samples, int64 (N,).
        positives: Sample and class of each known positive.
        parts: Number of parts, at most that of the groups.
        key: Key of the random order of groups that are alike.

    Returns:
        Part of each sample, int64 (N,) in [0, parts). No part is empty.
    """
    _, group = np.unique(groups, return_inverse=True)
    counts = _counts(group, positives)
    order = permutation(counts.shape[0], *key)
    return _deal(counts, np.full(parts, 1 / parts), order)[group]


def hold_out_groups(
    groups: IntArray, positives: Entries, share: float, *key: int | str
) -> npt.NDArray[np.bool_]:
    """Draw whole groups that are held out: about a share of the samples and of the positives of each class.

    A group that has the last known positives of a class is not held out.

    Args:
        groups: Group of each of the N samples, int64 (N,), of which there are at least two.
        positives: Sample and class of each known positive that counts.
        share: Share of the samples that is held out.
        key: Key of the random order of groups that are alike.

    Returns:
        Bool (N,), true for the samples that are held out; at least one group, unless all of them have the
        last known positives of a class.
    """
    _, group = np.unique(groups, return_inverse=True)
    counts = _counts(group, positives)
    order = permutation(counts.shape[0], *key)
    held = _deal(counts, np.array([1 - share, share]), order, complete=True) == 1
    if not held.any():
        # All are larger than what is held out: the smallest comes closest.
        spared = np.minimum.reduceat(counts.data < _totals(counts)[counts.indices], counts.indptr[:-1])
        sizes = counts[:, 0].toarray()[:, 0]
        if len(able := order[spared[order]]):
            held[able[np.argmin(sizes[able])]] = True
    return np.asarray(held[group])


def _counts(group: npt.NDArray[np.integer], positives: Entries) -> Any:
    """Number of samples (column 0) and of known positives of each class of each group: CSR (G, 1 + C)."""
    from scipy.sparse import csr_matrix

    rows, columns = positives
    entries = np.append(group, group[rows]), np.append(np.zeros(len(group), np.int64), 1 + columns)
    return csr_matrix((np.ones(len(entries[0])), entries))  # adds up what has the same place


def _totals(counts: Any) -> npt.NDArray[np.float64]:
    totals: npt.NDArray[np.float64] = np.asarray(counts.sum(axis=0))[0]
    return totals


def _deal(
    counts: Any, shares: npt.NDArray[np.float64], order: IntArray, *, complete: bool = False
) -> IntArray:
    """Part of each group, int64 (G,).

    With n_fc the count of class c in part f, p_f its share and N_c the count of all, each group goes to the
    part for which sum_c (n_fc - p_f N_c)^2 / (p_f N_c), Pearson's chi-squared, grows least (the number of
    samples counts as one more class). Those that have the largest share of a class or of the samples come
    first, those that are alike as in `order`; `complete` leaves a positive of every class in part 0.
    """
    totals = _totals(counts)
    wanted = shares[:, None] * totals
    largest = np.maximum.reduceat(counts.data / totals[counts.indices], counts.indptr[:-1])
    dealt, left = np.zeros_like(wanted), totals.copy()
    part = np.zeros(len(order), np.int64)
    for group in order[np.argsort(-largest[order], kind="stable")].tolist():
        own = slice(counts.indptr[group], counts.indptr[group + 1])
        columns, number = counts.indices[own], counts.data[own]
        if complete and (left[columns] <= number).any():
            chosen = 0
        else:
            expected = wanted[:, columns]
            growth = ((2 * (dealt[:, columns] - expected) + number) * number / expected).sum(axis=1)
            chosen = int(np.argmin(np.round(growth, _DIGITS)))
        dealt[chosen, columns] += number
        if chosen:
            left[columns] -= number
        part[group] = chosen
    return part


def describe_groups(groups: IntArray, split: npt.NDArray[np.str_], config: DataConfig) -> str:
    """Note on the groups of the samples that are used, whose split is not empty."""
    found, sizes = np.unique(groups[split != ""], return_counts=True)
    by, largest = f" by {quote(config.group)}" if config.group else "", int(sizes.max())
    effect = ", so groups have no effect" if largest == 1 else ""
    return f"{counted(len(found), 'group')}{by}, the largest of {counted(largest, 'sample')}{effect}."


def note_separated(names: Sequence[str], groups: IntArray, split: npt.NDArray[np.str_]) -> list[str]:
    """Note on groups that have samples in several splits, in a list that is empty if there are none."""
    own = [np.unique(groups[split == name]) for name in np.unique(split[split != ""]).tolist()]
    found, number = np.unique(np.concatenate(own), return_counts=True)
    separated = found[number > 1]
    if not len(separated):
        return []
    example = quote(names[int(np.argmax(groups == separated[0]))])
    return [
        f"{SEPARATED}: {len(separated):,} of {len(found):,}, such as {example}, which makes results there "
        "too good. Correct the split, or pass data.split=ignore to draw one that keeps groups together."
    ]
