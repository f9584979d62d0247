"""Train, load, predict, evaluate from Python; the command line does the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from . import models
from .config import Config, DataConfig, from_dict
from .console import Console
from .data import Samples, open_dataset, open_inputs
from .engine import make_fabric, predict_logits
from .errors import InputError, nearest
from .labels import ObservedLabels
from .metrics import average_precision, mean_average_precision, precision_recall_f1, sp_score, top_k
from .pipeline import run_training
from .selection import DEFAULT_MEAN_LABELS
from .settings import check_mean_labels


def train(
    source: str | Path | Config,
    /,
    *,
    resume: bool = False,
    overwrite: bool = False,
    quiet: bool = False,
    **settings: Any,
) -> Run:
    """Train a model and write its run folder.

    Args:
        source: a folder with one sub-folder per class, a CSV file, a .npz feature file, `digits`, or a
            complete `Config`.
        resume: go on with the run in `output`.
        overwrite: replace the run in `output`.
        quiet: print nothing.
        settings: fields of `Config`, nested as in config.yaml, for example
            `method="em", epochs=10, optim={"lr": 1e-3}, output="runs/em"`.

    Returns:
        The finished run, loaded.

    Raises:
        InputError: a setting, the data or the folder does not suit; nothing was written.
        SpmlError: training failed; the last checkpoint is in the folder.

    Example:
        run = spml.train("photos/", epochs=10, output="runs/photos")
        run.predict(["new.jpg"]).labels
    """
    if isinstance(source, Config):
        if settings:
            raise InputError("give either a Config or settings by name, not both")
        config = source
    else:
        merged = {**settings, "data": {**settings.get("data", {}), "path": str(source)}}
        config = from_dict(merged)
    console = Console(silent=quiet)
    return load(run_training(config, resume=resume, overwrite=overwrite, console=console))


def load(folder: str | Path) -> Run:
    """A trained run from its folder.

    Raises:
        InputError: there is no finished run, or its files are damaged.
    """
    classifier, card = models.load_classifier(Path(folder))
    return Run(Path(folder), classifier, card)


@dataclass(frozen=True)
class Predictions:
    """What a model says of samples.

    Attributes:
        ids: one name per sample.
        classes: class names.
        scores: float32 (N, C), sigmoid of the logits. Not calibrated: they rank.
        labels: names of the predicted classes of each sample, the highest score first.
        notes: what was left out, one line each.
    """

    ids: tuple[str, ...]
    classes: tuple[str, ...]
    scores: npt.NDArray[np.float32]
    labels: list[list[str]]
    notes: tuple[str, ...] = ()


class Run:
    """A trained model with its classes and its threshold.

    Attributes:
        folder: of the run.
        classes: class names, in the order of the columns of scores.
        threshold: logit from which on a label is predicted.
        card: model.json.
    """

    def __init__(self, folder: Path, classifier: models.Classifier, card: dict[str, Any]) -> None:
        self.folder, self.card, self._classifier = folder, card, classifier
        self.classes: tuple[str, ...] = tuple(card["classes"])
        self.threshold = float(card["threshold"]["logit"])

    def predict(
        self,
        paths: str | Path | Sequence[str | Path],
        *,
        batch_size: int = 64,
        workers: int = 0,
        device: str = "auto",
        console: Console | None = None,
    ) -> Predictions:
        """Scores and labels of images, folders of images (searched through) or feature files.

        Args:
            paths: one or several.
            batch_size: samples per step.
            workers: processes that decode images.
            device: `auto`, `cpu`, `cuda`, `mps`.
            console: where progress is shown; nowhere by default.

        Raises:
            InputError: a path is missing, nothing can be read, or features have another width.
        """
        several = [paths] if isinstance(paths, (str, Path)) else list(paths)
        spec = self._classifier.spec
        ids, inputs, notes = open_inputs(
            [str(p) for p in several], size=spec.size, interpolation=spec.interpolation
        )
        nothing = ObservedLabels(
            np.zeros(len(ids) + 1, np.int64), np.empty(0, np.int64), np.empty(0, np.int8), len(self.classes)
        )
        logits = self._logits(Samples(ids, inputs, nothing), batch_size, workers, device, console)
        return Predictions(ids, self.classes, _sigmoid(logits), self._labels(logits), notes)

    def evaluate(
        self,
        data: str | Path | DataConfig,
        *,
        split: str = "test",
        mean_labels: float | None = None,
        batch_size: int = 64,
        workers: int = 0,
        device: str = "auto",
        console: Console | None = None,
        **settings: Any,
    ) -> dict[str, Any]:
        """Metrics on labelled data: full-label metrics if the data is fully labelled, else the SP-score.

        Args:
            data: path, or all that `--data.*` can say.
            split: `train`, `val` or `test`.
            mean_labels: K of the SP-score, 2 if None.
            batch_size, workers, device, console: as for `predict`.
            settings: fields of `DataConfig`, for example `unlisted="negative"`.

        Returns:
            A JSON-able dict. Metrics lie in [0, 1].

        Raises:
            InputError: the data can't be read, has no such split, or a class that the model does not know.
        """
        config = data if isinstance(data, DataConfig) else _data_config(data, settings)
        report = (console or Console(silent=True)).line
        dataset = open_dataset(config, purpose="evaluate", report=report)
        spec = self._classifier.spec
        dataset = dataset.resized(config.size or spec.size, spec.interpolation)
        if split not in dataset.splits:
            raise InputError(
                f"{config.path}: has no {split!r} split, but {', '.join(dataset.splits)} (--split)."
            )
        check_mean_labels(mean_labels, len(self.classes))
        columns = self._columns(config.path, dataset.classes)
        samples = dataset.splits[split]
        logits = self._logits(samples, batch_size, workers, device, console)
        found: dict[str, Any] = {"data": config.path, "split": split, "samples": len(samples)}
        if split in dataset.truth:
            truth = dataset.truth[split].with_classes(columns, len(self.classes)).to_ternary()
            return found | self._full_metrics(logits, truth)
        observed = samples.observed.with_classes(columns, len(self.classes))
        target = observed.index if observed.index is not None else observed.to_ternary()
        sp = sp_score(logits, target, mean_labels=mean_labels or DEFAULT_MEAN_LABELS)
        return found | {
            "labels": "observed only",
            "mean_labels": mean_labels or DEFAULT_MEAN_LABELS,
            "SP": sp.score,
            "P": sp.p,
            "A": sp.a,
        }

    def _full_metrics(self, logits: npt.NDArray[np.float32], truth: npt.NDArray[np.int8]) -> dict[str, Any]:
        per_class = average_precision(logits, truth)
        known = [(name, float(ap)) for name, ap in zip(self.classes, per_class, strict=True) if ap == ap]
        found: dict[str, Any] = {
            "labels": "full",
            "mAP": mean_average_precision(logits, truth),
            "AP": dict(known),
            "classes_without_positives": [
                n for n, ap in zip(self.classes, per_class, strict=True) if ap != ap
            ],
            "threshold": self.threshold,
            "thresholded": {},
            "top_k": {},
        }
        for average in ("micro", "macro", "samples"):
            result = precision_recall_f1(logits, truth, self.threshold, average=average)
            found["thresholded"][average] = result._asdict()
        for k in (1, 3, 5):
            if k <= len(self.classes):
                found["top_k"][str(k)] = top_k(logits, truth, k)._asdict()
        return found

    def _columns(self, path: str, classes: tuple[str, ...]) -> npt.NDArray[np.int64]:
        """The model's column of each class of some data."""
        position = {name: column for column, name in enumerate(self.classes)}
        for name in classes:
            if name not in position:
                raise InputError(
                    f"{path}: has the class {name!r}, which the model in {self.folder} does not know. "
                    f"{nearest(name, position)}"
                )
        return np.asarray([position[name] for name in classes], np.int64)

    def _logits(
        self, samples: Samples, batch_size: int, workers: int, device: str, console: Console | None
    ) -> npt.NDArray[np.float32]:
        if batch_size < 1 or workers < 0:
            raise InputError(
                f"batch_size must be at least 1 and workers at least 0, got {batch_size}, {workers}"
            )
        self._check_kind(samples)
        fabric = make_fabric(device)
        model = self._classifier.to(fabric.device)
        with (console or Console(silent=True)).progress(len(samples), "predicting") as advance:
            return predict_logits(
                model, samples, fabric, batch_size=batch_size, workers=workers, progress=advance
            )

    def _check_kind(self, samples: Samples) -> None:
        wanted = "feature" if self._classifier.spec.name == "none" else "image"
        if samples.inputs.kind != wanted:
            raise InputError(
                f"the model in {self.folder} takes {wanted}s, but the data holds {samples.inputs.kind}s."
            )
        if wanted == "feature":
            width = samples.inputs.fetch([0], None).shape[1]
            if width != self._classifier.backbone.num_features:
                raise InputError(
                    f"the model in {self.folder} takes {self._classifier.backbone.num_features} features per "
                    f"sample, but the data has {width}. Give features made in the same way."
                )

    def _labels(self, logits: npt.NDArray[np.float32]) -> list[list[str]]:
        order = np.argsort(-logits, axis=1, kind="stable")
        return [
            [self.classes[c] for c in ranked if row[c] >= self.threshold]
            for row, ranked in zip(logits, order, strict=True)
        ]


def _data_config(path: str | Path, settings: dict[str, Any]) -> DataConfig:
    return from_dict({"data": {**settings, "path": str(path)}}).data


def _sigmoid(logits: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    from scipy.special import expit

    return np.asarray(expit(logits), np.float32)


__all__ = ["Config", "Predictions", "Run", "load", "train"]
