"""Trains with every method of interest on as many processes as asked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional

from spml.config import from_dict
from spml.data import Samples
from spml.data.images.views import regions
from spml.data.matrix import ImageArray
from spml.decisions.selection import Judge
from spml.engine import Trainer, make_fabric
from spml.engine.loader import EpochBatches, make_loader
from spml.engine.predict import head_inputs
from spml.engine.step import TrainingStep
from spml.methods.base import Card, Facts, Needs, Objective, Outputs, Progress
from spml.methods.registry import create, methods, register
from tests.helpers.training import as_images, make_data

BATCH, WIDTH = 16, 3


@register("coupled")
class Coupled(Objective):
    """A loss that is not a mean over samples, and a memory of what it saw."""

    card = Card(title="Coupled", paper="-", year=2026, equations="-")
    needs = Needs(batch_coupled=True)

    def on_fit_start(self, facts: Facts) -> None:
        self.register_buffer("seen", torch.zeros(len(facts.observed)))

    def forward(self, outputs, batch):
        count = torch.sigmoid(outputs.logits).sum(1).mean()
        return {"count": (count - 1.5).square(), "spread": outputs.logits.std()}

    def after_step(self, outputs, batch):
        self.seen[batch.index] += outputs.logits[:, 0]


class Net(nn.Module):
    """No batch normalisation, no dropout; float64, so that differences are not rounding."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(12, 16), nn.Tanh())
        self.head = nn.Linear(16, 4)

    def forward(self, inputs):
        features = self.body(inputs.double())
        mean, raw = features.chunk(2, 1)  # a code without noise, which processes would draw each for itself
        a, b = functional.softplus(self.head(mean.repeat(1, 2))), 1 + mean[:, :4].square()
        return Outputs(
            self.head(features),
            features,
            latent=(mean, raw.exp()),
            posterior=(a, b, a / (a + b)),
            embeddings=(functional.normalize(features[:, :4, None] * mean[:, None, :WIDTH] + 0.1, dim=2),),
        )


class MapNet(nn.Module):
    """The same for images, for methods that use class maps."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 16, 3), nn.Tanh())
        self.head = nn.Linear(16, 4)

    def forward(self, inputs, class_maps=False, trained_maps=False):
        maps = self.body(inputs.double() / 255).permute(0, 2, 3, 1)
        features = maps.mean((1, 2))
        shown = self.head(maps).permute(0, 3, 1, 2) if class_maps else None
        if shown is not None and not trained_maps:
            shown = shown.detach()
        return Outputs(self.head(features), features, class_maps=shown)


class Parts(ImageArray):
    """Images that say that they are parts of others, as the methods that ask for it see them."""

    def take(self, rows):
        return Parts(self._pixels[np.asarray(rows, np.int64)])

    def regions(self, rows, augment):
        return regions(rows, augment, crop=0.4, flip=True)


def with_all_labels(data):
    """The same data with every label known."""
    splits = {name: replace(samples, observed=data.truth[name]) for name, samples in data.splits.items()}
    return replace(data, splits=splits)


def parts(name):
    """Data, model and method."""
    method, hp = METHODS[name]
    torch.manual_seed(0)
    objective = create(method, hp)
    if objective.needs.class_maps:
        return as_images(make_data(n=147, width=36), Parts), MapNet(), objective
    data = make_data(n=147)
    return with_all_labels(data) if name in ALL_LABELS else data, Net(), objective


# They want labels that single-positive data do not have.
ALL_LABELS = ("bce", "iu", "iun")
METHODS = {
    "gr_learned": ("gr", {"k": "learned", "v": "learned"}),
    "an_penalised": ("an", {}),
    "epr_penalised": ("epr", {}),
    **{name: (name, {}) for name in methods()},
    "smile_graph": ("smile", {"enhancement": "graph"}),
    "combine_rules": (
        "combine",
        {
            "weights": {"em": 1.0, "mime": 0.5, "lasd": 0.1},
            "hp": {"mime": {"theta": 0.6, "warmup": 1}},
            "memory": {"large_loss": {"percent": 1}, "apl": {"warmup": 1}, "ema": {"positive": 0.8}},
        },
    ),
    "lac": ("lac", {"first_stage": 0.3, "tau_second": 0.5, "queue": 50, "width": WIDTH}),
    "scl": ("scl", {"width": 5, "weight": 3.0}),
    # Rejecting in the epochs that are run, with running means that move.
    "ignore": ("ignore", {"warmup": 1, "decay": 0.8}),
}


def penalties(name):
    return {"l1": 0.01, "l2": 0.02} if name.endswith("_penalised") else {}


def facts(name, train, data):
    """Facts of a method; the features count as fixed for the one that needs them."""
    width = 16 if name == "smile_graph" else None
    return Facts(train.observed, train.ids, data.classes, 1.5, width=width)


def gradients(fabric, name, found):
    """Loss and gradients of the first and of the uneven last batch."""
    data, model, objective = parts(name)
    part = data.splits["train"]
    part = Samples(part.ids[:97], part.inputs.take(range(97)), part.observed.take(range(97)))
    objective.on_fit_start(facts(name, part, data))
    if name == "smile_graph":
        objective.on_features(head_inputs(model, part.inputs))
    objective.on_epoch_start(Progress(2, 5))
    module = fabric.setup(TrainingStep(model, objective, fabric, **penalties(name)))
    batches = EpochBatches(97, BATCH, 5, fabric.global_rank, fabric.world_size)
    loader = make_loader(
        part, batches, 5, 0, False, views=objective.needs.views, regions=objective.needs.regions
    )
    for place, (inputs, views, batch) in enumerate(loader):
        if place not in (0, 6):
            continue
        rows = batches.rows_in(place)
        assert rows == (BATCH if place == 0 else 1)
        terms, _ = module(inputs, views, batch.target, batch.index, rows, place, batch.regions)
        loss = torch.stack(list(terms.values())).sum()
        fabric.backward(loss)
        found[f"{name}/{place}/loss"] = fabric.all_reduce(loss.detach(), reduce_op="mean").reshape(1)
        for key, parameter in [*model.named_parameters(), *objective.named_parameters()]:
            found[f"{name}/{place}/{key}"] = parameter.grad.clone()
            parameter.grad = None


def training(fabric, name, found):
    """Weights and memory after two epochs of four steps with plain gradient descent."""
    method, hp = METHODS[name]
    data, model, objective = parts(name)
    config = from_dict(
        {"method": method, "hp": hp, "epochs": 2, "batch_size": 2 * BATCH, "optim": penalties(name)}
    )
    config.optim.name, config.optim.lr, config.optim.clip = "sgd", 0.1, 1.0
    judge = Judge(data.splits["val"], None, "observed", None)
    train = data.splits["train"]
    objective.on_fit_start(facts(name, train, data))
    trainer = Trainer(config, fabric, model, model.head, objective, data, judge)
    loop = trainer.fit()
    for key, value in [*model.state_dict().items(), *trainer.objective.state_dict().items()]:
        found[f"{name}/trained/{key}"] = value.clone()
    found[f"{name}/trained/train loss"] = torch.tensor([r["train/loss"] for r in loop.history])
    found[f"{name}/trained/SP"] = torch.tensor([r["val/SP"] for r in loop.history])


def main(devices: int, output: Path) -> None:
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    fabric = make_fabric("cpu", devices, "64-true")
    fabric.launch()
    found: dict[str, torch.Tensor] = {}
    for name in METHODS:
        gradients(fabric, name, found)
        training(fabric, name, found)
    if fabric.is_global_zero:
        save_file(found, output)
