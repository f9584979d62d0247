"""What the figures on recorded scores share: reading several runs, and which labels are counted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ...common.errors import InputError, nearest
from ...runs.fit.recording import Recording, read_recording

Mask = npt.NDArray[np.bool_]
Values = npt.NDArray[np.float64]

RUNS_WITH_TRUTH = "runs that were trained with --record scores on samples with true labels"


class Runs(NamedTuple):
    """Recorded runs of one figure.

    Attributes:
        recordings: Recordings by the name under which they are drawn.
        notes: What a reader of the figure should know.
    """

    recordings: dict[str, Recording]
    notes: tuple[str, ...]


def read_runs(folders: Sequence[str | Path], *, truth: bool) -> Runs:
    """Read the recorded scores of several runs on the same samples.

    Args:
        folders: Folders of the runs, at least one, each once.
        truth: Whether the figure needs true labels. If not, they are removed even if they were recorded.

    Returns:
        The runs, named by their methods, or by their folders if two have the same method.

    Raises:
        InputError: A folder has no recording or a damaged one, or one without the true labels that are
            needed; or two runs have other classes or samples.
    """
    if not folders:
        raise InputError("no run to draw: name the folder of at least one")
    recordings = [read_recording(folder) for folder in folders]
    if len({recording.folder.resolve() for recording in recordings}) < len(recordings):
        raise InputError("a run is named twice: name each once")
    if not truth:
        recordings = [replace(recording, truth=None) for recording in recordings]
    first = recordings[0]
    for recording in recordings:
        if truth and recording.truth is None:
            raise InputError(
                f"{recording.folder}: no true labels were recorded, because its samples are not fully "
                "labelled: train on fully labelled data of which labels are hidden (--data.unlisted negative "
                "--data.observe single), or draw observed-only."
            )
        if other := _difference(recording, first):
            raise InputError(
                f"{recording.folder}: recorded other {other} than {first.folder}: a figure compares runs on "
                "the same data, split and --record_samples. Draw them in separate figures."
            )
    return Runs(dict(zip(_names(recordings), recordings, strict=True)), _notes(recordings))


def _difference(recording: Recording, first: Recording) -> str:
    """What two recordings do not share and runs of the same figure must; empty if they go together."""
    if recording.classes != first.classes:
        return "classes"
    if recording.ids != first.ids:
        return "samples"
    if recording.truth is None or first.truth is None or np.array_equal(recording.truth, first.truth):
        return ""
    return "true labels"


def _names(recordings: Sequence[Recording]) -> list[str]:
    for names in ([r.method for r in recordings], [r.folder.name for r in recordings]):
        if len(set(names)) == len(names):
            return names
    return [str(recording.folder) for recording in recordings]


def _notes(recordings: Sequence[Recording]) -> tuple[str, ...]:
    first, notes = recordings[0], []
    if any(not np.array_equal(recording.observed, first.observed) for recording in recordings):
        notes.append("The runs have other observed labels, so their unknown labels differ.")
    if any(recording.normalised for recording in recordings):
        notes.append(
            "A method that compares the classes of a sample gives probabilities that sum to 1 over them."
        )
    return tuple(notes)


def chosen_epochs(recordings: dict[str, Recording], epochs: Sequence[int] | None) -> dict[str, list[int]]:
    """Epochs to draw of each run: those that are named, or the last one.

    Raises:
        InputError: An epoch is named that a run did not record.
    """
    chosen = {}
    for name, recording in recordings.items():
        chosen[name] = [recording.epochs[-1]] if epochs is None else list(epochs)
        for epoch in chosen[name]:
            recording.check_epoch(epoch)
    if epochs is not None and not epochs:
        raise InputError("no epoch to draw (--epochs)")
    return chosen


def epoch_name(epoch: int) -> str:
    """Name of an epoch for titles."""
    return f"epoch {epoch}" if epoch else "before training"


def counted_labels(recording: Recording, *, label: str | None = None, known: bool = False) -> Mask:
    """Labels of a recording that a figure counts, bool (N, C).

    Args:
        recording: Recording with true labels.
        label: Class to count; None for all.
        known: Whether labels that were observed count as well.

    Raises:
        InputError: The class is unknown, or no label that counts is truly positive, or none truly negative.
    """
    assert recording.truth is not None
    mask = np.ones_like(recording.truth) if known else recording.unknown
    if label is not None:
        if label not in recording.classes:
            raise InputError(
                f"{recording.folder}: has no class {label!r} (--label). {nearest(label, recording.classes)}"
            )
        mask[:, np.arange(len(recording.classes)) != recording.classes.index(label)] = False
    for sign, there in (("positive", mask & recording.truth), ("negative", mask & ~recording.truth)):
        if not there.any():
            of_class = "" if label is None else f" of class {label!r}"
            raise InputError(
                f"{recording.folder}: none of the {'' if known else 'unknown '}labels{of_class} of its "
                f"recorded samples is truly {sign}. Hide labels when training (--data.observe single), or "
                "count observed ones, too, where a figure can (--known true)."
            )
    return mask


def describe_labels(label: str | None, known: bool) -> str:
    """What is counted, for titles."""
    return ("all" if known else "unknown") + " labels" + ("" if label is None else f" of class {label}")
