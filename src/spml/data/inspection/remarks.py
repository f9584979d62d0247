"""What to look at before a result on a data set is trusted: equal images, names that may mean the same class,
classes that a split lacks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from ...labels import ObservedLabels
from ..dataset import Dataset
from ..images import ImageFiles
from ..safe import shown
from .class_names import folded

SOME = 3  # examples that are named


def remarks(data: Dataset, labels: ObservedLabels, split_given: bool) -> tuple[str, ...]:
    """One line for each thing to look at.

    Args:
        data: read, split and checked.
        labels: of all its samples, as the file gives them.
        split_given: the file says which samples are for testing or validation.
    """
    lines = [_alike_classes(data.classes, labels), _equal_images(data)]
    if split_given:
        lines += [_missing_classes(data, name) for name in ("val", "test") if name in data.splits]
    return tuple(line for line in lines if line)


def _alike_classes(classes: Sequence[str], labels: ObservedLabels) -> str:
    same: dict[str, list[str]] = defaultdict(list)
    for name in classes:
        same[folded(name)].append(name)
    groups = [names for names in same.values() if len(names) > 1]
    if not groups:
        return ""
    counts = dict(zip(classes, labels.positives_per_class().tolist(), strict=True))
    some = "; ".join(
        " and ".join(f"{shown(name)} ({counts[name]:,})" for name in names[:SOME]) for names in groups[:SOME]
    )
    return f"Classes whose names differ in case, spaces or underscores only: {some}{_more(groups)}"


def _equal_images(data: Dataset) -> str:
    groups: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for split, samples in data.splits.items():
        if isinstance(samples.inputs, ImageFiles):
            for name, digest in zip(samples.ids, samples.inputs.digests, strict=True):
                groups[digest].append((name, split))
    equal = [group for group in groups.values() if len(group) > 1]
    if not equal:
        return ""
    across = [group for group in equal if len({split for _, split in group}) > 1]
    text = f"{len(equal):,} images occur several times, byte for byte"
    if not across:
        some = "; ".join(" = ".join(name for name, _ in group[:SOME]) for group in equal[:SOME])
        return f"{text}: {some}{_more(equal)}"
    some = "; ".join(
        " = ".join(f"{name} ({split})" for name, split in _one_per_split(group)) for group in across[:SOME]
    )
    return (
        f"{text}, {len(across):,} of them in several splits, which makes results there too good: "
        f"{some}{_more(across)}"
    )


def _one_per_split(group: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    first = {split: name for name, split in reversed(group)}
    return [(name, split) for name, split in group if first[split] == name]


def _missing_classes(data: Dataset, split: str) -> str:
    training = data.splits["train"].observed.positives_per_class() if "train" in data.splits else None
    there = data.truth.get(split, data.splits[split].observed).positives_per_class()
    if training is None or not len(missing := np.flatnonzero((training > 0) & (there == 0))):
        return ""
    names = [shown(data.classes[column]) for column in missing.tolist()]
    return (
        f"{len(names):,} classes have known positives in training, but none in the {split} split, so nothing "
        f"can be said about them there: {', '.join(names[:SOME])}{_more(names)}"
    )


def _more(found: Sequence[object]) -> str:
    return "; ..." if len(found) > SOME else "."
