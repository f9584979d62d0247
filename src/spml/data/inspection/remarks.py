"""Remarks on a data set that concern how far a result on it can be trusted: equal images, names that may mean
the same class, classes that a split lacks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from ...common.phrases import counted, first_few
from ...common.safe import quote
from ...labels import ObservedLabels
from ..dataset import Dataset
from ..images.image_files import ImageFiles
from .class_names import group_alike, spelled

EXAMPLES = 3  # examples that a remark names


def remarks(data: Dataset, labels: ObservedLabels, *, has_split: bool) -> tuple[str, ...]:
    """Remarks on a data set, one line each.

    Args:
        data: Data set, read, checked and split.
        labels: Labels of all its samples as the file gives them.
        has_split: Whether the file says which samples are for testing or validation.
    """
    lines = [_alike_classes(data.classes, labels), _equal_images(data)]
    if has_split and "train" in data.splits:
        lines += [_missing_classes(data, name) for name in ("val", "test") if name in data.splits]
    return tuple(line for line in lines if line)


def _alike_classes(classes: Sequence[str], labels: ObservedLabels) -> str:
    groups = [names for names in group_alike(classes).values() if len(names) > 1]
    if not groups:
        return ""
    counts = dict(zip(classes, labels.positives_per_class().tolist(), strict=True))
    phrases = [
        " and ".join(f"{spelled(name)} ({counts[name]:,})" for name in names[:EXAMPLES]) for names in groups
    ]
    return (
        f"{counted(len(groups), 'group')} of class names may mean the same: "
        f"{first_few(phrases, EXAMPLES, '; ')}. `spml data inspect --propose_names FILE` writes a file for "
        "--data.rename that merges them."
    )


def _equal_images(data: Dataset) -> str:
    by_digest: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for split, samples in data.splits.items():
        if isinstance(samples.inputs, ImageFiles):
            for name, digest in zip(samples.ids, samples.inputs.digests, strict=True):
                by_digest[digest].append((name, split))
    groups = [group for group in by_digest.values() if len(group) > 1]
    if not groups:
        return ""
    text = f"{counted(len(groups), 'image occurs', 'images occur')} several times, byte for byte"
    across = [group for group in groups if len({split for _, split in group}) > 1]
    if not across:
        phrases = [" = ".join(name for name, _ in group[:EXAMPLES]) for group in groups]
        return f"{text}: {first_few(phrases, EXAMPLES, '; ')}."
    firsts = ({split: name for name, split in reversed(group)}.items() for group in across)
    phrases = [" = ".join(f"{name} ({split})" for split, name in reversed(first)) for first in firsts]
    return (
        f"{text}, {len(across):,} of them in several splits, which makes results there too good: "
        f"{first_few(phrases, EXAMPLES, '; ')}."
    )


def _missing_classes(data: Dataset, split: str) -> str:
    in_training = data.splits["train"].observed.positives_per_class()
    in_split = data.truth.get(split, data.splits[split].observed).positives_per_class()
    names = [quote(data.classes[column]) for column in np.flatnonzero((in_training > 0) & (in_split == 0))]
    if not names:
        return ""
    return (
        f"{counted(len(names), 'class', 'classes')} with known positives in training but none in the {split} "
        f"split can't be evaluated there: {first_few(names, EXAMPLES)}."
    )
