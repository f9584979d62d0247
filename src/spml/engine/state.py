"""Progress of a training: counters, sums of the terms of the loss, history, best weights."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn


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

    def end_epoch(self, record: dict[str, Any], metric: str, model: nn.Module, objective: nn.Module) -> None:
        """Append the record of the epoch that has just ended, and keep the weights if it is the best.

        Args:
            record: Numbers of the epoch; `seconds` is added.
            metric: Key of the record by which epochs are compared; higher is better.
            model, objective: Modules whose state is copied to the CPU if this epoch is the best.
        """
        best = max((past[metric] for past in self.history), default=-math.inf)
        self.history.append(record | {"seconds": round(self.seconds, 3)})
        if self.best_epoch < 0 or record[metric] > best:
            self.best_epoch = self.epoch
            self.best, self.best_objective = _copy_state(model), _copy_state(objective)
        self.epoch, self.batch, self.sums = self.epoch + 1, 0, {}


def _copy_state(module: nn.Module) -> dict[str, Tensor]:
    return {name: value.detach().to("cpu", copy=True) for name, value in module.state_dict().items()}
