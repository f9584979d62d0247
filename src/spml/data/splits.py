"""Splits: the names that files use for them, and a seeded, stratified hold-out for data without a split."""

from __future__ import annotations

import heapq
import math
from typing import Literal

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from ..labels import ObservedLabels
from .draws import permutation

SPLITS = ("train", "val", "test")
SPELLINGS = {
    "train": "train",
    "training": "train",
    "val": "val",
    "valid": "val",
    "validation": "val",
    "dev": "val",
    "test": "test",
    "testing": "test",
}


def split_name(text: str) -> str | None:
    """Return `train`, `val` or `test` for any common spelling of it, None for other text."""
    return SPELLINGS.get(text.strip().lower())


def hold_out(
    observed: ObservedLabels, share: float, seed: int, part: Literal["val", "test"] = "val"
) -> npt.NDArray[np.bool_]:
    """Draw the training samples that are held out for another split: round(share * N), at least one.

    The draw is stratified: of the known positives of each class, as near as possible to the same share is
    held out. A sample that is the last known positive of a class in training is never held out, so that fewer
    samples are drawn where there are not enough others.

    With several labels per sample this is iterative stratification for two parts (Sechidis et al., "On the
    Stratification of Multi-Label Data", ECML PKDD 2011): classes take turns, the one with the fewest samples
    left first. What a class may not give in fractions of a sample is made up for by the next classes, where
    the original breaks ties at random.

    Args:
        observed: Observed labels of the N training samples.
        share: Share of them that is held out.
        seed: Seed of the draw.
        part: Split that they are held out for.

    Returns:
        Boolean mask of shape (N,), true for the samples that are held out.

    Raises:
        InputError: No sample would be left for training, or none can be held out because each is the only
            one of a class.
    """
    count = len(observed)
    held = max(1, round(share * count))
    purpose = "validation" if part == "val" else "the test"
    if held >= count:
        samples = "1 training sample is" if count == 1 else f"{count} training samples are"
        raise InputError(
            f"{samples} too few to hold out {share:.0%} for {purpose}: provide more samples, a smaller "
            f"data.{part}_share, or data that has a split."
        )
    # The key for validation does not name the split; changing it would change the splits of earlier versions.
    key = ("split", seed) if part == "val" else ("split", "test", seed)
    order = permutation(count, *key)
    mask = np.zeros(count, np.bool_)
    mask[order] = _stratified(observed.take(order), held, permutation(observed.num_classes, *key, "classes"))
    if not mask.any():
        raise InputError(
            f"none of the {count} training samples can be held out for {purpose}, because each is the only "
            "one of a class: provide more samples of the classes, or data that has a split."
        )
    return mask


def _stratified(labels: ObservedLabels, held: int, ties: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Choose `held` samples, the first ones of each class.

    Args:
        labels: Labels of the samples, which are in random order.
        held: Number of samples to choose; fewer are chosen if the others are the last ones of a class.
        ties: Order of classes that have the same number of samples left.
    """
    share = held / len(labels)
    rows, columns = labels.entries(1)
    total = labels.positives_per_class()
    ends = np.cumsum(total)
    members = rows[np.argsort(columns, kind="stable")]
    chosen, free = np.zeros(len(labels), np.bool_), np.ones(len(labels), np.bool_)
    left, given, wanted, drawn = total.copy(), np.zeros_like(total), 0.0, 0

    def draw(samples: npt.NDArray[np.int64], quota: float) -> None:
        """Choose so many of the samples, rounded so that the sum over all calls is as wanted."""
        nonlocal wanted, drawn
        wanted += quota
        number = min(max(round(wanted) - drawn, math.floor(quota)), math.ceil(quota))
        drawn += number
        chosen[samples[:number]] = True
        free[samples] = False

    queue = [(int(left[column]), int(ties[column]), column) for column in np.flatnonzero(left).tolist()]
    heapq.heapify(queue)
    while queue:
        size, _, column = heapq.heappop(queue)
        if size != left[column]:
            continue  # pushed before a sample of the class was taken for another class
        samples = members[ends[column] - total[column] : ends[column]]
        samples = samples[free[samples]]
        quota = share * total[column] - given[column]
        draw(samples, max(0.0, min(quota, len(samples), float(total[column] - 1 - given[column]))))
        np.add.at(given, _positives(labels, samples[chosen[samples]]), 1)
        touched = _positives(labels, samples)
        np.subtract.at(left, touched, 1)
        for other in np.unique(touched[left[touched] > 0]).tolist():
            heapq.heappush(queue, (int(left[other]), int(ties[other]), other))
    unlabelled = np.flatnonzero(free)
    draw(unlabelled, share * len(unlabelled))
    _return_last(labels, chosen)
    _adjust(labels, chosen, held)
    return chosen


def _return_last(labels: ObservedLabels, chosen: npt.NDArray[np.bool_]) -> None:
    """Give a sample back to every class that has lost all of them, in place."""
    lost = _left(labels, chosen) == 0
    lost &= labels.positives_per_class() > 0
    for column in np.flatnonzero(lost).tolist():
        samples = labels.positive_rows(column)
        if chosen[samples].all():
            chosen[samples[0]] = False


def _adjust(labels: ObservedLabels, chosen: npt.NDArray[np.bool_], held: int) -> None:
    """Choose fewer or more samples until there are `held`, in place; none that is the last one of a class."""
    surplus = int(chosen.sum()) - held
    if surplus > 0:
        chosen[np.flatnonzero(chosen)[:surplus]] = False
    left = _left(labels, chosen)
    rows, columns = labels.entries(1)
    free = ~chosen
    free[rows[left[columns] < 2]] = False
    # From the end, because of every large class the first samples are chosen already.
    for row in np.flatnonzero(free)[::-1].tolist():
        if surplus >= 0:
            return
        own = _positives(labels, [row])
        if (left[own] > 1).all():
            left[own] -= 1
            chosen[row] = True
            surplus += 1


def _left(labels: ObservedLabels, chosen: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """Number of known positives of each class among the samples that are not chosen, int64 (C,)."""
    return labels.take(np.flatnonzero(~chosen)).positives_per_class()


def _positives(labels: ObservedLabels, rows: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """Classes of the known positives of some samples, int64; one per entry."""
    return labels.take(rows).entries(1)[1]
