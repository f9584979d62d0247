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
from ...config import Config, DataConfig
from ...data import Dataset, Inputs, Opening, Samples, open_inputs, start_opening
from ...labels import ObservedLabels
from ...models import BackboneSpec, Classifier
from ...models.spec import NONE
from ...runs.compute.predict import Engine
from ...runs.folder import layout as run_files
from ...runs.folder.contents import load_model
from ...runs.judge.evaluate import check_classes
from ...runs.run import Run

Ternary = npt.NDArray[np.int8]


class OpenedRun(NamedTuple):
    """A finished run.

    Attributes:
        name: Name in figures: the last part of its folder, or the whole path where others end in the same.
        run: The run, for predictions.
        classifier: Its model.
        config: Its settings.
    """

    name: str
    run: Run
    classifier: Classifier
    config: Config


def open_runs(folders: Sequence[str | Path]) -> list[OpenedRun]:
    """Load finished runs.

    Raises:
        InputError: No run is named, one is named twice, or a folder holds no finished run.
    """
    paths = [Path(folder) for folder in folders]
    if not paths:
        raise InputError("no run to draw: name the folder of at least one")
    for number, path in enumerate(paths):
        if path.resolve() in [other.resolve() for other in paths[:number]]:
            raise InputError(f"{path}: is named twice; name each run once.")
    last = [path.resolve().name for path in paths]
    runs = []
    for path, name in zip(paths, last, strict=True):
        classifier, card = load_model(path)
        config = run_files.read_config(path)
        runs.append(
            OpenedRun(
                name if last.count(name) == 1 else str(path), Run(path, classifier, card), classifier, config
            )
        )
    return runs


def open_training_data(opened: OpenedRun) -> Dataset:
    """Open the data of a run as in its training: the same hidden labels, the same splits.

    Raises:
        InputError: The data can't be read any more, or has other classes than the run.
    """
    opening = start_opening(replace(opened.config.data, size=0))
    _check_kind(opened, opening)
    if opening.classes != opened.run.classes:
        raise InputError(
            f"{opened.config.data.path}: has other classes than when {opened.run.folder} was trained on it. "
            "Restore the data, or train again."
        )
    return _finish(opening, opened.run.spec)


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

    def logits(self, run: Run, classes: Sequence[str]) -> npt.NDArray[np.float32]:
        """Logits (n, C) of a run, with the columns in the order of `classes`."""
        unlabelled = ObservedLabels.from_ternary(np.zeros_like(self.observed))
        logits = run.logits(Samples(self.ids, self.load(run.spec), unlabelled), Engine())
        return logits[:, [run.classes.index(name) for name in classes]]


def open_pictures(
    runs: Sequence[OpenedRun],
    *,
    data: str | None,
    split: str | None,
    images: int,
    files: Sequence[str] | None,
    seed: int,
) -> Pictures:
    """Open images for runs with the same classes.

    Args:
        runs: Runs; the data and settings of the first are used.
        data: Data set to draw images from; None = the data of the first run.
        split: Split to draw images from; None = `val` of the run's own data, `test` of another data set.
        images: Number of images that are drawn at random.
        files: Image files or folders of images, all of which are used; None = images of a data set.
        seed: Seed of the draw.

    Raises:
        InputError: The runs have different classes or do not take images, the data can't be read, has no such
            split or has a class that the runs do not know, or files are named together with a data set.
    """
    check_classes({str(opened.run.folder): opened.run for opened in runs})
    for opened in runs:
        if opened.run.spec.name == NONE:
            raise InputError(
                f"{opened.run.folder}: takes feature vectors, which can't be drawn. Name runs that were "
                "trained on images; a pretrained backbone may be frozen (--model.frozen yes)."
            )
    if files:
        if data or split:
            raise InputError("--files names the images itself: leave out --data and --split")
        return _from_files(files, len(runs[0].run.classes))
    if images < 1:
        raise InputError(f"--images must be at least 1, got {images}")
    return _from_data(runs[0], data, split, images, seed)


def check_threshold(threshold: float | None) -> None:
    """Check the option `--threshold`.

    Raises:
        InputError: It is not a probability.
    """
    if threshold is not None and not 0 <= threshold <= 1:
        raise InputError(f"--threshold is a probability from 0 to 1, got {threshold:g}")


def predict_pictures(
    opened: OpenedRun, pictures: Pictures, classes: Sequence[str], threshold: float | None
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.bool_]]:
    """Probabilities (n, C) of a run, and which labels it predicts, bool (n, C); columns as `classes`."""
    logits = pictures.logits(opened.run, classes)
    probabilities = opened.run.probabilities(logits)
    if threshold is None:
        order = [opened.run.classes.index(name) for name in classes]
        own = np.empty_like(logits)
        own[:, order] = logits
        return probabilities, opened.run.decision()(own)[:, order]
    return probabilities, probabilities >= threshold


def _from_files(files: Sequence[str], classes: int) -> Pictures:
    def load(spec: BackboneSpec) -> Inputs:
        return open_inputs(list(files), size=spec.size, interpolation=spec.interpolation)[1]

    ids, inputs, _ = open_inputs(list(files))
    if inputs.kind != "image":
        raise InputError(f"{files[0]}: holds feature vectors, which can't be drawn. Name images.")
    return Pictures(tuple(ids), np.zeros((len(ids), classes), np.int8), None, load)


def _from_data(opened: OpenedRun, data: str | None, split: str | None, images: int, seed: int) -> Pictures:
    run, own = opened.run, opened.config.data
    if data is None:
        opening = start_opening(replace(own, size=0))
    else:
        config = DataConfig(
            path=data,
            unlisted=own.unlisted,
            rename=own.rename,
            separator=own.separator,
            draft=own.draft,
            decoder=own.decoder,
            workers=own.workers,
        )
        opening = start_opening(config, purpose="evaluate")
    _check_kind(opened, opening)
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


def _check_kind(opened: OpenedRun, opening: Opening) -> None:
    kind = "feature" if opened.run.spec.name == NONE else "image"
    if opening.kind != kind:
        raise InputError(
            f"{opening.config.path}: holds {opening.kind}s, but the model in {opened.run.folder} takes "
            f"{kind}s. Name other data."
        )
