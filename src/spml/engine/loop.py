"""The only training loop.

It does not know which method runs: an objective turns the outputs of a batch into named terms whose sum is
the loss. A run can be killed at any moment: the order of samples and every random transform follow from
(seed, epoch, sample), and a checkpoint holds the rest.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import msgspec
import numpy as np
import torch
from torch import Tensor, nn

from ..common.budget import Budget
from ..common.errors import InputError, SpmlError, unexpected
from ..common.signals import stop_on_signal
from ..common.torch_draws import TorchDraws
from ..config import Config
from ..data import Dataset, Samples
from ..methods.base import Batch, Objective, Progress
from ..scores import Scores
from .checkpoint import (
    CURRENT,
    NEW,
    check_classes,
    check_run,
    data_changed,
    load_checkpoint,
    random_state,
    restored_states,
    save_checkpoint,
    set_random_state,
)
from .loader import EpochBatches, make_loader
from .optimiser import WeightAverage, learning_rate, make_optimizer
from .predict import Logits, head_inputs, predict_logits, predict_scores
from .step import TrainingStep, gather_batch

_CHECK_STEPS = 200
"""The loss is checked for NaN every so many steps, because a check waits for the device."""

_SEEDS = 1 << 32
"""More than the number of steps of any run, so that no two runs share the seed of a step."""

_AGREE_STEPS = 10
"""Several processes agree every so many steps on whether to stop."""


AFTER_LAST_EPOCH = (
    "stopped after the last epoch: training is complete, the final predictions and the summary are missing"
)
"""Message of a run that was stopped between its last epoch and its summary."""

OnScores = Callable[[int, Logits], None]
"""Receives the number of finished epochs, and the logits (N, C) of the recorded samples."""


class Interrupted(SpmlError):
    """Training was stopped by the user; a checkpoint holds everything."""

    exit_code = 130


class Judging(Protocol):
    """Scores the logits of a model on the validation samples.

    Attributes:
        metric: Metric by which epochs are compared, one of the keys of what a call returns.
    """

    metric: str

    def __call__(self, scores: Scores) -> dict[str, float]:
        """Compute the validation metrics of logits (N, C)."""
        ...


@dataclass
class LoopState:
    """State of a training loop. With weights and random states, it is all that a checkpoint holds.

    Attributes:
        epoch: Epochs that are finished.
        batch: Batches of the current epoch that are finished.
        step: Steps since the start of training.
        seconds: Time spent in training.
        sums: Per term of the loss, float64 (2,): sum over the samples of this epoch, and the first step at
            which the term was not finite (infinity if there is none). Kept on the device.
        start_loss: Loss of the first step, before any weight has changed; None before it.
        history: One record per finished epoch.
        best_epoch: Position of the best epoch in `history`; -1 before the first one.
        best: State of the model at the end of the best epoch.
        best_objective: State of the objective at the end of the best epoch.
        finished: Whether training is over.
    """

    epoch: int = 0
    batch: int = 0
    step: int = 0
    seconds: float = 0.0
    sums: dict[str, Tensor] = field(default_factory=dict)
    history: list[dict[str, int | float]] = field(default_factory=list)
    best_epoch: int = -1
    best: dict[str, Tensor] = field(default_factory=dict)
    best_objective: dict[str, Tensor] = field(default_factory=dict)
    finished: bool = False
    start_loss: float | None = None

    @torch.no_grad()
    def add_terms(self, terms: dict[str, Tensor], rows: int) -> None:
        """Add the terms of a step of `rows` samples to the sums, without waiting for the device."""
        for name, term in terms.items():
            value = term.detach().double() if term.device.type != "mps" else term.detach()
            first_bad = torch.where(value.isfinite(), math.inf, float(self.step))
            entry = torch.stack([value * rows, first_bad])
            before = self.sums.get(name)
            if before is not None:
                entry = torch.stack([before[0] + entry[0], torch.minimum(before[1], entry[1])])
            self.sums[name] = entry

    def total_terms(self, fabric: Any) -> dict[str, tuple[float, float]]:
        """Sum over samples and first bad step of each term, over all processes. Waits for the device."""
        totals = {}
        for name, entry in self.sums.items():
            entries = fabric.all_gather(entry).reshape(-1, 2)
            totals[name] = (float(entries[:, 0].mean()), float(entries[:, 1].min()))
        return totals


def _copy_state(module: nn.Module) -> dict[str, Tensor]:
    return {name: value.detach().to("cpu", copy=True) for name, value in module.state_dict().items()}


class Trainer:
    """Fits a model to observed labels.

    Args:
        config: Resolved settings of the run.
        fabric: Lightning Fabric, launched.
        model: Maps inputs to `Outputs`; its weights are changed in place.
        head: Part of the model that has its own learning rate.
        objective: Method, after `on_fit_start`.
        data: Data set to learn from; true labels are not used.
        judge: Scores the validation samples.
        folder: Folder for checkpoints; None = no checkpoints are written.
        workers: Number of processes that decode images.
        identity: Fingerprint of the data. A checkpoint with another one is not resumed.
        run: Identity of the run, which its checkpoints state.
        on_epoch: Called with this trainer after each epoch, on the first process.
        on_step: Called after each step with the number of samples in it, and when a training is resumed with
            the number of those that were trained on before.
        recorded: Samples whose scores are handed to `on_scores`. Those of the validation split cost nothing,
            because they are computed anyway.
        on_scores: Called with the number of finished epochs and the logits (N, C) of `recorded`, one part
            after the other: before the first epoch, and after each one before its checkpoint is written, on
            the first process.
        draws: Random state of dropout and random codes, which `fit` seeds; None = one of its own.
        budget: Time limit, which may leave out the last epochs; None = no limit.
    """

    def __init__(
        self,
        config: Config,
        fabric: Any,
        model: nn.Module,
        head: nn.Module,
        objective: Objective,
        data: Dataset,
        judge: Judging,
        *,
        folder: Path | None = None,
        workers: int = 0,
        identity: str = "",
        run: str = "",
        on_epoch: Callable[[Trainer], None] = lambda trainer: None,
        on_step: Callable[[int], None] = lambda samples: None,
        recorded: Sequence[Samples] = (),
        on_scores: OnScores = lambda epoch, scores: None,
        draws: TorchDraws | None = None,
        budget: Budget | None = None,
    ) -> None:
        self.budget = budget or Budget()
        self.config, self.fabric, self.judge = config, fabric, judge
        self.folder, self.workers, self.identity, self.run = folder, workers, identity, run
        self.on_epoch, self.on_step = on_epoch, on_step
        self.recorded, self.on_scores, self.draws = recorded, on_scores, draws or TorchDraws(config.seed)
        self.train, self.val, self.classes = data.splits["train"], data.splits["val"], data.classes
        self.model, self.objective, self.state = model, objective, LoopState()
        if objective.needs.features and self.train.inputs.kind == "feature":
            with self.draws.drawing():
                objective.on_features(head_inputs(model, self.train.inputs))
        optimizer = make_optimizer(config.optim, model, head, objective.param_groups())
        step = TrainingStep(model, objective, fabric, l1=config.optim.l1, l2=config.optim.l2)
        wrapped, self.optimizer = fabric.setup(step, optimizer)
        # For one process in full precision the wrapper changes nothing, and costs a tenth of a small step.
        plain = fabric.world_size == 1 and config.precision == "32-true"
        self.step = step if plain else wrapped
        self.average = WeightAverage(model, config.optim.ema) if config.optim.ema else None
        self.batches = EpochBatches(
            len(self.train), config.batch_size, config.seed, fabric.global_rank, fabric.world_size
        )
        self.loader = make_loader(
            self.train,
            self.batches,
            config.seed,
            workers,
            fabric.device.type == "cuda",
            views=objective.needs.views,
            regions=objective.needs.regions,
        )
        self._has_after_step = type(objective).after_step is not Objective.after_step
        self._stop_requested = False

    @property
    def judged_model(self) -> nn.Module:
        """Model that is validated and kept: the average of the weights if there is one."""
        return self.average.model if self.average else self.model

    def fit(self, resume: bool = False) -> LoopState:
        """Train to the end, or go on from the last checkpoint. Leaves the best epoch's weights in `model`.

        Raises:
            SpmlError: A term of the loss became NaN or infinite, or a checkpoint could not be written.
            Interrupted: Stopped by SIGINT, SIGTERM or SIGHUP, after a checkpoint was written; by a signal in
                the last epoch after its end, too.
            InputError: The checkpoint to resume from does not fit or can't be read.
        """
        self.draws.seed(self.config.seed * self.fabric.world_size + self.fabric.global_rank)
        with restored_states():
            return self._fit(resume)

    def _fit(self, resume: bool) -> LoopState:
        if resume:
            self._resume()
            self.state.finished = bool(self.state.epoch) and not self.state.batch and self._is_finished()
            in_epoch = min(self.state.batch * self.config.batch_size, len(self.train))
            self.on_step(self.state.epoch * len(self.train) + in_epoch)
        with stop_on_signal(self._request_stop):
            if not self.state.step:
                with self.draws.drawing():
                    self._record()
            while not self.state.finished:
                begun, progress = time.perf_counter(), Progress(self.state.epoch, self.config.epochs)
                with self.draws.drawing():
                    self.objective.on_epoch_start(progress)
                started = self._train_epoch()
                with self.draws.drawing():
                    train_pass = lambda: torch.from_numpy(self._predict(self.train))  # noqa: E731
                    needed = self.objective.needs.train_pass
                    self.objective.on_epoch_end(progress, train_pass if needed else None)
                    scores = self._predict_val()
                    metrics = self.judge(scores)
                self.state.seconds += time.perf_counter() - started
                self._end_epoch(metrics)
                self.state.finished = self._is_finished(time.perf_counter() - begun)
                with self.draws.drawing():
                    self._record(scores)
                self.save()
                if self.fabric.is_global_zero:
                    self.on_epoch(self)
            if self._any_process(self._stop_requested):
                raise Interrupted(AFTER_LAST_EPOCH)
        self.model.load_state_dict(self.state.best)
        return self.state

    def _train_epoch(self) -> float:
        """Take the remaining steps of the epoch. Returns the time from which on `seconds` must be counted."""
        state, started = self.state, time.perf_counter()
        self.batches.epoch, self.batches.first = state.epoch, state.batch
        self.step.train()
        for inputs, views, batch in self.loader:
            with self.draws.drawing():
                self._train_step(inputs, views, batch)
            # Several processes agree on the step at which they stop.
            asked = self.fabric.world_size == 1 or self._is_due(_AGREE_STEPS)
            stop = asked and self._any_process(self._stop_requested)
            if stop or self._is_due(self.config.checkpoint_steps):
                self._check_loss()
                state.seconds += time.perf_counter() - started
                started = time.perf_counter()
                self.save()
            elif self._is_due(_CHECK_STEPS):
                self._check_loss()
            if stop:
                raise Interrupted(f"stopped in epoch {state.epoch + 1}, step {state.step}")
        self._check_loss()
        return started

    def _train_step(self, inputs: Tensor, views: tuple[Tensor, ...], batch: Batch) -> None:
        state, optim, device = self.state, self.config.optim, self.fabric.device
        inputs = inputs.to(device, non_blocking=True)
        views = tuple(view.to(device, non_blocking=True) for view in views)
        target = batch.target.to(device, non_blocking=True)
        index = batch.index.to(device, non_blocking=True)
        regions = None if batch.regions is None else batch.regions.to(device, non_blocking=True)
        rows = self.batches.rows_in(state.batch)
        rate = self._learning_rate(state.step)
        for group in self.optimizer.param_groups:
            group["lr"] = rate * group["lr_factor"]
        seed = self.config.seed * _SEEDS + state.step
        terms, outputs = self.step(inputs, views, target, index, rows, seed, regions)
        self.fabric.backward(torch.stack(list(terms.values())).sum())
        if optim.clip:
            # The error would wait for the device in every step; a loss that is not finite is found later.
            self.fabric.clip_gradients(
                self.step, self.optimizer, max_norm=optim.clip, error_if_nonfinite=False
            )
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        if self.average:
            self.average.update(self.model)
        if self._has_after_step:
            with torch.no_grad():
                own = Batch(target, index, seed, regions)
                self.objective.after_step(*gather_batch(self.fabric, outputs, own, rows, False))
        state.add_terms(terms, rows)
        state.batch, state.step = state.batch + 1, state.step + 1
        if state.step == 1:
            state.start_loss = sum(total for total, _ in state.total_terms(self.fabric).values()) / rows
        self.on_step(rows)

    def _end_epoch(self, metrics: dict[str, float]) -> None:
        """Append the record of the epoch that has just ended, and keep the weights if it is the best."""
        state, count, metric = self.state, len(self.train), self.judge.metric
        terms = {
            f"train/{name}": total / count for name, (total, _) in state.total_terms(self.fabric).items()
        }
        record = {"epoch": state.epoch + 1, "step": state.step, "lr": self._learning_rate(state.step - 1)}
        record |= {"train/loss": sum(terms.values()), **terms, **metrics}
        best = max((past[metric] for past in state.history), default=-math.inf)
        state.history.append(record | {"seconds": round(state.seconds, 3)})
        if state.best_epoch < 0 or record[metric] > best:
            state.best_epoch = state.epoch
            state.best, state.best_objective = map(_copy_state, (self.judged_model, self.objective))
        state.epoch, state.batch, state.sums = state.epoch + 1, 0, {}

    def _is_finished(self, seconds: float = 0.0) -> bool:
        """Whether training is over after an epoch; `seconds` is what the next one will take."""
        state, epochs, patience = self.state, self.config.epochs, self.config.patience
        exhausted = bool(patience) and state.epoch - 1 - state.best_epoch >= patience
        if state.epoch >= epochs or exhausted:
            return True
        left = f"epochs {state.epoch + 1} to {epochs}" if state.epoch + 1 < epochs else f"epoch {epochs}"
        over = not self.budget.allows(f"{left} of {epochs}", seconds)
        return self._any_process(over)

    def _learning_rate(self, step: int) -> float:
        steps_per_epoch = math.ceil(len(self.train) / self.config.batch_size)
        return learning_rate(self.config.optim, step, steps_per_epoch, self.config.epochs)

    def _predict(self, samples: Samples) -> Logits:
        return predict_logits(
            self.judged_model,
            samples,
            self.fabric,
            batch_size=4 * self.config.batch_size,
            workers=self.workers,
        )

    def _predict_val(self) -> Scores:
        return predict_scores(
            self.judged_model,
            self.val,
            len(self.classes),
            self.fabric,
            batch_size=4 * self.config.batch_size,
            workers=self.workers,
            check=self._check_scores,
        )

    def _record(self, val_scores: Scores | None = None) -> None:
        """Hand the scores of the recorded samples over; those of the validation split may be known."""
        if not self.recorded:
            return
        known = None if val_scores is None else val_scores.array
        parts = [
            known if samples is self.val and known is not None else self._predict(samples)
            for samples in self.recorded
        ]
        if self.fabric.is_global_zero:
            self.on_scores(self.state.epoch, np.concatenate(parts))

    # -- checkpoints and signals ---------------------------------------------------------------------------

    def save(self) -> None:
        """Write a checkpoint with everything that the training needs to continue, if it has a folder.

        Called on every process; the first one writes.
        """
        with self.draws.drawing():
            states = random_state()
        states["torch"] = self.fabric.all_gather(states["torch"].to(self.fabric.device)).cpu()
        if self.folder is None or not self.fabric.is_global_zero:
            return
        checkpoint = {
            "identity": self.identity,
            "run": self.run,
            "classes": list(self.classes),
            "model": dict(self.model.state_dict()),
            "objective": dict(self.objective.state_dict()),
            "optimizer": self.optimizer.state_dict(),
            "average": dict(self.average.model.state_dict()) if self.average else None,
            "random": states,
            "loop": vars(self.state),
        }
        save_checkpoint(self.folder, checkpoint)

    def _resume(self) -> None:
        """Take over the state of the last checkpoint."""
        folder = self.folder
        assert folder is not None
        between = (folder / NEW).exists() and not (folder / CURRENT).exists()
        if between and self.fabric.is_global_zero:  # killed between the two renames of saving it
            os.replace(folder / NEW, folder / CURRENT)
        self.fabric.barrier()
        checkpoint = load_checkpoint(folder)
        try:
            check_run(folder / CURRENT, checkpoint.get("run", ""), self.run, folder)
            check_classes(folder, checkpoint["classes"], self.classes)
            if checkpoint["identity"] != self.identity:
                raise data_changed(folder)
            self._load(checkpoint)
        except InputError:
            raise
        except (LookupError, TypeError, ValueError, AttributeError, RuntimeError, OverflowError) as error:
            raise InputError(
                f"{folder}: its checkpoint does not fit this run ({unexpected(error)}). Restore it, or start "
                "again with `overwrite`."
            ) from error

    def _load(self, checkpoint: dict[str, Any]) -> None:
        state = msgspec.convert(checkpoint["loop"], LoopState)
        needed = {"train/loss", self.judge.metric}
        needed.update(key for record in state.history[:1] for key in record if key.startswith("val/"))
        for record in state.history:
            if lacking := sorted(needed - record.keys()):
                raise ValueError(f"a record of its history lacks {lacking[0]}")
        if state.best_epoch >= 0:  # to see now, not after the last epoch, whether the best weights fit
            self.model.load_state_dict(state.best)
            self.objective.load_state_dict(state.best_objective)
        self.model.load_state_dict(checkpoint["model"])
        self.objective.load_state_dict(checkpoint["objective"])
        self.optimizer.load_state_dict(checkpoint["optimizer"])
        if self.average:
            self.average.model.load_state_dict(checkpoint["average"])
        state.sums = {name: value.to(self.fabric.device) for name, value in state.sums.items()}
        self.state = state
        states = checkpoint["random"]
        # A copy: PyTorch reads a generator's state from the start of the storage, whatever the offset.
        states["torch"] = states["torch"].reshape(self.fabric.world_size, -1)[self.fabric.global_rank].clone()
        with self.draws.drawing():
            set_random_state(states)

    def _request_stop(self) -> None:
        self._stop_requested = True

    def _is_due(self, steps: int) -> bool:
        return bool(steps) and self.state.step % steps == 0

    def _any_process(self, fact: bool) -> bool:
        if self.fabric.world_size == 1:
            return fact
        return bool(self.fabric.all_gather(torch.tensor(fact)).any())

    # -- divergence ----------------------------------------------------------------------------------------

    def _check_loss(self) -> None:
        bad = [
            (step, name) for name, (_, step) in self.state.total_terms(self.fabric).items() if step < math.inf
        ]
        if bad:
            step, name = min(bad)
            raise self._diverged(f"the loss became NaN or infinite: term {name!r}", int(step))

    def _check_scores(self, finite: bool) -> None:
        if not finite:
            raise self._diverged("the model's scores became NaN or infinite: weights", self.state.step - 1)

    def _diverged(self, what: str, step: int) -> SpmlError:
        lr = self._learning_rate(step)
        return SpmlError(
            f"{what}, step {step}, epoch {self.state.epoch + 1}, learning rate {lr:g}. Try a smaller one "
            f"(optim.lr={lr / 10:g}), a warm-up (optim.warmup_epochs=1) or gradient clipping "
            "(optim.clip=1). The last checkpoint is from before that step."
        )
