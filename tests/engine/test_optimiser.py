"""Optimiser, learning rate, moving average of the weights."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from spml.config import from_dict
from spml.engine.optimiser import WeightAverage, learning_rate, make_optimizer
from tests.helpers.training import Net


def test_learning_rate_warms_up_and_falls_to_zero():
    optim = from_dict({"optim": {"lr": 0.8, "warmup_epochs": 1, "schedule": "cosine"}}).optim
    rates = [learning_rate(optim, step, 4, 3) for step in range(12)]
    assert rates[:4] == pytest.approx([0.2, 0.4, 0.6, 0.8])
    assert rates[4] == pytest.approx(0.8)
    assert rates[8] == pytest.approx(0.4)
    assert 0 < rates[11] < 0.05
    constant = from_dict({"optim": {"lr": 0.8}}).optim
    assert {learning_rate(constant, step, 4, 3) for step in range(12)} == {0.8}


def test_the_optimiser_has_a_rate_for_the_head_and_spares_biases():
    model = Net()
    optim = from_dict({"optim": {"lr": 0.1, "head_lr_factor": 10.0, "weight_decay": 0.5}}).optim
    extra = nn.Parameter(torch.zeros(3, 3))
    groups = make_optimizer(optim, model, model.head, [{"params": [extra], "lr_factor": 4.0}]).param_groups
    found = {
        (group["lr_factor"], group["weight_decay"], tuple(p.shape))
        for group in groups
        for p in group["params"]
    }
    assert found == {
        (1.0, 0.5, (16, 12)),
        (1.0, 0.0, (16,)),
        (10.0, 0.5, (4, 16)),
        (10.0, 0.0, (4,)),
        (4.0, 0.0, (3, 3)),
    }


def test_the_average_of_weights_is_the_exponential_one():
    model = nn.Linear(1, 1, bias=False)
    with torch.no_grad():
        model.weight.fill_(0.0)
        average = WeightAverage(model, 0.75)
        for value in (1.0, 2.0):
            model.weight.fill_(value)
            average.update(model)
    assert average.model.weight.item() == pytest.approx(0.75 * 0.25 + 0.25 * 2)
