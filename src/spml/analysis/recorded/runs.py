"""Recorded scores of several runs in one figure: reading them, which labels count, and their panels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ...common.errors import InputError, nearest
from ...plots.style import new_figure, style_axes
from ...runs.fit.recording import Recording, read_recording
from ...runs.folder.contents import read_metrics

Mask = npt.NDArray[np.bool_]
Values = npt.NDArray[np.float64]

RUNS_WITH_TRUTH = "runs that were trained with --record scores on samples with true labels"
EPOCHS = "epoch (0: before training)"
CURVE = {"linewidth": 1.8, "marker": "o", "markersize": 3}
"""Look of a curve over epochs."""


def read_runs(folders: Sequence[str | Path], *, truth: bool) -> tuple[dict[str, Recording], tuple[str, ...]]:
    """Read the recorded scores of several runs on the same samples.

    Args:
        folders: Folders of the runs, at least one, each once.
        truth: Whether true labels are needed. If not, they are removed even if they were recorded.

    Returns:
        The recordings, named by their methods, or by their folders if two have the same method; and notes for
        the reader of the figure.
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
        for what, same in (
            ("classes", recording.classes == first.classes),
            ("samples", recording.ids == first.ids),
            ("true labels", np.array_equal(recording.truth, first.truth)),  # type: ignore[arg-type]
        ):
            if not same:
                raise InputError(
                    f"{recording.folder}: recorded other {what} than {first.folder}: a figure compares runs "
                    "on the same data, split and --record_samples. Draw them in separate figures."
                )
    names = [recording.method for recording in recordings]
    if len({*names}) < len(names):
        names = [recording.folder.name for recording in recordings]
    if len({*names}) < len(names):
        names = [str(recording.folder) for recording in recordings]
    notes = []
    if any(not np.array_equal(recording.observed, first.observed) for recording in recordings):
        notes.append("The runs have other observed labels, so their unknown labels differ.")
    if any(recording.normalised for recording in recordings):
        notes.append(
            "A method that compares the classes of a sample gives probabilities that sum to 1 over them."
        )
    return dict(zip(names, recordings, strict=True)), tuple(notes)


def chosen_epochs(
    recordings: dict[str, Recording], epochs: Sequence[int] | Literal["best"] | None
) -> dict[str, list[int]]:
    """Epochs to draw of each run: those that are named, its best one, or the last one."""
    if epochs is not None and not epochs:
        raise InputError("no epoch to draw (--epochs)")
    chosen = {}
    for name, recording in recordings.items():
        if epochs == "best":
            chosen[name] = [best_epoch(recording)]
        else:
            chosen[name] = [recording.epochs[-1]] if epochs is None else list(epochs)
        for epoch in chosen[name]:
            recording.check_epoch(epoch)
    return chosen


def best_epoch(recording: Recording) -> int:
    """The first epoch with the highest true validation mAP, counted from 1."""
    records = read_metrics(recording.folder)
    values = [record["val/mAP"] for record in records if isinstance(record.get("val/mAP"), float)]
    if not values or len(values) < len(records):
        raise InputError(
            f"{recording.folder}: has no true validation mAP of every epoch, so its best one is not known: "
            "name epochs (--epochs [1,2])"
        )
    return 1 + int(np.argmax(values))


def counted_labels(
    recording: Recording, *, label: str | None = None, known: bool = False
) -> tuple[Mask, Mask]:
    """Labels of a recording that a figure counts, and which labels are true; both bool (N, C).

    Counted are those of the class `label`, or of all; those that were observed count if `known`.
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
    return mask, recording.truth


def describe_labels(label: str | None, known: bool) -> str:
    """Describe the labels that are counted, for titles."""
    return ("all" if known else "unknown") + " labels" + ("" if label is None else f" of class {label}")


def epoch_title(name: str, epoch: int) -> str:
    """Title of a panel of one epoch of a run."""
    return f"{name}, epoch {epoch}" if epoch else f"{name}, before training"


def new_panels(rows: int, columns: int) -> npt.NDArray[Any]:
    """Styled axes (rows, columns) of a new figure, which share their axes row by row."""
    figure = new_figure(max(3.2 * columns, 4.2), 2.7 * rows + 0.3)
    panels: npt.NDArray[Any] = figure.subplots(rows, columns, squeeze=False, sharey="row")
    for axes in panels.flat:
        style_axes(axes, whole=False)
    return panels


def bin_edges(bins: int) -> Values:
    """Edges of equal bins between 0 and 1, shape (bins + 1,)."""
    if bins < 1:
        raise InputError(f"the number of bins must be at least 1, got {bins}")
    return np.linspace(0, 1, bins + 1)
