"""Optimiser, learning rate, moving average of the weights."""

from __future__ import annotations

import json

import numpy as np
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


@pytest.mark.parametrize("epochs", [1, 2, 3, 7, 40])
def test_one_cycle_is_that_of_torch(epochs):
    optim = from_dict({"optim": {"lr": 1e-4, "schedule": "one_cycle"}}).optim
    steps = 4 * epochs
    parameters = [nn.Parameter(torch.zeros(1))]
    torch_optimizer = torch.optim.AdamW(parameters, lr=1e-4)
    schedule = torch.optim.lr_scheduler.OneCycleLR(torch_optimizer, 1e-4, total_steps=steps, pct_start=0.2)
    expected = []
    for _ in range(steps):
        expected.append(schedule.get_last_lr()[0])
        torch_optimizer.step()
        if len(expected) < steps:
            schedule.step()
    rates = [learning_rate(optim, step, 4, epochs) for step in range(steps)]
    assert rates == pytest.approx(expected, rel=1e-9)
    assert rates[-1] == pytest.approx(4e-10)
    warmed = from_dict({"optim": {"lr": 1e-4, "warmup_epochs": 1, "schedule": "one_cycle"}}).optim
    assert [learning_rate(warmed, step, 4, epochs + 1) for step in range(4, steps + 4)] == pytest.approx(
        rates
    )


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


def test_steps_of_adamax_are_those_of_its_paper():
    """Kingma, Ba. Adam: A Method for Stochastic Optimization. ICLR 2015. Algorithm 2."""
    model = nn.Linear(3, 1, bias=False).double()
    optim = from_dict({"optim": {"name": "adamax", "lr": 0.1, "weight_decay": 0.0}}).optim
    optimizer = make_optimizer(optim, model, model, [])
    weight, m, u = model.weight.detach().clone(), torch.zeros(1, 3).double(), torch.zeros(1, 3).double()
    for step, gradient in enumerate(
        torch.randn(5, 1, 3, generator=torch.Generator().manual_seed(0)).double(), 1
    ):
        model.weight.grad = gradient.clone()
        optimizer.step()
        m, u = 0.9 * m + 0.1 * gradient, torch.maximum(0.999 * u, gradient.abs())
        weight -= 0.1 / (1 - 0.9**step) * m / u
    np.testing.assert_allclose(model.weight.detach(), weight, rtol=1e-6)


def test_the_average_of_weights_is_the_exponential_one():
    model = nn.Linear(1, 1, bias=False)
    with torch.no_grad():
        model.weight.fill_(0.0)
        average = WeightAverage(model, 0.75)
        for value in (1.0, 2.0):
            model.weight.fill_(value)
            average.update(model)
    assert average.model.weight.item() == pytest.approx(0.75 * 0.25 + 0.25 * 2)


@pytest.mark.shared
def test_the_average_of_weights_is_that_of_lac(shared):
    folder = shared / "goldens" / "networks"
    records = json.loads((folder / "discrete.json").read_text())
    with np.load(folder / "discrete.npz") as arrays, np.load(folder / "inputs.npz") as inputs:
        for name in ("l4", "l6"):
            record = records[f"lac_ema_2updates|{name}"]
            old, new = (
                {part: torch.from_numpy(inputs[f"{name}/ema_{age}.{part}"]) for part in ("weight", "bias")}
                for age in ("old", "new")
            )
            model = nn.Linear(*reversed(old["weight"].shape)).double()
            model.load_state_dict(old)
            average = WeightAverage(model, record["hp"]["decay"])
            model.load_state_dict(new)
            for _ in range(2):
                average.update(model)
            for part, value in average.model.state_dict().items():
                np.testing.assert_allclose(value, arrays[record["outputs"][part]], rtol=1e-12)
