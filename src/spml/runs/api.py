"""Train, load, predict, evaluate, compare from Python; the command line does the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .. import models
from ..config import Config, DataConfig, from_dict, read_yaml
from ..data import Samples, open_inputs
from ..engine import make_fabric, predict_logits
from ..errors import InputError, nearest
from ..labels import ObservedLabels
from . import folder as runfolder
from .console import Console
from .evaluate import evaluate, of_one
from .train import run_training


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
        if not isinstance(source, (str, Path)):
            raise InputError(f"the data must be a path or a Config, got {type(source).__name__}")
        if not isinstance(settings.get("data", {}), dict):
            raise InputError(
                f"data must be settings by name (data={{'val_share': 0.1}}), got {settings['data']!r}"
            )
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


def compare(
    runs: Sequence[Run | str | Path],
    data: str | Path | DataConfig,
    *,
    split: str = "test",
    mean_labels: float | None = None,
    draws: int = 200,
    seed: int = 0,
    batch_size: int = 64,
    workers: int = 0,
    device: str = "auto",
    console: Console | None = None,
    **settings: Any,
) -> dict[str, Any]:
    """Compare runs with the same classes by observed labels alone, even if the true ones are there.

    Args:
        runs: loaded, or their folders; each once.
        data: path, or all that `--data.*` can say.
        split: `train`, `val` or `test`.
        mean_labels: K of the SP-score; 2 (of fewer than 4 classes half) if None.
        draws, seed: of the bootstrap, as in `spml.metrics.compare_models`.
        batch_size, workers, device, console: as for `Run.predict`.
        settings: fields of `DataConfig`, for example `observe="single"`.

    Returns:
        A JSON-able dict: `candidates` in the order of `runs`, `tie_set` from the best on, `cross_checks`,
        `warnings`, `notes`. Scores lie in [0, 1]; they rank runs, and none of them is a mAP.

    Raises:
        InputError: no run, one that is named twice or is not finished, different classes, or data that does
            not suit; the message says what to do.

    Example:
        spml.compare(["runs/em", "runs/gr"], "held_out.csv")["tie_set"]
    """
    engine = Engine(batch_size, workers, device, console)
    more = {"draws": draws, "seed": seed, **settings}
    return evaluate_runs(runs, data, engine, split, observed=True, mean_labels=mean_labels, **more)


def evaluate_runs(
    runs: Sequence[Run | str | Path],
    data: str | Path | DataConfig,
    engine: Engine,
    split: str,
    *,
    observed: bool,
    mean_labels: float | None,
    draws: int = 200,
    seed: int = 0,
    **settings: Any,
) -> dict[str, Any]:
    """What `spml.evaluation.evaluate` finds for these runs, which are named by their folders.

    Raises:
        InputError: as `compare`.
    """
    if not runs:
        raise InputError("no run to evaluate: name the folder of at least one")
    loaded: dict[str, Run] = {}
    for given in runs:
        run = given if isinstance(given, Run) else load(given)
        name = str(run.folder)
        if any(run.folder.resolve() == other.folder.resolve() for other in loaded.values()):
            raise InputError(f"{name}: is named twice; name each run once.")
        loaded[name] = run
    return evaluate(
        loaded,
        data if isinstance(data, DataConfig) else _data_config(data, settings),
        split=split,
        observed=observed,
        mean_labels=mean_labels,
        predict=lambda run, samples: run.logits(samples, engine),
        report=(engine.console or Console(silent=True)).line,
        draws=draws,
        seed=seed,
    )


@dataclass(frozen=True)
class Predictions:
    """What a model says of samples.

    Attributes:
        ids: one name per sample.
        classes: class names.
        scores: float32 (N, C), sigmoid of the logits, or the probabilities of a model that answers
            log-probabilities. Not calibrated: they rank.
        labels: names of the predicted classes of each sample, the highest score first.
        notes: what was left out, one line each.
    """

    ids: tuple[str, ...]
    classes: tuple[str, ...]
    scores: npt.NDArray[np.float32]
    labels: list[list[str]]
    notes: tuple[str, ...] = ()


class Engine(NamedTuple):
    """How samples are predicted.

    Attributes:
        batch_size: samples per step.
        workers: processes that decode images.
        device: `auto`, `cpu`, `cuda`, `mps`.
        console: where progress is shown; nowhere if None.
    """

    batch_size: int = 64
    workers: int = 0
    device: str = "auto"
    console: Console | None = None


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

    @property
    def trained_on(self) -> str:
        """Path of the data that it was trained on, as it was given; empty if the run does not say."""
        config = self.folder / runfolder.CONFIG
        return read_yaml(config).data.path if config.is_file() else ""

    @property
    def spec(self) -> models.BackboneSpec:
        """The backbone, and how images are prepared for it."""
        return self._classifier.spec

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
        spec = self.spec
        ids, inputs, notes = open_inputs(
            [str(p) for p in several], size=spec.size, interpolation=spec.interpolation
        )
        nothing = ObservedLabels(
            np.zeros(len(ids) + 1, np.int64), np.empty(0, np.int64), np.empty(0, np.int8), len(self.classes)
        )
        logits = self.logits(Samples(ids, inputs, nothing), Engine(batch_size, workers, device, console))
        return Predictions(ids, self.classes, self._probabilities(logits), self._labels(logits), notes)

    def evaluate(
        self,
        data: str | Path | DataConfig,
        *,
        split: str = "test",
        observed: bool = False,
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
            observed: judge by observed labels alone, even if the true ones are there.
            mean_labels: K of the SP-score; 2 (of fewer than 4 classes half) if None.
            batch_size, workers, device, console: as for `predict`.
            settings: fields of `DataConfig`, for example `unlisted="negative"`.

        Returns:
            A JSON-able dict. Metrics lie in [0, 1]; SP and A pass 1 where a model does better than K allows
            for.

        Raises:
            InputError: the data can't be read, has no such split, a class that the model does not know, or,
                where it is not fully labelled, no known positive label.
        """
        engine = Engine(batch_size, workers, device, console)
        return of_one(
            evaluate_runs([self], data, engine, split, observed=observed, mean_labels=mean_labels, **settings)
        )

    def columns(self, path: str, classes: tuple[str, ...]) -> npt.NDArray[np.int64]:
        """The model's column of each class of some data."""
        position = {name: column for column, name in enumerate(self.classes)}
        for name in classes:
            if name not in position:
                raise InputError(
                    f"{path}: has the class {name!r}, which the model in {self.folder} does not know. "
                    f"{nearest(name, position)}"
                )
        return np.asarray([position[name] for name in classes], np.int64)

    def logits(self, samples: Samples, engine: Engine) -> npt.NDArray[np.float32]:
        """Logits (N, C) of samples.

        Raises:
            InputError: samples of another kind or width than the model takes, or a wrong setting.
        """
        if engine.batch_size < 1 or engine.workers < 0:
            raise InputError(
                f"batch_size must be at least 1 and workers at least 0, got {engine.batch_size}, "
                f"{engine.workers}"
            )
        self._check_kind(samples)
        fabric = make_fabric(engine.device)
        model = self._classifier.to(fabric.device)
        with (engine.console or Console(silent=True)).progress(len(samples), "predicting") as advance:
            return predict_logits(
                model,
                samples,
                fabric,
                batch_size=engine.batch_size,
                workers=engine.workers,
                progress=advance,
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

    def _probabilities(self, logits: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        from scipy.special import expit

        normalised = self._classifier.top.scores == models.LOG_SOFTMAX
        return np.asarray(np.exp(logits) if normalised else expit(logits), np.float32)

    def _labels(self, logits: npt.NDArray[np.float32]) -> list[list[str]]:
        order = np.argsort(-logits, axis=1, kind="stable")
        return [
            [self.classes[c] for c in ranked if row[c] >= self.threshold]
            for row, ranked in zip(logits, order, strict=True)
        ]


def _data_config(path: str | Path, settings: dict[str, Any]) -> DataConfig:
    return from_dict({"data": {**settings, "path": str(path)}}).data


__all__ = ["Config", "Predictions", "Run", "compare", "load", "train"]
