"""Splits: the names that files use for them, and a seeded, stratified hold-out for data without a split."""

from __future__ import annotations

import heapq
import math
import re
from typing import Literal

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from ..labels import ObservedLabels
from .draws import permutation

Integers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

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


_NEUTRAL = frozenset(
    (
        *("data", "dataset", "set", "split", "folder", "part", "images", "image", "imgs", "img", "pics"),
        *("pictures", "photos", "jpeg", "jpg", "png"),
    )
)
"""Words in the names of folders and files of a split that say nothing more."""


def split_name(text: str) -> str | None:
    """Return `train`, `val` or `test` for any common spelling of it, None for other text."""
    return SPELLINGS.get(text.strip().lower())


def compound_split_name(text: str) -> tuple[str, str] | None:
    """Split in a name such as `seg_train`, `val2017`, `Test Images` or `trainset`, and its other words.

    Returns:
        `train`, `val` or `test`, and the words that neither name a split nor are usual next to one, such as
        `seg`; None if no word, or several, name a split.
    """
    words = re.findall("[A-Z]+(?![a-z])|[A-Z]?[a-z]+", text)
    words = [re.sub("(?<=.)(set|data|images)$", "", word.lower()) for word in words]
    splits = [SPELLINGS[word] for word in words if word in SPELLINGS]
    if len(splits) != 1:
        return None
    return splits[0], " ".join(word for word in words if word not in SPELLINGS and word not in _NEUTRAL)


def hold_out(
    observed: ObservedLabels,
    share: float,
    seed: int,
    part: Literal["val", "test"] = "val",
    *,
    stratify: bool = True,
) -> Mask:
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
        stratify: Draw as described. Otherwise the draw depends on N and the seed alone, whatever the labels.

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
    if not stratify:
        mask[order[:held]] = True
        return mask
    mask[order] = _stratified(observed.take(order), held, permutation(observed.num_classes, *key, "classes"))
    if not mask.any():
        raise InputError(
            f"none of the {count} training samples can be held out for {purpose}, because each is the only "
            "one of a class: provide more samples of the classes, or data that has a split."
        )
    return mask


class _Positives:
    """Known positives of samples that are in random order.

    Args:
        labels: Labels of the samples.

    Attributes:
        total: Number of known positives of each class, int64 (C,).
    """

    def __init__(self, labels: ObservedLabels) -> None:
        rows, columns = labels.entries(1)
        self._columns: Integers = columns
        self.total = labels.positives_per_class()
        self._ends = np.cumsum(self.total)
        self._samples = rows[np.argsort(self._columns, kind="stable")]
        self._starts = np.searchsorted(rows, np.arange(len(labels) + 1))

    def samples(self, column: int) -> Integers:
        """Samples of a class, ascending."""
        return self._samples[self._ends[column] - self.total[column] : self._ends[column]]

    def first(self, number: Integers) -> Integers:
        """The first `number[c]` samples of every class c."""
        position = np.arange(len(self._samples)) - np.repeat(self._ends - self.total, self.total)
        return self._samples[position < np.repeat(number, self.total)]

    def classes(self, samples: Integers) -> Integers:
        """Classes of some samples, one per known positive."""
        starts, counts = self._starts[samples], self._starts[samples + 1] - self._starts[samples]
        ends = np.cumsum(counts)
        entries: Integers = np.repeat(starts - ends + counts, counts) + np.arange(counts.sum())
        return np.asarray(self._columns[entries], np.int64)

    def left(self, chosen: Mask) -> Integers:
        """Number of known positives of each class among the samples that are not chosen."""
        return np.asarray(
            np.bincount(self.classes(np.flatnonzero(~chosen)), minlength=len(self.total)), np.int64
        )


def _stratified(labels: ObservedLabels, held: int, ties: Integers) -> Mask:
    """Choose `held` samples, the first ones of each class.

    Args:
        labels: Labels of the samples, which are in random order.
        held: Number of samples to choose; fewer are chosen if the others are the last ones of a class.
        ties: Order of classes that have the same number of samples left.
    """
    positives, share = _Positives(labels), held / len(labels)
    per_sample = labels.positives_per_sample()
    choose = _choose_by_class if len(labels) and per_sample.max() > 1 else _choose_at_once
    chosen = choose(positives, share, len(labels), ties)
    rest = np.flatnonzero(per_sample == 0)
    chosen[rest[: round(share * len(rest))]] = True
    _return_last(positives, chosen)
    _adjust(positives, chosen, held)
    return chosen


def _choose_at_once(positives: _Positives, share: float, count: int, ties: Integers) -> Mask:
    """Choose a share of each class where no sample has two."""
    total = positives.total
    order = np.lexsort((ties, total))
    quota = share * total[order]
    # Rounded so that the sum over the classes so far is what it should be.
    bounds = np.floor(np.cumsum(quota) + 0.5)
    number = np.zeros_like(total)
    number[order] = np.clip(np.diff(bounds, prepend=0), np.floor(quota), np.ceil(quota))
    chosen = np.zeros(count, np.bool_)
    chosen[positives.first(number)] = True
    return chosen


def _choose_by_class(positives: _Positives, share: float, count: int, ties: Integers) -> Mask:
    """Choose a share of each class by iterative stratification."""
    total = positives.total
    chosen, free = np.zeros(count, np.bool_), np.ones(count, np.bool_)
    left, given, wanted, drawn = total.copy(), np.zeros_like(total), 0.0, 0
    queue = [(int(left[column]), int(ties[column]), column) for column in np.flatnonzero(left).tolist()]
    heapq.heapify(queue)
    while queue:
        size, _, column = heapq.heappop(queue)
        if size != left[column]:
            continue  # pushed before a sample of the class was taken for another class
        samples = positives.samples(column)
        samples = samples[free[samples]]
        quota = min(max(0.0, share * float(total[column]) - float(given[column])), float(len(samples)))
        wanted += quota
        number = min(max(math.floor(wanted + 0.5) - drawn, math.floor(quota)), math.ceil(quota))
        drawn += number
        chosen[samples[:number]] = True
        free[samples] = False
        np.add.at(given, positives.classes(samples[:number]), 1)
        touched = positives.classes(samples)
        np.subtract.at(left, touched, 1)
        for other in np.unique(touched[left[touched] > 0]).tolist():
            heapq.heappush(queue, (int(left[other]), int(ties[other]), other))
    return chosen


def _return_last(positives: _Positives, chosen: Mask) -> None:
    """Give a sample back to every class that has lost all of them, in place."""
    for column in np.flatnonzero((positives.left(chosen) == 0) & (positives.total > 0)).tolist():
        samples = positives.samples(column)
        if chosen[samples].all():
            chosen[samples[0]] = False


def _adjust(positives: _Positives, chosen: Mask, held: int) -> None:
    """Choose fewer or more samples until there are `held`, in place; none that is the last one of a class."""
    surplus = int(chosen.sum()) - held
    if surplus > 0:
        chosen[np.flatnonzero(chosen)[:surplus]] = False
    left = positives.left(chosen)
    # From the end, because of every large class the first samples are chosen already.
    for row in np.flatnonzero(~chosen)[::-1]:
        if surplus >= 0:
            return
        own = positives.classes(row[None])
        if (left[own] > 1).all():
            left[own] -= 1
            chosen[row] = True
            surplus += 1
