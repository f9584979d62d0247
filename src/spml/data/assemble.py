"""How a data set is made of what a reader found: hide labels, split, leave out what can't be used, check."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np
import numpy.typing as npt

from ..config import DataConfig
from ..errors import InputError
from ..labels import ObservedLabels
from .dataset import Dataset, Inputs, Samples
from .hiding import hide
from .matrix import FeatureMatrix, check_finite
from .records import Records
from .splits import SPLITS, hold_out

Purpose = Literal["train", "evaluate"]


def to_dataset(
    records: Records,
    config: DataConfig,
    inputs: Inputs,
    skipped: Mapping[int, str],
    purpose: Purpose = "train",
) -> Dataset:
    """Hide labels if asked to, split, and leave out what can't be used.

    The observed labels of a sample depend on the file and `observe_seed` only: neither the split nor a
    skipped image changes it.

    Args:
        records: what a reader found.
        config: `observe` and what belongs to it, `val_share` and `split_seed` are used.
        inputs: one sample per record.
        skipped: the reason for each row that can't be used.
        purpose: `evaluate` takes the data as it is: without a split everything is `test`, nothing is held
            out, and nothing is asked of the training samples.

    Raises:
        InputError: labels are to be hidden of data that is not fully labelled; fewer than two classes; a
            class that never occurs in training; a split without samples.
    """
    labels, source, notes = records.labels, records.source, list(records.notes)
    full = labels.full
    observed = labels
    if config.observe != "none":
        observed, note = hide(records, config)
        notes.append(note)
    if skipped:
        notes.append(_skip_note(records.ids, skipped))

    usable = np.ones(len(records.ids), np.bool_)
    usable[list(skipped)] = False
    default = "train" if purpose == "train" else "test"
    split = np.array(records.split or [default] * len(usable), dtype="U5")
    split[~usable] = ""
    if purpose == "train":
        notes.append(_set_aside(split, config, source))
        _check_classes(records, split)
    # A test sample without an observed label still has its truth, and a protocol fixes who is trained on.
    useless = _nothing_known(observed) & ((split == "train") | (split == "val"))
    if config.observe != "protocol" and useless.any():
        split[useless] = ""
        notes.append(
            f"{useless.sum():,} samples with no known label were left out of training and validation."
        )
    if purpose == "train":
        notes.append(_hold_out(split, config, source))
        notes.extend(_unseen_note(records.classes, observed.take(np.flatnonzero(split == "train"))))
    notes.insert(0, _summary(records, split, full))

    rows = {name: np.flatnonzero(split == name) for name in SPLITS if (split == name).any()}
    return Dataset(
        name=records.name,
        classes=records.classes,
        splits={
            name: Samples(
                tuple(records.ids[row] for row in chosen), inputs.take(chosen), observed.take(chosen)
            )
            for name, chosen in rows.items()
        },
        truth={name: labels.take(chosen) for name, chosen in rows.items() if labels.take(chosen).full},
        notes=tuple(note for note in notes if note),
        skipped=tuple((records.ids[row], reason) for row, reason in skipped.items()),
        empty="exclude" if records.protocol is None else "zero",
    )


def check_inputs(records: Records) -> None:
    """Check samples that no reader looks at one by one.

    Raises:
        InputError: features that are not finite as float32 (names row and column).
    """
    if isinstance(records.inputs, FeatureMatrix):
        check_finite(records.inputs, records.source)


def _nothing_known(labels: ObservedLabels) -> npt.NDArray[np.bool_]:
    known = labels.positives_per_sample() + labels.negatives_per_sample()
    return np.asarray(known == 0)


def _check_classes(records: Records, split: npt.NDArray[np.str_]) -> None:
    """Two classes at least, and, unless the data lists its classes, each of them in training."""
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
        elsewhere = [row for row in records.labels.positive_rows(column).tolist() if split[row]]
        if elsewhere:
            row = elsewhere[0]
            raise InputError(
                f"{source}: {records.ids[row]} in the {split[row]} split has the label {classes[column]!r}, "
                "which no training sample has. Correct the name, or add training samples that have it."
            )


def _set_aside(split: npt.NDArray[np.str_], config: DataConfig, source: str) -> str:
    """Turn some training samples into test samples if the user wants that."""
    if not config.test_share:
        return ""
    if (split == "test").any():
        raise InputError(
            f"{source}: has test samples of its own, so data.test_share = {config.test_share:g} has no use: "
            "leave it out."
        )
    train = np.flatnonzero(split == "train")
    split[train[hold_out(len(train), config.test_share, config.split_seed, "test")]] = "test"
    return f"{config.test_share:.0%} of the samples are set aside for the test (seed {config.split_seed})."


def _hold_out(split: npt.NDArray[np.str_], config: DataConfig, source: str) -> str:
    """Turn some training samples into validation samples if there are none."""
    train = np.flatnonzero(split == "train")
    if not len(train):
        raise InputError(f"{source}: no training sample is left. Some rows must be in the train split.")
    if (split == "val").any():
        return ""
    split[train[hold_out(len(train), config.val_share, config.split_seed)]] = "val"
    share, seed = config.val_share, config.split_seed
    return f"{share:.0%} of the training samples are held out for validation (seed {seed})."


def _summary(records: Records, split: npt.NDArray[np.str_], full: bool) -> str:
    sizes = ", ".join(f"{name} {(split == name).sum():,}" for name in SPLITS if (split == name).any())
    mean = records.labels.positives_per_sample().mean()
    meaning = (
        f"fully labelled, {mean:.2f} labels per sample"
        if full
        else f"{mean:.2f} known labels per sample, a label that is not listed is unknown"
    )
    return f"{records.name}: {sizes} samples; {len(records.classes)} classes; {meaning}."


def _skip_note(ids: tuple[str, ...], skipped: Mapping[int, str]) -> str:
    return (
        f"{len(skipped):,} of {len(ids):,} images can't be used and were skipped: {name_some(ids, skipped)}."
    )


def name_some(ids: tuple[str, ...], skipped: Mapping[int, str]) -> str:
    """The first three skipped files with their reasons, as one phrase."""
    named = "; ".join(f"{ids[row]} ({reason})" for row, reason in list(skipped.items())[:3])
    return named + ("; ..." if len(skipped) > 3 else "")


def _unseen_note(classes: tuple[str, ...], training: ObservedLabels) -> list[str]:
    unseen = [classes[column] for column in np.flatnonzero(training.positives_per_class() == 0).tolist()]
    if not unseen:
        return []
    named = ", ".join(unseen[:5]) + (", ..." if len(unseen) > 5 else "")
    return [f"{len(unseen)} classes have no known positive in training and can't be learnt: {named}."]
