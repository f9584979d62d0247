"""Splits: the names that files use for them, and a seeded, stratified hold-out for data without a split."""

from __future__ import annotations

import heapq
import math
import re
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ..common.draws import permutation
from ..common.errors import InputError
from ..labels import IntArray, ObservedLabels
from .groups import count_groups, hold_out_groups

Mask = npt.NDArray[np.bool_]

SPLITS = ("train", "val", "test")
SPELLINGS = {
    **dict.fromkeys(("train", "training", "trn"), "train"),
    **dict.fromkeys(("val", "valid", "validation", "dev", "development", "publictest"), "val"),
    **dict.fromkeys(("test", "testing", "eval", "evaluation", "privatetest", "holdout"), "test"),
}

_NEUTRAL = re.compile(
    "data|dataset|set|split|folder|part|images|image|imgs|img|pics|pictures|photos|jpeg|jpg|png"
)
"""Words in the names of folders and files of a split that say nothing more."""


def split_name(text: str) -> str | None:
    """Return `train`, `val` or `test` for any common spelling of it, None for other text."""
    return SPELLINGS.get(text.strip().lower())


def compound_split_name(text: str) -> tuple[str, str] | None:
    """Split in a name such as `seg_train`, `val2017`, `Test Images` or `trainset`, and its other words.

    These neither name a split nor are usual next to one, such as `seg`. None if no word, or several, name a
    split.
    """
    words = re.findall("[A-Z]+(?![a-z])|[A-Z]?[a-z]+", text)
    words = [re.sub("(?<=.)(set|data|images)$", "", word.lower()) for word in words]
    splits = [SPELLINGS[word] for word in words if word in SPELLINGS]
    if len(splits) != 1:
        return None
    return splits[0], " ".join(
        word for word in words if word not in SPELLINGS and not _NEUTRAL.fullmatch(word)
    )


def hold_out(
    observed: ObservedLabels,
    share: float,
    seed: int,
    part: Literal["val", "test"] = "val",
    *,
    stratify: bool = True,
    groups: IntArray | None = None,
) -> Mask:
    """Draw the training samples that are held out for another split: round(share * N), at least one.

    The draw is stratified: of the known positives of each class, as near as possible to the same share is
    held out. A sample that is the last known positive of a class in training is never held out, so that fewer
    samples are drawn where there are not enough others.

    With several labels per sample this is iterative stratification for two parts (Sechidis et al., "On the
    Stratification of Multi-Label Data", ECML PKDD 2011): classes take turns, the one with the fewest samples
    left first. What a class may not give in fractions of a sample is made up for by the next classes, where
    the original breaks ties at random.

    With groups, `hold_out_groups` draws about as many samples.

    Args:
        observed: Observed labels of the N training samples.
        share: Share of them that is held out.
        seed: Seed of the draw.
        part: Split that they are held out for.
        stratify: Draw as described. Otherwise the draw depends on N and the seed alone, whatever the labels.
        groups: Group of each sample, int64 (N,), which is held out as a whole; None = each is alone.

    Returns:
        Boolean mask of shape (N,), true for the samples that are held out.
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
    if groups is not None and (number := count_groups(groups)) < count:
        mask = np.zeros(count, np.bool_)
        if number > 1:
            positives = observed.entries(1) if stratify else (order[:0], order[:0])
            mask = hold_out_groups(groups, positives, share, *key, "groups")
        if not mask.any():
            alone = f"all {count:,} training samples are in one group (data.group)"
            each = f"each of the {number:,} groups of training samples has the only samples of a class"
            raise InputError(
                f"{alone if number == 1 else each}, so none can be held out for {purpose}: provide samples "
                "of more groups or data that has a split, or draw without regard to groups (leave data.group "
                "out) or classes (data.stratify=false)."
            )
        return mask
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


def _stratified(labels: ObservedLabels, held: int, ties: IntArray) -> Mask:
    """Choose `held` samples, the first ones of each class; fewer if the others are the last ones of a class.

    The samples are in random order. `ties` is the order of classes that have the same number of samples left.
    """
    from scipy.sparse import csr_matrix

    rows, columns = labels.entries(1)
    shape = len(labels), labels.num_classes
    positive = csr_matrix((np.ones(len(rows), np.bool_), (rows, columns)), shape=shape)
    by_class = positive.tocsc()
    total = np.diff(by_class.indptr).astype(np.int64)
    of_class = np.split(by_class.indices, by_class.indptr[1:-1])
    chosen = _choose_by_class(positive, of_class, held / len(labels), ties)
    rest = np.flatnonzero(np.diff(positive.indptr) == 0)
    chosen[rest[: round(held / len(labels) * len(rest))]] = True

    def left() -> IntArray:
        """Number of known positives of each class among the samples that are not chosen."""
        return np.bincount(positive[~chosen].indices, minlength=len(total)).astype(np.int64)

    # Every class that has lost all of its samples gets one back.
    for column in np.flatnonzero((left() == 0) & (total > 0)).tolist():
        if chosen[of_class[column]].all():
            chosen[of_class[column][0]] = False
    surplus = int(chosen.sum()) - held
    if surplus > 0:
        chosen[np.flatnonzero(chosen)[:surplus]] = False
    remaining = left()
    # From the end, because of every large class the first samples are chosen already.
    for row in np.flatnonzero(~chosen)[::-1]:
        if surplus >= 0:
            break
        own = positive.indices[positive.indptr[row] : positive.indptr[row + 1]]
        if (remaining[own] > 1).all():  # not the last one of a class
            remaining[own] -= 1
            chosen[row] = True
            surplus += 1
    return chosen


def _choose_by_class(positive: Any, of_class: Sequence[IntArray], share: float, ties: IntArray) -> Mask:
    """Choose a share of each class by iterative stratification.

    `positive` is a CSR matrix (N, C) of known positives; `of_class` are the samples of each class, ascending.
    """
    left = np.array([len(samples) for samples in of_class])
    chosen, free = (np.full(positive.shape[0], value) for value in (False, True))
    total, given, wanted, drawn = left.tolist(), np.zeros_like(left), 0.0, 0
    alone = len(positive.indices) <= np.count_nonzero(np.diff(positive.indptr))  # no sample has two classes
    queue = [(int(left[column]), int(ties[column]), column) for column in np.flatnonzero(left).tolist()]
    heapq.heapify(queue)
    while queue:
        size, _, column = heapq.heappop(queue)
        if size != left[column]:
            continue  # pushed before a sample of the class was taken for another class
        samples = of_class[column][free[of_class[column]]]
        quota = min(max(0.0, share * total[column] - float(given[column])), float(len(samples)))
        wanted += quota
        number = min(max(math.floor(wanted + 0.5) - drawn, math.floor(quota)), math.ceil(quota))
        drawn += number
        chosen[samples[:number]] = True
        if alone:
            continue
        free[samples] = False
        taken = positive[samples]
        touched = taken.indices
        np.add.at(given, touched[: taken.indptr[number]], 1)
        np.subtract.at(left, touched, 1)
        for other in np.unique(touched[left[touched] > 0]).tolist():
            heapq.heappush(queue, (int(left[other]), int(ties[other]), other))
    return chosen
