"""From the content of a file to a data set: hide labels, split, leave out samples that can't be used; remarks
on equal images, names that may mean the same class, and classes that a split lacks."""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat
from typing import Literal

import numpy as np
import numpy.typing as npt

from ..common.errors import InputError
from ..common.phrases import counted, first_few
from ..common.safe import quote, spelled
from ..config import DataConfig
from ..labels import IntArray, ObservedLabels
from .dataset import Dataset, Inputs, Samples
from .groups import count_groups, describe_groups, group_codes, note_separated
from .hiding import hide
from .images.image_files import MISSING, ImageFiles
from .matrix import FeatureMatrix, check_finite
from .names import take
from .records import NO_LABEL, Records, note_unlabelled
from .splits import SPLITS, hold_out

Purpose = Literal["train", "evaluate"]
Split = npt.NDArray[np.str_]
"""Name of the split of each sample; empty for a sample that is left out."""

# Joiners and variation selectors belong to emoji and to some scripts, so they only count as no difference.
_INVISIBLE = re.compile("[\u00ad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff]")
_JOINERS = re.compile("[\u034f\u200c\u200d\ufe00-\ufe0f]")
_DASHES = re.compile("[\u2010-\u2015\u2212\ufe58\ufe63\uff0d]")
_APOSTROPHES = re.compile("[\u2018\u2019\u02bc\u00b4`]")

EXAMPLES = 3  # examples that a remark names


def to_dataset(
    records: Records,
    config: DataConfig,
    inputs: Inputs,
    skipped: Mapping[int, str],
    purpose: Purpose = "train",
) -> Dataset:
    """Hide labels if `config` says so, split, and leave out samples that can't be used.

    The observed labels of a sample depend on the file and `observe_seed` only: neither the split nor a
    skipped image changes them. Validation samples are stratified by the observed labels, and test samples,
    where they are drawn, by the labels of the file. `skipped` has the reason for each row that can't be used.

    The purpose `evaluate` takes the data as it is: without a split every sample is in `test`, none is held
    out, and no training sample is required.
    """
    if isinstance(inputs, FeatureMatrix):
        check_finite(inputs, records.source)
    notes = list(records.notes)
    observed = records.labels
    if config.observe != "none":
        observed, note = hide(records, config)
        notes.append(note)
    missing, unreadable = _by_reason(skipped, config)
    if missing:
        names = first_few([records.ids[row] for row in missing], 3)
        do = "does" if len(missing) == 1 else "do"
        total = counted(len(records.ids), "file")
        notes.append(f"{len(missing):,} of {total} {do} not exist; skipped: {names}.")
    if unreadable:
        reasons = name_skipped(records.ids, unreadable)
        notes.append(f"{_share_skipped(records, unreadable)}; skipped: {reasons}.")
    unlabelled: list[int] = []
    if not config.classes:
        unlabelled = np.flatnonzero(records.labels.known_per_sample() == 0).tolist()
    notes += note_unlabelled(records, unlabelled, config)
    skipped = {**dict.fromkeys(unlabelled, NO_LABEL), **skipped}
    groups = None if records.groups is None else group_codes(records.groups)
    split, further = _split(records, observed, groups, skipped, config, purpose)
    notes += further
    if records.groups is not None and groups is not None:
        notes.append(describe_groups(groups, split, config))
        notes += note_separated(records.groups, groups, split)
    rows = {name: np.flatnonzero(split == name) for name in SPLITS if (split == name).any()}
    truth = {name: records.labels.take(chosen) for name, chosen in rows.items()}
    mean = records.labels.positives_per_sample().mean()
    absent = records.labels.negatives_per_sample().mean()
    meaning = f"{mean:.2f} known labels per sample, a label that is not listed is unknown"
    if records.labels.full:
        meaning = f"fully labelled, {mean:.2f} labels per sample"
    elif absent:
        meaning = f"{mean:.2f} positive and {absent:.2f} negative labels known per sample, others are unknown"
    sizes = ", ".join(f"{name} {len(chosen):,}" for name, chosen in rows.items())
    summary = f"{records.name}: {sizes} samples; {len(records.classes)} classes; {meaning}."
    return Dataset(
        name=records.name,
        classes=records.classes,
        splits={
            name: Samples(
                take(records.ids, chosen),
                inputs.take(chosen),
                observed.take(chosen),
                None if groups is None else groups[chosen],
            )
            for name, chosen in rows.items()
        },
        truth={name: labels for name, labels in truth.items() if labels.full},
        notes=(summary, *notes),
        skipped=(*records.skipped, *((records.ids[row], reason) for row, reason in sorted(skipped.items()))),
        empty=records.empty,
    )


def check_share_skipped(records: Records, skipped: Mapping[int, str], config: DataConfig) -> None:
    """Check that no more images are skipped than `config.max_unreadable` allows.

    Files that do not exist do not count if `config.missing` is `skip`.
    """
    _, skipped = _by_reason(skipped, config)
    if len(skipped) > config.max_unreadable * len(records.ids):
        raise InputError(
            f"{records.source}: {_share_skipped(records, skipped)}, more than data.max_unreadable = "
            f"{config.max_unreadable:g} allows: {name_skipped(records.ids, skipped)}. Repair or remove them, "
            "or raise data.max_unreadable."
        )


def name_skipped(ids: Sequence[str], skipped: Mapping[int, str]) -> str:
    """The first three skipped files with their reasons, as one phrase."""
    return first_few([f"{ids[row]} ({reason})" for row, reason in skipped.items()], 3, "; ")


def _by_reason(skipped: Mapping[int, str], config: DataConfig) -> tuple[list[int], dict[int, str]]:
    """Rows of files that do not exist and are to be skipped, and what is skipped for other reasons."""
    missing = [row for row, reason in skipped.items() if reason == MISSING and config.missing == "skip"]
    return missing, {row: skipped[row] for row in sorted(skipped.keys() - missing)}


def _share_skipped(records: Records, skipped: Mapping[int, str]) -> str:
    return f"{len(skipped):,} of {counted(len(records.ids), 'image')} can't be used"


def _split(
    records: Records,
    observed: ObservedLabels,
    groups: IntArray | None,
    skipped: Mapping[int, str],
    config: DataConfig,
    purpose: Purpose,
) -> tuple[Split, list[str]]:
    """The split of each sample as the data or the settings have it, and notes on it."""
    notes: list[str] = []
    split = np.full(len(records.ids), "train" if purpose == "train" else "test", "U5")
    if records.split is not None:
        split[:] = records.split
    split[list(skipped)] = ""
    if purpose == "train":
        _check_classes(records, split)
        if config.test_share and (split == "test").any():
            raise InputError(
                f"{records.source}: has test samples of its own, so data.test_share = {config.test_share:g} "
                "has no effect: leave it out, or pass data.split=ignore."
            )
        if config.test_share:
            notes.append(_hold_out(split, records.labels, groups, "test", config))
    if not (split != "").any():  # NumPy 1 has no any() for text
        raise InputError(f"{records.source}: none of its {counted(len(split), 'sample')} can be used.")
    # A test sample without an observed label still has its truth, and a protocol fixes the training samples.
    useless = (observed.known_per_sample() == 0) & ((split == "train") | (split == "val"))
    if useless.any() and config.observe != "protocol":
        split[useless] = ""
        samples = counted(
            int(useless.sum()), "sample with no known label was", "samples with no known label were"
        )
        notes.append(f"{samples} left out of training and validation.")
    if purpose == "train":
        if not (split == "train").any():
            raise InputError(
                f"{records.source}: no training sample is left. Some rows must be in the train split."
            )
        if not (split == "val").any():
            notes.append(_hold_out(split, observed, groups, "val", config))
        training = observed.take(np.flatnonzero(split == "train"))
        if unseen := [records.classes[k] for k in np.flatnonzero(training.positives_per_class() == 0)]:
            have = counted(len(unseen), "class has", "classes have")
            names = first_few(unseen, 5)
            notes.append(f"{have} no known positive in training and can't be learned: {names}.")
    return split, notes


def _check_classes(records: Records, split: Split) -> None:
    """Check that there are two classes and that, unless the data lists them, each occurs in training."""
    source, classes = records.source, records.classes
    if len(classes) < 2:
        raise InputError(
            f"{source}: there is only one class, {classes[0]!r}. Multi-label learning needs at least two."
        )
    if not records.labels.positives_per_class().any():
        raise InputError(f"{source}: no sample has a known positive label. At least some must have one.")
    if records.split is None or records.classes_given:
        return
    training = records.labels.take(np.flatnonzero(split == "train"))
    for column in np.flatnonzero(training.positives_per_class() == 0).tolist():
        row = next((row for row in records.labels.positive_rows(column).tolist() if split[row]), None)
        if row is not None:
            raise InputError(
                f"{source}: {records.ids[row]} in the {split[row]} split has the label {classes[column]!r}, "
                "which no training sample has. Correct the name, or add training samples that have it."
            )


def _hold_out(
    split: Split,
    labels: ObservedLabels,
    groups: IntArray | None,
    part: Literal["val", "test"],
    config: DataConfig,
) -> str:
    """Turn some training samples into others, as the share in `config` says. Returns a note.

    Test samples are stratified by the labels of the file, so that they do not depend on which of these are
    hidden.
    """
    share, seed = config.test_share if part == "test" else config.val_share, config.split_seed
    train = np.flatnonzero(split == "train")
    own = None if groups is None else groups[train]
    held = hold_out(labels.take(train), share, seed, part, stratify=config.stratify, groups=own)
    split[train[held]] = part
    done = "set aside for the test" if part == "test" else "held out for validation"
    note = f"{share:.0%} of the {'' if part == 'test' else 'training '}samples are {done} (seed {seed})."
    number, wanted = int(held.sum()), round(share * len(held))
    if own is not None and number != wanted:
        groups_held = f"{count_groups(own[held]):,} of {counted(count_groups(own), 'group')}"
        note += f" They are {number:,} instead of {wanted:,}, because groups stay whole ({groups_held})."
    elif number < wanted:
        note += f" They are {number:,} instead of {wanted:,}: each of the others is the last one of a class."
    return note


def remarks(data: Dataset, labels: ObservedLabels, *, has_split: bool) -> tuple[str, ...]:
    """Remarks on a data set, one line each; `labels` are those of all its samples as the file gives them."""
    lines = [note_alike(data.classes, labels), _equal_images(data)]
    for name in ("val", "test"):
        if has_split and {"train", name} <= {*data.splits}:
            seen = data.splits["train"].observed.positives_per_class()
            own = data.truth.get(name, data.splits[name].observed).positives_per_class()
            if lacking := [quote(data.classes[k]) for k in np.flatnonzero((seen > 0) & (own == 0)).tolist()]:
                lines.append(
                    f"{counted(len(lacking), 'class', 'classes')} with known positives in training but none "
                    f"in the {name} split can't be evaluated there: {first_few(lacking, EXAMPLES)}."
                )
    return tuple(line for line in lines if line)


def note_alike(classes: Sequence[str], labels: ObservedLabels) -> str:
    """Note on class names that may mean the same, with their numbers of samples; empty without any."""
    groups = [names for names in group_alike(classes).values() if len(names) > 1]
    counts = dict(zip(classes, labels.positives_per_class().tolist(), strict=True))
    phrases = [
        " and ".join(f"{spelled(name)} ({counts[name]:,})" for name in names[:EXAMPLES]) for names in groups
    ]
    if not groups:
        return ""
    return (
        f"{counted(len(groups), 'group')} of class names may mean the same: "
        f"{first_few(phrases, EXAMPLES, '; ')}. A file for data.rename merges them."
    )


def group_alike(classes: Iterable[str]) -> dict[str, list[str]]:
    """Class names by their folded form, see `folded`."""
    groups: dict[str, list[str]] = defaultdict(list)
    for name in classes:
        groups[folded(name)].append(name)
    return groups


def folded(name: str) -> str:
    """The name without the differences in spelling that people make; symbols alone stay as they are.

    Case, blanks, underscores, hyphens in words, invisible characters and the Unicode form do not count. A
    hyphen counts in front of a number and at the end: -1 is not 1, and A- is not A.
    """
    visible = _JOINERS.sub("", _INVISIBLE.sub("", name))
    plain = unicodedata.normalize("NFKC", visible).casefold().strip()
    plain = _APOSTROPHES.sub("'", _DASHES.sub("-", plain))

    def between(gap: re.Match[str]) -> str:
        return "-" if (plain[gap.start() - 1] + plain[gap.end()]).isdigit() else ""

    words = re.sub(r"(?<=\w)[\s_-]+(?=\w)", between, plain)
    return re.sub(r"[\s_]+", "", words) or plain or name


def _equal_images(data: Dataset) -> str:
    places: list[tuple[str, str]] = []
    digests: list[str] = []
    for split, samples in data.splits.items():
        if isinstance(samples.inputs, ImageFiles):
            places += zip(repeat(split), samples.ids)
            digests += samples.inputs.digests
    groups = [[places[row] for row in rows] for rows in group_equal(digests)]
    if not groups:
        return ""
    # Of a group in several splits, the first image of each.
    across = [first for group in groups if len(first := dict(reversed(group))) > 1]
    phrases = [
        " = ".join(f"{name} ({split})" for split, name in group[:EXAMPLES])
        for group in ([[*first.items()][::-1] for first in across] or groups)
    ]
    text = f"{counted(len(groups), 'image occurs', 'images occur')} several times, byte for byte"
    if across:
        text += f", {len(across):,} of them in several splits, which makes results there too good"
    return f"{text}: {first_few(phrases, EXAMPLES, '; ')}."


def group_equal(digests: Iterable[str]) -> list[list[int]]:
    """Rows of samples with the same content, by its digest, which is empty for one that can't be read."""
    rows: dict[str, list[int]] = defaultdict(list)
    for row, digest in enumerate(digests):
        rows[digest].append(row)
    return [group for digest, group in rows.items() if digest and len(group) > 1]
