"""Penalties on weights: values, gradients, excluded parameters, and a step of training."""

from __future__ import annotations

import copy
import dataclasses

import pytest
import torch
from torch import nn

from spml.common.errors import InputError
from spml.config import check, from_dict
from spml.decisions.selection import Judge
from spml.engine import Trainer
from spml.losses import softmax_loss, weight_penalty_loss
from spml.methods.base import Outputs
from spml.methods.registry import create
from tests.helpers.training import CONFIG, FABRIC, make_data
from tests.reference.penalty import weight_penalty


def test_the_penalty_equals_the_slow_reference():
    generator = torch.Generator().manual_seed(0)
    one, two = (
        torch.randn(*shape, generator=generator, dtype=torch.float64, requires_grad=True)
        for shape in ((3, 5), (2, 7))
    )
    expected = sum(weight_penalty(w.tolist(), 0.3, 0.7) for w in (one, two))
    assert weight_penalty_loss([one, two], l1=0.3, l2=0.7).item() == pytest.approx(expected, rel=1e-12)


def test_the_gradient_is_zero_at_zero():
    weight = torch.tensor([[-2.0, 0.0, 3.0]], requires_grad=True)
    weight_penalty_loss([weight], l1=0.5, l2=0.1).backward()
    assert weight.grad.tolist() == [[pytest.approx(-0.9), 0.0, pytest.approx(1.1)]]


def test_biases_norms_and_frozen_weights_are_left_out():
    model = nn.Sequential(nn.Conv2d(1, 2, 1), nn.BatchNorm2d(2), nn.Linear(4, 3), nn.Linear(3, 2))
    for parameter in model.parameters():
        nn.init.constant_(parameter, 2.0)
    model[3].requires_grad_(False)
    assert weight_penalty_loss(model.parameters(), l1=1.0).item() == 2 * (2 + 12)
    assert weight_penalty_loss(model.parameters(), l2=1.0).item() == 4 * (2 + 12)
    assert weight_penalty_loss(model[1].parameters(), l1=1.0, l2=1.0).item() == 0
    assert weight_penalty_loss(model.parameters()).item() == 0


def test_half_precision_does_not_overflow_and_negative_coefficients_are_refused():
    weight = torch.full((300, 300), 2.0, dtype=torch.float16, requires_grad=True)
    assert weight_penalty_loss([weight], l2=1.0).item() == 360_000
    for wrong in ({"l1": -1.0}, {"l2": float("nan")}):
        with pytest.raises(ValueError, match="must be at least 0"):
            weight_penalty_loss([weight], **wrong)


def test_negative_settings_are_refused():
    for name in ("l1", "l2"):
        with pytest.raises(InputError, match=f"optim.{name} must be at least 0, got -1"):
            check(from_dict({"optim": {name: -1.0}}))


class Linear(nn.Module):
    """A linear head on the inputs."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(12, 4)

    def forward(self, inputs):
        return Outputs(self.head(inputs), inputs)


def test_a_step_of_training_descends_on_the_loss_with_its_penalties():
    data, l1, l2 = make_data(), 0.01, 0.1
    train = data.splits["train"]
    optim = dataclasses.replace(CONFIG.optim, name="sgd", lr=0.2, weight_decay=0.0, ema=0.0, l1=l1, l2=l2)
    config = dataclasses.replace(CONFIG, epochs=1, batch_size=100, optim=optim)
    torch.manual_seed(0)
    model = Linear()
    expected = copy.deepcopy(model)
    judge = Judge(data.splits["val"], None, "observed", None)
    (record,) = Trainer(config, FABRIC, model, model.head, create("softmax"), data, judge).fit().history
    weight = expected.head.weight
    loss = softmax_loss(expected.head(train.inputs.fetch(range(100))), train.observed.target(range(100)))
    penalties = {"train/l1": l1 * weight.abs().sum(), "train/l2": l2 * weight.square().sum()}
    for name, value in {**penalties, "train/loss": loss + sum(penalties.values())}.items():
        assert record[name] == pytest.approx(value.item(), rel=1e-5)
    (gradient,) = torch.autograd.grad(loss + sum(penalties.values()), weight)
    torch.testing.assert_close(model.head.weight, weight - 0.2 * gradient)
