"""Finished runs with their settings, and images to draw with what is known of their labels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ...common.draws import permutation
from ...common.errors import InputError
from ...config import DataConfig
from ...data import Dataset, Inputs, Opening, Samples, open_inputs, start_opening
from ...labels import ObservedLabels
from ...models import BackboneSpec
from ...runs.api import load_each
from ...runs.compute.predict import Engine
from ...runs.judge.evaluate import check_classes
from ...runs.run import Run

Ternary = npt.NDArray[np.int8]


def open_runs(folders: Sequence[str | Path]) -> list[Run]:
    """Load finished runs. Where the folders of several end in the same name, their names are whole paths."""
    if not folders:
        raise InputError("no run to draw: name the folder of at least one")
    runs = load_each(folders)
    names = [run.name for run in runs]
    for run in runs:
        if names.count(run.name) > 1:
            run.name = str(run.folder)
    return runs


def open_training_data(run: Run) -> Dataset:
    """Open the data of a run as in its training: the same hidden labels, the same splits."""
    opening = start_opening(replace(run.settings.data, size=0))
    _check_kind(run, opening)
    if opening.classes != run.classes:
        raise InputError(
            f"{run.settings.data.path}: has other classes than when {run.folder} was trained on it. "
            "Restore the data, or train again."
        )
    return _finish(opening, run.spec)


class Pictures(NamedTuple):
    """Images to draw, with labels in the order of the classes of the first run.

    Attributes:
        ids: Names of n images.
        observed: Observed labels in {-1, 0, +1}, int8 (n, C).
        truth: True labels in {-1, +1}, or 0 for a class that the data does not have, int8 (n, C); None if the
            data is not fully labelled.
        load: Loads the images for a backbone.
    """

    ids: tuple[str, ...]
    observed: Ternary
    truth: Ternary | None
    load: Callable[[BackboneSpec], Inputs]

    def known(self, picture: int, column: int) -> tuple[int, int]:
        """Observed and true label of a class on an image, each in {-1, 0, +1}; 0 = not known."""
        truth = 0 if self.truth is None else int(self.truth[picture, column])
        return int(self.observed[picture, column]), truth

    def pixels(self, spec: BackboneSpec) -> npt.NDArray[np.uint8]:
        """Images as a backbone sees them, uint8 (n, channels, H, W)."""
        return self.load(spec).fetch(range(len(self.ids)), None).numpy()


def open_pictures(
    folders: Sequence[str | Path],
    *,
    data: str | None,
    split: str | None,
    images: int,
    files: Sequence[str] | None,
    threshold: float | None,
    seed: int,
) -> tuple[list[Run], Pictures]:
    """Open runs with the same classes, and the images for them; the options are those of `predictions`."""
    if threshold is not None and not 0 <= threshold <= 1:
        raise InputError(f"--threshold is a probability from 0 to 1, got {threshold:g}")
    runs = open_runs(folders)
    check_classes({str(run.folder): run for run in runs})
    for run in runs:
        if run.spec.kind != "image":
            raise InputError(
                f"{run.folder}: takes {run.spec.kind}s, which can't be drawn. Name runs that were "
                "trained on images; a pretrained backbone may be frozen (--model.frozen yes)."
            )
    if files:
        if data or split:
            raise InputError("--files names the images itself: leave out --data and --split")
        return runs, _from_files(files, len(runs[0].classes))
    if images < 1:
        raise InputError(f"--images must be at least 1, got {images}")
    return runs, _from_data(runs[0], data, split, images, seed)


def predict_pictures(
    run: Run, pictures: Pictures, classes: Sequence[str], threshold: float | None
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.bool_]]:
    """Probabilities (n, C) of a run, and which labels it predicts, bool (n, C); columns as `classes`."""
    unlabelled = ObservedLabels.from_ternary(np.zeros_like(pictures.observed))
    logits = run.logits(Samples(pictures.ids, pictures.load(run.spec), unlabelled), Engine())
    order = [run.classes.index(name) for name in classes]
    probabilities = run.probabilities(logits[:, order])
    if threshold is None:
        return probabilities, run.decision()(logits)[:, order]
    return probabilities, probabilities >= threshold


def _from_files(files: Sequence[str], classes: int) -> Pictures:
    def load(spec: BackboneSpec) -> Inputs:
        return open_inputs(list(files), size=spec.size, interpolation=spec.interpolation)[1]

    ids, inputs, _ = open_inputs(list(files))
    if inputs.kind != "image":
        raise InputError(f"{files[0]}: holds feature vectors, which can't be drawn. Name images.")
    return Pictures(tuple(ids), np.zeros((len(ids), classes), np.int8), None, load)


def _from_data(run: Run, data: str | None, split: str | None, images: int, seed: int) -> Pictures:
    own = run.settings.data
    if data is None:
        opening = start_opening(replace(own, size=0))
    else:
        kept = ("unlisted", "rename", "separator", "draft", "decoder", "workers")
        config = DataConfig(path=data, **{name: getattr(own, name) for name in kept})
        opening = start_opening(config, purpose="evaluate")
    _check_kind(run, opening)
    columns = run.columns(opening.config.path, opening.classes)
    first = _finish(opening, run.spec)
    split = split or ("val" if data is None else "test")
    if split not in first.splits:
        raise InputError(
            f"{opening.config.path}: has no {split!r} split, but {', '.join(first.splits)} (--split)."
        )
    samples, truth = first.splits[split], first.truth.get(split)
    rows = np.sort(permutation(len(samples), "pictures", seed)[:images])

    def ternary(labels: ObservedLabels) -> Ternary:
        # A class that the data does not list is unknown in it, not absent.
        result = np.zeros((len(rows), len(run.classes)), np.int8)
        result[:, columns] = labels.take(rows).to_ternary()
        return result

    def load(spec: BackboneSpec) -> Inputs:
        dataset = first if spec == run.spec else _finish(opening, spec)
        return dataset.splits[split].inputs.take(rows)

    return Pictures(
        tuple(samples.ids[row] for row in rows),
        ternary(samples.observed),
        None if truth is None else ternary(truth),
        load,
    )


def _finish(opening: Opening, spec: BackboneSpec) -> Dataset:
    return opening.finish(size=spec.size or 1, interpolation=spec.interpolation)


def _check_kind(run: Run, opening: Opening) -> None:
    kind = run.spec.kind
    if opening.kind != kind:
        raise InputError(
            f"{opening.config.path}: holds {opening.kind}s, but the model in {run.folder} takes "
            f"{kind}s. Name other data."
        )
