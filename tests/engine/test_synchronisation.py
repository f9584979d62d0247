"""A training step never waits for the device: it reads no value, and no shape depends on values."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from spml.config import from_dict
from spml.data import Dataset
from spml.decisions.selection import Judge
from spml.engine import Trainer, make_fabric
from spml.engine.loader import EpochBatches, make_loader
from spml.engine.step import TrainingStep
from spml.methods.base import Batch, Facts, Objective, Outputs, Progress
from spml.methods.registry import create, methods
from tests.helpers.training import as_images, make_data

FULL = ("bce", "iu", "iun")
"""Methods that want labels which single-positive data do not have."""

METHODS = [name for name in methods() if name not in FULL]
HP = {"lac": {"width": 16, "first_stage": 0.0}}
BATCHES = 7
"""Batches of an epoch: 100 samples, 16 at a time, the last batch uneven."""


class Net(nn.Module):
    """Network on images of 6 x 6 pixels, with all outputs that methods use."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 16, 3), nn.Tanh())
        self.head = nn.Linear(16, 4)

    def forward(self, inputs: Tensor, class_maps: bool = False, trained_maps: bool = False) -> Outputs:
        maps = self.body(inputs.float() / 255).permute(0, 2, 3, 1)
        features = maps.mean((1, 2))
        mean, raw = features.chunk(2, 1)
        by_position = self.head(maps).permute(0, 3, 1, 2).detach() if class_maps else None
        p = self.head(features).sigmoid()
        embeddings = features[:, None, :].expand(-1, 4, -1) / 4
        return Outputs(
            self.head(features),
            features,
            latent=(mean, raw.exp()),
            posterior=(1 + p, 2 - p, p),
            class_maps=by_position,
            embeddings=(embeddings,),
        )


def started(name: str, data: Dataset) -> Objective:
    objective, train = create(name, HP.get(name)), data.splits["train"]
    objective.on_fit_start(Facts(train.observed, train.ids, data.classes, 1.5))
    return objective


@pytest.mark.parametrize("name", METHODS)
def test_no_method_reads_a_value_in_a_step(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tensors of the device `meta` have no values, so reading one fails, and so does a shape that needs one.

    Unlike on CPU, where checks of values cost nothing, a loss takes the same path as on an accelerator.
    """
    autocast = torch.autocast
    # Autocast does not know this device.
    monkeypatch.setattr(
        torch, "autocast", lambda kind, **rest: nullcontext() if kind == "meta" else autocast(kind, **rest)
    )
    data = as_images(make_data(width=36))
    objective, train = started(name, data), data.splits["train"]
    objective.on_epoch_start(Progress(2, 5))
    step = TrainingStep(Net(), objective, make_fabric("cpu"), l1=0.01).to("meta")
    loader = make_loader(train, EpochBatches(100, 16, 5), 5, 0, False, views=objective.needs.views)
    inputs, views, batch = next(iter(loader))
    batch = Batch(batch.target.to("meta"), batch.index.to("meta"), 3)
    terms, outputs = step(
        inputs.to("meta"), tuple(view.to("meta") for view in views), batch.target, batch.index, 16, 3
    )
    loss = torch.stack(list(terms.values())).sum()
    loss.backward()
    with torch.no_grad():
        objective.after_step(outputs, batch)
    assert loss.device.type == "meta"
    assert step.model.head.weight.grad.shape == (4, 16)


@pytest.mark.parametrize(
    "read",
    [
        lambda x: x.sum().item(),
        lambda x: x.tolist(),
        lambda x: x.sum().cpu(),
        lambda x: x.numpy(),
        lambda x: bool(x.sum()),
        lambda x: float(x.sum()),
        lambda x: x.nonzero(),
        lambda x: x[x > 0],
        lambda x: torch.where(x > 0),
        lambda x: x.masked_select(x > 0),
        lambda x: x.unique(),
    ],
)
def test_what_waits_fails_without_values(read: Callable[[Tensor], Any]) -> None:
    with pytest.raises((RuntimeError, NotImplementedError, TypeError)):
        read(torch.tensor([1.0, -1.0, 2.0], device="meta"))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("name", METHODS)
def test_no_step_waits_for_a_cuda_device(name: str) -> None:
    """Watch an epoch except its first step, with loader, optimiser, penalty, clipping and average."""
    data, steps = as_images(make_data(width=36)), [0]
    optim = {"lr": 0.01, "clip": 1.0, "ema": 0.9, "l1": 1e-4}
    config = from_dict({"method": name, "epochs": 2, "batch_size": 16, "optim": optim})

    def on_step(rows: int) -> None:
        steps[0] += 1
        if steps[0] == BATCHES + 1:
            torch.cuda.set_sync_debug_mode("error")
        elif steps[0] == 2 * BATCHES:
            torch.cuda.set_sync_debug_mode("default")

    model, judge = Net(), Judge(data.splits["val"], None, "observed", None)
    fabric = make_fabric("cuda")
    try:
        Trainer(config, fabric, model, model.head, started(name, data), data, judge, on_step=on_step).fit()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert steps == [2 * BATCHES]
