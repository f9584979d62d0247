"""A training run from its configuration to its folder: data, model, method, loop, results."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from .. import models
from ..config import LBFGS, Config, differences, read_yaml, to_yaml
from ..data import Dataset, cached_features, open_dataset
from ..decisions.selection import Judge
from ..engine import Trainer, make_fabric, predict_logits
from ..engine.checkpoint import has_checkpoint
from ..engine.process_memory import give_back_freed_memory, peak_memory
from ..errors import InputError
from ..files import remove_leftovers, write_rows, write_text
from ..methods.base import Objective
from . import folder as runfolder
from .build import make_top, start_objective
from .console import Console
from .resolve import check_maps, check_mean_labels, never_infers, with_data, with_defaults
from .solve import Fitted, shown, solve
from .start import Start, read_start
from .summary import Finished, write_results


def run_training(
    config: Config, *, resume: bool = False, overwrite: bool = False, console: Console | None = None
) -> Path:
    """Train as `config` says and write the run's folder, which is returned.

    Raises:
        InputError: a setting, the data or the folder does not suit; nothing was written.
        SpmlError: training failed; the last checkpoint is in the folder.
    """
    first = os.environ.get("RANK", os.environ.get("LOCAL_RANK", "0")) == "0"
    console = (console or Console()) if first else Console(silent=True)
    if resume and not config.data.path:
        config = read_yaml(_named_output(config) / runfolder.CONFIG)
    config = with_defaults(config)
    folder = Path(config.output)
    if first:
        runfolder.check_free(folder, resume=resume, overwrite=overwrite)
    before = torch.get_num_threads()
    if config.threads:
        torch.set_num_threads(config.threads)
    try:
        with torch.random.fork_rng():
            return _Run(config, folder, console).train(resume)
    finally:
        torch.set_num_threads(before)


def _named_output(config: Config) -> Path:
    if not config.output:
        raise InputError("--resume needs the folder of the run: --output FOLDER.")
    folder = Path(config.output)
    if not (folder / runfolder.CONFIG).exists():
        raise InputError(f"{folder}: holds no run to resume ({runfolder.CONFIG} is missing).")
    return folder


class _Run:
    """One run in progress."""

    def __init__(self, config: Config, folder: Path, console: Console) -> None:
        self.folder, self.console = folder, console
        self.started = time.perf_counter()
        self.features: dict[str, float] | None = None
        self.head_bias: dict[str, Any] = {}
        self.start: Start | None = read_start(Path(config.init_from)) if config.init_from else None
        self.data = open_dataset(config.data, report=console.line)
        if self.start:
            self.start.check(self.data)
            config = replace(config, model=self.start.model_settings(config.model))
            self.spec = self.start.spec(config.data.size)
        else:
            self.spec = models.describe_backbone(
                config.model, self.data.kind, self.data.width, size=config.data.size, source=self.data.name
            )
        self.config = with_data(config, self.data, self.spec)
        self.objective = start_objective(self.config, self.data) if config.method else None
        if self.objective and (note := never_infers(self.config, self.objective)):
            console.line(f"note: {note}.")
        self.data = self.data.resized(self.config.data.size, self.spec.interpolation)
        check_mean_labels(config.mean_labels, len(self.data.classes))
        self.judge = Judge(
            self.data.splits["val"],
            self.data.truth.get("val"),
            self.config.select,
            self.config.mean_labels,
            self.data.empty,
        )
        for note in self.data.notes:
            console.line(note)
        torch.manual_seed(config.seed)
        if self.start:
            self.backbone = self.start.backbone(self.spec)
        else:
            self.backbone = models.build_backbone(self.spec, self.config.model, report=console.line)
        if self.objective:
            check_maps(self.config, self.objective.needs, self.backbone)
        if self.solved:
            models.check_width(self.backbone.num_features)
        self.init_from = self._carry()
        self.fabric = make_fabric(config.accelerator, config.devices, config.precision)

    def _carry(self) -> dict[str, str] | None:
        """Take over what the method of the run to start from had inferred; says what came of it."""
        if not self.start or not self.objective:
            return None
        state = self.start.carry(self.objective, self.config.method, self.data.splits["train"])
        run = str(self.start.folder)
        self.console.line(f"starts from the model of {run}; state of the method: {state}")
        return {"run": run, "weights_sha256": self.start.weights, "objective": state}

    @property
    def frozen(self) -> bool:
        """Whether only the head is trained, on features computed once."""
        return self.config.model.frozen == "yes"

    @property
    def solved(self) -> bool:
        """Whether the head is solved and not trained."""
        return self.objective is None or self.config.optim.name == LBFGS

    def train(self, resume: bool) -> Path:
        config, fabric = self.config, self.fabric
        if resume:
            # Before other processes are started: they would wait for one that has given up.
            self._check_same_settings()
        if config.devices > 1:
            fabric.launch()
        if fabric.is_global_zero:
            self._prepare_folder(resume)
        fabric.barrier()
        classifier, data = self._model()
        trained = classifier.top if self.frozen else classifier
        if self.objective and not self.solved:
            fitted = self._fit(self.objective, trained, classifier.top.head, data, resume)
        else:
            fitted = self._solve(trained, classifier.top, data)
        scores = {name: self._predict(trained, data, name) for name in data.splits if name != "train"}
        if fabric.is_global_zero:
            finished = Finished(
                config,
                self.data,
                self.judge,
                classifier,
                fitted.history,
                fitted.best,
                fitted.tied,
                scores,
                self.head_bias,
                self.init_from,
                fitted.state,
                self.data.fingerprint(),
                self._cost(fitted),
            )
            self.console.line(write_results(self.folder, finished))
        fabric.barrier()
        give_back_freed_memory()
        return self.folder

    def _fit(
        self, objective: Objective, trained: nn.Module, head: nn.Module, data: Dataset, resume: bool
    ) -> Fitted:
        config = self.config
        with self.console.progress(len(data.splits["train"]) * config.epochs, config.method) as advance:
            trainer = Trainer(
                config,
                self.fabric,
                trained,
                head,
                objective,
                data,
                self.judge,
                folder=self.folder,
                workers=0 if self.frozen else config.data.workers,
                identity=self.data.fingerprint() + (self.start.weights if self.start else ""),
                on_epoch=self._epoch_done,
                on_step=advance,
            )
            # A run that was killed before its first checkpoint starts from the beginning.
            loop = trainer.fit(resume and has_checkpoint(self.folder))
        return Fitted(loop.history, loop.best_epoch, loop.seconds, len(loop.history), loop.best_objective)

    def _solve(self, trained: nn.Module, top: models.Top, data: Dataset) -> Fitted:
        fitted = solve(
            self.config,
            self.objective,
            top,
            data.splits["train"],
            self.judge,
            mean_labels=self.head_bias["mean_labels"],
            predict=lambda: self._predict(trained, data, "val"),
            report=self.console.line,
        )
        if self.fabric.is_global_zero:
            runfolder.write_lines(self.folder / runfolder.METRICS, fitted.history)
        return fitted

    def _predict(self, trained: nn.Module, data: Dataset, split: str) -> Any:
        return predict_logits(
            trained,
            data.splits[split],
            self.fabric,
            batch_size=4 * self.config.batch_size,
            workers=0 if self.frozen else self.config.data.workers,
        )

    def _check_same_settings(self) -> None:
        saved = read_yaml(self.folder / runfolder.CONFIG)
        changed = [key for key in differences(saved, self.config) if key != "output"]
        if changed:
            raise InputError(
                f"{self.folder}: can't be resumed with other settings; these differ from its "
                f"{runfolder.CONFIG}: {', '.join(changed)}. Resume with the same ones (or only "
                f"`--output {self.folder} --resume`), or start anew in another folder."
            )

    def _prepare_folder(self, resume: bool) -> None:
        if resume:
            remove_leftovers(self.folder)
        else:
            runfolder.clear(self.folder)
            write_text(self.folder / runfolder.CONFIG, to_yaml(self.config))
        if self.data.skipped:
            write_rows(self.folder / runfolder.SKIPPED, ("file", "reason"), self.data.skipped)

    def _model(self) -> tuple[models.Classifier, Dataset]:
        """The model on the device, and the data as its trained part takes it."""
        fabric = self.fabric
        backbone, data = self.backbone.to(fabric.device), self.data
        if self.frozen:
            data = self._features(backbone)
        if self.start:
            top, self.head_bias = self.start.classifier.top, {"start": "init_from"}
            top.scores = self.config.model.scores  # a matter of the method, not of what was learnt
        else:
            top, self.head_bias = make_top(self.config, data, backbone.num_features)
        classifier = models.Classifier(backbone, top, frozen=self.frozen).to(fabric.device)
        return classifier, data

    def _features(self, backbone: models.Backbone) -> Dataset:
        cache = Path(self.config.data.cache or self.folder / "features")
        started, splits = time.perf_counter(), {}
        for name, samples in self.data.splits.items():
            with self.console.progress(len(samples), f"features of {name}") as advance:
                for first in (True, False):
                    # One process computes, the others read what it wrote.
                    if first == self.fabric.is_global_zero:
                        inputs = cached_features(
                            backbone,
                            samples.inputs,
                            cache,
                            key=backbone.key(),
                            batch_size=self.config.batch_size,
                            workers=self.config.data.workers,
                            report=self.console.line,
                            progress=advance,
                        )
                    self.fabric.barrier()
            splits[name] = replace(samples, inputs=inputs)
        seconds = time.perf_counter() - started
        self.features = {
            "seconds": round(seconds, 2),
            "samples_per_second": round(self._count() / seconds, 1),
        }
        return replace(self.data, splits=splits)

    def _count(self) -> int:
        return sum(len(samples) for samples in self.data.splits.values())

    def _epoch_done(self, history: list[dict[str, Any]]) -> None:
        runfolder.write_lines(self.folder / runfolder.METRICS, history)
        last = history[-1]
        scores = f"loss {last['train/loss']:.4f}  {shown(last, self.judge.metric)}"
        self.console.line(f"epoch {last['epoch']:>3}/{self.config.epochs}  {scores}  {last['seconds']:.1f} s")

    def _cost(self, fitted: Fitted) -> dict[str, Any]:
        seen = fitted.passes * len(self.data.splits["train"])
        return {
            "seconds": round(time.perf_counter() - self.started, 2),
            "training_seconds": round(fitted.seconds, 2),
            "samples_per_second": round(seen / max(fitted.seconds, 1e-9), 1),
            "peak_memory_mib": round(peak_memory() / 2**20, 1),
            "features": self.features,
            "device": str(self.fabric.device),
            "devices": self.config.devices,
        }
