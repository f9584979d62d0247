"""The only training loop.

It does not know which method runs: an objective turns a batch's outputs into named terms whose sum is the
loss. A run can be killed at any moment: the order of samples and every random transform follow from
(seed, epoch, sample), and a checkpoint holds the rest.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from ..config import Config
from ..data import Dataset, Samples
from ..errors import InputError, SpmlError
from ..losses import weight_penalty_loss
from ..methods.base import Batch, Objective, Outputs, Progress
from .checkpoint import load_checkpoint, random_state, save_checkpoint, set_random_state
from .distributed import gather_rows
from .loader import EpochBatches, make_loader
from .optimiser import WeightAverage, learning_rate, make_optimizer, set_learning_rate
from .predict import predict_logits
from .signals import stop_on_signal

_CHECK_STEPS = 200
"""The loss is checked for NaN every so many steps: a check waits for the device."""

_SEEDS = 1 << 32
"""More than there are steps, so that no two runs share the seed of a step."""

_AGREE_STEPS = 10
"""Several processes agree every so many steps on whether to stop."""


class Interrupted(SpmlError):
    """Training was stopped by the user; a checkpoint holds everything."""

    exit_code = 130


class Judging(Protocol):
    """What scores a model's logits on the validation samples.

    Attributes:
        metric: by which epochs are compared, one of the keys of what a call gives.
    """

    metric: str

    def __call__(self, scores: npt.NDArray[np.float32]) -> dict[str, float]:
        """Validation metrics of logits (N, C)."""
        ...


class TrainingStep(nn.Module):
    """Model and objective as one module: inputs and labels in, terms out, so that DDP sees all parameters.

    `l1` and `l2` are penalties on the model's weights.
    """

    def __init__(
        self, model: nn.Module, objective: Objective, fabric: Any, *, l1: float = 0.0, l2: float = 0.0
    ) -> None:
        super().__init__()
        self.model, self.objective, self.fabric = model, objective, fabric
        self._penalties = {name: value for name, value in (("l1", l1), ("l2", l2)) if value}
        self._class_maps = {"class_maps": True} if objective.needs.class_maps else {}
        self._has_extra = type(objective).extra_inputs is not Objective.extra_inputs

    def forward(
        self,
        inputs: Tensor,
        views: tuple[Tensor, ...],
        target: Tensor,
        index: Tensor,
        rows: int,
        seed: int = 0,
    ) -> tuple[dict[str, Tensor], Outputs]:
        """Terms whose gradient, averaged over processes, is that of one process with the whole batch.

        Args:
            inputs, views, target, index: this process's part of the batch.
            rows: rows of the batch over all processes.
            seed: of the step.
        """
        outputs, batch = self.model(inputs, **self._class_maps), Batch(target, index, seed)
        outputs = outputs._replace(views=tuple(self.model(view).logits for view in views))
        if self._has_extra:
            outputs = self._with_extra(inputs, outputs, batch, rows)
        outputs = outputs._replace(class_maps=None)
        if self.objective.needs.batch_coupled:
            terms = self.objective(*gather_batch(self.fabric, outputs, batch, rows, True))
        else:
            share = len(target) * self.fabric.world_size / rows
            terms = self.objective(outputs, batch)
            if share != 1:
                terms = {name: term * share for name, term in terms.items()}
        # Without that share: the mean over processes, each with the same weights, is one whole penalty.
        for name, value in self._penalties.items():
            terms = terms | {name: weight_penalty_loss(self.model.parameters(), **{name: value})}
        return terms, outputs

    def _with_extra(self, inputs: Tensor, outputs: Outputs, batch: Batch, rows: int) -> Outputs:
        with torch.no_grad():
            given = inputs, outputs.map(Tensor.detach), batch
            coupled = self.objective.needs.batch_coupled and self.fabric.world_size > 1
            if coupled:
                together = gather_rows(self.fabric, inputs, rows, differentiable=False)
                given = together, *gather_batch(self.fabric, outputs, batch, rows, False)
            extra = self.objective.extra_inputs(*given)
        if extra is None:
            return outputs
        mine = slice(self.fabric.global_rank, None, self.fabric.world_size) if coupled else slice(None)
        logits = self.model(extra.inputs[mine]).logits
        return outputs._replace(
            extra=logits, extra_target=None if extra.target is None else extra.target[mine]
        )


def gather_batch(
    fabric: Any, outputs: Outputs, batch: Batch, rows: int, differentiable: bool
) -> tuple[Outputs, Batch]:
    """Outputs and labels of the whole batch, the same on every process."""
    together = outputs.map(lambda part: gather_rows(fabric, part, rows, differentiable=differentiable))
    target = gather_rows(fabric, batch.target, rows, differentiable=False)
    index = gather_rows(fabric, batch.index, rows, differentiable=False)
    return together, Batch(target, index, batch.seed)


def _copy_state(module: nn.Module) -> dict[str, Tensor]:
    return {name: value.detach().to("cpu", copy=True) for name, value in module.state_dict().items()}


@dataclass
class Loop:
    """Where training stands; with the weights, all that a checkpoint holds.

    `best` and `best_objective` are what the model and the objective held at the end of the best epoch.
    """

    epoch: int = 0
    batch: int = 0
    step: int = 0
    seconds: float = 0.0
    sums: dict[str, Tensor] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)
    best_epoch: int = -1
    best: dict[str, Tensor] = field(default_factory=dict)
    best_objective: dict[str, Tensor] = field(default_factory=dict)
    finished: bool = False


class Trainer:
    """Fits a model to observed labels.

    Args:
        config: resolved settings of the run.
        fabric: launched Lightning Fabric.
        model: inputs to `Outputs`; its weights are changed in place.
        head: the part of the model that has its own learning rate.
        objective: the method, started (`on_fit_start` was called).
        data: what to learn from; true labels are not looked at.
        judge: scores the validation samples.
        folder: where checkpoints go; None = none are written.
        workers: processes that decode images.
        identity: what must be the same for a checkpoint to fit (a fingerprint of the data).
        on_epoch: called after each epoch with all records so far (on the first process).
        on_step: called after each step with the number of samples done.
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
        on_epoch: Callable[[list[dict[str, Any]]], None] = lambda history: None,
        on_step: Callable[[int], None] = lambda samples: None,
    ) -> None:
        self.config, self.fabric, self.judge = config, fabric, judge
        self.folder, self.workers, self.identity = folder, workers, identity
        self.on_epoch, self.on_step = on_epoch, on_step
        self.train, self.val = data.splits["train"], data.splits["val"]
        self.loop = Loop()
        optimizer = make_optimizer(config.optim, model, head, objective.param_groups())
        self.model, self.objective = model, objective
        step = TrainingStep(model, objective, fabric, l1=config.optim.l1, l2=config.optim.l2)
        wrapped, self.optimizer = fabric.setup(step, optimizer)
        # For one process in full precision the wrapper changes nothing, and costs a tenth of a small step.
        plain = fabric.world_size == 1 and config.precision == "32-true"
        self.module = step if plain else wrapped
        self.average = WeightAverage(model, config.optim.ema) if config.optim.ema else None
        self.batches = EpochBatches(
            len(self.train), config.batch_size, config.seed, fabric.global_rank, fabric.world_size
        )
        self.steps_per_epoch = math.ceil(len(self.train) / config.batch_size)
        self.loader = make_loader(
            self.train,
            self.batches,
            config.seed,
            workers,
            fabric.device.type == "cuda",
            views=objective.needs.views,
        )
        self._after_step = type(objective).after_step is not Objective.after_step
        self._stop = False

    @property
    def judged_model(self) -> nn.Module:
        """The model that is validated and kept: the average of weights if there is one."""
        return self.average.model if self.average else self.model

    def fit(self, resume: bool = False) -> Loop:
        """Train to the end, or go on from the last checkpoint. Leaves the best epoch's weights in `model`.

        Raises:
            SpmlError: a term of the loss became NaN or infinite; a checkpoint could not be written.
            Interrupted: stopped by SIGINT or SIGTERM, after a checkpoint was written.
            InputError: the checkpoint to resume from does not fit or can't be read.
        """
        torch.manual_seed(self.config.seed * self.fabric.world_size + self.fabric.global_rank)
        if resume:
            self._load()
        with stop_on_signal(self._ask_to_stop):
            while not self.loop.finished:
                self._epoch()
        self.model.load_state_dict(self.loop.best)
        return self.loop

    def _epoch(self) -> None:
        loop, started = self.loop, time.perf_counter()
        progress = Progress(loop.epoch, self.config.epochs)
        self.objective.on_epoch_start(progress)
        self.batches.epoch, self.batches.first = loop.epoch, loop.batch
        self.module.train()
        for inputs, views, batch in self.loader:
            self._step(inputs, views, batch)
            stop = self._must_stop()
            if stop or self._every(self.config.checkpoint_steps):
                self._check_finite()
                loop.seconds += time.perf_counter() - started
                started = time.perf_counter()
                self._save()
            elif self._every(_CHECK_STEPS):
                self._check_finite()
            if stop:
                raise Interrupted(f"stopped in epoch {loop.epoch + 1}, step {loop.step}")
        self._check_finite()
        train_pass = None
        if self.objective.needs.train_pass:
            train_pass = lambda: torch.from_numpy(self._predict(self.train))  # noqa: E731
        self.objective.on_epoch_end(progress, train_pass)
        scores = self._predict(self.val)
        if not np.isfinite(scores).all():
            raise self._not_finite("the model's scores became NaN or infinite: weights", loop.step - 1)
        loop.seconds += time.perf_counter() - started
        self._record(self.judge(scores))
        loop.epoch, loop.batch, loop.sums = loop.epoch + 1, 0, {}
        overdue = self.config.patience and loop.epoch - 1 - loop.best_epoch >= self.config.patience
        loop.finished = loop.epoch >= self.config.epochs or bool(overdue)
        self._save()
        if self.fabric.is_global_zero:
            self.on_epoch(loop.history)

    def _ask_to_stop(self) -> None:
        self._stop = True

    def _every(self, steps: int) -> bool:
        return bool(steps) and self.loop.step % steps == 0

    def _must_stop(self) -> bool:
        """Whether a signal arrived. Several processes agree on the step at which they stop."""
        if self.fabric.world_size == 1:
            return self._stop
        if not self._every(_AGREE_STEPS):
            return False
        return bool(self.fabric.all_gather(torch.tensor(self._stop)).any())

    def _step(self, inputs: Tensor, views: tuple[Tensor, ...], batch: Batch) -> None:
        loop, optim, device = self.loop, self.config.optim, self.fabric.device
        inputs = inputs.to(device, non_blocking=True)
        views = tuple(view.to(device, non_blocking=True) for view in views)
        target = batch.target.to(device, non_blocking=True)
        index = batch.index.to(device, non_blocking=True)
        rows = self.batches.rows(loop.batch)
        set_learning_rate(
            self.optimizer, learning_rate(optim, loop.step, self.steps_per_epoch, self.config.epochs)
        )
        seed = self.config.seed * _SEEDS + loop.step
        terms, outputs = self.module(inputs, views, target, index, rows, seed)
        self.fabric.backward(torch.stack(list(terms.values())).sum())
        if optim.clip:
            self.fabric.clip_gradients(self.module, self.optimizer, max_norm=optim.clip)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        if self.average:
            self.average.update(self.model)
        if self._after_step:
            with torch.no_grad():
                self.objective.after_step(
                    *gather_batch(self.fabric, outputs, Batch(target, index, seed), rows, False)
                )
        self._accumulate(terms, rows)
        loop.batch, loop.step = loop.batch + 1, loop.step + 1
        self.on_step(rows)

    @torch.no_grad()
    def _accumulate(self, terms: dict[str, Tensor], rows: int) -> None:
        """Add to the epoch's sums: per term (sum over samples, first step at which it was not finite).

        On the device, so that nothing waits for it.
        """
        for name, term in terms.items():
            value = term.detach().double() if term.device.type != "mps" else term.detach()
            bad = torch.where(value.isfinite(), math.inf, float(self.loop.step))
            now = torch.stack([value * rows, bad])
            before = self.loop.sums.get(name)
            if before is not None:
                now = torch.stack([before[0] + now[0], torch.minimum(before[1], now[1])])
            self.loop.sums[name] = now

    def _totals(self) -> dict[str, tuple[float, float]]:
        totals = {}
        for name, value in self.loop.sums.items():
            everyone = self.fabric.all_gather(value).reshape(-1, 2)
            totals[name] = (float(everyone[:, 0].mean()), float(everyone[:, 1].min()))
        return totals

    def _check_finite(self) -> None:
        bad = [(step, name) for name, (_, step) in self._totals().items() if step < math.inf]
        if not bad:
            return
        step, name = min(bad)
        raise self._not_finite(f"the loss became NaN or infinite: term {name!r}", int(step))

    def _not_finite(self, what: str, step: int) -> SpmlError:
        lr = learning_rate(self.config.optim, step, self.steps_per_epoch, self.config.epochs)
        return SpmlError(
            f"{what}, step {step}, epoch {self.loop.epoch + 1}, learning rate {lr:g}. Try a smaller one "
            f"(--optim.lr {lr / 10:g}), a warm-up (--optim.warmup_epochs 1) or gradient clipping "
            "(--optim.clip 1). The last checkpoint is from before that step."
        )

    def _record(self, metrics: dict[str, float]) -> None:
        loop, count = self.loop, len(self.train)
        terms = {f"train/{name}": total / count for name, (total, _) in self._totals().items()}
        lr = learning_rate(self.config.optim, loop.step - 1, self.steps_per_epoch, self.config.epochs)
        record = {"epoch": loop.epoch + 1, "step": loop.step, "lr": lr, "train/loss": sum(terms.values())}
        record |= {**terms, **metrics, "seconds": round(loop.seconds, 3)}
        best = max((past[self.judge.metric] for past in loop.history), default=-math.inf)
        loop.history.append(record)
        if loop.best_epoch < 0 or metrics[self.judge.metric] > best:
            loop.best_epoch = loop.epoch
            loop.best = _copy_state(self.judged_model)
            loop.best_objective = _copy_state(self.objective)

    def _predict(self, samples: Samples) -> np.ndarray[Any, np.dtype[np.float32]]:
        return predict_logits(
            self.judged_model,
            samples,
            self.fabric,
            batch_size=4 * self.config.batch_size,
            workers=self.workers,
        )

    # -- checkpoints ---------------------------------------------------------------------------------------

    def _save(self) -> None:
        states = random_state()
        states["torch"] = self.fabric.all_gather(states["torch"].to(self.fabric.device)).cpu()
        if self.folder is None or not self.fabric.is_global_zero:
            return
        state = {
            "identity": self.identity,
            "model": dict(self.model.state_dict()),
            "objective": dict(self.objective.state_dict()),
            "optimizer": self.optimizer.state_dict(),
            "average": dict(self.average.model.state_dict()) if self.average else None,
            "random": states,
            "loop": vars(self.loop),
        }
        save_checkpoint(self.folder, state)

    def _load(self) -> None:
        assert self.folder is not None
        state = load_checkpoint(self.folder)
        if state["identity"] != self.identity:
            raise InputError(
                f"{self.folder}: the data changed since this run was started (its samples or labels, or the "
                "run it started from), so it can't be resumed. Put it back, or start anew with --overwrite."
            )
        self.model.load_state_dict(state["model"])
        self.objective.load_state_dict(state["objective"])
        self.optimizer.load_state_dict(state["optimizer"])
        if self.average:
            self.average.model.load_state_dict(state["average"])
        self.loop = Loop(**state["loop"])
        self.loop.sums = {name: value.to(self.fabric.device) for name, value in self.loop.sums.items()}
        states = state["random"]
        states["torch"] = states["torch"].reshape(self.fabric.world_size, -1)[self.fabric.global_rank]
        set_random_state(states)
