"""A training run from its configuration to its folder: data, model, method, loop, results."""

from __future__ import annotations

import hashlib
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from . import models, runfolder
from .config import Config, differences, read_yaml, to_yaml
from .console import Console
from .data import Dataset, cached_features, open_dataset
from .engine import Trainer, make_fabric, predict_logits
from .engine.checkpoint import has_checkpoint
from .errors import InputError
from .files import remove_leftovers, write_text
from .objective import Facts, Objective, create
from .results import Finished, peak_memory, write_results
from .selection import DEFAULT_MEAN_LABELS, Judge
from .settings import check_mean_labels, with_data, with_defaults


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
        self.start_labels = DEFAULT_MEAN_LABELS
        self.data = open_dataset(config.data, report=console.line)
        self.spec = models.describe_backbone(config.model, self.data, size=config.data.size)
        self.config = with_data(config, self.data, self.spec)
        self.objective: Objective = create(self.config.method, self.config.hp)
        train = self.data.splits["train"]
        facts = Facts(train.observed, train.ids, self.data.classes, config.mean_labels)
        torch.manual_seed(config.seed)  # an objective may draw its start
        self.objective.on_fit_start(facts)
        self.data = self.data.resized(self.config.data.size, self.spec.interpolation)
        check_mean_labels(config.mean_labels, len(self.data.classes))
        self.judge = Judge(
            self.data.splits["val"], self.data.truth.get("val"), self.config.select, self.config.mean_labels
        )
        for note in self.data.notes:
            console.line(note)
        torch.manual_seed(config.seed)
        self.backbone = models.build_backbone(self.spec, self.config.model, report=console.line)
        self.fabric = make_fabric(config.accelerator, config.devices, config.precision)

    @property
    def frozen(self) -> bool:
        """Whether only the head is trained, on features computed once."""
        return self.config.model.frozen == "yes"

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
        total = len(data.splits["train"]) * config.epochs
        with self.console.progress(total, config.method) as advance:
            trainer = Trainer(
                config,
                fabric,
                trained,
                classifier.top.head,
                self.objective,
                data,
                self.judge,
                folder=self.folder,
                workers=0 if self.frozen else config.data.workers,
                identity=self._identity(),
                on_epoch=self._epoch_done,
                on_step=advance,
            )
            # A run that was killed before its first checkpoint starts from the beginning.
            loop = trainer.fit(resume and has_checkpoint(self.folder))
        scores = {
            name: predict_logits(
                trained,
                samples,
                fabric,
                batch_size=4 * config.batch_size,
                workers=0 if self.frozen else config.data.workers,
            )
            for name, samples in data.splits.items()
            if name != "train"
        }
        if fabric.is_global_zero:
            finished = Finished(
                config,
                self.data,
                self.judge,
                classifier,
                loop.history,
                loop.best_epoch,
                scores,
                self.start_labels,
                self._identity(),
                self._cost(loop),
            )
            self.console.line(write_results(self.folder, finished))
        fabric.barrier()
        return self.folder

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
            runfolder.write_rows(self.folder / runfolder.SKIPPED, ("file", "reason"), self.data.skipped)

    def _model(self) -> tuple[models.Classifier, Dataset]:
        """The model on the device, and the data as its trained part takes it."""
        config, fabric = self.config, self.fabric
        backbone, data = self.backbone.to(fabric.device), self.data
        if self.frozen:
            data = self._features(backbone)
        torch.manual_seed(config.seed)
        top = models.Top(
            backbone.num_features,
            len(data.classes),
            head=config.model.head,
            hidden=config.model.hidden,
            dropout=config.model.dropout,
            standardise=config.model.standardise and (self.frozen or data.kind == "feature"),
        )
        top.fit_standardise(data.splits["train"].inputs)
        self.start_labels = config.mean_labels or min(DEFAULT_MEAN_LABELS, len(data.classes) / 2)
        models.start_bias(top.head, config.model.head_bias, self.start_labels)
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

    def _identity(self) -> str:
        digest = hashlib.sha256()
        for name, samples in self.data.splits.items():
            digest.update(f"{name} {samples.observed.fingerprint()} {samples.inputs.fingerprint()}".encode())
        return digest.hexdigest()

    def _epoch_done(self, history: list[dict[str, Any]]) -> None:
        runfolder.write_lines(self.folder / runfolder.METRICS, history)
        last, metric = history[-1], self.judge.metric
        shown = f"loss {last['train/loss']:.4f}  {metric} {100 * last[metric]:.2f}"
        if metric != "val/mAP" and "val/mAP" in last:
            shown += f"  (true val/mAP {100 * last['val/mAP']:.2f}, not used)"
        self.console.line(f"epoch {last['epoch']:>3}/{self.config.epochs}  {shown}  {last['seconds']:.1f} s")

    def _cost(self, loop: Any) -> dict[str, Any]:
        seen = len(loop.history) * len(self.data.splits["train"])
        return {
            "seconds": round(time.perf_counter() - self.started, 2),
            "training_seconds": round(loop.seconds, 2),
            "samples_per_second": round(seen / max(loop.seconds, 1e-9), 1),
            "peak_memory_mib": round(peak_memory() / 2**20, 1),
            "features": self.features,
            "device": str(self.fabric.device),
            "devices": self.config.devices,
        }
