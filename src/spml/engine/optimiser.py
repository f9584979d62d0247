"""Optimiser, learning rate of a step, moving average of the weights."""

from __future__ import annotations

import copy
import math
from typing import Any

import torch
from torch import nn

from ..config import OptimConfig

_RISE, _FIRST, _LAST = 0.2, 1 / 25, 1e-4
"""Of one cycle: share of steps until the highest learning rate, first rate by highest, and last by first."""


def make_optimizer(config: OptimConfig, model: nn.Module, head: nn.Module, own: list[dict[str, Any]]) -> Any:
    """Make the optimiser of the weights of a model and of the parameters of an objective.

    Each group has an `lr_factor`, its learning rate relative to that of the step. Biases and norms
    (one-dimensional weights) and the parameters of the objective are not decayed.

    Args:
        config: Settings of the optimiser.
        model: Model to train.
        head: Part of the model that has its own learning rate.
        own: Parameter groups of the objective (`Objective.param_groups`).
    """
    in_head = {id(parameter) for parameter in head.parameters()}
    factor = config.head_lr_factor or 1.0
    groups: list[dict[str, Any]] = [
        {"params": [], "lr_factor": lr_factor, "weight_decay": decay}
        for lr_factor in (1.0, factor)
        for decay in (config.weight_decay, 0.0)
    ]
    for parameter in model.parameters():
        if parameter.requires_grad:
            groups[2 * (id(parameter) in in_head) + (parameter.ndim <= 1)]["params"].append(parameter)
    groups += [{"weight_decay": 0.0, **group} for group in own]
    groups = [group for group in groups if group["params"]]
    lr = config.lr or 0.0
    if config.name == "sgd":
        return torch.optim.SGD(groups, lr=lr, momentum=0.9)
    kinds = {"adamw": torch.optim.AdamW, "adam": torch.optim.Adam, "adamax": torch.optim.Adamax}
    return kinds[config.name](groups, lr=lr)


def learning_rate(config: OptimConfig, step: int, steps_per_epoch: int, epochs: int) -> float:
    """Learning rate of a step (counted from 0): linear warm-up, then constant, half a cosine to zero, or one
    cycle.

    The cycle is that of Smith, Topin. Super-Convergence: Very Fast Training of Neural Networks Using Large
    Learning Rates. 2019, in the form of `torch.optim.lr_scheduler.OneCycleLR(pct_start=0.2)`, without its
    cycle of the momentum.
    """
    base = config.lr or 0.0
    warmup = config.warmup_epochs * steps_per_epoch
    if step < warmup:
        return base * (step + 1) / warmup
    if config.schedule == "constant":
        return base
    steps = max(epochs * steps_per_epoch - warmup, 1)
    if config.schedule == "cosine":
        return base * _cosine(1, 0, (step - warmup) / steps)
    peak = _RISE * steps - 1  # the step of the highest rate, from the end of the warm-up
    if step - warmup < peak:
        return base * _cosine(_FIRST, 1, (step - warmup) / peak)
    return base * _cosine(1, _FIRST * _LAST, (step - warmup - peak) / (steps - 1 - peak))


def _cosine(start: float, end: float, fraction: float) -> float:
    """Value between `start` and `end` along half a cosine."""
    return end + (start - end) * (1 + math.cos(math.pi * fraction)) / 2


class WeightAverage:
    """Exponential moving average of the weights and buffers of a model, as a model in evaluation mode.

    Args:
        model: Model whose weights are averaged; the average starts as a copy of them.
        decay: Share of the old average that is kept at each step, in (0, 1).
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.model = copy.deepcopy(model).eval().requires_grad_(False)

    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        """Move the average towards the current weights of the model."""
        averages, latest = [], []
        for average, new in zip(self.model.state_dict().values(), model.state_dict().values(), strict=True):
            if average.is_floating_point():
                averages.append(average)
                latest.append(new.detach())
            else:
                average.copy_(new)
        torch._foreach_lerp_(averages, latest, 1 - self.decay)
